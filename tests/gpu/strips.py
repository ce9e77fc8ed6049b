"""Problem lines of layers with contiguous columns (NCHW), of 16-bit floats and few input channels, volumes among them:
every boundary, pad, alignment and epilogue. strips.py SEED COUNT"""
import random
import sys

BOUNDARIES = ["edge", "symmetric", "reflect101", "wrap", "constant=1.5"]
MOST = 20_000_000  # multiply-adds: the reference, on the CPU, takes the time
EPILOGUES = ["bias=1", "scale=1", "act=relu", "residual=1", "bias=1 residual=1 act=gelu", "alpha=0.5 beta=0.25"]


def layer():
    volume = random.random() < 0.5
    t, r, s = random.choice([1, 2, 3, 3]) if volume else 1, random.randint(1, 5), random.randint(1, 5)
    c = random.choice([1, 1, 2, 3, 4] if volume else [1, 1, 1, 2, 3, 3, 4, 6, 9])
    size = [random.randint(1, 9) + t, random.randint(1, 40) + r, random.choice([8, 16, 64, 72, 128, random.randint(s, 200)])]
    size[2] = max(size[2], s)
    k = random.choice([1, 3, 8, 9, 16, 20, 33, 64])
    work = c * k * t * r * s * size[0] ** volume * size[1] * size[2]
    words = ["forward", f"n={random.choice([1, 2, max(1, min(40, MOST // work))])}", f"c={c}", f"k={k}"]
    pads = [f"{random.randint(0, r - 1)}:{random.randint(0, r - 1)}", f"{random.randint(0, s - 1)}:{random.randint(0, s - 1)}"]
    if volume:
        words += [f"d={size[0]}", f"t={t}", f"stride={random.choice([1, 1, 2])}x1x1"]
        pads = [f"{random.randint(0, t - 1)}:{random.randint(0, t - 1)}"] + pads
    words += [f"h={size[1]} w={size[2]} r={r} s={s}", "pad=" + "x".join(pads)]
    planar = c > 1 or random.random() < 0.5
    words.append(f"layout={['ndhwc', 'nhwc', 'ncdhw', 'nchw'][2 * planar + (not volume)]} type={random.choice(['f16', 'bf16'])}")
    if random.random() < 0.5:
        words.append(random.choice(EPILOGUES))
    if random.random() < 0.3:
        words.append(f"boundary={random.choice(BOUNDARIES)}")
    return " ".join(words)


def main():
    random.seed(int(sys.argv[1]))
    for _ in range(int(sys.argv[2])):
        print(layer())


main()
