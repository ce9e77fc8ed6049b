"""Problem lines of cuda-winograd and cuda-winograd-wgrad: random sizes, ragged tiles, taps along one axis or two, types, pads, boundaries,
groups, layouts, epilogues and filters that are known or given, with the error that they need. winograd.py SEED COUNT"""
import random
import sys

MOST = 60_000_000  # multiply-adds: the reference, on the CPU, takes the time
BOUNDARIES = ["constant", "constant=1.5", "edge", "symmetric", "reflect101", "wrap"]
FIXED = [  # both roles of the products, pieces of a batch, tiles that are mostly outside
    "forward n=1 c=1920 h=8 w=8 k=64 r=3 s=3 pad=1 filter=known method=cuda-winograd",
    "forward n=1 c=1920 h=8 w=8 k=64 r=3 s=3 pad=1 filter=given layout=nhwc method=cuda-winograd",
    "forward n=9 c=512 h=12 w=16 k=40 r=3 s=3 pad=1 filter=known method=cuda-winograd",
    "backward-data n=1 c=640 h=9 w=7 k=520 r=3 s=3 pad=1 filter=given method=cuda-winograd",
    "backward-data n=8 c=33 h=16 w=16 k=512 r=3 s=3 pad=1 filter=known layout=nhwc method=cuda-winograd",
    "forward n=8 c=512 h=16 w=16 k=32 r=3 s=3 pad=1 max-workspace=16M bias=1 residual=1 method=cuda-winograd",
    "forward n=1 c=96 h=1 w=1 k=1 r=3 s=3 pad=1 method=cuda-winograd",
    "forward n=1 c=97 h=200 w=3 k=5 r=3 s=3 pad=1 boundary=edge method=cuda-winograd",
    "backward-filter n=1 c=96 h=64 w=40 k=130 r=3 s=3 pad=1 method=cuda-winograd-wgrad",
    "backward-filter n=8 c=130 h=16 w=31 k=40 r=3 s=3 layout=nhwc method=cuda-winograd-wgrad",
    "forward n=4 c=512 h=12 w=12 k=20 r=3 s=3 pad=1 type=f16 filter=known max-error=0.5 max-workspace=8M method=cuda-winograd",
    "forward n=1 c=640 h=9 w=16 k=64 r=3 s=3 pad=1 type=f16 filter=given layout=nhwc max-error=0.5 method=cuda-winograd",
    "backward-data n=1 c=640 h=9 w=16 k=64 r=3 s=3 pad=1 type=bf16 filter=given layout=nhwc max-error=0.5 method=cuda-winograd",
    "backward-filter n=8 c=72 h=12 w=8 k=100 r=3 s=3 pad=1 type=f16 out-type=f16 layout=nhwc max-error=0.5 method=cuda-winograd-wgrad",
    "forward n=2 c=200 w=301 k=96 s=5 pad=2 type=f16 layout=nwc max-error=0.5 method=cuda-winograd",
]


def channels():
    return random.choice([random.randint(1, 40), random.randint(90, 200), random.randint(500, 700)])


def taps():
    count = random.choice([3, 3, 3, 5])
    return random.choice([(count, count), (count, count), (count, 1), (1, count)])


def layer():
    operation = random.choice(["forward", "forward", "backward-data", "backward-filter"])
    groups = random.choice([1, 1, 1, 2, 3])
    c, k, (r, s) = channels(), channels(), taps()
    h, w = random.randint(5, 40), random.randint(5, 40)
    while h * w > 25 and c * k * h * w * r * s * groups > MOST:
        h, w = max(5, h - 3), max(5, w - 3)
    n = max(1, min(random.randint(1, 5), MOST // (c * k * h * w * r * s * groups)))
    pads = [f"{random.randint(-1 if h > 6 else 0, 3)}:{random.randint(0, 3)}", f"{random.randint(0, 3)}:{random.randint(0, 3)}"]
    words = [operation, f"n={n} c={c * groups} h={h} w={w} k={k * groups} r={r} s={s}"]
    words += [f"groups={groups} pad={'x'.join(pads)} layout={random.choice(['nchw', 'nhwc'])}"]
    words.append(random.choice(["max-error=1e-4", "type=f16 max-error=0.5", "type=bf16 max-error=0.5"]))
    if operation == "backward-filter":
        return " ".join(words + [f"boundary={random.choice(BOUNDARIES)}", "method=cuda-winograd-wgrad"])
    words.append(f"filter={random.choice(['known', 'given'])}")
    if operation == "forward":
        words += [f"boundary={random.choice(BOUNDARIES)}", f"act={random.choice(['identity', 'relu', 'silu', 'gelu'])}"]
        words += [f"{word}=1" for word in ("bias", "scale", "residual") if random.random() < 0.3]
        words += ["out-type=f32"] if random.random() < 0.2 else []
    return " ".join(words + ["method=cuda-winograd"])


def main():
    random.seed(int(sys.argv[1]))
    for line in FIXED + [layer() for _ in range(int(sys.argv[2]))]:
        print(line)


main()
