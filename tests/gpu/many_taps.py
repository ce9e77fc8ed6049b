"""Problem lines of filters that the blocked kernel takes and the direct one does not: strides, dilations, many taps,
epilogues, filters of their own for each channel. many_taps.py SEED COUNT [WORDS]"""
import random
import sys

BOUNDARIES = ["constant", "edge", "symmetric", "reflect101", "wrap"]
TYPES = ["f32", "f32", "f32", "u8", "u16", "s16", "f16", "bf16", "s8", "f64"]


def pick_taps(space):
    if space == 1:
        return {"s": random.choice([1, 2, 9, 16, 17, 31, 100, 511, 2049])}
    if space == 2:
        square = random.choice([1, 3, 5, 9, 15, 16, 23, 31, 41, 64])
        wide = [square, random.choice([1, 2, 7, 17, 33])]
        random.shuffle(wide)
        return {"r": wide[0], "s": wide[1] if random.random() < 0.5 else wide[0]}
    return {k: random.choice([1, 2, 3, 4, 5, 7, 9]) for k in "trs"}


def pick_size(space):
    size = {"w": random.choice([1, 7, 64, 130, 257, 512])}
    if space == 1:
        size["w"] = random.choice([5, 1000, 4096, 20001])
    if space > 1:
        size["h"] = random.choice([1, 5, 31, 64, 150])
    if space > 2:
        size["d"] = random.choice([1, 4, 9, 20, 33])
        size["w"], size["h"] = min(size["w"], 130), min(size["h"], 64)
    return size


def per_axis(space, values):
    if random.random() < 0.5:
        return str(random.choice(values))
    return "x".join(str(random.choice(values)) for _ in range(space))


def epilogue():
    if random.random() < 0.7:
        return []
    act = random.choice(["", "act=relu", "act=leaky:0.1", "act=gelu", "act=clip:-1:1"])
    some = [w for w in ["scale=1", "bias=1", "residual=1", "alpha=0.5", "beta=1", act] if w and random.random() < 0.5]
    return some


def layer():
    """One channel a group, one or more outputs: depthwise, and the first layer of a small network."""
    c, times = random.choice([1, 3, 5]), random.choice([1, 1, 4])
    size, taps = pick_size(2), {k: random.choice([1, 3, 5, 7, 14]) for k in "rs"}
    words = [f"forward n={random.randint(1, 3)} c={c} k={c * times} groups={c}"]
    words += [f"{k}={v}" for k, v in {**size, **taps}.items()]
    words.append(f"pad={taps['r']}x{taps['s']} stride={random.choice([1, 1, 2])} dilation={random.choice([1, 1, 2])}")
    words += epilogue()
    return " ".join(words + [f"type={random.choice(['f32', 'f16', 'bf16'])}"] + sys.argv[3:])


def line():
    if random.random() < 0.15:
        return layer()
    space = random.choice([1, 2, 2, 2, 3, 3])
    words = [random.choice(["correlate", "convolve"])]
    words += [f"{k}={v}" for k, v in {**pick_size(space), **pick_taps(space)}.items()]
    if random.random() < 0.3:
        words.append(f"pixel={random.choice([2, 3, 4])}")
    if random.random() < 0.2:
        words.append(f"n={random.randint(2, 3)}")
    if random.random() < 0.4:
        words.append("stride=" + per_axis(space, [1, 2, 3, 4, 5]))
    if random.random() < 0.4:
        words.append("dilation=" + per_axis(space, [1, 2, 3, 4, 7, 12]))
    words.append("boundary=" + random.choice(BOUNDARIES))
    if "constant" in words[-1] and random.random() < 0.5:
        words.append(f"value={random.choice([0, 1, 2.5, -3])}")
    if random.random() < 0.2:
        words.append("mode=full")
    words += epilogue()
    return " ".join(words + [f"type={random.choice(TYPES)}"] + sys.argv[3:])


random.seed(int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    print(line())
