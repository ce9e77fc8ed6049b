"""Problem lines of filters: every type, space, boundary, size and alignment. filters.py SEED COUNT"""
import random
import sys

BOUNDARIES = ["constant", "edge", "symmetric", "reflect101", "wrap"]
TYPES = ["f32", "f32", "u8", "u16", "s16", "f16", "bf16", "s8", "f64"]


def line():
    space = random.choice([1, 2, 2, 2, 3])
    size = {"w": random.choice([1, 7, 63, 64, 130, 256, 517, 1024, 2051, 3000])}
    taps = {"s": random.randint(1, 9)}
    if space > 1:
        size["h"], taps["r"] = random.choice([1, 5, 31, 64, 100]), random.randint(1, 9)
    if space > 2:
        size["d"], taps["t"] = random.choice([1, 4, 9, 33]), random.randint(1, 5)
        size["w"] = min(size["w"], 130)
    words = [random.choice(["correlate", "convolve"])]
    pixel = random.choice([1, 1, 1, 2, 3, 4])
    if pixel > 1:
        words.append(f"pixel={pixel}")
    if random.random() < 0.3:
        words.append(f"n={random.randint(2, 4)}")
    words += [f"{k}={v}" for k, v in {**size, **taps}.items()]
    axes = "zyx"[3 - space:]
    if random.random() < 0.5:
        words.append("boundary=" + random.choice(BOUNDARIES))
    else:
        words.append("boundary=" + ",".join(f"{a}={random.choice(BOUNDARIES)}:{random.choice(BOUNDARIES)}" for a in axes))
    if "constant" in words[-1] and random.random() < 0.5:
        words.append(f"value={random.choice([0, 1, 2.5, -3])}")
    fits = all(size[a] >= taps[b] for a, b in zip("whd", "srt") if a in size)
    if random.random() < 0.2:
        words.append("mode=" + ("valid" if fits and random.random() < 0.5 else "full"))
    if random.random() < 0.2:
        words.append("alpha=0.5 beta=1")
    return " ".join(words + [f"type={random.choice(TYPES)}"])


random.seed(int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    print(line())
