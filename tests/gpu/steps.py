"""Problem lines of filters with strides and dilations that register tiles take, on images large enough for tiles of
several rows; pixels of every width. steps.py SEED COUNT [WORDS]"""
import random
import sys

BOUNDARIES = ["constant", "edge", "symmetric", "reflect101", "wrap"]
TYPES = ["f32", "f32", "u8", "u16", "s16", "f16", "bf16", "s8", "f64"]


def steps(word, space):
    return f"{word}=" + "x".join(str(random.choice([1, 2, 2, 3, 4, 6])) for _ in range(space))


def line():
    space = random.choice([1, 2, 2, 2, 3])
    size = {1: {"w": random.randint(1000, 300000)},
            2: {"h": random.randint(20, 1500), "w": random.randint(100, 2000)},
            3: {"d": random.randint(5, 40), "h": random.randint(10, 60), "w": random.randint(40, 300)}}[space]
    taps = {axis: random.randint(1, 5) for axis in "trs"[3 - space:]}
    words = ["correlate"] + [f"{k}={v}" for k, v in {**size, **taps}.items()]
    if space == 2:
        words.append(f"pixel={random.randint(1, 4)}")
    words.append(steps("stride", space))
    words.append(steps("dilation", space))
    words.append("boundary=" + random.choice(BOUNDARIES))
    words.append("type=" + random.choice(TYPES))
    return words


random.seed(int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    print(*line(), *sys.argv[3:])
