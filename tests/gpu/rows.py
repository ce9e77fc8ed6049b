"""Problem lines of filters along rows, and with `terms` of separable filters of images: the kernels that stage lines in
shared memory take them. rows.py SEED COUNT [terms] [WORDS]"""
import random
import sys

BOUNDARIES = ["constant", "edge", "symmetric", "reflect101", "wrap"]
TYPES = ["f32", "f32", "f32", "u8", "u16", "s16", "f16", "bf16", "s8", "f64"]


def ends():
    boundary = random.choice(BOUNDARIES)
    return ["boundary=" + boundary] + (["value=2"] if boundary == "constant" and random.random() < 0.5 else [])


def along_rows():
    words = [f"w={random.choice([2, 7, 64, 130, 517, 1024, 2051, 4096])}", f"s={random.randint(2, 120)}"]
    if random.random() < 0.7:
        words += [f"h={random.choice([1, 3, 20, 100])}", "r=1", f"c={random.randint(1, 3)}"]
    if random.random() < 0.2:
        words.append("mode=full")
    return words + [f"type={random.choice(TYPES)}"]


def separable():
    kind = random.choice(TYPES[:-1])
    width = random.choice([5, 37, 130, 517, 1024, 2051] if kind == "f32" else [8, 36, 132, 520, 1024, 1040, 2048])
    words = [f"w={width}", f"h={random.choice([3, 20, 100, 333])}",
             f"r={random.randint(3, 25)}", f"s={random.randint(3, 31)}", "rank=1", f"type={kind}"]
    words.append(random.choice(["pixel=2", "pixel=3", "pixel=4", "c=2", "n=1", "n=3"]))
    if kind in ("f16", "bf16"):
        words.append("weight-type=f32")  # rounded taps are of full rank
    if random.random() < 0.2:
        words.append("mode=full")
    return words + random.choice([[], [], ["out-type=f16"], ["out-type=u8"]])


random.seed(int(sys.argv[1]))
terms = "terms" in sys.argv[3:]
for _ in range(int(sys.argv[2])):
    words = (separable() if terms else along_rows()) + ends()
    if random.random() < 0.2:
        words += ["alpha=0.5", "beta=1"]
    if random.random() < 0.2:
        words.append(f"n={random.randint(2, 3)}" if not any(w.startswith("n=") for w in words) else "")
    print(" ".join(["correlate"] + [w for w in words if w] + [w for w in sys.argv[3:] if w != "terms"]))
