"""Problem lines of first layers, of 16-bit floats: few input channels, every stride, dilation, pad, boundary, layout and
epilogue; their wgrad; and layers of patches. first.py SEED COUNT"""
import random
import sys

BOUNDARIES = ["edge", "symmetric", "reflect101", "wrap", "constant=1.5"]
MOST = 30_000_000  # multiply-adds: the reference, on the CPU, takes the time
EPILOGUES = ["bias=1", "scale=1", "act=relu", "bias=1 act=gelu", "scale=1 bias=1 act=silu", "alpha=0.5 beta=0.25"]


def types():
    kind = random.choice(["f16", "bf16"])
    return f"type={kind}" + random.choice(["", "", "", " out-type=f16", " out-type=bf16"])


def window():
    """Sizes, taps, strides, dilations and pads, rows before columns."""
    taps = [random.randint(1, 7), random.randint(1, 9)]
    stride = [random.choice([1, 1, 2, 2, 3, 4, 5]) for _ in taps]
    dilation = [random.choice([1, 1, 1, 2, 3]) for _ in taps]
    pads = [[random.randint(-1, t - 1) for _ in "ab"] for t in taps]
    size = [t * d + 2 + random.randint(0, most) for t, d, most in zip(taps, dilation, random.choice([(60, 60), (20, 300)]))]
    return size, taps, stride, dilation, pads


def layer():
    size, taps, stride, dilation, pads = window()
    c, k = random.choice([1, 2, 3, 3, 3, 4, 5, 6, 7, 8]), random.choice([1, 3, 8, 16, 33, 40, 64, 64, 96, 128, 200])
    work = c * k * size[0] * size[1] * taps[0] * taps[1] // (stride[0] * stride[1])
    most = max(1, min(300, MOST // work))  # blocks have several images only where there are many
    words = ["forward", f"n={random.choice([1, 2, most])}", f"c={c}", f"k={k}"]
    words += [f"h={size[0]} w={size[1]} r={taps[0]} s={taps[1]}"]
    words += [f"stride={stride[0]}x{stride[1]} dilation={dilation[0]}x{dilation[1]}"]
    words.append("pad=" + "x".join(f"{a}:{b}" for a, b in pads))
    words.append(f"layout={random.choice(['nhwc', 'nhwc', 'nchw'])} {types()}")
    if random.random() < 0.5:
        words.append(random.choice(EPILOGUES))
    if random.random() < 0.3:
        words.append(f"boundary={random.choice(BOUNDARIES)}")
    return " ".join(words)


def gradient():
    """Of the filter, with enough rows and images that blocks have several walks."""
    size, taps, stride, dilation, pads = window()
    c, k = random.choice([1, 2, 3, 3, 3, 4, 5, 7, 8]), random.choice([8, 16, 40, 64, 64, 96, 128, 200])
    work = c * k * size[0] * size[1] * taps[0] * taps[1] // (stride[0] * stride[1])
    words = ["backward-filter", f"n={random.choice([1, 3, max(1, min(300, MOST // work))])}", f"c={c}", f"k={k}"]
    words += [f"h={size[0]} w={size[1]} r={taps[0]} s={taps[1]}"]
    words += [f"stride={stride[0]}x{stride[1]} dilation={dilation[0]}x{dilation[1]}"]
    words.append("pad=" + "x".join(f"{a}:{b}" for a, b in pads))
    words.append(f"layout={random.choice(['nhwc', 'nhwc', 'nhwc', 'nchw'])} type={random.choice(['f16', 'bf16'])}")
    words += [word for word in ["bias=1", f"boundary={random.choice(BOUNDARIES)}"] if random.random() < 0.3]
    return " ".join(words)


def patches():
    operation, r, s = random.choice(["forward", "backward-filter"]), random.randint(1, 8), random.randint(2, 8)
    rows, columns, c = random.randint(1, 6), random.randint(1, 6), random.choice([1, 3, 4, 8])
    n, k = random.randint(1, 4), random.choice([8, 16, 40, 96])
    return (f"{operation} n={n} c={c} h={r * rows} w={s * columns} k={k} r={r} s={s} stride={r}x{s} layout=nhwc "
            f"type={random.choice(['f16', 'bf16', 'f32'])}")


def main():
    random.seed(int(sys.argv[1]))
    for _ in range(int(sys.argv[2])):
        print(random.choices([layer, gradient, patches], [5, 3, 2])[0]())


main()
