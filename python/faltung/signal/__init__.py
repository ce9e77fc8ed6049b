"""scipy.signal's convolutions and FIR filters: its signatures, types and errors.

    from faltung import signal        # was: from scipy import signal

Plans of the library compute them; numpy's Fourier transforms where those are predicted to be faster. Real floats also
in arrays of torch, CuPy and JAX, on CPUs and GPUs. scipy is not called.
"""
from __future__ import annotations

import functools
import operator
import timeit
import warnings
from typing import Any

import numpy as np

from .. import _arrays
from .._filter import apply
from .._quick import quick
from . import _convolution
from ._convolution import by_fourier, part
from ._recursive import lfilter
from ._resample import resample_poly, sepfir2d, upfirdn

__all__ = ["choose_conv_method", "convolve", "convolve2d", "correlate", "correlate2d", "correlation_lags", "fftconvolve",
           "lfilter", "oaconvolve", "resample_poly", "sepfir2d", "upfirdn"]

_MODES = ("valid", "same", "full")
_EDGES = {"fill": 0, "pad": 0, "wrap": 4, "circular": 4, "symm": 2, "symmetric": 2}


class Method(str):
    """"direct" or "fft", with the planner's reason; by_library: a plan computes it, which may transform, too."""

    reason: str
    by_library: bool

    def __new__(cls, name: str, reason: str, by_library: bool = True) -> Method:
        """The name and why."""
        method = super().__new__(cls, name)
        method.reason, method.by_library = reason, by_library
        return method


def _check_mode(mode: Any) -> None:
    if not isinstance(mode, str) or mode not in _MODES:
        raise ValueError("Acceptable mode flags are 'valid', 'same', or 'full'.")


def _swapped(mode: str, a: tuple[int, ...], b: tuple[int, ...], axes: Any = None) -> bool:
    """Whether a valid convolution needs the arrays in the other order."""
    if mode != "valid" or not a:
        return False
    pairs = [(a[i], b[i]) for i in (range(len(a)) if axes is None else axes)]
    if all(m >= n for m, n in pairs):
        return False
    if all(n >= m for m, n in pairs):
        return True
    raise ValueError("For 'valid' mode, one must be at least as large as the other in every dimension")


def _frame(mode: str, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(start in the full convolution, size) of a mode's result."""
    if mode == "full":
        return (0,) * len(a), tuple(m + n - 1 if m and n else 0 for m, n in zip(a, b))
    if mode == "same":
        return tuple((n - 1) // 2 for n in b), a
    return tuple(n - 1 for n in b), tuple(m - n + 1 for m, n in zip(a, b))


def _pair(in1: Any, in2: Any) -> tuple[Any, Any, Any, Any]:
    """(library, array, array, what results are like). GPUs compute real floats, numpy's arrays have all other types."""
    library, x, like = _arrays.place(in1)
    if like is None:
        other, h, like = _arrays.place(in2)
        if other is _arrays.Numpy:
            return other, x, h, like
        library, x = other, other.upload(x, h)
    h = _arrays.host(in2)
    if library is not _arrays.Numpy:
        dtype = np.result_type(library.type_of(x), h)
        library, x = (library, library.cast(x, dtype)) if dtype.char in "efd" else (_arrays.Numpy, library.host(x))
    return library, x, h, like


def _on_gpu(library: Any, x: Any, h: np.ndarray, mode: str, swap: bool) -> Any:
    """A convolution of real floats on a GPU. swap: h is the input and x the filter."""
    if swap:
        x, h = library.upload(h.astype(library.type_of(x)), x), library.host(x)
    return _sums(library, x, h, *_frame(mode, tuple(x.shape), h.shape))


def _sums(library: Any, x: Any, h: np.ndarray, start: tuple[Any, ...], size: tuple[int, ...], boundary: int = 0,
          value: Any = 0) -> Any:
    """As `part`, on the array's device."""
    if library is _arrays.Numpy:
        return part(x, h, start, size, boundary, value)
    dtype = np.float64 if library.type_of(x).itemsize == 8 else np.float32
    kernel = _convolution.kernel_of(h, start, dtype, boundary, float(value))
    return library.finish(apply(library, x, kernel, size, library.view(x).code), x)


@quick
def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """The convolution of two arrays of any number of axes; as scipy.signal.convolve.

    mode: "full", "valid" or "same" (as large as in1, centred). method: "direct", "fft" or "auto", the faster one.

    >>> from faltung import signal
    >>> signal.convolve([1, 2, 3], [0, 1, 1])
    array([0, 1, 3, 5, 3])
    """
    library, x, h, like = _pair(in1, in2)
    if x.ndim == h.ndim == 0:
        return x * h[()]
    if x.ndim != h.ndim:
        raise ValueError("volume and kernel should have the same dimensionality")
    swap = _swapped(mode, tuple(x.shape), h.shape)
    if library is not _arrays.Numpy:
        _check_mode(mode)
        return _on_gpu(library, x, h, mode, swap)
    if swap:
        x, h = h, x
    if method == "auto":
        method = "direct" if _choose(x, h, mode).by_library else "fft"
    if method == "fft":
        return _arrays.give(_by_fft(x, h, mode), like)
    if method != "direct":
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'.")
    _check_mode(mode)
    return _arrays.give(_direct(x, h, mode), like)


def _by_fft(x: np.ndarray, h: np.ndarray, mode: str) -> np.ndarray:
    dtype = np.result_type(x, h)
    out: np.ndarray = fftconvolve(x, h, mode)
    if dtype.kind in "iu":
        out = np.round(out)
    if not np.isfinite(out).all():
        warnings.warn("Use of fft convolution on input with NAN or inf results in NAN or inf output. Consider using "
                      "method='direct' instead.", RuntimeWarning, stacklevel=3)
    return out.astype(dtype)


def _direct(x: np.ndarray, h: np.ndarray, mode: str) -> np.ndarray:
    """By sums, with the smaller array as the filter."""
    if x.ndim == 1 and (x.size == 0 or h.size == 0):
        raise ValueError("in1 and in2 cannot be empty")
    start, size = _frame(mode, x.shape, h.shape)
    return part(h, x, start, size) if h.size > x.size else part(x, h, start, size)


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """The cross-correlation of two arrays; as scipy.signal.correlate. Complex in2 is conjugated.

    >>> from faltung import signal
    >>> signal.correlate([1, 2, 3], [0, 1, 1])
    array([1, 3, 5, 3, 0])
    """
    library, x, h, like = _pair(in1, in2)
    if x.ndim == h.ndim == 0:
        return x * h.conj()[()]
    if x.ndim != h.ndim:
        raise ValueError("in1 and in2 should have the same dimensionality")
    _check_mode(mode)
    if method not in ("auto", "direct", "fft"):
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'.")
    h = h[(slice(None, None, -1),) * h.ndim]
    return _arrays.give(convolve(x, h.conj() if h.dtype.kind == "c" else h, mode, method), like)


def correlation_lags(in1_len: int, in2_len: int, mode: str = "full") -> np.ndarray:
    """The lags of a correlation's results; as scipy.signal.correlation_lags.

    >>> from faltung import signal
    >>> signal.correlation_lags(4, 2)
    array([-1,  0,  1,  2,  3])
    """
    lags = np.arange(-in2_len + 1, in1_len)
    if mode == "full":
        return lags
    if mode == "same":
        begin = lags.size // 2 - in1_len // 2
        return lags[begin: begin + in1_len]
    if mode == "valid":
        bound = in1_len - in2_len
        return np.arange(bound + 1) if bound >= 0 else np.arange(bound, 1)
    raise ValueError(f"Mode {mode} is invalid")


@quick
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """Convolution in floating point; as scipy.signal.fftconvolve.

    By the library's plan (a sum, or transforms tile by tile) where that is predicted to be faster than numpy's transforms
    of the whole arrays.

    >>> from faltung import signal
    >>> signal.fftconvolve([1.0, 2, 3], [0, 1, 1]).round(12)
    array([0., 1., 3., 5., 3.])
    """
    return _spectral(in1, in2, mode, axes)


@quick
def oaconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """Convolution of a long array with a short one, in floating point; as scipy.signal.oaconvolve.

    By the library's plan where that is predicted to be faster than numpy's transforms.

    >>> from faltung import signal
    >>> signal.oaconvolve([1.0, 2, 3], [0, 1, 1]).round(12)
    array([0., 1., 3., 5., 3.])
    """
    return _spectral(in1, in2, mode, axes)


def _spectral(in1: Any, in2: Any, mode: str, axes: Any) -> Any:
    library, x, h, like = _pair(in1, in2)
    if x.ndim == h.ndim == 0:
        return x * h[()]
    if x.ndim != h.ndim:
        raise ValueError("in1 and in2 should have the same dimensionality")
    if 0 in x.shape or 0 in h.shape:
        return np.array([])
    if library is not _arrays.Numpy:
        return _on_gpu(library, x, h, mode, _swapped(mode, tuple(x.shape), h.shape))
    if mode not in _MODES:
        raise ValueError("acceptable mode flags are 'valid', 'same', or 'full'")
    x, h, axes = _axes(x, h, mode, axes)
    if not axes:
        return _arrays.give(_centred(x * h, x.shape, h.shape, mode, axes), like)
    floats = np.result_type(x, h, np.float32 if np.result_type(x, h).kind in "fc" else np.float64)
    if all(h.shape[a] == 1 for a in range(h.ndim) if a not in axes) and floats.itemsize <= 16 and \
            floats.char not in "gG" and _sums_are_faster(x, h):
        start, size = _frame(mode, x.shape, h.shape)
        fixed = [a for a in range(x.ndim) if a not in axes]
        start = tuple(0 if a in fixed else s for a, s in enumerate(start))
        size = tuple(x.shape[a] if a in fixed else n for a, n in enumerate(size))
        return _arrays.give(part(x.astype(floats), h.astype(floats), start, size), like)
    full = by_fourier(x, h, axes)
    return _arrays.give(_centred(full, x.shape, h.shape, mode, axes), like)


def _sums_are_faster(x: np.ndarray, h: np.ndarray) -> bool:
    is_complex = np.result_type(x, h).kind == "c"
    seconds, _ = _convolution.direct_seconds(x.shape, h.shape, np.result_type(x, h).itemsize > 4)
    return seconds * (4 if is_complex else 1) < _convolution.fourier_seconds(x.shape, h.shape, is_complex)


def _axes(x: np.ndarray, h: np.ndarray, mode: str, axes: Any) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """The arrays in order and the axes that are convolved: those along which both have more than one element."""
    if axes is None:
        found = list(range(x.ndim))
    else:
        try:
            given = [operator.index(a) for a in (axes if np.iterable(axes) else [axes])]
        except TypeError:
            raise ValueError("axes must be a scalar or iterable of integers") from None
        if not given:
            raise ValueError("when provided, axes cannot be empty")
        if any(not -x.ndim <= a < x.ndim for a in given):
            raise ValueError("axes exceeds dimensionality of input")
        found = [a % x.ndim for a in given]
        if len(set(found)) != len(found):
            raise ValueError("all axes must be unique")
    found = [a for a in found if x.shape[a] != 1 and h.shape[a] != 1]
    if any(x.shape[a] != h.shape[a] and 1 not in (x.shape[a], h.shape[a]) for a in range(x.ndim) if a not in found):
        raise ValueError(f"incompatible shapes for in1 and in2: {x.shape} and {h.shape}")
    if _swapped(mode, x.shape, h.shape, found):
        x, h = h, x
    return x, h, found


def _centred(full: np.ndarray, a: tuple[int, ...], b: tuple[int, ...], mode: str, axes: list[int]) -> np.ndarray:
    if mode == "full":
        return full
    sizes = [full.shape[i] if i not in axes and mode == "valid" else a[i] if mode == "same" else a[i] - b[i] + 1
             for i in range(full.ndim)]
    begins = [(n - m) // 2 for n, m in zip(full.shape, sizes)]
    return full[tuple(slice(s, s + m) for s, m in zip(begins, sizes))].copy()


def _choose(x: np.ndarray, h: np.ndarray, mode: str) -> Method:
    dtype = np.result_type(x, h)
    if dtype.kind not in "iufc" or dtype.char in "gG" or 0 in (x.size, h.size):
        return Method("direct", f"transforms do not compute {dtype}" if x.size and h.size else "an array is empty")
    if x.dtype.kind in "iu" or h.dtype.kind in "iu":
        with np.errstate(invalid="ignore"):
            most = np.prod([float(np.abs(a).max()) for a in (x, h)]) * min(x.size, h.size)
        if most > 2**51:
            return Method("direct", f"sums up to {most:.1e} are not exact in transforms")
    if mode not in _MODES:
        raise ValueError(f"Acceptable mode flags are 'valid', 'same', or 'full', not mode={mode}")
    small, large = sorted((x.shape, h.shape), key=np.prod)
    is_complex = dtype.kind == "c"
    sums, solver = _convolution.direct_seconds(large, small, dtype.char not in "efF")
    sums *= 4 if is_complex else 1
    transforms = _convolution.fourier_seconds(large, small, is_complex)
    reason = f"{solver} takes {sums * 1e6:.0f} us, numpy's transforms {transforms * 1e6:.0f} us (predicted)"
    return Method("direct" if sums <= transforms and "fft" not in solver else "fft", reason, sums <= transforms)


def choose_conv_method(in1: Any, in2: Any, mode: str = "full", measure: bool = False) -> Any:
    """"direct" or "fft", whichever is faster here; as scipy.signal.choose_conv_method. Its `reason` is the planner's.

    measure: both are timed, and their times are returned too, in a dict.

    >>> import numpy
    >>> from faltung import signal
    >>> method = signal.choose_conv_method(numpy.ones(1000), numpy.ones(9))
    >>> method, "takes" in method.reason
    ('direct', True)
    """
    _, x, h, _ = _pair(in1, in2)
    if not measure:
        return _choose(x, h, mode)
    times = {}
    for method in ("fft", "direct"):
        timer = timeit.Timer(functools.partial(convolve, x, h, mode, method))
        count, _ = timer.autorange() if x.size * h.size < 1 << 24 else (1, 0)
        times[method] = min(timer.repeat(3, max(count // 10, 1))) / max(count // 10, 1)
    name = min(times, key=times.__getitem__)
    reason = f"measured: the library's plan {times['direct'] * 1e6:.0f} us, numpy's transforms {times['fft'] * 1e6:.0f} us"
    return Method(name, reason), times


def _plane(in1: Any, in2: Any, mode: Any, boundary: Any, fillvalue: Any, name: str) -> tuple[Any, ...]:
    """(library, array, array, likeness of results, are they swapped, boundary, constant) of a function of two axes."""
    library, x, h, like = _pair(in1, in2)
    if not x.ndim == h.ndim == 2:
        raise ValueError(f"{name} inputs must both be 2-D arrays")
    swap = _swapped(mode, tuple(x.shape), h.shape)
    _check_mode(mode)
    if boundary not in _EDGES:
        raise ValueError("Acceptable boundary flags are 'fill', 'circular' (or 'wrap'), and 'symmetric' (or 'symm').")
    if np.size(fillvalue) != 1:
        raise ValueError("`fillvalue` must be scalar or an array with one element.")
    value = np.asarray(fillvalue).reshape(()).item()
    dtype = np.result_type(library.type_of(x), h)
    if isinstance(value, complex) and dtype.kind != "c":
        raise ValueError("could not cast `fillvalue` directly to the output type: it is complex")
    try:
        value = np.array(value).astype(dtype).item() if dtype.kind != "O" else value
    except (TypeError, ValueError):
        raise ValueError("could not cast `fillvalue` directly to the output type") from None
    if 0 in x.shape or 0 in h.shape:
        raise ValueError("in1 and in2 cannot be empty")
    if swap:  # by the CPU; the result goes back
        library, x = _arrays.Numpy, library.host(x)
    return (library, *((h, x) if swap else (x, h)), like, swap, _EDGES[boundary], value)


@quick
def convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    """The convolution of two images; as scipy.signal.convolve2d. boundary: "fill" (fillvalue), "wrap" or "symm".

    >>> from faltung import signal
    >>> signal.convolve2d([[1, 2], [3, 4]], [[1, 1]], boundary="symm")
    array([[2, 3, 4],
           [6, 7, 8]])
    """
    library, x, h, like, _, edge, value = _plane(in1, in2, mode, boundary, fillvalue, "convolve2d")
    start, size = _frame(mode, tuple(x.shape), h.shape)
    return _arrays.give(_sums(library, x, h, start, size, edge, value), like)


@quick
def correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    """The cross-correlation of two images; as scipy.signal.correlate2d. Complex in2 is conjugated.

    >>> from faltung import signal
    >>> signal.correlate2d([[1, 2], [3, 4]], [[1, 0]], mode="same")
    array([[1, 2],
           [3, 4]])
    """
    library, x, h, like, swapped, edge, value = _plane(in1, in2, mode, boundary, fillvalue, "correlate2d")
    start, size = _frame(mode, tuple(x.shape), h.shape)
    if mode == "same":
        start = tuple(k // 2 for k in h.shape)
    h = h[::-1, ::-1].conj() if h.dtype.kind == "c" else h[::-1, ::-1]
    out = _sums(library, x, h, start, size, edge, value)
    return _arrays.give(out[::-1, ::-1] if swapped else out, like)
