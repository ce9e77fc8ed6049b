"""Problem lines of filters that 2.5D blocking takes: volumes of every type, boundary, alignment and mode, rows
that the threads' widths divide and do not. With "terms": of low rank. volumes.py SEED COUNT [terms] [WORDS]"""
import random
import sys

BOUNDARIES = ["constant", "edge", "symmetric", "reflect101", "wrap"]
TYPES = ["f32", "f32", "f32", "u8", "u16", "s16", "f16", "bf16", "s8", "f64"]


def boundary():
    if random.random() < 0.5:
        return "boundary=" + random.choice(BOUNDARIES)
    return "boundary=" + ",".join(f"{a}={random.choice(BOUNDARIES)}:{random.choice(BOUNDARIES)}" for a in "zyx")


def pitched(size, n):
    """Rows and planes that lie apart, with another alignment."""
    row = size["w"] + random.randint(1, 9)
    plane = row * size["h"] + random.choice([0, 1, 4])
    return f"input-strides={plane * size['d'] * n},{plane * size['d']},0,{plane},{row},1"


def line(terms):
    taps = {"t": random.randint(2, 7), "r": random.choice([1, 2, 3, 3, 4, 5, 5, 7]),
            "s": random.choice([1, 2, 3, 3, 4, 5, 5, 7])}
    if terms:
        taps = {"t": random.choice([3, 5, 7, 9]), "r": random.choice([3, 5, 7]), "s": random.choice([3, 5, 7, 9])}
    size = {"d": random.choice([1, 2, 5, 9, 20, 33]), "h": random.choice([1, 3, 5, 8, 17, 40]),
            "w": random.choice([4, 7, 8, 15, 33, 64, 100, 130, 257])}
    n = random.choice([1, 1, 1, 2, 3])
    words = [random.choice(["correlate", "convolve"]), f"n={n}"]
    words += [f"{k}={v}" for k, v in {**size, **taps}.items()]
    large = all(size[a] >= taps[b] for a, b in zip("dhw", "trs"))
    if large and random.random() < 0.2:
        words.append("mode=valid")
    elif large and random.random() < 0.15:
        words.append("pad=" + "x".join(str(random.randint(0, taps[b] - 1)) for b in "trs"))
    words += [boundary(), "type=" + random.choice(TYPES)]
    if random.random() < 0.25:
        words.append("out-type=" + random.choice(TYPES))
    if random.random() < 0.2:
        words.append(f"alpha={random.choice([0.5, -2, 0.1])} beta={random.choice([0, 1, 3])}")
    if random.random() < 0.3:
        words.append(f"value={random.choice([0, 3, 0.5])}")
    if random.random() < 0.2:
        words.append(pitched(size, n))
    if terms:
        words.append("rank=1 weight-type=f32")
    return " ".join(words)


random.seed(int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    print(line("terms" in sys.argv[3:]), *[w for w in sys.argv[3:] if w != "terms"])
