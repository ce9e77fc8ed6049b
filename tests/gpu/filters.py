"""Problem lines of filters: every type, space, boundary, size, alignment, stride, dilation and epilogue, many taps and
separable ones. filters.py SEED COUNT"""
import random
import sys

BOUNDARIES = ["constant", "edge", "symmetric", "reflect101", "wrap"]
TYPES = ["f32", "f32", "u8", "u16", "s16", "f16", "bf16", "s8", "f64", "s32"]
EPILOGUES = ["bias=1", "scale=1", "residual=1", "act=relu", "act=silu", "bias=1 act=gelu", "scale=1 bias=1 residual=1 act=clip:-1:1"]


def sizes(space):
    size = {"w": random.choice([1, 7, 63, 64, 130, 256, 517, 1024, 2051, 3000])}
    if space > 1:
        size["h"] = random.choice([1, 5, 31, 64, 100])
    if space > 2:
        size["d"] = random.choice([1, 4, 9, 33])
        size["w"] = min(size["w"], 130)
    return size


def tap_counts(space):
    taps = {"s": random.randint(1, 9)}
    if space > 1:
        taps["r"] = random.randint(1, 9)
    if space > 2:
        taps["t"] = random.randint(1, 5)
    if random.random() < 0.15:  # many
        most = {1: 300, 2: 41, 3: 9}[space]
        taps = {axis: random.randint(1, most) for axis in taps}
    return taps


def boundary(space):
    if random.random() < 0.5:
        return "boundary=" + random.choice(BOUNDARIES)
    axes = "zyx"[3 - space:]
    return "boundary=" + ",".join(f"{a}={random.choice(BOUNDARIES)}:{random.choice(BOUNDARIES)}" for a in axes)


def per_axis(word, space):
    """One number for all axes or one for each."""
    if random.random() < 0.5:
        return f"{word}={random.randint(2, 3)}"
    return f"{word}=" + "x".join(str(random.randint(1, 4)) for _ in range(space))


def types():
    kind = random.choice(TYPES)
    words = [f"type={kind}"]
    if random.random() < 0.25:
        words.append("out-type=" + random.choice(TYPES))
    return words


def line():
    space = random.choice([1, 2, 2, 2, 3])
    size, taps = sizes(space), tap_counts(space)
    words = [random.choice(["correlate", "convolve"])]
    most = {1: 3000, 2: 130, 3: 33}[space]  # with many taps: the reference, on the CPU, would take the time
    if max(taps.values()) > 9:
        size = {axis: min(n, most) for axis, n in size.items()}
    pixel = random.choice([1, 1, 1, 2, 3, 4])
    if pixel > 1:
        words.append(f"pixel={pixel}")
    if random.random() < 0.3:
        words.append(f"n={random.randint(2, 4)}")
    words += [f"{k}={v}" for k, v in {**size, **taps}.items()]
    words.append(boundary(space))
    if "constant" in words[-1] and random.random() < 0.5:
        words.append(f"value={random.choice([0, 1, 2.5, -3])}")
    plain = True
    if random.random() < 0.2:
        words.append(per_axis("stride", space))
        plain = False
    if random.random() < 0.2:
        words.append(per_axis("dilation", space))
        plain = False
    fits = plain and all(size[a] >= taps[b] for a, b in zip("whd", "srt") if a in size)
    if plain and random.random() < 0.2:
        words.append("mode=" + ("valid" if fits and random.random() < 0.5 else "full"))
    if random.random() < 0.2:
        words.append("alpha=0.5 beta=1")
    if random.random() < 0.15:
        words.append(random.choice(EPILOGUES))
    if random.random() < 0.25:
        words.append("rank=1")
    return " ".join(words + types())


random.seed(int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    print(line())
