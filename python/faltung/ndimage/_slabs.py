"""Passes over slabs of rows, in host memory: what lies between two passes stays in the cache, and no pass needs new pages.

f32, f64 and u8 arrays go through. Each thread takes slab after slab, with memory of its own. Slabs of planes would read
many planes twice for a pass of many taps along them: in floats that pass is one call for the whole volume.
Bytes are exact without sums in f64: f32 sums have an error below 1/512, so 256 times the sum, rounded to u16, has scipy's
byte in its upper half unless the lower one is 0; those few are added as scipy adds.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _workers
from .._arrays import Numpy
from .._filter import Kernel, is_plain_value, rows_beyond, run, trim
from .._quick import SEVERAL, note
from ._linear import cut, line_order

SLAB = 1 << 21  # bytes
SHARE = 4  # slabs of each thread, at least
LEAST = 1 << 20  # smaller arrays take whole passes
WRAP = 4
TALL = 24  # taps from which a pass along the planes of a volume is one of its own
MOST_TAPS = 113  # (taps + 2) rounding errors of 2^-24, times 256 * 255, stay below 0.45
U16_SUMS = 257  # bytes whose sum is below 2^16
WIDE = 4096  # four rounding errors of 255 in f32, 6e-5, stay below 1 / (2 * WIDE)
FLAT = 1 / 64  # share of undecided bytes from which constant windows are looked for

Stage = Callable[["_Step", np.ndarray, "_Room"], None]


class _Room:
    """Memory that every slab of a thread uses again."""

    def __init__(self) -> None:
        self._arrays: dict[Any, np.ndarray] = {}

    def take(self, name: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """An array of that name, of the shape or a part of it."""
        array = self._arrays.get(name)
        if array is None or len(array) < shape[0] or array.shape[1:] != shape[1:]:
            array = self._arrays[name] = np.empty(shape, dtype)
        return array[: shape[0]]


class _Step:
    """One pass: the rows that it reads and the kernel for them."""

    __slots__ = ("source", "kernel", "divide")

    def __init__(self, source: np.ndarray, one: Any, before: int, cval: float):
        self.source, self.divide = source, one.divide
        self.kernel = one.kernel(cval)._replace(before=(before,))


def chain(item: Any, passes: list[Any], cval: float) -> np.ndarray | None:
    """The passes' result, of the input's type; None for arrays, types and filters that are not for slabs."""
    array, dtype = item.array, item.dtype
    if item.library is not Numpy or dtype != item.out_dtype or not dtype.isnative or array.size < LEAST:
        return None
    if not all(is_plain_value(one.kernel(cval)) for one in passes):
        return None
    stages = [_stage(dtype, one, cval) for one in passes]
    along = [one for one in passes if one.axis == 0]
    if None in stages or len(along) > 1 or (len(passes) == 1 and dtype.kind == "f"):
        return None
    rows = array.shape[0]
    count = _rows_of(array)
    if along:
        if along[0].boundary == WRAP or rows < 2 * along[0].taps.size:
            return None
        count = max(count, along[0].taps.size // 2)
    out = item.out if item.out is not None else np.empty(array.shape, dtype)
    if type(out) is not np.ndarray or out.dtype != dtype or np.may_share_memory(array, out):
        out = np.empty(array.shape, dtype)
    note(SEVERAL)
    steps: list[Any] = list(zip(passes, stages, [cval] * len(passes)))
    if dtype.itemsize == 8:
        steps = _divided_at_last(steps)
    tall = bool(along) and along[0].taps.size >= TALL and passes[0].axis == 0
    if tall and array.ndim > 2 and len(steps) > 2 and dtype.kind == "f":
        (one, stage, value), steps = steps[0], steps[1:]
        stage(_Step(array, one, one.before, value), out, _Room())
        array, count = out, _rows_of(out)

    def slab(begin: int, room: _Room) -> None:
        _slab(array, out, (begin, min(begin + count, rows)), steps, room)

    _workers.each(range(0, rows, count), slab, _Room)
    return out


def _rows_of(array: np.ndarray) -> int:
    """How many rows a slab has."""
    rows = len(array)
    return max(min(SLAB * rows // array.nbytes, -(-rows // (SHARE * _workers.thread_count()))), 1)


def divide(sums: np.ndarray, by: int) -> None:
    """Divides the array in place."""
    note(SEVERAL)
    count = len(sums) if sums.size < LEAST else _rows_of(sums)

    def slab(begin: int, _: _Room) -> None:
        np.divide(sums[begin : begin + count], float(by), sums[begin : begin + count])

    _workers.each(range(0, len(sums), count), slab, _Room)


def _divided_at_last(steps: list[Any]) -> list[Any]:
    """Means in f64 as sums that are divided once, after the last pass; the constant beyond is one of sums then."""
    if not any(one.divide for one, _, _ in steps):
        return steps
    found, product = [], 1
    for one, stage, cval in steps:
        found.append((one._replace(divide=0), stage, cval * product if cval else cval))
        product *= one.divide or 1
    one, stage, cval = found[-1]
    return [*found[:-1], (one._replace(divide=product), stage, cval)]


def _slab(array: np.ndarray, out: np.ndarray, rows: tuple[int, int], steps: list[Any], room: _Room) -> None:
    """The passes of rows [begin, end) of the result; those before the pass along the rows take what it reads, too."""
    begin, end = low, high = rows
    for one, _, _ in steps:
        if one.axis == 0:
            low, high = _read(one, begin, end, array.shape[0])
    source = array[low:high]
    for i, (one, stage, cval) in enumerate(steps):
        before = one.before
        if one.axis == 0:
            before, low, high = before - (begin - low), begin, end
        last = i == len(steps) - 1
        into = out[begin:end] if last else room.take(i % 2, (high - low, *array.shape[1:]), array.dtype)
        stage(_Step(source, one, before, cval), into, room)
        source = into


def _read(one: Any, begin: int, end: int, count: int) -> tuple[int, int]:
    """The rows that results [begin, end) of a pass along the rows need; beyond an end, also those that are repeated there."""
    after = one.taps.size - 1 - one.before
    low, high = max(begin - one.before, 0), min(end + after, count)
    above, below = one.before - begin, end + after - count
    if above > 0:
        high = max(high, above + 1)
    if below > 0:
        low = min(low, count - 1 - below)
    return low, high


def _stage(dtype: np.dtype, one: Any, cval: float) -> Stage | None:
    """What computes a pass of the type; None if there is no exact way here."""
    if dtype.kind == "f" and dtype.itemsize in (4, 8):
        return _floats
    whole = one.boundary != 0 or (cval == int(cval) and 0 <= cval <= 255)
    if dtype != np.uint8 or not whole:
        return None
    if one.divide:
        return _means if one.divide <= U16_SUMS else _wide_means if one.divide <= WIDE else None
    most = float(np.abs(one.taps).sum()) * 255
    if most < 1 << 15 and one.is_whole():
        return _whole
    proven = one.taps.size <= MOST_TAPS and one.taps.min() >= 0 and most < 255.25
    return _bytes if proven else None


def _filter(step: _Step, into: np.ndarray, dtype: type, alpha: float = 1.0, beta: float = 0.0) -> None:
    kernel = step.kernel._replace(taps=np.ascontiguousarray(step.kernel.taps, dtype), alpha=alpha, beta=beta)
    run(Numpy, Numpy.view(step.source), Numpy.view(into), trim(kernel, step.source.shape, into.shape))


def _floats(step: _Step, into: np.ndarray, room: _Room) -> None:
    narrow = into.dtype == np.float32
    _filter(step, into, into.dtype.type, 1.0 / step.divide if step.divide and narrow else 1.0)
    if step.divide and not narrow:
        np.divide(into, float(step.divide), into)


def _means(step: _Step, into: np.ndarray, room: _Room) -> None:
    """Sums of bytes are exact in u16; a quotient is never rounded up to the next integer."""
    sums = room.take("wide", into.shape, np.uint16)
    _filter(step, sums, np.float32)
    np.floor_divide(sums, np.uint16(step.divide), sums)
    np.copyto(into, sums, casting="unsafe")


def _wide_means(step: _Step, into: np.ndarray, room: _Room) -> None:
    """In one step, which takes longer than two where u16 holds the sums. A sum of q * size + r is rounded from
    q + (2r + 1 - size) / (2 * size), which is nearer to q than a half by 1 / (2 * size)."""
    _filter(step, into, np.float32, 1.0 / step.divide, 0.5 / step.divide - 0.5)


def _whole(step: _Step, into: np.ndarray, room: _Room) -> None:
    """Whole sums, modulo 256."""
    sums = room.take("wide", into.shape, np.uint16).view(np.int16)
    _filter(step, sums, np.float32)
    np.copyto(into, sums, casting="unsafe")


def _bytes(step: _Step, into: np.ndarray, room: _Room) -> None:
    fixed = room.take("wide", into.shape, np.uint16)
    undecided = room.take("undecided", into.shape, bool)
    _filter(step, fixed, np.float32, 256.0)
    np.right_shift(fixed, 8, into, casting="unsafe")
    np.left_shift(fixed, 8, fixed)
    np.equal(fixed, 0, undecided)
    if np.count_nonzero(undecided) > FLAT * undecided.size:
        _settle_constant(step, into, undecided)
    places = np.unravel_index(np.flatnonzero(undecided), into.shape)
    if len(places[0]):
        into[places] = cut(Numpy, line_order(step.source, step.kernel, places), into.dtype)


def _settle_constant(step: _Step, into: np.ndarray, undecided: np.ndarray) -> None:
    """Bytes whose window is constant, from a table; they are decided then."""
    (axis,), (before,), taps = step.kernel.axes, step.kernel.before, step.kernel.taps
    shape = into.shape
    rows = np.arange(-before, shape[axis] + taps.size - 1 - before)
    seen = rows_beyond(step.source, axis, rows, step.kernel.boundary[0], step.kernel.value).astype(np.uint8, copy=False)
    seen = np.moveaxis(seen, axis, 0)
    changes = seen[1:] != seen[:-1]
    reach, wanted = 1, taps.size - 1
    while reach < wanted:  # changes[i]: whether one lies in [i, i + reach)
        step_by = min(reach, wanted - reach)
        changes = changes[: -step_by] | changes[step_by:]
        reach += step_by
    constant = ~changes if wanted else np.ones(seen.shape, bool)
    constant &= np.moveaxis(undecided, axis, 0)
    values = np.moveaxis(into, axis, 0)
    values[constant] = _constants(taps.tobytes())[seen[: shape[axis]][constant]]
    np.moveaxis(undecided, axis, 0)[constant] = False


@functools.lru_cache(maxsize=64)
def _constants(taps: bytes) -> np.ndarray:
    """What scipy's sum makes of 256 constant windows."""
    weights = np.frombuffer(taps)
    values = np.arange(256, dtype=np.uint8)
    windows = np.repeat(values[:, None], weights.size, axis=1)
    middle = weights.size // 2
    kernel = Kernel(weights, (1,), (middle,), ((1, 1),), transforms=False)
    sums = line_order(windows, kernel, (values.astype(np.intp), np.full(256, middle)))
    found: np.ndarray = cut(Numpy, sums, np.dtype(np.uint8))
    return found
