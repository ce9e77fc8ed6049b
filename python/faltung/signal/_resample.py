"""upfirdn and resample_poly by the polyphase parts of the filter, and sepfir2d."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _arrays
from .._filter import Kernel, run
from ._rate import products, residues

# upfirdn's modes that are boundaries of the library; the others extend the array
_EDGES = {"constant": 0, "edge": 1, "symmetric": 2, "reflect": 3, "wrap": 4}
_MADE = ("smooth", "antisymmetric", "antireflect", "line")


def upfirdn(h: Any, x: Any, up: int = 1, down: int = 1, axis: int = -1, mode: str = "constant", cval: float = 0) -> Any:
    """Upsamples, filters and downsamples; as scipy.signal.upfirdn.

    Each residue of the outputs is a filter with every `up`-th tap and a stride: no zero is multiplied.

    >>> from faltung import signal
    >>> signal.upfirdn([1, 1, 1], [1.0, 2.0, 3.0], up=3)
    array([1., 1., 1., 2., 2., 2., 3., 3., 3.])
    """
    h = _arrays.host(h)
    library, x, like = _arrays.place(x)
    if h.ndim != 1 or h.size == 0:
        raise ValueError("h must be 1-D with non-zero length")
    up, down = int(up), int(down)
    if up < 1 or down < 1:
        raise ValueError("Both up and down must be >= 1")
    dtype = np.result_type(h.dtype, library.type_of(x), np.float32)
    mode = mode.lower()
    if mode not in _EDGES and mode not in _MADE:
        raise ValueError(f"Unknown mode: {mode}")
    axis = range(x.ndim)[axis]
    count = x.shape[axis]
    shape = list(x.shape)
    shape[axis] = (((count - 1) * up + h.size) - 1) // down + 1
    if 0 in shape or not count:
        return _arrays.give(np.zeros([max(n, 0) for n in shape], dtype), like)
    if library in (_arrays.Cupy, _arrays.Torch) and dtype.char in "fd" and mode in _EDGES:
        out = library.empty(tuple(shape), _arrays.code_of(dtype), x)
        _polyphase(library, h.astype(dtype), library.cast(x, dtype), out, up, down, axis, _EDGES[mode], float(cval))
        return out
    return _arrays.give(_by_host(h, library.host(x), shape, up, down, axis, mode, cval, dtype), like)


def _by_host(h: np.ndarray, x: np.ndarray, shape: list[int], up: int, down: int, axis: int, mode: str, cval: Any,
             dtype: np.dtype) -> np.ndarray:
    """upfirdn of any type in host memory."""
    if dtype.kind == "c":
        return _complex(h, x, up, down, axis, mode, cval, dtype)
    if dtype.char == "g":
        doubles: np.ndarray = upfirdn(h.astype(float), x.astype(float), up, down, axis, mode, cval)
        return doubles.astype(dtype)
    begin = 0
    if mode in _MADE:
        begin = -(-h.size // up) + 1
        x, mode = _extended(x.astype(dtype), axis, begin, mode), "constant"
    x = np.ascontiguousarray(x, dtype)
    several = up // math.gcd(up, down) > 1  # one residue is one filter
    if several and (mode != "constant" or cval == 0):
        made = products(h.astype(dtype), x, shape[axis], up, down, axis, _EDGES[mode], begin)
        if made is not None:
            return made
    out = np.empty(shape, dtype)
    _polyphase(_arrays.Numpy, h.astype(dtype), x, out, up, down, axis, _EDGES[mode], float(cval), begin)
    return out


def _complex(h: np.ndarray, x: np.ndarray, up: int, down: int, axis: int, mode: str, cval: Any, dtype: Any) -> np.ndarray:
    """By real filters, of both parts of x at once where one constant is beyond both."""
    real = np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)

    def of(taps: np.ndarray) -> np.ndarray:
        taps = taps.astype(real)
        if x.dtype.kind != "c" and not np.imag(cval):
            return np.asarray(upfirdn(taps, x.astype(real), up, down, axis, mode, np.real(cval)), dtype)
        if mode != "constant" or not cval:
            pairs = np.ascontiguousarray(x, dtype)[..., None].view(real)
            made: np.ndarray = upfirdn(taps, pairs, up, down, axis, mode).view(dtype)[..., 0]
            return made
        both = np.empty((2, *x.shape), real)
        both[0], both[1] = x.real, x.imag
        low, high = (upfirdn(taps, a, up, down, axis, mode, v) for a, v in zip(both, (np.real(cval), np.imag(cval))))
        return np.asarray(_arrays.Numpy.joined(low, high, dtype))

    result = of(h.real)
    return result + 1j * of(h.imag) if h.dtype.kind == "c" else result


def _polyphase(library: Any, h: np.ndarray, x: Any, out: Any, up: int, down: int, axis: int, edge: int, value: float,
               begin: int = 0) -> None:
    """out[m] = sum over i of h[p + up*i] * x[t - i], with p and t the remainder and quotient of m*down by up."""
    period = up // math.gcd(up, down)
    step = period * down // up
    source = library.view(x)
    for r, residue in enumerate(residues(h, up, down, begin)[: out.shape[axis]]):
        index = [slice(None)] * out.ndim
        index[axis] = slice(r, None, period)
        part = out[tuple(index)]
        if not residue.taps.size:
            part[...] = 0
            continue
        kernel = Kernel(residue.taps, (axis,), (-residue.start,), ((edge, edge),), value, (step,))
        run(library, source, library.view(part), kernel)


def _extended(x: np.ndarray, axis: int, width: int, mode: str) -> np.ndarray:
    """x with `width` more elements at both ends of an axis."""
    lines = np.moveaxis(x, axis, -1)
    n = lines.shape[-1]
    rows = np.arange(-width, n + width)
    if mode == "antireflect" and n > 1:
        pad = [(0, 0)] * (x.ndim - 1) + [(width, width)]
        return np.moveaxis(np.pad(lines, pad, mode="reflect", reflect_type="odd"), -1, axis)
    if mode == "antisymmetric":
        fold = rows % (2 * n)
        inner = np.where(fold < n, fold, 2 * n - 1 - fold)
        return np.moveaxis(lines[..., inner] * np.where(fold < n, 1, -1).astype(x.dtype), -1, axis)
    first, last = lines[..., :1], lines[..., -1:]
    slope = {"smooth": (lines[..., 1:2] - first, last - lines[..., -2:-1]), "line": ((last - first) / max(n - 1, 1),) * 2}
    low, high = slope.get(mode, (first * 0, first * 0)) if n > 1 else (first * 0, first * 0)
    before = first + low * np.arange(-width, 0)
    after = last + high * np.arange(1, width + 1)
    return np.moveaxis(np.concatenate([before, lines, after], -1).astype(x.dtype), -1, axis)


def _window(window: Any, size: int) -> np.ndarray:
    """A symmetric window by its name, with a parameter in a tuple."""
    name, *parameters = (window,) if isinstance(window, str) else window
    if name == "kaiser":
        return np.kaiser(size, *parameters)
    made: dict[str, Callable[[int], np.ndarray]] = {
        "hamming": np.hamming, "hann": np.hanning, "blackman": np.blackman, "bartlett": np.bartlett, "boxcar": np.ones,
        "rectangular": np.ones, "rect": np.ones}
    if name not in made:
        raise ValueError(f"window: {name!r} is none of kaiser, {', '.join(made)}; give the filter's taps as an array")
    return made[name](size)


def _low_pass(size: int, cutoff: float, window: Any) -> np.ndarray:
    """A linear-phase low-pass filter by the window method, of gain 1 at frequency 0; cutoff in Nyquist's unit."""
    m = np.arange(size) - 0.5 * (size - 1)
    taps: np.ndarray = cutoff * np.sinc(cutoff * m) * _window(window, size)
    taps /= taps.sum()
    return taps


def resample_poly(x: Any, up: int, down: int, axis: int = 0, window: Any = ("kaiser", 5.0), padtype: str = "constant",
                  cval: float | None = None) -> Any:
    """Resamples along an axis by up/down with a low-pass filter; as scipy.signal.resample_poly.

    window: a name ("kaiser" with its parameter in a tuple, "hamming", "hann", "blackman", ...) or the filter's taps.

    >>> from faltung import signal
    >>> signal.resample_poly([1.0, 1, 1, 1], 1, 2, padtype="line").round(3)
    array([1., 1.])
    """
    library, x, like = _arrays.place(x)
    if up != int(up):
        raise ValueError("up must be an integer")
    if down != int(down):
        raise ValueError("down must be an integer")
    if up < 1 or down < 1:
        raise ValueError("up and down must be >= 1")
    if cval is not None and padtype != "constant":
        raise ValueError("cval has no effect when padtype is ", padtype)
    shared = math.gcd(int(up), int(down))
    up, down = int(up) // shared, int(down) // shared
    if up == down == 1:
        return _arrays.give(library.host(x).copy(), like)
    n_in = x.shape[axis]
    n_out = -(-n_in * up // down)
    h, half = _filter_of(window, up, down, library.type_of(x))
    h = h * h.dtype.type(up)
    before = down - half % down
    skip = (half + before) // down
    after = 0
    while ((n_in - 1) * up + h.size + before + after - 1) // down + 1 < n_out + skip:
        after += 1
    h = np.concatenate([np.zeros(before, h.dtype), h, np.zeros(after, h.dtype)])
    measures: dict[str, Callable[..., Any]] = {"mean": np.mean, "median": np.median, "minimum": np.min, "maximum": np.max}
    level = None
    options: dict[str, Any] = {"mode": "constant", "cval": 0}
    if padtype in measures:
        x = library.host(x)
        level = measures[padtype](x, axis=axis, keepdims=True)
        x = x - level
    elif padtype in _EDGES or padtype in _MADE:
        options = {"mode": padtype, "cval": cval or 0}
    else:
        raise ValueError("padtype must be one of: maximum, mean, median, minimum, " + ", ".join((*_EDGES, *_MADE)))
    y = upfirdn(h, x, up, down, axis=axis, **options)
    index = [slice(None)] * y.ndim
    index[axis] = slice(skip, skip + n_out)
    y = y[tuple(index)]
    return _arrays.give(y if level is None else y + level.astype(y.dtype), like)


def _filter_of(window: Any, up: int, down: int, dtype: np.dtype) -> tuple[np.ndarray, int]:
    """(taps, half their length)."""
    if not isinstance(window, (str, tuple)):
        h = _arrays.host(window)
        if h.ndim > 1:
            raise ValueError("window must be 1-D")
        return (h if h.dtype.kind in "fc" else h.astype(float)), (h.size - 1) // 2
    rate = max(up, down)
    h = _low_pass(20 * rate + 1, 1.0 / rate, window)
    return (h.astype(dtype.type(0).real.dtype) if dtype.kind in "fc" else h), 10 * rate


def sepfir2d(input: Any, hrow: Any, hcol: Any) -> Any:
    """Filters rows by hrow and columns by hcol, the edges repeated in the mirror ("symm"); as scipy.signal.sepfir2d.

    >>> import numpy
    >>> from faltung import signal
    >>> signal.sepfir2d(numpy.eye(3), [0.5, 1, 0.5], [0, 1, 0])
    array([[1.5, 0.5, 0. ],
           [0.5, 1. , 0.5],
           [0. , 0.5, 1.5]])
    """
    from ._convolution import part

    library, x, like = _arrays.place(input)
    x, row, column = library.host(x), _arrays.host(hrow), _arrays.host(hcol)
    if x.ndim != 2 or row.ndim != 1 or column.ndim != 1:
        raise ValueError("object too deep for desired array")
    if row.size % 2 == 0 or column.size % 2 == 0:
        raise ValueError("hrow and hcol must be odd length")
    dtype = np.result_type(x, np.float32)
    for given, taps in ((hrow, row), (hcol, column)):
        if hasattr(given, "dtype") and not np.can_cast(taps.dtype, dtype):  # lists take the input's type
            raise TypeError(f"Cannot cast array data from {taps.dtype!r} to {dtype!r} according to the rule 'safe'")
    x = x.astype(dtype)
    for taps, axis in ((row, 1), (column, 0)):
        h = taps.astype(dtype).reshape((1, -1) if axis else (-1, 1))
        x = part(x, h, tuple(k // 2 for k in h.shape), x.shape, 2)
    return _arrays.give(x, like)
