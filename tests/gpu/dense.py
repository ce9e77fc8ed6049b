"""Problem lines of dense layers of 16-bit floats, channels innermost: forward and gradients, every space, channel count,
stride, dilation, pad, filter layout and epilogue. dense.py SEED COUNT [WORD...]"""
import random
import sys

CHANNELS = [8, 16, 24, 64, 72, 96, 128, 136, 200, 256]
EPILOGUES = ["bias=1", "scale=1", "residual=1", "act=relu", "bias=1 act=gelu", "scale=1 bias=1 residual=1 act=silu",
             "residual=1 act=clip:-1:1", "alpha=0.5 beta=0.25", "act=tanh"]
MOST = 3e7  # multiply-adds: the reference, on the CPU, takes the time


def pads(space):
    if random.random() < 0.6:
        return f"pad={random.randint(0, 3)}"
    return "pad=" + "x".join(f"{random.randint(0, 3)}:{random.randint(0, 3)}" for _ in range(space))


def per_axis(word, space, most):
    if random.random() < 0.7:
        return f"{word}={random.randint(1, most)}"
    return f"{word}=" + "x".join(str(random.randint(1, most)) for _ in range(space))


def shape(space):
    """Sizes and taps within the limit."""
    while True:
        n, c, k = random.randint(1, 4), random.choice(CHANNELS), random.choice(CHANNELS)
        size = [random.randint(9, {1: 300, 2: 33, 3: 12}[space]) for _ in range(space)]
        taps = [random.choice([1, 1, 2, 3, 3, 5]) for _ in range(space)]
        work = n * c * k
        for i, t in zip(size, taps):
            work *= i * t
        if work <= MOST:
            return n, c, k, size, taps


def line():
    operation = random.choice(["forward", "forward", "backward-data", "backward-filter"])
    space = random.choice([1, 2, 2, 2, 3])
    n, c, k, size, taps = shape(space)
    words = [operation, f"n={n}", f"c={c}"]
    words += [f"{a}={v}" for a, v in zip("dhw"[3 - space:], size)]
    words.append(f"k={k}")
    words += [f"{a}={v}" for a, v in zip("trs"[3 - space:], taps)]
    words.append(pads(space))
    if random.random() < 0.4:
        words.append(per_axis("stride", space, 2))
    if random.random() < 0.3:
        words.append(per_axis("dilation", space, 2))
    words.append("type=" + random.choice(["f16", "f16", "bf16"]))
    words.append("layout=" + ["nwc", "nhwc", "ndhwc"][space - 1])
    if random.random() < 0.2:
        words.append("weight-layout=" + ["wio", "hwio", "dhwio"][space - 1])
    if operation == "forward" and random.random() < 0.2:
        words.append("out-type=f32")
    if operation == "forward" and random.random() < 0.5:
        words.append(random.choice(EPILOGUES))
    return " ".join(words)


random.seed(int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    print(line(), *sys.argv[3:])
