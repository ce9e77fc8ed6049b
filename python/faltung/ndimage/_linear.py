"""One linear filter with scipy's types: sums in double where scipy's result depends on it, cut towards zero by integers."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _arrays
from .._filter import Kernel, apply, is_plain_value, rows_beyond, run, trim
from .._library import F32, F64, S32, SIZES

SMALL = frozenset(["int8", "uint8", "int16", "uint16"])
UNSIGNED = frozenset(["uint8", "uint16"])


def linear(library: Any, array: Any, dtype: np.dtype, kernel: Kernel, out_dtype: np.dtype, into: Any = None) -> Any:
    """The filtered array, of the same shape: a new one, or `into` if that could be written directly.

    dtype and out_dtype are numpy's. Without integers it is the library's sum, in f32 for f32; integers receive exact
    sums, or sums in double cut towards zero, with scipy's order of summation where that decides.
    """
    shape = tuple(array.shape)
    if 0 in shape:
        return library.cast(array, out_dtype)
    name, out_name = dtype.name, out_dtype.name
    if not dtype.isnative or name not in _arrays.CODE_OF:
        array = library.cast(array, np.dtype(np.float64))
        name = "float64" if out_dtype.kind == "f" or not math.isfinite(kernel.value) else name
    if out_dtype.kind == "f":
        narrow = out_name == "float32" and (name == "float32" or name in SMALL)
        code = F32 if out_name == "float32" else F64
        return _run(library, array, kernel, np.float32 if narrow else np.float64, shape, code, out_dtype, into)
    exact = _exact_code(kernel, name, out_dtype)
    if exact is not None:
        return wrapped(library, _run(library, array, kernel, np.float32, shape, exact, out_dtype, into), out_dtype)
    floor = _floor(kernel, name, out_dtype) if library is not _arrays.Numpy else None
    if floor is not None:
        return wrapped(library, _run(library, array, floor[0], np.float64, shape, floor[1], None, None), out_dtype)
    sums = _run(library, array, kernel, np.float64, shape, F64, None, None)
    if library is _arrays.Numpy:
        _settle(sums, array, kernel)
    return cut(library, sums, out_dtype)


def _run(library: Any, array: Any, kernel: Kernel, taps: type, shape: tuple[Any, ...], code: int, dtype: Any, into: Any) -> Any:
    kernel = kernel._replace(taps=np.ascontiguousarray(kernel.taps, taps))
    direct = into is not None and library is _arrays.Numpy and is_plain_value(kernel)
    if direct and type(into) is np.ndarray and into.dtype == dtype == _arrays.DTYPES[code]:
        kernel = trim(kernel, shape, shape)
        if len(kernel.axes) <= 3 and into.dtype.isnative and not np.may_share_memory(array, into):
            run(library, library.view(array), library.view(into), kernel)
            return into
    return apply(library, array, kernel, shape, code)


def _exact_code(kernel: Kernel, name: str, out_dtype: np.dtype) -> int | None:
    """The type of exact sums of integers by integer taps: the output's if no sum leaves it, else s16 or s32."""
    taps = kernel.taps
    if name not in SMALL or kernel.beta or kernel.alpha != 1.0:
        return None
    info = np.iinfo(name)
    rounded = np.rint(taps)
    if not np.array_equal(rounded, taps) or kernel.value != np.rint(kernel.value):
        return None
    low, high = min(info.min, kernel.value), max(info.max, kernel.value)
    positive, negative = float(taps[taps > 0].sum()), float(taps[taps < 0].sum())
    least, most = positive * low + negative * high, positive * high + negative * low
    if max(abs(least), abs(most)) >= 1 << 24:  # beyond, sums in f32 are not exact
        return None
    if out_dtype.name in _arrays.CODE_OF:
        own = np.iinfo(out_dtype)
        if own.min <= least and most <= own.max:
            return _arrays.CODE_OF[out_dtype.name]
    return _arrays.CODE_OF["int16"] if max(-least, most) < 1 << 15 else S32


def _floor(kernel: Kernel, name: str, out_dtype: np.dtype) -> tuple[Kernel, int] | None:
    """A filter whose rounded sums are the truncated sums of this one, and the type for them. None if sums may be negative.
    A sum within rounding error of an integer counts as that integer."""
    if name not in UNSIGNED or out_dtype.name not in UNSIGNED or kernel.beta:
        return None
    if min(kernel.alpha, kernel.value, kernel.taps.min()) < 0:
        return None
    most = max(np.iinfo(name).max, kernel.value) * float(kernel.taps.sum()) * kernel.alpha
    error = (kernel.taps.size + 4) * np.finfo(float).eps * most
    for wide in (out_dtype.name, "uint16"):
        if most < np.iinfo(wide).max + 1:
            return kernel._replace(beta=error - 0.5), _arrays.CODE_OF[wide]
    return None


def wrapped(library: Any, array: Any, dtype: np.dtype) -> Any:
    """Integers modulo the range of a narrower type. A filter of one tap with a stride copies the low bytes, which takes less
    time than a conversion by CuPy."""
    if library is _arrays.Numpy or dtype.name not in SMALL or array.ndim == 0:
        return library.cast(array, dtype)
    wide, code = library.view(array), _arrays.CODE_OF[dtype.name]
    step = SIZES[wide.type] // SIZES[code]
    if step == 1:
        return library.cast(array, dtype)
    *outer, last = wide.shape
    low = wide._replace(code=code, shape=(*outer, step * last), strides=(*(step * s for s in wide.strides[:-1]), 1))
    result = library.empty((*outer, last), code, array)
    one = Kernel(np.ones(1, np.float32), (len(outer),), (0,), ((1, 1),), stride=(step,), transforms=False)
    run(library, low, library.view(result), one)
    return result


def cut(library: Any, sums: Any, out_dtype: np.dtype) -> Any:
    """Doubles as integers: cut towards zero, and modulo the integer's range beyond it."""
    if library is _arrays.Numpy and out_dtype.kind == "u":
        with np.errstate(invalid="ignore"):
            wide = sums.astype(np.int64)
            if out_dtype.itemsize == 8:
                return np.where(sums > -1.0, sums.astype(np.uint64), wide.view(np.uint64))
            return wide.astype(out_dtype)
    with np.errstate(invalid="ignore"):
        return library.cast(sums, out_dtype)


def _settle(sums: np.ndarray, array: np.ndarray, kernel: Kernel) -> None:
    """Sums so near an integer that rounding errors decide where they are cut are added again in scipy's order."""
    most = float(np.abs(array).max(initial=0)) if array.dtype.kind != "u" else float(array.max(initial=0))
    bound = max(most, abs(kernel.value)) * float(np.abs(kernel.taps).sum())
    if not math.isfinite(bound):
        return
    near = np.abs(sums - np.rint(sums)) <= 1e-13 * bound * math.sqrt(kernel.taps.size)  # all of them beyond 2^43
    places = np.nonzero(near)
    if len(places[0]):
        one = kernel.taps.ndim == 1
        sums[places] = line_order(array, kernel, places) if one else _box_order(array, kernel, places)


def line_order(array: np.ndarray, kernel: Kernel, places: tuple[Any, ...]) -> np.ndarray:
    """scipy's sum along one axis: the centre first, then pairs from the outside if the taps are (anti)symmetric."""
    taps = kernel.taps
    size, middle = taps.size, taps.size // 2
    tiny = np.finfo(float).eps

    at = _along(array, kernel, places)

    if size & 1:
        left, right = taps[:middle], taps[:middle:-1]
        for sign in (1, -1):
            if np.all(np.abs(right - sign * left) <= tiny):
                total: np.ndarray = at(middle) * taps[middle]
                for j in range(middle):
                    total += (at(j) + sign * at(size - 1 - j)) * taps[j]
                return total
    total = at(size - 1) * taps[size - 1]
    for j in range(size - 1):
        total += at(j) * taps[j]
    return total


def _along(array: np.ndarray, kernel: Kernel, places: tuple[Any, ...]) -> Callable[[int], np.ndarray]:
    """What tap j of a filter along one axis sees from each place, as doubles."""
    if not array.flags.c_contiguous:
        return lambda j: _gather(array, kernel, places, (j,))
    axis, before = kernel.axes[0], kernel.before[0]
    size, step = array.shape[axis], array.strides[axis] // array.itemsize
    rows = np.arange(-before, size + kernel.taps.size - 1 - before)
    inner = rows_beyond(np.arange(size), 0, rows, kernel.boundary[0], -1).astype(np.intp)
    outside, steps = inner < 0, np.maximum(inner, 0) * step
    own, flat = places[axis], array.reshape(-1)
    line = np.ravel_multi_index(places, array.shape) - own * step

    def at(j: int) -> np.ndarray:
        row = own + j
        values = flat.take(line + steps.take(row)).astype(np.float64)
        return np.where(outside.take(row), kernel.value, values) if may_leave else values

    may_leave = bool(outside.any())
    return at


def _box_order(array: np.ndarray, kernel: Kernel, places: tuple[Any, ...]) -> np.ndarray:
    """scipy's sum over several axes: tap after tap, zeros left out."""
    total = np.zeros(len(places[0]))
    for index in np.argwhere(np.abs(kernel.taps) > np.finfo(float).eps):
        total += kernel.taps[tuple(index)] * _gather(array, kernel, places, tuple(index))
    return total


def _gather(array: np.ndarray, kernel: Kernel, places: tuple[Any, ...], tap: tuple[int, ...]) -> np.ndarray:
    """What a tap sees from each place, as doubles."""
    index, outside = list(places), None
    for axis, before, boundary, j in zip(kernel.axes, kernel.before, kernel.boundary, tap):
        size = array.shape[axis]
        rows = np.arange(size) + j - before
        inner = rows_beyond(np.arange(size), 0, rows, boundary, -1).astype(np.intp)
        index[axis] = inner[places[axis]]
        beyond = index[axis] < 0
        outside = beyond if outside is None else outside | beyond
    values = array[tuple(index)].astype(np.float64)
    return values if outside is None else np.where(outside, kernel.value, values)
