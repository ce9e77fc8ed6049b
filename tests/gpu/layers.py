"""Problem lines of layers and their gradients that tensor cores take: every type, layout, stride, dilation, padding,
boundary, grouping and epilogue. layers.py SEED COUNT [WORDS]"""
import random
import sys

AXES, TAPS = "dhw", "trs"
LAYOUTS = {1: ["ncw", "nwc", "nwc"], 2: ["nchw", "nhwc", "nhwc"], 3: ["ncdhw", "ndhwc", "ndhwc"]}
SIZES = {1: [7, 50, 257, 600], 2: [1, 5, 9, 14, 20, 31], 3: [1, 3, 6, 10]}


def pick_window(space):
    """Sizes, taps, strides, dilations and pads of an output that is not empty."""
    while True:
        size = [random.choice(SIZES[space]) for _ in range(space)]
        taps = [random.choice([1, 2, 3] if space == 3 else [1, 1, 2, 3, 3, 5, 7]) for _ in range(space)]
        if space == 1 and random.random() < 0.2:
            taps = [random.choice([31, 33, 64])]
        stride = [random.choice([1, 1, 1, 2, 3, 5]) for _ in range(space)]
        dilation = [random.choice([1, 1, 1, 2, 3]) for _ in range(space)]
        pad = [(random.randint(-1 if s > 4 else 0, t * d), random.randint(0, t * d)) for s, t, d in zip(size, taps, dilation)]
        if all(s + a + b >= d * (t - 1) + 1 for s, (a, b), t, d in zip(size, pad, taps, dilation)):
            return size, taps, stride, dilation, pad


def pick_channels():
    groups = random.choice([1, 1, 1, 1, 2, 3, 4, 8])
    c = random.choice([1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 32, 48, 64, 72, 100])
    k = random.choice([1, 2, 3, 4, 6, 8, 11, 16, 24, 32, 33, 64, 96, 130])
    return (groups, min(c, 24), min(k, 33)) if groups > 2 else (groups, c, k)


def boundary():
    modes = ["edge", "symmetric", "reflect101", "wrap", "constant=2"]
    return [f"boundary={random.choice(modes)}"] if random.random() < 0.3 else []


def epilogue():
    if random.random() < 0.5:
        return []
    words = [w for w in ["scale=1", "bias=1", "residual=1", "alpha=0.5", "beta=1"] if random.random() < 0.5]
    act = random.choice(["", "act=relu", "act=gelu", "act=silu", "act=leaky:0.1", "act=clip:-1:1", "act=tanh"])
    return words + ([act] if act else [])


def types(type):
    if type in ("s8", "u8"):
        return [f"weight-type={random.choice(['s8', 'u8'])}", f"out-type={random.choice(['s8', 'u8', 's32', 'f32'])}"]
    return [f"out-type={random.choice(['f32', 'f16', 'u8'])}"] if random.random() < 0.2 else []


def line():
    space = random.choice([1, 2, 2, 2, 3])
    size, taps, stride, dilation, pad = pick_window(space)
    groups, c, k = pick_channels()
    operation = random.choice(["forward", "forward", "backward-data", "backward-filter"])
    type = random.choice(["f16", "f16", "bf16", "f32", "f32", "f64"] + (["s8", "u8"] if operation == "forward" else []))
    words = [operation, f"n={random.randint(1, 3)}", f"c={c * groups}", f"k={k * groups}", f"groups={groups}"]
    words += [f"{n}={v}" for n, v in zip(AXES[-space:], size)] + [f"{n}={v}" for n, v in zip(TAPS[-space:], taps)]
    words += [f"stride={'x'.join(map(str, stride))}", f"dilation={'x'.join(map(str, dilation))}"]
    words += [f"pad={'x'.join(f'{a}:{b}' for a, b in pad)}", f"layout={random.choice(LAYOUTS[space])}", f"type={type}"]
    if operation != "backward-data":
        words += boundary()
    if operation == "forward":
        words += types(type) + epilogue()
    if operation == "backward-filter" and random.random() < 0.5:
        words.append("bias=1")
    if type == "f32" and random.random() < 0.3:
        words.append("tf32=1")
    return " ".join(words + sys.argv[3:])


if __name__ == "__main__":
    random.seed(int(sys.argv[1]))
    for _ in range(int(sys.argv[2])):
        print(line())
