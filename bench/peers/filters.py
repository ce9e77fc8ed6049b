"""Peers for filters on the CPU. Each function yields its library's implementations of the problem, if there are any."""
import numpy as np

PLAIN = set("d h w t r s pixel boundary value type rank filter max-workspace method deterministic".split())


def is_plain(p):
    """A filter as all libraries have it: centred, output like the input, one boundary on all sides, no epilogue."""
    return p.is_filter and set(p.words) <= PLAIN and p.result.dtype.kind in "iuf" and p.boundary in BORDERS


BORDERS = {"constant": (0, "constant"), "edge": (1, "nearest"), "symmetric": (2, "reflect"),
           "reflect101": (4, "mirror"), "wrap": (None, "wrap")}  # OpenCV's number and SciPy's name


def gaussian_sigma(p):
    """The sigma if the kernel is a Gaussian, for which libraries have a function of its own."""
    if not (p.kernel or "").startswith("gaussian:"):
        return None
    return float(p.kernel[len("gaussian:"):].split(",")[0])


def is_box(p):
    """Whether all taps are one number, for which libraries have a function of its own."""
    return (p.kernel or "").startswith("box:")


def correlation_taps(p):
    """The taps as a correlation applies them."""
    taps = p.spatial_taps()
    return np.ascontiguousarray(taps[(slice(None, None, -1),) * p.space] if p.verb == "convolve" else taps)


def opencv(modules, p, Peer):
    cv2 = modules["opencv"]
    if not (cv2 and is_plain(p) and p.space == 2 and BORDERS[p.boundary][0] is not None and not p.has("value")):
        return
    x = np.ascontiguousarray(p.spatial("input"))
    if x.dtype.name not in ("uint8", "int16", "uint16", "float32", "float64"):
        return
    border, sigma, taps, out = BORDERS[p.boundary][0], gaussian_sigma(p), correlation_taps(p), np.empty_like(x)
    if sigma:
        yield Peer("opencv", "opencv GaussianBlur", cv2.__version__, lambda: cv2.GaussianBlur(
            x, taps.shape[::-1], sigma, dst=out, sigmaY=sigma, borderType=border))
    elif is_box(p):
        yield Peer("opencv", "opencv blur", cv2.__version__, lambda: cv2.blur(
            x, taps.shape[::-1], dst=out, borderType=border))
    else:
        taps = taps.astype(np.float64 if x.dtype == np.float64 else np.float32)
        yield Peer("opencv", "opencv filter2D", cv2.__version__, lambda: cv2.filter2D(
            x, -1, taps, dst=out, borderType=border))


def scipy_ndimage(modules, p, Peer):
    if not (modules["scipy"] and is_plain(p)):
        return
    import scipy.ndimage as ndimage
    x, taps, sigma = np.ascontiguousarray(p.spatial("input")), p.spatial_taps(), gaussian_sigma(p)
    mode, cval, out = BORDERS[p.boundary][1], float(p.words.get("value", 0)), np.empty_like(x)
    version = modules["scipy"].__version__
    if sigma:
        radius, axes = [(size - 1) // 2 for size in taps.shape], tuple(range(p.space))
        yield Peer("scipy", "scipy.ndimage.gaussian_filter", version, lambda: ndimage.gaussian_filter(
            x, sigma, output=out, mode=mode, cval=cval, radius=radius, axes=axes))
    elif is_box(p) and x.dtype.kind == "f":  # integers are rounded between its passes
        yield Peer("scipy", "scipy.ndimage.uniform_filter", version, lambda: ndimage.uniform_filter(
            x, taps.shape, output=out, mode=mode, cval=cval, axes=tuple(range(p.space))))
    else:
        function = getattr(ndimage, p.verb)
        if p.has("pixel"):  # a filter for every channel: an axis of one tap
            taps = taps[..., np.newaxis]
        yield Peer("scipy", f"scipy.ndimage.{p.verb}", version, lambda: function(
            x, taps, output=out, mode=mode, cval=cval))


def scipy_signal(modules, p, Peer):
    """Convolution by FFT, in blocks, for filters that are large enough; the border is zero whatever was asked for."""
    taps = p.spatial_taps() if modules["scipy"] and is_plain(p) else None
    if taps is None or taps.size < 25 or any(size % 2 == 0 for size in taps.shape) or p.has("pixel"):
        return
    if p.result.dtype.name not in ("float32", "float64"):
        return
    import scipy.signal as signal
    x = np.ascontiguousarray(p.spatial("input"))
    flipped = np.ascontiguousarray(correlation_taps(p)[(slice(None, None, -1),) * p.space])
    yield Peer("scipy", "scipy.signal.oaconvolve", modules["scipy"].__version__,
               lambda: signal.oaconvolve(x, flipped, mode="same"))


def fftw(modules, p, Peer):
    """Overlap-save of long signals in single precision, zero beyond the ends."""
    if not (modules["fftw"] and is_plain(p) and p.space == 1 and p.boundary == "constant") or p.has("pixel", "value"):
        return
    x, taps = np.ascontiguousarray(p.spatial("input")), correlation_taps(p)
    if x.dtype == np.float32 and taps.size >= 64 and taps.size % 2 and taps.size < x.size:
        yield Peer("fftw", "fftw overlap-save", modules["fftw"].__version__, modules["fftw"].correlation(x, taps))


def numpy_convolve(modules, p, Peer):
    if not (is_plain(p) and p.space == 1 and p.boundary == "constant") or p.has("pixel", "value"):
        return
    x, taps = np.ascontiguousarray(p.spatial("input")), p.spatial_taps()
    taps = np.ascontiguousarray(taps if p.verb == "convolve" else taps[::-1])
    if taps.size % 2 and x.dtype.kind == "f":
        yield Peer("numpy", "numpy.convolve", np.__version__, lambda: np.convolve(x, taps, "same"))


def torch_filter(modules, p, Peer):
    """A layer with one channel, one an axis for Gaussians; the border is zero whatever was asked for."""
    torch = modules["torch"]
    if not (torch and is_plain(p)) or p.has("pixel") or p.result.dtype.name not in ("float32", "float64"):
        return
    taps = correlation_taps(p)
    if any(size % 2 == 0 for size in taps.shape):
        return
    x, name = torch.from_numpy(np.ascontiguousarray(p.spatial("input")))[None, None], f"conv{p.space}d"
    function, passes = getattr(torch.nn.functional, name), [torch.from_numpy(taps)[None, None]]
    if gaussian_sigma(p) and p.space > 1:  # its sum is 1, so the sums over the other axes are the factors
        others = [[other + 2 for other in range(p.space) if other != axis] for axis in range(p.space)]
        passes, name = [passes[0].sum(axes, keepdim=True) for axes in others], name + " by axes"

    def run():
        with torch.inference_mode():
            result = x
            for w in passes:
                result = function(result, w, padding=[size // 2 for size in w.shape[2:]])
            return result

    yield Peer("torch", f"torch {name}", torch.__version__, run)


PEERS = (opencv, scipy_ndimage, scipy_signal, fftw, numpy_convolve, torch_filter)
