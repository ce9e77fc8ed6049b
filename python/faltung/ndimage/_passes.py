"""Filters along one axis, one after the other, as scipy applies them; floats by one pass over memory."""
from __future__ import annotations

import functools
import math
import numbers
from typing import Any, NamedTuple

import numpy as np

from .. import _arrays
from .._filter import KNOWN_BYTES, Kernel, apply
from .._library import F64
from . import _slabs
from ._arguments import Input
from ._linear import SMALL, UNSIGNED, _run, cut, linear

LEAST_F64 = 1 << 14  # elements; smaller arrays have the bits of one pass after the other, which scipy's tests compare
LEAST_ROW = 96  # elements from the last axis with taps on; large arrays of shorter rows take less time by slabs
FEW_TAPS = 32  # that a GPU applies in f64, or to integers, in less time than it moves an array between passes


class Pass(NamedTuple):
    """A filter along an axis. divide: the sum is divided by it (means), 0 for other filters."""

    axis: int
    taps: np.ndarray
    before: int
    boundary: int
    divide: int = 0

    def is_whole(self) -> bool:
        """Whether all taps are integers."""
        return np.array_equal(np.rint(self.taps), self.taps)

    def kernel(self, value: float) -> Kernel:
        """As a filter of an array."""
        return Kernel(self.taps, (self.axis,), (self.before,), ((self.boundary, self.boundary),), value, transforms=False)


@functools.lru_cache(maxsize=256)
def _gaussian(sigma: float, order: int, radius: int) -> np.ndarray:
    x = np.arange(-radius, radius + 1)
    sigma2 = sigma * sigma
    bell = np.exp(-0.5 / sigma2 * x**2)
    bell = bell / bell.sum()
    if order:
        # The n-th derivative is a polynomial times the bell: q' - q*x/sigma^2 is the next polynomial.
        polynomial = np.zeros(order + 1)
        polynomial[0] = 1
        step = np.diag(np.arange(1, order + 1), 1) + np.diag(np.ones(order) / -sigma2, -1)
        for _ in range(order):
            polynomial = step @ polynomial
        bell = (x[:, None] ** np.arange(order + 1) @ polynomial) * bell
    taps: np.ndarray = bell[::-1].copy()
    taps.flags.writeable = False
    return taps


def gaussian(sigma: Any, order: int, truncate: float, radius: Any) -> np.ndarray:
    """The taps of a Gaussian's derivative, as a correlation takes them."""
    if radius is None:
        radius = int(truncate * float(sigma) + 0.5)
    if not isinstance(radius, numbers.Integral) or radius < 0:
        raise ValueError("Radius must be a nonnegative integer.")
    if order < 0:
        raise ValueError("order must be non-negative")
    return _gaussian(float(sigma), int(order), int(radius))


def single(item: Input, one: Pass, cval: Any) -> Any:
    """One pass, also of complex numbers."""
    if item.dtype.kind == "c" or one.taps.dtype.kind == "c":
        if one.divide:
            one = one._replace(taps=one.taps / one.divide)
        return by_parts(item, one.kernel(0.0), cval)
    result = _slabs.chain(item, [one], float(cval))
    if result is not None:
        return result
    return _once(item.library, item.array, item.dtype, one, float(cval), item.out_dtype, item.out)


def _once(library: Any, array: Any, dtype: np.dtype, one: Pass, cval: float, out_dtype: np.dtype, into: Any = None) -> Any:
    kernel = one.kernel(cval)
    if not one.divide:
        return linear(library, array, dtype, kernel, out_dtype, into)
    numpys = library is _arrays.Numpy
    if out_dtype.kind == "f":
        if dtype.name == out_dtype.name == "float32" or not numpys and dtype.name == out_dtype.name == "float64":
            return linear(library, array, dtype, kernel._replace(alpha=1.0 / one.divide), out_dtype, into)
        sums = linear(library, array, dtype, kernel, np.dtype(np.float64))
        return library.cast(sums / float(one.divide), out_dtype)
    if 0 in array.shape:
        return library.cast(array, out_dtype)
    if not numpys and dtype.name in UNSIGNED and out_dtype == dtype and 0 <= cval <= np.iinfo(dtype).max:
        return _mean(library, array, dtype, kernel, one.divide)
    if dtype.name in _arrays.CODE_OF and dtype.kind != "b":
        wide = array if dtype.isnative else library.cast(array, dtype.newbyteorder("="))
    else:
        wide = library.cast(array, np.dtype(np.float64))
    sums = _run(library, wide, kernel, np.float64, tuple(array.shape), F64, None, None)
    if dtype.kind in "iu" and cval == int(cval) and numpys:
        np.rint(sums, sums)  # sums of integers are integers, whatever solver adds them
    return cut(library, sums / float(one.divide), out_dtype)


def _mean(library: Any, array: Any, dtype: np.dtype, kernel: Kernel, divide: int) -> Any:
    """Truncated means of unsigned integers, in one pass."""
    if dtype.name == "uint8" and divide <= _slabs.WIDE and kernel.value == int(kernel.value):
        kernel = kernel._replace(taps=kernel.taps.astype(np.float32), alpha=1.0 / divide, beta=0.5 / divide - 0.5)
        return apply(library, array, kernel, tuple(array.shape), _arrays.CODE_OF["uint8"])
    return linear(library, array, dtype, kernel._replace(alpha=1.0 / divide), dtype)


def chain(item: Input, passes: list[Pass], cval: Any) -> Any:
    """Pass after pass, with the output's type between them."""
    if not passes:
        return item.library.cast(item.array, item.out_dtype) if item.out is None else item.array
    if item.dtype.kind == "c":
        return _chain_by_parts(item, passes, cval)
    cval = float(cval)
    if _fuses(item, passes, cval):
        return _fused(item, passes, cval)
    result = _slabs.chain(item, passes, cval)
    if result is not None:
        return result
    array, dtype = item.array, item.dtype
    for one in passes:
        array, dtype = _once(item.library, array, dtype, one, cval, item.out_dtype), item.out_dtype
    return array


def _most_taps(item: Input, passes: list[Pass]) -> int:
    """Up to how many taps the passes are one filter. Integers are cut to their type after each pass, which is modulo its
    range where all are integers."""
    name, on_cpu = item.dtype.name, item.library is _arrays.Numpy
    if name == "float32" or name == "float64" and on_cpu and math.prod(item.shape) >= LEAST_F64:
        return KNOWN_BYTES // item.dtype.itemsize
    if on_cpu or any(p.divide for p in passes):
        return 0
    return FEW_TAPS if name == "float64" or name in SMALL and all(p.is_whole() for p in passes) else 0


def _fuses(item: Input, passes: list[Pass], cval: float) -> bool:
    """Whether the passes are one filter: what lies between them has the array's type, and the constant beyond is 0."""
    if not 1 < len(passes) <= 3 or item.dtype != item.out_dtype or cval and any(p.boundary == 0 for p in passes):
        return False
    row = math.prod(item.shape[max(p.axis for p in passes) :])
    if item.library is _arrays.Numpy and row < LEAST_ROW and math.prod(item.shape) >= _slabs.LEAST:
        return False
    return math.prod(p.taps.size for p in passes) <= _most_taps(item, passes)


def _fused(item: Input, passes: list[Pass], cval: float) -> Any:
    """The passes as one separable filter. Means in f64 are sums that are divided: those of equal values are exact."""
    passes = sorted(passes, key=lambda p: p.axis)
    taps = functools.reduce(np.multiply.outer, [p.taps for p in passes])
    size = math.prod(p.divide or 1 for p in passes)
    sums = size > 1 and item.dtype.name == "float64"
    kernel = Kernel(taps, tuple(p.axis for p in passes), tuple(p.before for p in passes),
                    tuple((p.boundary, p.boundary) for p in passes), cval, alpha=1.0 if sums else 1.0 / size, rank=1,
                    transforms=False)
    result = linear(item.library, item.array, item.dtype, kernel, item.out_dtype, item.out)
    if sums:
        _slabs.divide(result, size)
    return result


def _parts(item: Input, function: Any) -> Any:
    """A complex array whose parts a function of (part, part's type) computes from the input's."""
    part = np.dtype(np.float32 if item.out_dtype.itemsize == 8 else np.float64)
    real, imag = function(item.array.real, item.array.imag, part)
    return item.library.joined(real, imag, item.out_dtype)


def _chain_by_parts(item: Input, passes: list[Pass], cval: Any) -> Any:
    def both(real: Any, imag: Any, part: np.dtype) -> tuple[Any, ...]:
        for one in passes:
            dtype = item.library.type_of(real)
            real = _once(item.library, real, dtype, one, float(np.real(cval)), part)
            imag = _once(item.library, imag, dtype, one, float(np.imag(cval)), part)
        return real, imag

    return _parts(item, both)


def check_constant(item: Input, cval: Any) -> None:
    """Only complex arrays go on with complex numbers."""
    if item.dtype.kind != "c" and np.iscomplexobj(cval):
        raise ValueError("Cannot provide a complex-valued cval when the input is real.")


def by_parts(item: Input, kernel: Kernel, cval: Any) -> Any:
    """A filter of complex numbers: of their parts, by the parts of the taps."""
    taps, complex_input = kernel.taps, item.dtype.kind == "c"
    part = np.dtype(np.float32 if item.out_dtype.itemsize == 8 else np.float64)

    def of(array: Any, weights: np.ndarray, value: Any) -> Any:
        one = kernel._replace(taps=np.asarray(weights, np.float64), value=float(value))
        return linear(item.library, array, item.library.type_of(array), one, part)

    joined = item.library.joined
    if not complex_input:
        return joined(of(item.array, taps.real, cval), of(item.array, taps.imag, cval), item.out_dtype)
    real, imag, low, high = item.array.real, item.array.imag, np.real(cval), np.imag(cval)
    if taps.dtype.kind != "c":
        return joined(of(real, taps, low), of(imag, taps, high), item.out_dtype)
    return joined(of(real, taps.real, low) - of(imag, taps.imag, high), of(real, taps.imag, low) + of(imag, taps.real, high),
                  item.out_dtype)


def root(item: Input, squares: Any) -> Any:
    """Square roots in the output's type."""
    if isinstance(squares, np.ndarray):
        result = np.empty_like(squares)
        with np.errstate(invalid="ignore"):
            return np.sqrt(squares, result, casting="unsafe")
    return item.library.cast(squares**0.5, item.out_dtype)
