"""Convolution of arrays of any numbers: reals by the library, other numbers by pieces of what it has."""
from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .. import _arrays
from .._explain import explain
from .._filter import Kernel, apply
from .._library import F32, F64

EXACT = 1 << 45  # sums of integers up to it have errors below a half in doubles, whatever solver adds them
LIMB_BITS = 12


def part(x: np.ndarray, h: np.ndarray, start: tuple[int, ...], size: tuple[int, ...], boundary: int = 0,
         value: Any = 0) -> np.ndarray:
    """out[o] = sum over k of h[k] * x[o + start - k], of the given size and of the result type of both arrays.

    boundary is an index of BOUNDARIES and says how x goes on; value is the constant.
    """
    dtype = np.result_type(x, h)
    if 0 in size or x.size == 0 or h.size == 0:
        return np.zeros(size, dtype)
    if dtype.kind == "b":
        return _real(x, h, start, size, np.float32, boundary, value) > 0.5
    if dtype.kind in "iu":
        return _integers(x, h, start, size, dtype, boundary, value)
    if dtype.kind == "c" and dtype.itemsize <= 16:
        return _complex(x, h, start, size, dtype, boundary, value)
    if dtype.kind == "f" and dtype.itemsize <= 8:
        narrow = np.float32 if dtype.itemsize <= 4 else np.float64
        return _real(x, h, start, size, narrow, boundary, value).astype(dtype, copy=False)
    return _tap_by_tap(x, h, start, size, dtype, boundary, value)


def _real(x: np.ndarray, h: np.ndarray, start: Any, size: Any, dtype: Any, boundary: int, value: Any) -> np.ndarray:
    x = x if x.dtype == dtype and x.dtype.isnative else x.astype(dtype)
    kernel = kernel_of(h, start, dtype, boundary, float(value))
    made: np.ndarray = apply(_arrays.Numpy, x, kernel, tuple(size), F32 if dtype == np.float32 else F64)
    return made


def kernel_of(h: np.ndarray, start: Any, dtype: Any, boundary: int = 0, value: float = 0.0) -> Kernel:
    """The flipped taps, for all axes of an array."""
    taps = np.ascontiguousarray(h[(slice(None, None, -1),) * h.ndim], dtype)
    before = tuple(k - 1 - s for k, s in zip(h.shape, start))
    return Kernel(taps, tuple(range(h.ndim)), before, ((boundary, boundary),) * h.ndim, value)


def _complex(x: np.ndarray, h: np.ndarray, start: Any, size: Any, dtype: Any, boundary: int, value: Any) -> np.ndarray:
    real = np.float32 if dtype.itemsize == 8 else np.float64
    result = np.empty(size, dtype)

    def of(a: np.ndarray, b: np.ndarray, v: float) -> np.ndarray:
        return _real(a, b, start, size, real, boundary, v)

    low, high = float(np.real(value)), float(np.imag(value))
    result.real = of(x.real, h.real, low)
    result.imag = of(x.real, h.imag, low) if h.dtype.kind == "c" else 0
    if x.dtype.kind == "c" or high:
        imag = x.imag if x.dtype.kind == "c" else np.zeros_like(x, real)
        result.imag += of(imag, h.real, high)
        if h.dtype.kind == "c":
            result.real -= of(imag, h.imag, high)
    return result


def _integers(x: np.ndarray, h: np.ndarray, start: Any, size: Any, dtype: Any, boundary: int, value: Any) -> np.ndarray:
    """Exact sums modulo the type's range: in doubles if they hold them, else by limbs of 12 bits."""
    value = int(value)
    most = max(_magnitude(x), abs(value))
    if most * _magnitude(h) * min(h.size, x.size if boundary == 0 and not value else h.size) < EXACT:
        sums = _real(x, h, start, size, np.float64, boundary, value)
        np.rint(sums, sums)
        return sums.astype(dtype) if dtype.itemsize == 8 and dtype.kind == "i" else sums.astype(np.int64).astype(dtype)
    total = np.zeros(size, np.uint64)
    count = -(-dtype.itemsize * 8 // LIMB_BITS)
    pieces_x, pieces_h = _limbs(x, count), _limbs(h, count)
    values = _limbs(np.array([value]), count)
    for i in range(count):
        for j in range(count - i):
            sums = _real(pieces_x[i], pieces_h[j], start, size, np.float64, boundary, values[i][0])
            total += np.rint(sums, sums).astype(np.uint64) << np.uint64(LIMB_BITS * (i + j))
    return total.astype(dtype)


def _magnitude(x: np.ndarray) -> int:
    return max(abs(int(x.max())), abs(int(x.min())))


def _limbs(x: np.ndarray, count: int) -> list[np.ndarray]:
    """Parts of 12 bits, the lowest first, of the numbers modulo 2^64."""
    bits = x.astype(np.int64).view(np.uint64) if x.dtype.kind != "u" else x.astype(np.uint64)
    return [((bits >> np.uint64(LIMB_BITS * i)) & np.uint64((1 << LIMB_BITS) - 1)).astype(np.float64) for i in range(count)]


def _tap_by_tap(x: np.ndarray, h: np.ndarray, start: Any, size: Any, dtype: Any, boundary: int, value: Any) -> np.ndarray:
    """Numbers that the library does not have (long doubles, Python's objects), a tap at a time."""
    from .._filter import rows_beyond

    total: Any = 0
    for index in np.ndindex(h.shape):
        seen = x
        for axis, k in enumerate(index):
            rows = np.arange(size[axis]) + start[axis] - k
            inside = rows_beyond(np.arange(x.shape[axis]), 0, rows, (boundary, boundary), -1).astype(np.intp)
            taken = np.take(seen, np.maximum(inside, 0), axis=axis)
            outside = inside.reshape([-1 if a == axis else 1 for a in range(x.ndim)]) < 0
            seen = np.where(outside, np.array(value, x.dtype), taken) if outside.any() else taken
        total = total + seen * h[index]
    return np.asarray(total, dtype).reshape(size)


# ------------------------------------------------------------------------------------------ by Fourier transforms


def fast_length(n: int) -> int:
    """The least product of 2, 3 and 5 that is n or more."""
    best = 1 << max(n - 1, 0).bit_length()
    five = 1
    while five < best:
        three = five
        while three < best:
            best = min(best, three << max(-(-n // three) - 1, 0).bit_length())
            three *= 3
        five *= 5
    return best


def by_fourier(x: np.ndarray, h: np.ndarray, axes: list[int]) -> np.ndarray:
    """The full convolution along the axes; the other axes are broadcast."""
    dtype = np.result_type(x, h)
    dtype = dtype if dtype.kind in "fc" else np.dtype(np.float64)
    if not axes:
        product: np.ndarray = np.multiply(x, h)
        return product
    sizes = [x.shape[a] + h.shape[a] - 1 for a in axes]
    lengths = [fast_length(n) for n in sizes]
    forward, back = (np.fft.fftn, np.fft.ifftn) if dtype.kind == "c" else (np.fft.rfftn, np.fft.irfftn)
    wide = np.result_type(dtype, np.float32)
    spectrum = forward(x.astype(wide), lengths, axes=axes) * forward(h.astype(wide), lengths, axes=axes)
    full = back(spectrum, lengths, axes=axes)
    cut: list[Any] = [slice(None)] * full.ndim
    for a, n in zip(axes, sizes):
        cut[a] = slice(n)
    made: np.ndarray = full[tuple(cut)].astype(wide, copy=False)
    return made


@functools.lru_cache(maxsize=512)
def direct_seconds(x: tuple[int, ...], h: tuple[int, ...], double: bool) -> tuple[float, str]:
    """(time, solver) that the planner predicts for a full convolution by its sum."""
    if len(x) > 3:
        macs = math.prod(a + b - 1 for a, b in zip(x, h)) * math.prod(h)
        return macs / (4e9 if double else 8e9), "sums over three axes at a time"
    words = [f"{n}={v}" for n, v in zip("dhw"[3 - len(x):], x)] + [f"{n}={v}" for n, v in zip("trs"[3 - len(x):], h)]
    why = explain(f"convolve {' '.join(words)} mode=full{' type=f64' if double else ''}").chosen
    return (why.predicted_seconds, why.solver) if why else (math.inf, "")


def fourier_seconds(x: tuple[int, ...], h: tuple[int, ...], is_complex: bool) -> float:
    """The time of numpy's transforms: three of them."""
    n = math.prod(fast_length(a + b - 1) for a, b in zip(x, h))
    return 2e-5 + 3 * n * max(math.log2(n), 1) * (1.6e-9 if is_complex else 0.9e-9)
