"""Problem lines of dense layers of 16-bit floats, NHWC: forward and gradients, every space, channel count,
stride, dilation, pad, filter layout and epilogue. With `planar` pixels are innermost, some of the input alone, channels
come in any number and types are some others too. With `few` the summed channels are multiples of eight and the result has few,
planar or not: forward, and dgrad with larger strides and filters. With `ragged` channels come in numbers
that 16 bytes do not divide, and pixels mostly lie evenly. With `groups` layers have one tap and 2 to 40 groups, each
with its channels beside the others' or a matrix of its own.
dense.py SEED COUNT [planar|few|ragged|groups] [WORD...]"""
import math
import random
import sys

CHANNELS = [8, 16, 24, 64, 72, 96, 128, 136, 200, 256]
EPILOGUES = ["bias=1", "scale=1", "residual=1", "act=relu", "bias=1 act=gelu", "scale=1 bias=1 residual=1 act=silu",
             "residual=1 act=clip:-1:1", "alpha=0.5 beta=0.25", "act=tanh"]
ANY_CHANNELS = CHANNELS + [2, 5, 12, 31, 33, 50, 100]
MOST = 3e7  # multiply-adds: the reference, on the CPU, takes the time


def pads(space):
    if random.random() < 0.6:
        return f"pad={random.randint(0, 3)}"
    return "pad=" + "x".join(f"{random.randint(0, 3)}:{random.randint(0, 3)}" for _ in range(space))


def per_axis(word, space, most):
    if random.random() < 0.7:
        return f"{word}={random.randint(1, most)}"
    return f"{word}=" + "x".join(str(random.randint(1, most)) for _ in range(space))


def shape(space, planar):
    """Sizes and taps within the limit."""
    channels = ANY_CHANNELS if planar else CHANNELS
    while True:
        n, c, k = random.randint(1, 4), random.choice(channels), random.choice(channels)
        size = [random.randint(9, {1: 300, 2: 33, 3: 12}[space]) for _ in range(space)]
        if planar and random.random() < 0.4:
            size = [(i + 7) // 8 * 8 for i in size]
        taps = [random.choice([1, 1, 2, 3, 3, 5]) for _ in range(space)]
        work = n * c * k
        for i, t in zip(size, taps):
            work *= i * t
        if work <= MOST:
            return n, c, k, size, taps


def innermost_channels(n, c, size):
    """Strides of n, groups, channels, d, h, w."""
    strides, next_stride = [], c
    for i in reversed([1] * (3 - len(size)) + size):
        strides.append(next_stride)
        next_stride *= i
    return "input-strides=" + ",".join(str(s) for s in [next_stride, c, 1] + strides[::-1])


def planar_strides(n, c, size):
    pixels = math.prod(size)
    d, h, w = [1] * (3 - len(size)) + size
    return f"input-strides={c * pixels},{c * pixels},{pixels},{h * w},{w},1"


def few_shape(operation, space):
    """Sizes and taps within the limit, sums of at most 64 channels."""
    while True:
        few, many = random.choice([1, 2, 3, 3, 4, 6, 12]), random.choice([8, 32, 40, 64])
        n, c, k = random.choice([1, 2, 9, 17]), *((few, many) if operation == "backward-data" else (many, few))
        taps = [random.choice([1, 2, 3, 4, 5, 7]) for _ in range(space)]
        size = [random.randint(t, {1: 300, 2: 40, 3: 10}[space]) for t in taps]
        if n * c * k * math.prod(size + taps) <= MOST:
            return n, c, k, size, taps


def few_line():
    operation, space = random.choice(["backward-data"] * 3 + ["forward"]), random.choice([1, 2, 2, 2, 3])
    n, c, k, size, taps = few_shape(operation, space)
    words = [operation, f"n={n}", f"c={c}", f"k={k}"]
    words += [f"{a}={v}" for a, v in zip("dhw"[3 - space:] + "trs"[3 - space:], size + taps)]
    words += [pads(space), "type=" + random.choice(["f16", "bf16"]), "layout=" + ["nwc", "nhwc", "ndhwc"][space - 1]]
    if operation == "forward":
        return " ".join(words + random.choice([[], ["out-type=f32"], [random.choice(EPILOGUES)]]))
    words.append(per_axis("stride", space, 4))
    return " ".join(words + random.choice([[], [planar_strides(n, c, size)]]))


def ragged_line():
    operation, space = random.choice(["forward", "backward-data"]), random.choice([1, 2, 2, 2, 3])
    while True:
        n, c, k = random.choice([1, 2, 3, 5]), random.randint(1, 140), random.randint(1, 140)
        groups = random.choice([1, 1, 1, 8, 16])
        c, k = (c, k) if groups == 1 else (groups * (c % 12 + 1), groups * (k % 12 + 1))
        size = [random.randint(3, {1: 300, 2: 33, 3: 12}[space]) for _ in range(space)]
        taps = [random.choice([1, 1, 3, 3, 5, 2]) for _ in range(space)]
        if n * c * k * math.prod(size + taps) <= MOST:
            break
    same = "pad=" + "x".join(f"{(t - 1) // 2}:{t // 2}" for t in taps)
    words = [operation, f"n={n}", f"c={c}", f"k={k}", f"groups={groups}"]
    words += [f"{a}={v}" for a, v in zip("dhw"[3 - space:] + "trs"[3 - space:], size + taps)]
    words += [same if random.random() < 0.7 else pads(space), "layout=" + ["nwc", "nhwc", "ndhwc"][space - 1]]
    words.append("type=" + random.choice(["f16", "f16", "bf16"] + ["s8 out-type=f32"] * (operation == "forward")))
    if groups == 1 and random.random() < 0.3:
        pitch = c + random.randint(1, 9)
        words.append(innermost_channels(n, pitch, size))
    if operation == "forward" and random.random() < 0.5:
        words.append(random.choice(EPILOGUES[:5] + ["value=2"]))
    return " ".join(words)


def groups_line():
    while True:
        groups, c, k = random.randint(2, 40), 8 * random.randint(1, 40), 8 * random.randint(1, 40)
        n, h, w = random.choice([(1, 1, 64), (1, 1, 192), (1, 1, 320), (1, 1, random.randint(1, 400)),
                                 (2, 8, 20), (3, 9, 11)])
        if groups * n * c * k * h * w <= 2 * MOST:
            break
    words = ["forward", f"groups={groups}", f"n={n}", f"c={groups * c}", f"k={groups * k}"]
    words += [f"w={w} s=1 layout=nwc"] if h == 1 else [f"h={h} w={w} r=1 s=1 layout=nhwc"]
    if random.random() < 0.5:  # a matrix for each group
        words += [f"{a}-strides={h * w * i},{n * h * w * i},1,0,{w * i},{i}" for a, i in [("input", c), ("output", k)]]
    if random.random() < 0.2:
        words.append("weight-layout=" + ("wio" if h == 1 else "hwio"))
    words += ["type=" + random.choice(["f16", "bf16"]), random.choice(["", "out-type=f32"])]
    words.append(random.choice(["", "", "act=relu", "alpha=0.5 beta=0.25 act=gelu"]))
    return " ".join(w for w in words if w)


def line(planar):
    operation = random.choice(["forward", "forward", "backward-data", "backward-filter"])
    space = random.choice([1, 2, 2, 2, 3])
    n, c, k, size, taps = shape(space, planar)
    words = [operation, f"n={n}", f"c={c}"]
    words += [f"{a}={v}" for a, v in zip("dhw"[3 - space:], size)]
    words.append(f"k={k}")
    words += [f"{a}={v}" for a, v in zip("trs"[3 - space:], taps)]
    words.append(pads(space))
    if random.random() < 0.4:
        words.append(per_axis("stride", space, 2))
    if random.random() < 0.3:
        words.append(per_axis("dilation", space, 2))
    words.append("type=" + random.choice(["f16", "f16", "bf16"] + (["f32"] if planar else [])))
    words.append("layout=" + [["nwc", "nhwc", "ndhwc"], ["ncw", "nchw", "ncdhw"]][planar][space - 1])
    if planar and random.random() < 0.15:
        words.append(innermost_channels(n, c, size))
    if random.random() < 0.2:
        words.append("weight-layout=" + ["wio", "hwio", "dhwio"][space - 1])
    if operation == "forward" and random.random() < 0.2:
        words.append("out-type=f32")
    if operation == "forward" and random.random() < 0.5:
        words.append(random.choice(EPILOGUES))
    return " ".join(words)


random.seed(int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    words = sys.argv[3:]
    kinds = {"few": few_line, "ragged": ragged_line, "groups": groups_line, "planar": lambda: line(True)}
    kind = kinds[words[0]] if words and words[0] in kinds else lambda: line(False)
    print(kind(), *[w for w in words if w not in kinds])
