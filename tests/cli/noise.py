#!/usr/bin/env python3
"""Makes and compares the signals of signal.case.

  noise.py noise FILE TYPE FRAMES CHANNELS [FRAME VALUE]...   writes an .npy of noise, |x| < 100, with some values put in
  noise.py near A B TOLERANCE                                 fails unless both have one type and shape, and values that
                                                               are not finite at the same places and elsewhere near
"""
import array
import ast
import math
import struct
import sys

CODES = {"<f4": "f", "<f8": "d", "<i2": "h", "|u1": "B", "<i4": "i"}


def noise(path, kind, frames, channels, *put):
    values, state = [], 1
    for _ in range(frames * channels):
        state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        values.append((state >> 40) / (1 << 24) * (200 if kind[1] != "u" else 100) - (100 if kind[1] != "u" else 0))
    for frame, value in zip(put[::2], put[1::2]):
        values[int(frame) * channels] = float(value)
    shape = (frames, channels) if channels > 1 else (frames,)
    head = ("{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (kind, shape)).encode()
    head += b" " * ((64 - (11 + len(head)) % 64) % 64) + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)
        array.array(CODES[kind], values if kind[1] == "f" else map(int, values)).tofile(file)


def load(path):
    with open(path, "rb") as file:
        data = file.read()
    end = 10 + struct.unpack("<H", data[8:10])[0]
    head = ast.literal_eval(data[10:end].decode())
    return head["descr"], head["shape"], array.array(CODES[head["descr"]], data[end:])


def near(a, b, tolerance):
    (kind, shape, x), (other_kind, other_shape, y) = load(a), load(b)
    if (kind, shape) != (other_kind, other_shape):
        sys.exit(f"{kind} {shape} and {other_kind} {other_shape}")
    for i, (p, q) in enumerate(zip(x, y)):
        if math.isfinite(p) != math.isfinite(q) or (math.isfinite(p) and abs(p - q) > tolerance):
            sys.exit(f"{i}: {p} and {q}")


if sys.argv[1] == "noise":
    noise(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), *sys.argv[6:])
else:
    near(sys.argv[2], sys.argv[3], float(sys.argv[4]))
