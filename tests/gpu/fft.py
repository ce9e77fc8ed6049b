"""Problem lines of filters that transforms compute: one to three axes, every boundary, stride and type, filters longer
than the input and than a tile, long layers and their gradients. fft.py SEED COUNT [wgrad] [WORDS]

wgrad: gradients of filters of single channels, whose dy fits in a tile or does not."""
import random
import sys

BOUNDARIES = ["constant", "edge", "symmetric", "reflect101", "wrap"]
TYPES = ["f32", "f32", "f32", "f16", "bf16", "f64", "u8"]
SIZES = {1: [1, 7, 300, 4096, 20001, 70000], 2: [1, 9, 64, 150, 333], 3: [1, 8, 20, 33, 50]}
TAPS = {1: [2, 64, 511, 512, 513, 2049, 9001, 20000], 2: [1, 7, 16, 31, 63, 64, 65, 130], 3: [1, 2, 5, 9, 15, 17, 31]}


def per_axis(space, values):
    return "x".join(str(random.choice(values)) for _ in range(space))


def epilogue():
    if random.random() < 0.7:
        return []
    act = random.choice(["", "act=relu", "act=gelu", "act=clip:-1:1"])
    return [w for w in ["scale=1", "bias=1", "residual=1", "alpha=0.5", "beta=1", act] if w and random.random() < 0.5]


def layer():
    c, long = random.choice([1, 3, 5]), random.choice([1, 100, 1000, 1024, 8192])
    words = [f"n={random.randint(1, 3)} c={c} k={c} groups={c}", f"w={random.choice([long, 3000])} s={long}"]
    words.append(random.choice([f"pad={long - 1}:0", f"pad={long // 2}", "pad=0:%d" % (long - 1)]))
    if random.random() < 0.3:
        return ["backward-data"] + words
    return ["forward"] + words + epilogue()


def line():
    kind = ["type=" + random.choice(TYPES)]
    if random.random() < 0.3:
        return layer() + [random.choice(["type=f32", "type=f16", "type=bf16"]), "layout=ncw"]
    space = random.choice([1, 2, 2, 3])
    words = [random.choice(["correlate", "convolve"])]
    words += [f"{k}={random.choice(SIZES[space])}" for k in "dhw"[3 - space :]]
    words += [f"{k}={random.choice(TAPS[space])}" for k in "trs"[3 - space :]]
    if random.random() < 0.2:
        words.append(f"pixel={random.choice([2, 3])}")
    if random.random() < 0.3:
        words.append("stride=" + per_axis(space, [1, 2, 3]))
    if random.random() < 0.3:
        words.append("dilation=" + per_axis(space, [1, 2, 5, 12]))
    words.append("boundary=" + random.choice(BOUNDARIES))
    if "constant" in words[-1]:
        mode = random.choice(["same", "same", "full"])
        words.append(f"value={random.choice([0, 0, 2.5, -3])} mode={mode}")
    if "u8" in kind[0] and random.random() < 0.5:
        kind.append("weight-type=s8 out-type=s32")
    return words + epilogue() + kind


def wgrad():
    space, c = random.choice([1, 1, 2, 3]), random.choice([1, 3, 5])
    words = [f"backward-filter n={random.randint(1, 5)} c={c} k={c * random.randint(1, 2)} groups={c}"]
    sizes, taps = (SIZES[space][1:], TAPS[space]) if space > 1 else ([300, 1024, 4096, 20001], [1, 64, 512, 1024, 4096])
    apart = random.choice(["", "", "stride=2", "dilation=2 pad=1", "pad=1"])
    for size, tap in zip("dhw"[3 - space :], "trs"[3 - space :]):
        t = random.choice(taps)
        words.append(f"{size}={max(random.choice(sizes), 2 * t if 'dilation' in apart else t)} {tap}={t}")
    words += ["boundary=wrap"] * (random.random() < 0.2) + [random.choice(["", "type=f16", "type=bf16", "type=f64"])]
    return words + [apart or f"pad={t - 1}:0"]


random.seed(int(sys.argv[1]))
rest = [w for w in sys.argv[3:] if w != "wgrad"]
for _ in range(int(sys.argv[2])):
    print(" ".join(filter(None, (wgrad() if "wgrad" in sys.argv else line()) + rest)))
