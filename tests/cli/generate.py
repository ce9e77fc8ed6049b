#!/usr/bin/env python3
"""Makes tests/cli/data and tests/cli/golden.case from NumPy, SciPy and OpenCV. All values are integers, so that every
order of summation gives the same bytes."""
import os

import cv2
import numpy as np
import scipy.ndimage as nd
import scipy.signal as sg

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(20240521)
cases = []


def save(name, array):
    np.save(f"{HERE}/data/{name}.npy", np.ascontiguousarray(array))


def literal(kernel):
    if kernel.ndim == 1:
        return " ".join(str(v) for v in kernel)
    return ("; " if kernel.ndim == 2 else " / ").join(literal(part) for part in kernel)


def case(name, verb, source, golden, kernel, *options, bands=True):
    save(name, golden)
    words = [f'"$DATA/{source}.npy"', "o.npy", "--kernel", f"'{kernel}'", *options]
    cases.append(f"check golden-{name} 0 same o.npy {name}.npy -- {verb} {' '.join(words)}")
    if bands:
        cases.append(f"check golden-{name}-bands 0 same o.npy {name}.npy -- {verb} {' '.join(words)} --band-rows 2")


grey = rng.integers(0, 256, (13, 17), dtype=np.uint8)
rgb = rng.integers(0, 256, (9, 11, 3), dtype=np.uint8)
signal = rng.integers(-300, 300, 50).astype(np.int16)
volume = rng.integers(-100, 100, (5, 6, 7)).astype(np.int16)
for name, array in {"grey": grey, "rgb": rgb, "signal": signal, "volume": volume}.items():
    save(name, array)

# Boundaries, both verbs, in one, two and three dimensions, with sides of even and odd length.
MODES = {"symmetric": "reflect", "edge": "nearest", "reflect101": "mirror", "wrap": "wrap", "constant=7": "constant"}
for source, array, size in (("signal", signal, (6,)), ("grey", grey, (4, 3)), ("volume", volume, (2, 3, 4))):
    kernel = rng.integers(-4, 5, size)
    if source == "grey":
        save("kernel2", kernel.astype(np.float32))
    space = f"--space {len(size)}"
    for ours, theirs in MODES.items():
        for verb in ("correlate", "convolve"):
            golden = getattr(nd, verb)(array.astype(np.int64), kernel, mode=theirs, cval=7).astype(np.int32)
            case(f"{verb}-{source}-{ours.split('=')[0]}", verb, source, golden, literal(kernel), space,
                 f"--boundary {ours}", "--out-type s32")

kernel = rng.integers(-4, 5, (5, 2))
for verb in ("correlate", "convolve"):
    golden = getattr(nd, verb)(grey.astype(np.int64), kernel, origin=(-2, -1)).astype(np.int32)
    case(f"{verb}-origin", verb, "grey", golden, literal(kernel), "--origin y=-2,x=-1", "--out-type s32")
case("kernel-larger", "correlate", "grey",
     nd.correlate(grey.astype(np.int64), np.ones((31, 41), int), mode="mirror").astype(np.int32),
     literal(np.ones((31, 41), int)), "--boundary reflect101", "--out-type s32")

# Named kernels.
wide = grey.astype(np.int32)
for axis, letter in enumerate("yx"):
    for name in ("sobel", "prewitt"):
        case(f"{name}-{letter}", "correlate", "grey", getattr(nd, name)(wide, axis), f"{name}:{letter}", "--out-type s32")
    d = (1, 0) if letter == "x" else (0, 1)
    scharr = cv2.Scharr(grey, cv2.CV_16S, *d)
    case(f"scharr-{letter}", "correlate", "grey", scharr, f"scharr:{letter}", "--dialect opencv", "--out-type s16")
    sobel = cv2.Sobel(grey, cv2.CV_16S, *d)
    case(f"opencv-sobel-{letter}", "correlate", "grey", sobel, f"sobel:{letter}", "--dialect opencv", "--out-type s16")
for axis, letter in enumerate("zyx"):
    case(f"sobel-3d-{letter}", "correlate", "volume", nd.sobel(volume.astype(np.int32), axis), f"sobel:{letter}",
         "--space 3", "--out-type s32")
case("laplace", "correlate", "grey", nd.laplace(wide), "laplace", "--out-type s32")
case("laplace-3d", "correlate", "volume", nd.laplace(volume.astype(np.int32)), "laplace", "--space 3", "--out-type s32")
case("laplace-opencv", "correlate", "grey", cv2.Laplacian(grey, cv2.CV_16S), "laplace", "--boundary reflect101",
     "--out-type s16")
identity_minus_laplace = np.clip(wide - nd.laplace(wide), 0, 255).astype(np.uint8)
case("sharpen-saturates", "correlate", "grey", identity_minus_laplace, "sharpen")


def rounded(values):
    """Nearest, where no value is so near to a half that single precision could decide otherwise."""
    assert np.abs(np.abs(values - np.floor(values)) - 0.5).min() > 1e-4
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


real = grey.astype(np.float64)
case("gaussian", "correlate", "grey", rounded(nd.gaussian_filter(real, 1.5)), "gaussian:1.5")
case("gaussian-truncate", "correlate", "grey", rounded(nd.gaussian_filter(real, 1.8, truncate=2)), "gaussian:1.8,2")
case("log", "correlate", "grey", rounded(nd.gaussian_laplace(real, 1.2) + 128), "log:1.2", "--beta 128")
case("box", "correlate", "grey", rounded(nd.uniform_filter(real, (3, 5))), "box:3x5")
case("unsharp", "correlate", "grey", rounded(real + 0.7 * (real - nd.gaussian_filter(real, 1))), "unsharp:1,0.7")
case("normalize", "correlate", "grey", rounded(nd.correlate(real, np.array([[1, 2], [3, 1]]) / 7)), "1 2; 3 1",
     "--normalize")
case("gaussian-rgb", "correlate", "rgb", rounded(nd.gaussian_filter(rgb.astype(np.float64), (1.1, 1.1, 0))), "gaussian:1.1")
case("emboss", "correlate", "grey",
     np.clip(nd.correlate(wide, np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])), 0, 255).astype(np.uint8), "emboss")
case("motion-along-x", "correlate", "grey", rounded(nd.uniform_filter(real, (1, 7))), "motion:7")
case("motion-along-y", "correlate", "grey", rounded(nd.uniform_filter(real, (3, 1))), "motion:3,90")
# Length 3 at 45 degrees: up and to the right. Each pixel weighs 1 less its distance from the segment.
aside, end = 1 - np.sqrt(0.5), 2 - np.sqrt(2)
slope = np.array([[0, aside, end], [aside, 1, aside], [end, aside, 0]])
case("motion-slope", "correlate", "grey", rounded(nd.correlate(real, slope / slope.sum())), "motion:3,45")
even = rng.integers(-3, 4, (4, 6))
case("opencv-filter2d", "correlate", "grey",
     cv2.filter2D(grey, cv2.CV_16S, even.astype(np.float32), borderType=cv2.BORDER_REFLECT_101), literal(even),
     "--boundary reflect --dialect numpy", "--out-type s16")
case("opencv-anchor", "correlate", "grey",
     cv2.filter2D(grey, cv2.CV_16S, even.astype(np.float32), anchor=(4, 1), borderType=cv2.BORDER_REPLICATE), literal(even),
     "--boundary replicate --anchor y=1,x=4", "--out-type s16")

# Modes, strides, dilation.
long = signal.astype(np.int64)
taps = rng.integers(-4, 5, 5)
for mode in ("full", "valid"):
    case(f"numpy-{mode}", "convolve", "signal", np.convolve(long, taps, mode).astype(np.int32), literal(taps),
         f"--mode {mode}", "--out-type s32")
    case(f"signal-{mode}", "convolve", "grey", sg.convolve2d(wide, even, mode).astype(np.int32), literal(even),
         f"--mode {mode}", "--out-type s32")
case("stride", "correlate", "grey", nd.correlate(wide, even.astype(np.int32), mode="nearest")[::3, ::2], literal(even),
     "--boundary edge --stride 3x2", "--out-type s32")
dilated = np.zeros((4, 7), np.int32)
dilated[::3, ::2] = even[:2, :4]
case("dilation", "correlate", "grey", sg.correlate2d(wide, dilated, "valid"), literal(even[:2, :4]),
     "--dilation y=3,x=2 --mode valid", "--out-type s32")
half = np.array([[1, 3, 5, 7, -1, -3]], np.int16)
save("halves", half)
case("ties-to-even", "correlate", "halves", np.array([[0, 2, 2, 4, 0, -2]], np.int16), "1/2", bands=False)
case("saturate", "correlate", "signal", np.clip(long, -128, 127).astype(np.int8), "identity", "--out-type s8")
case("alpha-beta", "correlate", "signal", (3 * long - 7).astype(np.int16), "identity", "--alpha 3 --beta -7")

# The textbook's values: boundary zero, correlation.
BOOK = [("1 2 3 4 5 6 7", "3 4 5 4 3", [22, 38, 57, 76, 95, 90, 74]), ("8 2 5 4 1 7 3", "1 3 5 3 1", None),
        ("4 1 3 2 3", "2 1 4", [8, 21, 13, 20, 7])]
for i, (x, w, y) in enumerate(BOOK):
    x, kernel = np.array(x.split(), np.int32), np.array(w.split(), np.int32)
    golden = nd.correlate(x, kernel, mode="constant")
    assert y is None or list(golden) == y
    assert i != 1 or golden[0] == 51
    save(f"book{i}", x)
    if i == 0:
        save("kernel", kernel.astype(np.int16))
    case(f"textbook-{i}", "correlate", f"book{i}", golden, w, "--boundary constant")

with open(f"{HERE}/golden.case", "w") as file:
    file.write("# Made by generate.py from NumPy, SciPy and OpenCV.\n" + "\n".join(cases) + "\n")
