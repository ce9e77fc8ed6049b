#!/usr/bin/env python3
"""Writes the goldens in tests/data: what scipy.ndimage, scipy.signal, numpy and torch compute for small problems.

A case is a few lines of text: the problem line, then one line for each operand in the order of its memory:

    problem correlate h=5 w=4 r=3 s=2 boundary=edge type=f64
    input 3 -1 2 ...
    filter 1 0 -2 ...
    output 7 ...

Integer data wherever possible, so that the values are exact and short. tests/solver/test_golden.c runs every solver on them.
Needs numpy, scipy and torch; run: python tests/golden/generate.py
"""
import itertools
import os
import sys

import numpy as np
import scipy
import scipy.ndimage as ndi
import scipy.signal as sig

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
rng = np.random.default_rng(20240229)
MODES = {"constant": "constant", "edge": "nearest", "symmetric": "reflect", "reflect101": "mirror", "wrap": "wrap"}
DATA_WORDS, TAP_WORDS = "dhw", "trs"


def ints(shape, low=-9, high=10):
    return rng.integers(low, high, size=shape).astype(np.float64)


def words(letters, values):
    return " ".join(f"{letter}={value}" for letter, value in zip(letters, values))


def number(value):
    value = float(value)
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


class Writer:
    def __init__(self, name, head):
        self.file = open(os.path.join(HERE, name), "w")
        self.file.write(f"# {head}\n")
        self.count = 0

    def case(self, line, **operands):
        self.file.write(f"problem {line}\n")
        for name, values in operands.items():
            if values is not None:
                self.file.write(f"{name} {' '.join(number(v) for v in np.asarray(values).ravel())}\n")
        self.count += 1

    def close(self):
        self.file.close()
        print(f"{self.file.name}: {self.count} cases")


def ndimage():
    out = Writer("golden-scipy.txt", f"scipy {scipy.__version__}: ndimage.correlate, ndimage.convolve, signal.convolve")
    shapes = {
        1: [((9,), (3,)), ((8,), (4,)), ((3,), (7,)), ((1,), (3,)), ((2,), (5,)), ((4,), (1,))],
        2: [((5, 6), (3, 3)), ((6, 5), (2, 4)), ((4, 3), (5, 7)), ((1, 5), (3, 3)), ((5, 1), (2, 3)), ((1, 1), (3, 4))],
        3: [((3, 4, 5), (3, 3, 3)), ((4, 3, 2), (2, 3, 4)), ((1, 3, 2), (3, 1, 5)), ((2, 2, 2), (5, 3, 4))],
    }
    for ndim, verb, (name, mode) in itertools.product(shapes, ("correlate", "convolve"), MODES.items()):
        for shape, taps in shapes[ndim]:
            x, w = ints(shape), ints(taps, -4, 5)
            value = 3 if name == "constant" else 0
            base = f"{verb} {words(DATA_WORDS[-ndim:], shape)} {words(TAP_WORDS[-ndim:], taps)} type=f64 boundary={name}"
            if value:
                base += f" value={value}"
            function = getattr(ndi, verb)
            out.case(base, input=x, filter=w, output=function(x, w, mode=mode, cval=value))
            origin = [int(rng.integers(-(k // 2), (k - 1) // 2 + 1)) for k in taps]
            if any(origin):
                y = function(x, w, mode=mode, cval=value, origin=origin)
                out.case(f"{base} origin={'x'.join(map(str, origin))}", input=x, filter=w, output=y)
        # mixed boundaries, one an axis, by extending the input explicitly and keeping the middle
        if ndim == 2:
            x, w = ints((5, 4)), ints((3, 5), -4, 5)
            pad = {"constant": ("constant", {"constant_values": 3}), "edge": ("edge", {}), "symmetric": ("symmetric", {}),
                   "reflect101": ("reflect", {}), "wrap": ("wrap", {})}
            wide = np.pad(x, ((0, 0), (2, 2)), pad[name][0], **pad[name][1])
            wide = np.pad(wide, ((1, 1), (0, 0)), "edge")
            function = sig.correlate2d if verb == "correlate" else sig.convolve2d
            out.case(f"{verb} h=5 w=4 r=3 s=5 type=f64 boundary=y=edge,x={name}" + (" value=3" if name == "constant" else ""),
                     input=x, filter=w, output=function(wide, w, "valid"))
    for ndim in (1, 2, 3):
        for shape, taps in shapes[ndim]:
            x, w = ints(shape), ints(taps, -4, 5)
            line = f"convolve {words(DATA_WORDS[-ndim:], shape)} {words(TAP_WORDS[-ndim:], taps)} type=f64"
            out.case(f"{line} mode=full", input=x, filter=w, output=sig.convolve(x, w, "full", "direct"))
            if all(a >= b for a, b in zip(shape, taps)):
                out.case(f"{line} mode=valid", input=x, filter=w, output=sig.convolve(x, w, "valid", "direct"))
                # signal's "same" centres an even filter one to the left of ndimage's
                origin = "x".join(str((k - 1) // 2 - k // 2) for k in taps)
                out.case(f"{line} origin={origin}", input=x, filter=w, output=sig.convolve(x, w, "same", "direct"))
    for kind in ("u8", "s16", "u16"):
        x = rng.integers(0 if kind[0] == "u" else -300, 256, size=(5, 7))
        w = rng.integers(-2, 3, size=(3, 3))
        y = np.clip(ndi.correlate(x.astype(np.int64), w, mode="mirror"), *{"u8": (0, 255), "s16": (-32768, 32767), "u16": (0, 65535)}[kind])
        out.case(f"correlate h=5 w=7 r=3 s=3 type={kind} weight-type=s8 boundary=reflect101", input=x, filter=w, output=y)
    x = rng.integers(0, 256, size=(4, 6, 3))
    w = ints((3, 3), -1, 3)
    y = np.stack([np.clip(ndi.correlate(x[..., c].astype(np.int64), w.astype(np.int64), mode="nearest"), 0, 255) for c in range(3)])
    out.case("correlate h=4 w=6 pixel=3 r=3 s=3 type=u8 weight-type=s8 boundary=edge", input=x, filter=w, output=np.moveaxis(y, 0, 2))
    out.close()


def layers():
    import torch
    import torch.nn.functional as F

    out = Writer("golden-torch.txt", f"torch {torch.__version__}: convolutions, their gradients and pooling, on the CPU in float64")
    convs = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
    transposed = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}

    def tensor(shape, low=-5, high=6):
        return torch.tensor(ints(shape, low, high))

    configurations = list(itertools.product((1, 2, 3), (1, 2), (1, 2), (0, 1, 2), ((1, 2, 3), (2, 4, 2), (4, 4, 4))))
    for ndim, stride, dilation, pad, (groups, c, k) in configurations:
        size = [int(v) for v in rng.integers(4, 7, ndim)]
        taps = [int(v) for v in rng.integers(1, 4, ndim)]
        if any(s + 2 * pad < dilation * (t - 1) + 1 for s, t in zip(size, taps)):
            continue
        n = int(rng.integers(1, 3))
        x, w, b = tensor([n, c] + size), tensor([k, c // groups] + taps, -3, 4), tensor([k])
        for t in (x, w, b):
            t.requires_grad_(True)
        y = convs[ndim](x, w, b, stride, pad, dilation, groups)
        dy = tensor(list(y.shape), -3, 4)
        y.backward(dy)
        line = (f"n={n} c={c} {words(DATA_WORDS[-ndim:], size)} k={k} {words(TAP_WORDS[-ndim:], taps)} groups={groups} "
                f"stride={stride} dilation={dilation} pad={pad} type=f64")
        out.case(f"forward {line} bias=1", input=x.detach(), filter=w.detach(), bias=b.detach(), output=y.detach())
        out.case(f"backward-data {line}", output=dy, filter=w.detach(), input=x.grad)
        out.case(f"backward-filter {line} bias=1", input=x.detach(), output=dy, filter=w.grad, bias=b.grad)
    # transposed convolution with output padding, in torch's own words: it is backward-data with a larger input
    for stride, pad, extra in ((2, 1, 1), (3, 0, 2), (2, 0, 0), (1, 1, 0)):
        dy, w = tensor([2, 4, 5, 4]), tensor([4, 3, 3, 3], -3, 4)
        x = transposed[2](dy, w, None, stride, pad, extra)
        out.case(f"backward-data n=2 c=3 h={x.shape[2]} w={x.shape[3]} k=4 r=3 s=3 stride={stride} pad={pad} type=f64",
                 output=dy, filter=w.detach(), input=x)
    # padding modes, with gradients through them
    for mode, name in (("reflect", "reflect101"), ("replicate", "edge"), ("circular", "wrap")):
        x, w = tensor([1, 2, 5, 6]), tensor([3, 2, 3, 5], -3, 4)
        x.requires_grad_(True)
        w.requires_grad_(True)
        y = F.conv2d(F.pad(x, (2, 2, 1, 1), mode=mode), w)
        dy = tensor(list(y.shape), -3, 4)
        y.backward(dy)
        line = f"n=1 c=2 h=5 w=6 k=3 r=3 s=5 pad=1x2 boundary={name} type=f64"
        out.case(f"forward {line}", input=x.detach(), filter=w.detach(), output=y.detach())
        out.case(f"backward-data {line}", output=dy, filter=w.detach(), input=x.grad)
        out.case(f"backward-filter {line}", input=x.detach(), output=dy, filter=w.grad)
    # causal and asymmetric padding
    x, w = tensor([2, 3, 9]), tensor([3, 1, 4], -3, 4)
    out.case("forward n=2 c=3 w=9 k=3 s=4 groups=3 pad=3:0 type=f64", input=x, filter=w.detach(),
             output=F.conv1d(F.pad(x, (3, 0)), w, groups=3))
    # activations on real numbers
    acts = {"relu": F.relu, "relu6": F.relu6, "leaky:0.125": lambda v: F.leaky_relu(v, 0.125), "silu": F.silu, "gelu": F.gelu,
            "sigmoid": torch.sigmoid, "tanh": torch.tanh, "clip:-0.5:1.5": lambda v: torch.clamp(v, -0.5, 1.5)}
    for name, act in acts.items():
        x = torch.tensor(rng.standard_normal((1, 2, 4, 4)))
        w = torch.tensor(rng.standard_normal((2, 2, 3, 3)))
        residual = torch.tensor(rng.standard_normal((1, 2, 4, 4)))
        y = act(F.conv2d(x, w, None, 1, 1) + residual)
        out.case(f"forward n=1 c=2 h=4 w=4 k=2 r=3 s=3 pad=1 type=f64 residual=1 act={name}", input=x, filter=w.detach(),
                 residual=residual, output=y)
    # pooling
    pools = {1: (F.max_pool1d, F.avg_pool1d), 2: (F.max_pool2d, F.avg_pool2d), 3: (F.max_pool3d, F.avg_pool3d)}
    for ndim, window, stride, pad in itertools.product((1, 2, 3), (2, 3), (1, 2, 3), (0, 1)):
        size = [int(v) for v in rng.integers(4, 7, ndim)]
        x = tensor([2, 3] + size, -50, 51)
        line = f"n=2 c=3 {words(DATA_WORDS[-ndim:], size)} {words(TAP_WORDS[-ndim:], [window] * ndim)} stride={stride} pad={pad} type=f64"
        x.requires_grad_(True)
        y = pools[ndim][0](x, window, stride, pad)
        dy = tensor(list(y.shape))
        y.backward(dy)
        out.case(f"maxpool {line}", input=x.detach(), output=y.detach())
        out.case(f"backward-maxpool {line}", input=x.detach(), output=dy, residual=x.grad)
        for count in (0, 1):
            x.grad = None
            y = pools[ndim][1](x, window, stride, pad, count_include_pad=bool(count))
            y.backward(dy)
            out.case(f"avgpool {line} count-pad={count}", input=x.detach(), output=y.detach())
            out.case(f"backward-avgpool {line} count-pad={count}", output=dy, input=x.grad)
    out.close()


if __name__ == "__main__":
    os.makedirs(HERE, exist_ok=True)
    ndimage()
    if "--no-torch" not in sys.argv:
        layers()
