"""Problem lines of gradients of filters of 3x3 taps a plane whose operands are planar, for few blocks, so that each
walks many stages: every width, depth, number of channels and order of the filter. planar.py SEED COUNT [WORD...]"""
import random
import sys

MOST = 2e7  # multiply-adds: the reference, on the CPU, takes the time


def shape(space):
    """Sizes and planes of taps within the limit."""
    while True:
        n, c, k = random.randint(1, 9), random.choice([3, 8, 24, 64, 72, 130]), random.choice([2, 8, 40, 64, 65, 128])
        size = [random.randint(1, 7)] * (space - 2) + [random.randint(1, 60), 2 * random.randint(1, 60)]
        taps = random.choice([1, 2, 3]) if space == 3 else 1
        work = n * c * k * 9 * taps
        for i in size:
            work *= i
        if work <= MOST:
            return n, c, k, size, taps


def line():
    space = random.choice([2, 2, 3])
    n, c, k, size, taps = shape(space)
    words = ["backward-filter", f"n={n}", f"c={c}", f"k={k}", "r=3", "s=3"]
    words += [f"{a}={v}" for a, v in zip("dhw"[3 - space:], size)]
    if space == 3:
        depth = {1: "0", 2: "1:0", 3: "1"}[taps]
        words += [f"t={taps}", f"pad={depth}x1x1"]
    else:
        words.append("pad=1")
    words += ["type=" + random.choice(["f16", "bf16"]), "layout=" + ["nchw", "ncdhw"][space - 2]]
    if random.random() < 0.2:
        words.append("weight-layout=" + ["hwio", "dhwio"][space - 2])
    if random.random() < 0.7:  # sums of one to eight blocks
        words.append(f"max-workspace={random.randint(1, 8) * k * ((c + 63) // 64 * 64) * 9 * taps * 4}")
    return " ".join(words)


random.seed(int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    print(line(), *sys.argv[3:])
