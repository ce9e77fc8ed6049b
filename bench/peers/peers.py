#!/usr/bin/env python3
"""Times the peers on the problems that `faltung bench --peers` sends, one JSON object a line on standard input:

    {"problem": LINE, "kernel": NAME or null, "input": X.npy, "filter": W.npy, "output": Y.npy, "seconds": S}

and answers with one JSON object for each peer that can do the work, then {"done": true}. The arrays are those that Faltung
was timed on; output is its result, against which each peer's is compared away from the edges.
"""
import importlib
import json
import os
import statistics
import sys
import time

import numpy as np

THREADS = int(os.environ.get("FALTUNG_THREADS") or len(os.sched_getaffinity(0)))


def optional(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


cv2, torch = optional("cv2"), optional("torch")
ndimage, signal = optional("scipy.ndimage"), optional("scipy.signal")
if cv2:
    cv2.setNumThreads(THREADS)
if torch:
    torch.set_num_threads(THREADS)


class Problem:
    def __init__(self, line):
        verb, *words = line.split()
        self.verb = verb
        self.words = dict(word.split("=", 1) for word in words)
        self.type = self.words.get("type", "f32")
        self.boundary = self.words.get("boundary", "constant")
        self.space = 3 if "d" in self.words else 2 if "h" in self.words else 1

    def number(self, word, default=1):
        return int(self.words.get(word, default))

    def axes(self, word, default):
        values = [int(v) for v in self.words.get(word, str(default)).split("x")]
        return values * self.space if len(values) == 1 else values

    @property
    def is_filter(self):
        return self.verb in ("correlate", "convolve")

    @property
    def plain(self):
        return not {"stride", "dilation", "anchor", "origin", "mode", "n", "c", "out-type", "alpha", "beta", "act"} & set(self.words)


# Each peer: name -> (version, function) or nothing where it does not apply. The function returns the result.


def opencv(p, kernel, x, w):
    borders = {"constant": 0, "edge": 1, "symmetric": 2, "reflect101": 4}
    if not (cv2 and p.is_filter and p.space == 2 and p.plain and p.boundary in borders and x.dtype.name in
            ("uint8", "int16", "uint16", "float32", "float64")):
        return
    border, taps = borders[p.boundary], np.ascontiguousarray(w[::-1, ::-1] if p.verb == "convolve" else w)
    x = np.ascontiguousarray(x)
    out = np.empty_like(x)
    if kernel and kernel.startswith("gaussian:"):
        sigma = float(kernel[9:].split(",")[0])
        yield "opencv GaussianBlur", cv2.__version__, lambda: cv2.GaussianBlur(
            x, (taps.shape[1], taps.shape[0]), sigma, dst=out, sigmaY=sigma, borderType=border)
    else:
        taps = taps.astype(np.float64 if x.dtype == np.float64 else np.float32)
        yield "opencv filter2D", cv2.__version__, lambda: cv2.filter2D(x, -1, taps, dst=out, borderType=border)


def scipy_ndimage(p, kernel, x, w):
    if not (ndimage and p.is_filter and p.plain and "pixel" not in p.words and x.size * w.size < 2.5e9):
        return
    mode = {"constant": "constant", "edge": "nearest", "symmetric": "reflect", "reflect101": "mirror", "wrap": "wrap"}[p.boundary]
    version = importlib.import_module("scipy").__version__
    function = getattr(ndimage, p.verb)
    yield f"scipy.ndimage.{p.verb}", version, lambda: function(x, w, mode=mode)


def numpy_convolve(p, kernel, x, w):
    if p.is_filter and p.space == 1 and p.plain and p.boundary == "constant" and "pixel" not in p.words:
        yield "numpy.convolve", np.__version__, lambda: np.convolve(x, w if p.verb == "convolve" else w[::-1], "same")


def torch_layer(p, kernel, x, w):
    if not torch or x.dtype.name not in ("float32", "float64"):
        return
    function = getattr(torch.nn.functional, f"conv{p.space}d")
    if p.is_filter and p.plain and "pixel" not in p.words:
        taps = np.ascontiguousarray(w[(slice(None, None, -1),) * p.space] if p.verb == "convolve" else w)
        tx, tw = torch.from_numpy(x)[None, None], torch.from_numpy(taps)[None, None]
        pad = [k // 2 for k in w.shape]
        run = lambda: function(tx, tw, padding=pad)
    elif p.verb == "forward" and p.boundary == "constant" and ":" not in p.words.get("pad", "0"):
        tx, tw = torch.from_numpy(x), torch.from_numpy(w)
        if p.words.get("layout", "nc")[1] != "c":  # channels last in memory: the same logical order for torch
            tx, tw = (torch.movedim(t, -1, 1) for t in (tx, tw))
        run = lambda: function(tx, tw, None, p.axes("stride", 1), p.axes("pad", 0), p.axes("dilation", 1), p.number("groups"))
    else:
        return

    def result():
        with torch.inference_mode():
            return run()

    yield f"torch conv{p.space}d", torch.__version__, result


PEERS = (opencv, scipy_ndimage, numpy_convolve, torch_layer)


def timed(function, seconds):
    function()
    times, start = [], time.perf_counter()
    while len(times) < 3 or (time.perf_counter() - start < seconds and len(times) < 1000):
        before = time.perf_counter()
        function()
        times.append(time.perf_counter() - before)
        if times[0] > 2 * seconds:
            break
    return times


def difference(result, expected, reach):
    """Largest difference over the middle, where no boundary reaches: peers need not offer every boundary."""
    result = np.asarray(result.detach().numpy() if torch and isinstance(result, torch.Tensor) else result)
    result = result.reshape(expected.shape) if result.size == expected.size else None
    if result is None:
        return None
    middle = tuple(slice(r, n - r) for r, n in zip(reach, expected.shape))
    a, b = result[middle].astype(np.float64), expected[middle].astype(np.float64)
    return float(np.max(np.abs(a - b))) if a.size else None


def main():
    for line in sys.stdin:
        request = json.loads(line)
        p = Problem(request["problem"])
        x, w = np.load(request["input"]), np.load(request["filter"])
        expected = np.load(request["output"]) if request.get("output") else None
        for peer in PEERS:
            for name, version, function in peer(p, request.get("kernel"), x, w) or ():
                try:
                    times = timed(function, request["seconds"])
                    answer = {"implementation": name, "version": version, "seconds_median": statistics.median(times),
                              "seconds_min": min(times), "runs": len(times)}
                    if expected is not None and p.is_filter:
                        answer["max_abs_difference"] = difference(function(), expected, [k for k in w.shape])
                except Exception as error:  # a peer that cannot is a line in the table, not the end of it
                    answer = {"implementation": name, "version": version, "error": str(error).splitlines()[0]}
                print(json.dumps(answer), flush=True)
        print(json.dumps({"done": True}), flush=True)


if __name__ == "__main__":
    main()
