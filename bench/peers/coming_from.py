"""Checks docs/guide/coming-from.md: runs both sides of each row of its Python tables and compares the results.

    bench/.venv/bin/python bench/peers/coming_from.py build/faltung docs/guide/coming-from.md"""
import os
import re
import shlex
import subprocess
import sys
import tempfile

import cv2
import numpy
import scipy.ndimage as ndimage
import scipy.signal as signal
import torch
import torch.nn.functional as F

CHECKED = ("scipy.ndimage", "scipy.signal and numpy", "OpenCV", "torch")
LAYERS = ("forward", "backward-data", "maxpool", "avgpool")


def arrays_of(section, random):
    """The arrays that a section's rows name."""
    draw = lambda *shape: random.random(shape, dtype=numpy.float32) - 0.5
    if section == "OpenCV":
        return {"img": random.integers(0, 256, (20, 30, 3), dtype=numpy.uint8),
                "k": numpy.array([[0, -1, 0], [-1, 5, -1], [0, -1, 1]], numpy.float32)}
    if section != "torch":
        v = draw(4)
        return {"x": draw(13, 17), "w": draw(4, 5), "s": draw(50), "v": v, "v_row": v[None, :]}
    return {"x": draw(2, 6, 13, 17), "w": draw(8, 6, 3, 3), "b": draw(8), "w4": draw(8, 6, 4, 4), "dw": draw(6, 1, 3, 3),
            "x1": draw(2, 6, 17), "w1": draw(8, 6, 3), "x3": draw(2, 6, 5, 9, 8), "w3": draw(4, 6, 2, 3, 3),
            "g": draw(2, 8, 7, 9)}


def rows_of(page):
    """(section, their call, our words) of every row whose both columns are code."""
    section = None
    for line in open(page):
        if line.startswith("## "):
            section = line[3:].strip()
        row = re.fullmatch(r"\| `([^`]+)` \| `([^`]+)` \|\n?", line)
        if row and section in CHECKED:
            yield section, *row.groups()


def used(call, arrays):
    """The arrays that a call names, in their order."""
    return [name for name in re.findall(r"\w+", call) if name in arrays]


def ours(faltung, words, call, arrays, folder):
    """Runs the command on the call's arrays."""
    if words.split()[0] not in LAYERS:
        verb, *options = shlex.split(words)
        command = [faltung, verb, f"{used(call, arrays)[0]}.npy", "y.npy", *options, "--quiet"]
    else:
        data, *weights = used(call, arrays)
        command = [faltung, "layer", words, "--grad" if words.startswith("backward") else "--input", f"{data}.npy",
                   "--output", "y.npy", "--quiet"]
        for option, name in zip(("--weight", "--bias"), weights):
            command += [option, f"{name}.npy"]
    subprocess.run(command, cwd=folder, check=True)
    return numpy.load(os.path.join(folder, "y.npy"))


def check(faltung, page):
    random, failed, count = numpy.random.default_rng(7), 0, 0
    for section, call, words in rows_of(page):
        arrays = arrays_of(section, random)
        held = {name: torch.from_numpy(value) for name, value in arrays.items()} if section == "torch" else arrays
        theirs = numpy.asarray(eval(call, {**globals(), **held}))
        with tempfile.TemporaryDirectory() as folder:
            for name, value in arrays.items():
                numpy.save(os.path.join(folder, f"{name}.npy"), value)
            result = ours(faltung, words, call, arrays, folder)
        same = result.shape == theirs.shape and numpy.allclose(
            result.astype(float), theirs.astype(float), rtol=1e-4, atol=1.01 if call.startswith("cv2.blur") else 1e-4)
        count += 1
        if not same:
            failed += 1
            print(f"coming_from: {call} is not {words}")
    print(f"coming_from: {count} rows, {failed} failed")
    return failed == 0 and count > 0


if __name__ == "__main__":
    sys.exit(0 if check(os.path.abspath(sys.argv[1]), sys.argv[2]) else 1)
