"""Problem lines of depthwise layers and their gradients: every float, layout, stride, dilation, padding, boundary,
multiplier and epilogue; `bands`: those that tensor cores take. depthwise.py SEED COUNT [bands] [WORDS]"""
import random
import sys

import layers

SIZES = {1: [7, 50, 257], 2: [1, 5, 8, 14, 20, 31, 56], 3: [1, 3, 6, 10]}
TAPS = {1: [1, 3, 4, 7, 31], 2: [1, 3, 3, 3, 5, 7, 9, 15], 3: [1, 2, 3]}


def pick_window(space):
    while True:
        size = [random.choice(SIZES[space]) for _ in range(space)]
        taps = [random.choice(TAPS[space])] * space if random.random() < 0.7 else random.choices(TAPS[space], k=space)
        stride = [random.choice([1, 1, 1, 2, 3])] * space
        dilation = [random.choice([1, 1, 1, 2, 5])] * space
        if random.random() < 0.2:
            stride, dilation = random.choices([1, 2, 4], k=space), random.choices([1, 2, 3], k=space)
        pad = [(random.randint(-1 if s > 4 else 0, t * d), random.randint(0, t * d)) for s, t, d in zip(size, taps, dilation)]
        if random.random() < 0.5:
            pad = [(t // 2 * d, t // 2 * d) for t, d in zip(taps, dilation)]
        if all(s + a + b >= d * (t - 1) + 1 for s, (a, b), t, d in zip(size, pad, taps, dilation)):
            return size, taps, stride, dilation, pad


def line():
    space = random.choice([1, 2, 2, 2, 3])
    size, taps, stride, dilation, pad = pick_window(space)
    channels, members = random.choice([2, 3, 4, 8, 12, 16, 32, 40, 64, 96]), random.choice([1, 1, 1, 1, 2, 3])
    operation = random.choice(["forward", "forward", "backward-data", "backward-filter"])
    type = random.choice(["f16", "f16", "bf16", "f32", "f64"])
    words = [operation, f"n={random.randint(1, 3)}", f"c={channels}", f"k={channels * members}", f"groups={channels}"]
    words += [f"{n}={v}" for n, v in zip(layers.AXES[-space:], size)] + [f"{n}={v}" for n, v in zip(layers.TAPS[-space:], taps)]
    words += [f"stride={'x'.join(map(str, stride))}", f"dilation={'x'.join(map(str, dilation))}"]
    words += [f"pad={'x'.join(f'{a}:{b}' for a, b in pad)}", f"layout={random.choice(layers.LAYOUTS[space])}", f"type={type}"]
    if operation == "forward":
        words += layers.boundary() + layers.epilogue()
    elif operation == "backward-filter":
        words += layers.boundary() + (["bias=1"] if random.random() < 0.5 else [])
    words += [f"method=cuda-depthwise{'-wgrad' if operation == 'backward-filter' else ''}"]
    return " ".join(words)


def bands():
    inner, operation = random.choice([False, True]), random.choice(["forward", "backward-data", "backward-filter"])
    size = [random.choice([1, 5, 7, 14, 20, 28, 31, 56, 130]), random.choice([5, 7, 8, 14, 20, 28, 33, 56, 64, 112])]
    taps = [random.choice([1, 3, 4, 5, 7, 7, 9, 11, 15])] * 2 if random.random() < 0.7 else random.choices([1, 2, 3, 5, 8, 13, 31], k=2)
    pad = [t // 2 if random.random() < 0.5 else random.randrange(t) for t in taps]
    pad = [p if n + 2 * p >= t else t - 1 for p, n, t in zip(pad, size, taps)]
    inner &= operation != "backward-filter"
    channels = random.choice([8, 24, 40, 96] if inner else [2, 3, 8, 24])
    members = 2 if not inner and operation != "backward-data" and random.random() < 0.2 else 1
    words = [operation, f"n={random.choice([1, 2, 3, 9, 17])}", f"c={channels}", f"k={channels * members}", f"groups={channels}"]
    words += [f"h={size[0]} w={size[1]} r={taps[0]} s={taps[1]} pad={pad[0]}x{pad[1]}"]
    words += [f"layout={'nhwc' if inner else 'nchw'}", f"type={random.choice(['f16', 'bf16'])}"]
    if operation == "forward":
        words += layers.epilogue()
    words += [f"method=cuda-depthwise-toeplitz{'-wgrad' if operation == 'backward-filter' else ''}"]
    return " ".join(words)


if __name__ == "__main__":
    random.seed(int(sys.argv[1]))
    pick, words = (bands, sys.argv[4:]) if sys.argv[3:4] == ["bands"] else (line, sys.argv[3:])
    for _ in range(int(sys.argv[2])):
        print(" ".join([pick()] + words))
