"""Peers for filters on a GPU. Each function yields its library's implementations of the problem, if there are any.

All of them read the same array and, if the library accepts an output array, write to an existing one."""
import ctypes

import numpy as np

from libraries_gpu import Array, cudnn_version
from filters import BORDERS, PLAIN, correlation_taps, gaussian_sigma, is_box
from npp import MASKS, TYPES, Point, Size

SPREAD = set("n c stride dilation".split())
MOST_DENSE_BOX = 1024  # taps
FFT_TAPS = 121


def is_plain(p):
    """A centred filter with the same boundary on all sides, on one plane or several, and without an epilogue."""
    return (p.is_filter and set(p.words) <= PLAIN | SPREAD and p.boundary in BORDERS and p.result.dtype.kind in "iuf"
            and all(size % 2 for size in p.taps()))


def arrays(modules, p):
    """The input and an output on the GPU, shared by all peers of a problem."""
    if not hasattr(p, "on_gpu"):
        x, y = p.spatial("input"), p.spatial("output")
        p.on_gpu = Array.of(modules["driver"], x), Array(modules["driver"], y.shape, y.dtype)
    return p.on_gpu


def spread_taps(p):
    """The taps as a correlation applies them, with the zeros that dilation means."""
    taps, dilation = correlation_taps(p), p.axes("dilation", 1)
    spread = np.zeros([(size - 1) * step + 1 for size, step in zip(taps.shape, dilation)], taps.dtype)
    spread[tuple(slice(None, None, step) for step in dilation)] = taps
    return spread


def has_stride(p):
    return max(p.axes("stride", 1)) > 1


def device_copy(modules, p, Peer):
    """The limit, run: as many bytes as the problem reads and writes."""
    if not is_plain(p):
        return
    driver, (x, out) = modules["driver"], arrays(modules, p)
    nbytes = min((x.nbytes + out.nbytes) // 2, x.nbytes)
    target = Array(driver, [nbytes], np.uint8)
    yield Peer("copy", "device copy", driver.version(), lambda: driver.copy(target, x, nbytes), compared=True)


# ---- NPP

def is_long_box(p):
    """Whether it is a box that takes a dense filter seconds."""
    return is_box(p) and spread_taps(p).size > MOST_DENSE_BOX


def npp_filter(modules, p, Peer):
    npp = modules["npp"]
    if not (npp and is_plain(p)) or p.space > 2 or has_stride(p) or p.planes() > 4 or p.number("pixel") == 2:
        return
    letters = TYPES.get(p.result.dtype.name)
    if not letters:
        return
    x, out = arrays(modules, p)
    taps = spread_taps(p).astype(np.float32)
    reverse = np.ascontiguousarray(taps[(slice(None, None, -1),) * p.space])  # as NPP stores coefficients
    form = f"{letters}_C{p.number('pixel')}R"

    image = Size(p.number("w"), p.number("h"))
    pixel_bytes = p.number("pixel") * x.dtype.itemsize

    def peer(name, *middle, compared=False):
        calls = [npp.bind(name, x, out, image, pixel_bytes, plane, *middle) for plane in range(p.planes())]

        def run():
            for call in calls:
                call()
            return out

        return Peer("npp", name, npp.__version__, run, lambda result: result.read(), compared=compared)

    kind = "" if letters == "32f" else "32f"
    if p.space == 1:
        yield peer(f"nppiFilterRowBorder{kind}_{form}", Array.of(modules["driver"], reverse),
                   ctypes.c_int(reverse.size), ctypes.c_int(reverse.size // 2))
        return
    if gaussian_sigma(p) and taps.shape[0] == taps.shape[1]:
        yield peer(f"nppiFilterGaussAdvancedBorder_{form}", ctypes.c_int(taps.shape[0]),
                   Array.of(modules["driver"], reverse.sum(0)))
        if taps.shape[0] in MASKS:  # a Gaussian with taps of its own: the same work, another result
            yield peer(f"nppiFilterGaussBorder_{form}", ctypes.c_int(MASKS[taps.shape[0]]), compared=True)
    height, width = reverse.shape
    if is_box(p):
        yield peer(f"nppiFilterBoxBorder_{form}", Size(width, height), Point(width // 2, height // 2))
    if is_long_box(p):
        return
    yield peer(f"nppiFilterBorder{kind}_{form}", Array.of(modules["driver"], reverse), Size(width, height),
               Point(width // 2, height // 2))


# ---- CuPy

def cupy_arrays(modules, p):
    cupy = modules["cupy"]
    return [cupy.asarray(array) for array in arrays(modules, p)]


def per_plane(p, values, filler):
    """Values of the axes of space, with filler for the axes of planes and pixels."""
    return (filler,) * p.has_planes() + tuple(values) + (filler,) * p.has("pixel")


def cupy_ndimage(modules, p, Peer):
    cupy = modules["cupy"]
    if not (cupy and is_plain(p)) or has_stride(p):
        return
    import cupyx.scipy.ndimage as ndimage
    (x, out), sigma = cupy_arrays(modules, p), gaussian_sigma(p)
    mode, cval, taps = BORDERS[p.boundary][1], float(p.words.get("value", 0)), spread_taps(p)
    finish = lambda result: out.get()
    if sigma:
        sigmas, truncate = per_plane(p, [sigma] * p.space, 0), (taps.shape[-1] // 2) / sigma
        yield Peer("cupy", "cupyx gaussian_filter", cupy.__version__, lambda: ndimage.gaussian_filter(
            x, sigmas, output=out, mode=mode, cval=cval, truncate=truncate), finish)
        return
    if is_box(p) and x.dtype.kind == "f":  # integers are rounded between its passes
        yield Peer("cupy", "cupyx uniform_filter", cupy.__version__, lambda: ndimage.uniform_filter(
            x, per_plane(p, taps.shape, 1), output=out, mode=mode, cval=cval), finish)
    if is_box(p):
        return
    weights = cupy.asarray(taps.reshape(per_plane(p, taps.shape, 1)))
    if p.space == 1 and x.ndim == 1:
        yield Peer("cupy", "cupyx correlate1d", cupy.__version__, lambda: ndimage.correlate1d(
            x, weights, output=out, mode=mode, cval=cval), finish)
    else:
        yield Peer("cupy", "cupyx correlate", cupy.__version__, lambda: ndimage.correlate(
            x, weights, output=out, mode=mode, cval=cval), finish)


def cupy_signal(modules, p, Peer):
    """Convolution by cuFFT for filters that are large enough; the border is zero whatever was asked for."""
    cupy = modules["cupy"]
    if not (cupy and is_plain(p)) or has_stride(p) or p.has("pixel") or p.has_planes():
        return
    taps = spread_taps(p)
    if taps.size < FFT_TAPS or p.result.dtype.name not in ("float32", "float64"):
        return
    import cupyx.scipy.signal as signal
    x = cupy_arrays(modules, p)[0]
    flipped = cupy.asarray(np.ascontiguousarray(taps[(slice(None, None, -1),) * p.space]))
    for function in (signal.fftconvolve, signal.oaconvolve):
        yield Peer("cupy", f"cupyx {function.__name__}", cupy.__version__,
                   lambda function=function: function(x, flipped, mode="same"), lambda result: result.get())


# ---- cuDNN

def cudnn_conv(modules, p, Peer):
    """A layer with one channel, one an axis for Gaussians; the border is zero whatever was asked for."""
    torch = modules["cudnn"]
    if is_long_box(p) or not (torch and is_plain(p)) or p.has("pixel") or p.result.dtype.name not in ("float16", "float32", "float64"):
        return
    on_gpu = lambda array: torch.as_tensor(array, device=f"cuda:{modules['driver'].ordinal}")
    x, taps = on_gpu(arrays(modules, p)[0]), correlation_taps(p)
    x = x.reshape(p.planes(), 1, *x.shape[p.has_planes():])
    function, name = getattr(torch.nn.functional, f"conv{p.space}d"), f"cudnn conv{p.space}d"
    passes = [on_gpu(taps)[None, None]]
    if gaussian_sigma(p) and p.space > 1:  # its sum is 1, so the sums over the other axes are the factors
        others = [tuple(other for other in range(p.space) if other != axis) for axis in range(p.space)]
        passes, name = [on_gpu(taps.sum(axes, keepdims=True))[None, None] for axes in others], name + " by axes"
    stride, dilation = p.axes("stride", 1), p.axes("dilation", 1)

    def run():
        with torch.inference_mode():
            result = x
            for w in passes:
                padding = [size // 2 * step for size, step in zip(w.shape[2:], dilation)]
                result = function(result, w, stride=stride, padding=padding, dilation=dilation)
            return result

    yield Peer("cudnn", name, cudnn_version(torch), run, lambda result: result.cpu().numpy())


PEERS = (device_copy, npp_filter, cupy_ndimage, cupy_signal, cudnn_conv)
