#!/usr/bin/env python3
"""Writes tests/data/golden-onnx.txt: ONNX's operators by their definitions, and the problem line that each one is.

Conv, ConvTranspose, ConvInteger, QLinearConv, MaxPool and AveragePool are computed here element by element from the text
of the operators' documentation (opset 22), with torch only to check those that it has too. A case is as generate.py has
it, with a `scale` where there is one. What ONNX says with attributes that Faltung does not have is said otherwise:

    auto_pad, output_shape, output_padding    the pads that they come to; the transposed layer's larger `h w`
    ceil_mode                                 `out`
    x_zero_point                              `value`, as what stands outside the image, and a part of the bias
    w_zero_point                              weights of 16 bits with it taken off
    scales and y_zero_point                   `scale` and `bias` by channel, and `beta`

Needs numpy and torch; run: python tests/golden/onnx.py
"""
import itertools

import numpy as np
import torch
import torch.nn.functional as F

from generate import TAP_WORDS, DATA_WORDS, Writer, words

rng = np.random.default_rng(20260101)


def integers(shape, low, high):
    return rng.integers(low, high, size=shape)


def extent(taps, dilation):
    return (taps - 1) * dilation + 1


def pads_of(auto_pad, pads, size, taps, stride, dilation):
    """Pads before and after an axis."""
    if auto_pad == "NOTSET":
        return pads
    if auto_pad == "VALID":
        return 0, 0
    total = max((-(-size // stride) - 1) * stride + extent(taps, dilation) - size, 0)
    return (total // 2, total - total // 2) if auto_pad == "SAME_UPPER" else (total - total // 2, total // 2)


def output_size(size, taps, stride, dilation, pads, ceil_mode=0):
    room = size + sum(pads) - extent(taps, dilation)
    out = (-(-room // stride) if ceil_mode else room // stride) + 1
    if ceil_mode and (out - 1) * stride >= size + pads[0]:  # windows that begin in the padding behind are left out
        out -= 1
    return out


def windows(out, taps, stride, dilation, pads):
    """For each output position and tap: the positions that they meet, over all axes."""
    for o in np.ndindex(*out):
        for j in np.ndindex(*taps):
            yield o, j, tuple(oi * s + ji * d - p[0] for oi, s, ji, d, p in zip(o, stride, j, dilation, pads))


def inside(position, size):
    return all(0 <= p < s for p, s in zip(position, size))


def conv(x, w, out, stride, dilation, pads, group, x_zero=0):
    """Conv's sums; outside stands x_zero, which is zero for everything but integers."""
    n, c, *size = x.shape
    m, each, *taps = w.shape
    y = np.zeros((n, m, *out), dtype=x.dtype)
    for o, j, at in windows(out, taps, stride, dilation, pads):
        for filter in range(m):
            first = filter // (m // group) * each
            pixels = x[(slice(None), slice(first, first + each), *at)] if inside(at, size) else x_zero
            y[(slice(None), filter, *o)] += np.sum((pixels + np.zeros((n, each), x.dtype)) * w[(filter, slice(None), *j)],
                                                   axis=1)
    return y


def list_word(name, values):
    return f"{name}={'x'.join(map(str, values))}"


def geometry(size, taps, stride, dilation, pads):
    ndim = len(size)
    text = (f"{words(DATA_WORDS[-ndim:], size)} {words(TAP_WORDS[-ndim:], taps)} {list_word('stride', stride)} "
            f"{list_word('dilation', dilation)}")
    return text + " pad=" + "x".join(f"{before}:{after}" for before, after in pads)


# ---- attributes: space, taps, stride, dilation, pads, auto_pad, group
SHAPES = [
    ((7,), (3,), (1,), (1,), ((1, 1),)), ((8,), (4,), (2,), (1,), ((0, 3),)), ((9,), (2,), (3,), (2,), ((2, 0),)),
    ((5, 6), (3, 3), (1, 1), (1, 1), ((1, 1), (1, 1))), ((6, 5), (3, 2), (2, 1), (1, 2), ((0, 2), (1, 0))),
    ((7, 7), (3, 3), (2, 2), (1, 1), ((1, 1), (1, 1))), ((5, 4), (2, 4), (3, 2), (2, 1), ((1, 0), (2, 2))),
    ((4, 5, 4), (2, 3, 2), (1, 2, 1), (1, 1, 2), ((0, 1), (1, 1), (1, 1))),
]
AUTO = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def resolved():
    """Every shape with every auto_pad, where that leaves outputs."""
    for (size, taps, stride, dilation, given), auto in itertools.product(SHAPES, AUTO):
        pads = tuple(pads_of(auto, p, s, t, k, d) for p, s, t, k, d in zip(given, size, taps, stride, dilation))
        out = tuple(output_size(*axis) for axis in zip(size, taps, stride, dilation, pads))
        if min(out) > 0:
            yield size, taps, stride, dilation, pads, out


def write_conv(file):
    for (size, taps, stride, dilation, pads, out), (group, c, m) in itertools.product(
            resolved(), ((1, 2, 3), (2, 4, 2))):
        x, w = integers((2, c, *size), -5, 6).astype(float), integers((m, c // group, *taps), -3, 4).astype(float)
        bias = integers(m, -9, 10).astype(float)
        y = conv(x, w, out, stride, dilation, pads, group) + bias.reshape(1, m, *[1] * len(size))
        file.case(f"forward n=2 c={c} k={m} groups={group} {geometry(size, taps, stride, dilation, pads)} type=f64 bias=1",
                  input=x, filter=w, bias=bias, output=y)


# ---- ConvTranspose: every input adds its multiple of the filter to the output

def conv_transpose(x, w, out, stride, dilation, pads, group):
    n, c, *size = x.shape
    _, each, *taps = w.shape
    y = np.zeros((n, each * group, *out))
    for i, j, at in windows(size, taps, stride, dilation, pads):
        if not inside(at, out):
            continue
        for channel in range(c):
            first = channel // (c // group) * each
            y[(slice(None), slice(first, first + each), *at)] += (x[(slice(None), channel, *i)][:, None]
                                                                  * w[(channel, slice(None), *j)][None])
    return y


def transposed_pads(auto_pad, size, taps, stride, dilation, extra, out):
    total = stride * (size - 1) + extra + extent(taps, dilation) - out
    return (total // 2, total - total // 2) if auto_pad == "SAME_UPPER" else (total - total // 2, total // 2)


def write_conv_transpose(file):
    for (size, taps, stride, dilation, given), (group, c, m), way in itertools.product(
            SHAPES, ((1, 2, 3), (2, 4, 2)), ("pads", "output_padding", "SAME_UPPER", "output_shape")):
        whole = [s * (i - 1) + extent(t, d) for i, t, s, d in zip(size, taps, stride, dilation)]
        extra = [s - 1 if way == "output_padding" else 0 for s in stride]
        if way in ("pads", "output_padding"):
            pads = tuple(given)
            out = [o + e - sum(p) for o, e, p in zip(whole, extra, pads)]
        else:
            out = [i * s for i, s in zip(size, stride)]
            pads = tuple(transposed_pads(way, *axis) for axis in zip(size, taps, stride, dilation, extra, out))
        # the layer whose gradient this is must have the input's size: its pad behind is what that takes
        behind = [(i - 1) * s + extent(t, d) - p[0] - o for i, s, t, d, p, o in
                  zip(size, stride, taps, dilation, pads, out)]
        if min(out) < 1 or min(b for pad in pads for b in pad) < 0:
            continue
        x, w = integers((2, c, *size), -5, 6).astype(float), integers((c, m // group, *taps), -3, 4).astype(float)
        y = conv_transpose(x, w, out, stride, dilation, pads, group)
        if way in ("pads", "output_padding") and all(a == b for a, b in pads) and all(
                e < max(s, d) for e, s, d in zip(extra, stride, dilation)):
            function = getattr(F, f"conv_transpose{len(size)}d")
            assert np.array_equal(y, function(torch.tensor(x), torch.tensor(w), None, stride, [p[0] for p in pads], extra,
                                              group, dilation).numpy())
        pads = [(p[0], b) for p, b in zip(pads, behind)]
        file.case(f"backward-data n=2 c={m} k={c} groups={group} {geometry(out, taps, stride, dilation, pads)} type=f64",
                  output=x, filter=w, input=y)


# ---- integers

def write_conv_integer(file):
    for (size, taps, stride, dilation, pads, out), (kind, x_zero), (w_kind, w_zero) in itertools.product(
            list(resolved())[::3], (("u8", 0), ("u8", 131), ("s8", -7)), (("s8", 0), ("u8", 120))):
        group, c, m = 1, 3, 4
        low, high = (0, 256) if kind == "u8" else (-128, 128)
        x = integers((1, c, *size), low, high)
        w = integers((m, c, *taps), *((0, 256) if w_kind == "u8" else (-128, 128))) - w_zero
        y = conv(x - x_zero, w, out, stride, dilation, pads, group)
        weights = "s8" if w_zero == 0 else "s16"
        bias = -x_zero * w.reshape(m, -1).sum(axis=1)
        file.case(f"forward n=1 c={c} k={m} {geometry(size, taps, stride, dilation, pads)} type={kind} "
                  f"weight-type={weights}" + (f" value={x_zero} bias=1" if x_zero else ""),
                  input=x, filter=w, bias=bias if x_zero else None, output=y)


def write_qlinear_conv(file):
    for (size, taps, stride, dilation, pads, out), (kind, y_zero), per_channel in itertools.product(
            list(resolved())[::3], (("u8", 128), ("s8", -4)), (False, True)):
        group, c, m, x_zero = 2, 4, 4, 100
        x, w, b = integers((1, c, *size), 0, 256), integers((m, c // group, *taps), -128, 128), integers(m, -900, 900)
        # powers of two: ties do occur, and floats hold them exactly
        ratio = 2.0 ** -integers(m, 7, 10) if per_channel else np.full(m, 2.0 ** -8)
        shape = (1, m, *[1] * len(size))
        sums = conv(x - x_zero, w, out, stride, dilation, pads, group) + b.reshape(shape)
        low, high = (0, 255) if kind == "u8" else (-128, 127)
        y = np.clip(np.rint(sums * ratio.reshape(shape)) + y_zero, low, high)
        bias = (b - x_zero * w.reshape(m, -1).sum(axis=1)) * ratio
        file.case(f"forward n=1 c={c} k={m} groups={group} {geometry(size, taps, stride, dilation, pads)} type=u8 "
                  f"weight-type=s8 out-type={kind} value={x_zero} beta={y_zero} scale=1 bias=1",
                  input=x, filter=w, scale=ratio, bias=bias, output=y)


# ---- pooling

def pool(x, out, taps, stride, dilation, pads, count_pad):
    """The largest, and the average: of the pad that was asked for too with count_include_pad, never of more."""
    n, c, *size = x.shape
    most, total, count = np.full((n, c, *out), -np.inf), np.zeros((n, c, *out)), np.zeros(out)
    for o, j, at in windows(out, taps, stride, dilation, pads):
        if inside(at, size):
            pixels = x[(slice(None), slice(None), *at)]
            most[(slice(None), slice(None), *o)] = np.maximum(most[(slice(None), slice(None), *o)], pixels)
            total[(slice(None), slice(None), *o)] += pixels
        in_pad = all(-p[0] <= a < s + p[1] for a, s, p in zip(at, size, pads))
        count[o] += in_pad if count_pad else inside(at, size)
    return most, total / count


def write_pools(file):
    for (size, taps, stride, dilation, given), auto, ceil_mode in itertools.product(SHAPES, AUTO, (0, 1)):
        pads = tuple(pads_of(auto, p, s, t, k, d) for p, s, t, k, d in zip(given, size, taps, stride, dilation))
        if any(max(p) >= t for p, t in zip(pads, taps)):
            continue
        out = tuple(output_size(*axis, ceil_mode) for axis in zip(size, taps, stride, dilation, pads))
        if min(out) < 1:
            continue
        x = integers((1, 3, *size), -99, 100).astype(float)
        line = f"n=1 c=3 {geometry(size, taps, stride, dilation, pads)} {list_word('out', out)} type=f64"
        count_pad = int(rng.integers(0, 2))
        most, mean = pool(x, out, taps, stride, dilation, pads, count_pad)
        if not np.isfinite(most).all():
            continue
        file.case(f"maxpool {line}", input=x, output=most)
        file.case(f"avgpool {line} count-pad={count_pad}", input=x, output=mean)


def write_fused(file):
    """Conv, Relu, MaxPool as one problem."""
    for size, taps, stride, dilation, pads, out in list(resolved())[::2]:
        window = [int(v) for v in rng.integers(1, 4, len(size))]
        pooled = tuple(o // p for o, p in zip(out, window))
        if min(pooled) < 1:
            continue
        x, w = integers((2, 3, *size), -5, 6).astype(float), integers((4, 3, *taps), -3, 4).astype(float)
        bias = integers(4, -9, 10).astype(float)
        y = np.maximum(conv(x, w, out, stride, dilation, pads, 1) + bias.reshape(1, 4, *[1] * len(size)), 0)
        zero, ones = [(0, 0)] * len(size), [1] * len(size)
        file.case(f"forward n=2 c=3 k=4 {geometry(size, taps, stride, dilation, pads)} type=f64 bias=1 act=relu "
                  f"pool=max:{'x'.join(map(str, window))}", input=x, filter=w, bias=bias,
                  output=pool(y, pooled, window, window, ones, zero, 0)[0])


if __name__ == "__main__":
    out = Writer("golden-onnx.txt", "ONNX operators by their definitions: tests/golden/onnx.py")
    for write in (write_conv, write_conv_transpose, write_conv_integer, write_qlinear_conv, write_pools, write_fused):
        write(out)
    out.close()
