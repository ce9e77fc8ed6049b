"""Array functions with this project's own words: correlate and convolve."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _arrays
from ._errors import InvalidArgument
from ._filter import Kernel, apply, run, trim
from ._library import BOUNDARIES, F64, S32, TYPES, lib
from ._quick import quick

Boundary = str | Sequence[Any]


def library_version() -> str:
    """The C library's version.

    >>> import faltung
    >>> faltung.library_version()
    '0.1.0'
    """
    text: bytes = lib.falt_version()
    return text.decode()


@quick
def correlate(x: Any, taps: Any, *, axes: Sequence[int] | None = None, mode: str = "same",
              boundary: Boundary = "constant", value: float = 0.0, anchor: int | Sequence[int] | None = None,
              stride: int | Sequence[int] = 1, dilation: int | Sequence[int] = 1, alpha: float = 1.0, beta: float = 0.0,
              out_type: str | None = None, out: Any = None) -> Any:
    """Filters an array: out[o] = round(alpha * sum of taps[j] * x[o*stride + j*dilation - anchor] + beta).

    x: an array of numpy, torch, CuPy or JAX, in host memory or on a GPU, with any strides; the result is of the same
    library and on the same device. taps: numbers with one axis for each of `axes` (the last ones of x unless given).
    mode: "same", "valid" or "full". boundary: "constant" (`value`), "edge", "symmetric", "reflect101" or "wrap", for
    all axes, by axis, or by axis and side (a pair). anchor: the tap on the output's position, K//2 unless said.
    out_type: "u8", ..., "f64"; x's own unless said, and integers are rounded to the nearest, ties to even, and saturated.

    >>> import faltung, numpy
    >>> faltung.correlate(numpy.float32([1, 2, 3]), [1, 1, 1], boundary="edge")
    array([4., 6., 8.], dtype=float32)

    Raises InvalidArgument (a ValueError) for sizes and words, TypeError for a type that the library does not have.
    """
    return _filter(x, taps, False, axes, mode, boundary, value, anchor, stride, dilation, alpha, beta, out_type, out)


@quick
def convolve(x: Any, taps: Any, *, axes: Sequence[int] | None = None, mode: str = "same",
             boundary: Boundary = "constant", value: float = 0.0, anchor: int | Sequence[int] | None = None,
             stride: int | Sequence[int] = 1, dilation: int | Sequence[int] = 1, alpha: float = 1.0, beta: float = 0.0,
             out_type: str | None = None, out: Any = None) -> Any:
    """`correlate` with the taps flipped along every axis. The anchor counts in the taps as they are given.

    >>> import faltung, numpy
    >>> faltung.convolve(numpy.float32([0, 1, 0, 0]), [1, 2, 3])
    array([1., 2., 3., 0.], dtype=float32)
    """
    return _filter(x, taps, True, axes, mode, boundary, value, anchor, stride, dilation, alpha, beta, out_type, out)


def _filter(x: Any, taps: Any, flip: bool, axes: Any, mode: str, boundary: Any, value: float, anchor: Any, stride: Any,
            dilation: Any, alpha: float, beta: float, out_type: str | None, out: Any) -> Any:
    library, array = _arrays.take(x)
    view = library.view(array)
    if view.code is None:
        library, array, view = _native(library, array, view)
    weights = _taps(taps, view.code)
    axes = _axes(axes, len(view.shape), weights.ndim)
    strides, dilations = _each(stride, weights.ndim, "stride"), _each(dilation, weights.ndim, "dilation")
    anchors = _anchors(anchor, weights.shape, flip)
    shape, before = list(view.shape), []
    for i, axis in enumerate(axes):
        size, pad = _place(view.shape[axis], weights.shape[i], strides[i], dilations[i], anchors[i], mode)
        shape[axis] = size
        before.append(pad)
    if flip:
        weights = np.ascontiguousarray(weights[(slice(None, None, -1),) * weights.ndim])
    kernel = Kernel(weights, axes, tuple(before), _boundaries(boundary, weights.ndim), float(value), strides, dilations,
                    float(alpha), float(beta))
    code = view.code if out_type is None else _type(out_type)
    return _finish(library, x, array, kernel, tuple(shape), code, out)


def _finish(library: Any, x: Any, array: Any, kernel: Kernel, shape: tuple[int, ...], code: int, out: Any) -> Any:
    if out is None:
        return library.finish(apply(library, array, kernel, shape, code), x)
    own, held = _arrays.take(out)
    target = own.view(held)
    if target.shape != shape or held is not out:
        raise InvalidArgument(f"out: has shape {target.shape}; the result has {shape}")
    kernel = trim(kernel, library.view(array).shape, shape)
    if len(kernel.axes) > 3:
        out[...] = apply(library, array, kernel, shape, code)
    else:
        run(library, library.view(array), target, kernel)
    return out


def _native(library: Any, array: Any, view: Any) -> tuple[Any, ...]:
    """An array of a type that the library has: bytes in the machine's order, integers of 64 bits as f64."""
    dtype = getattr(array, "dtype", None)
    if library.name not in ("numpy", "cupy", "jax") or dtype is None or dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise TypeError(f"x: type {dtype} is none of {', '.join(TYPES)}")
    native = dtype.newbyteorder("=")
    array = array.astype(native if _arrays.code_of(native) is not None else np.float64)
    return library, array, library.view(array)


def _taps(taps: Any, code: int) -> np.ndarray:
    """The taps as the problem line's default weight type: a float's own, else f32; exact integers stay exact."""
    library, array = _arrays.take(taps)
    values = library.host(array)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"taps: type {values.dtype}; give real numbers")
    if values.size == 0:
        raise InvalidArgument("taps: there are none")
    return np.ascontiguousarray(values, np.float64 if code in (F64, S32) else np.float32)


def _axes(axes: Any, dimensions: int, count: int) -> tuple[int, ...]:
    if axes is None:
        axes = range(dimensions - count, dimensions)
    found = tuple(int(a) for a in axes)
    if len(found) != count:
        raise InvalidArgument(f"axes: {len(found)} for taps of {count} axes")
    if any(not -dimensions <= a < dimensions for a in found):
        raise InvalidArgument(f"axes: {found} of an array of {dimensions} axes")
    found = tuple(a % dimensions for a in found)
    if len(set(found)) != count:
        raise InvalidArgument(f"axes: {found} has one twice")
    return found


def _each(value: Any, count: int, name: str) -> tuple[int, ...]:
    values = tuple(int(v) for v in value) if np.iterable(value) else (int(value),) * count
    if len(values) != count:
        raise InvalidArgument(f"{name}: {len(values)} numbers for {count} axes")
    if min(values, default=1) < 1:
        raise InvalidArgument(f"{name}: {min(values)}; at least 1")
    return values


def _anchors(anchor: Any, shape: tuple[int, ...], flip: bool) -> list[int]:
    if anchor is None:
        anchors = [k // 2 for k in shape]
    else:
        anchors = [int(a) for a in anchor] if np.iterable(anchor) else [int(anchor)] * len(shape)
    if len(anchors) != len(shape) or any(not 0 <= a < k for a, k in zip(anchors, shape)):
        raise InvalidArgument(f"anchor: {anchor} for taps of shape {shape}; 0 to K-1 on each axis")
    return [k - 1 - a for a, k in zip(anchors, shape)] if flip else anchors


def _place(size: int, taps: int, stride: int, dilation: int, anchor: int, mode: str) -> tuple[int, int]:
    """(outputs, pad before) along one axis."""
    extent = dilation * (taps - 1) + 1
    if size < 1:
        raise InvalidArgument("x: has no elements")
    if mode == "same":
        return -(-size // stride), anchor * dilation
    if mode == "valid":
        if size < extent:
            raise InvalidArgument(f"mode: valid leaves no output of {size} elements and a filter that spans {extent}")
        return (size - extent) // stride + 1, 0
    if mode == "full":
        return (size + extent - 2) // stride + 1, extent - 1
    raise InvalidArgument(f"mode: {mode!r}; use same, valid or full")


def _boundaries(boundary: Any, count: int) -> tuple[tuple[int, int], ...]:
    values = [boundary] * count if isinstance(boundary, str) else list(boundary)
    if len(values) != count:
        raise InvalidArgument(f"boundary: {len(values)} for {count} axes")
    pairs = [(v, v) if isinstance(v, str) else tuple(v) for v in values]
    for word in {w for pair in pairs for w in pair} - set(BOUNDARIES):
        raise InvalidArgument(f"boundary: {word!r}; use {', '.join(BOUNDARIES)}")
    return tuple((BOUNDARIES.index(a), BOUNDARIES.index(b)) for a, b in pairs)


def _type(name: str) -> int:
    if name not in TYPES:
        raise InvalidArgument(f"out_type: {name!r}; use {', '.join(TYPES)}")
    return TYPES.index(name)
