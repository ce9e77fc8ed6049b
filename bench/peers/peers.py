#!/usr/bin/env python3
"""Runs the peers for `faltung bench --peers`, which starts it once and sends one JSON object a line:

    {"do": "load", "problem": LINE, "kernel": NAME or null, "result": OPERAND, and for each operand that there is
     "input": X.npy, "input_order": "ngcdhw", "filter": ..., "output": ..., "bias": ..., "residual": ...}
    {"do": "time", "peer": INDEX, "seconds": S}
    {"do": "drop"}

It answers with one JSON object a line and ends every answer with {"done": true}: at the start the libraries, after
"load" the peers that can do the problem, after "time" what was measured. The arrays are those that Faltung was timed
on; the result among them is Faltung's own, against which each peer's is compared away from the edges, where no boundary
reaches.
"""
import json
import os
import statistics
import sys
import time

THREADS = int(os.environ.get("FALTUNG_THREADS") or len(os.sched_getaffinity(0)))
for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # read when the libraries are loaded
    os.environ[pool] = str(THREADS)
sys.dont_write_bytecode = True  # where it is installed need not be writable
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what libraries print must not come between the answers


def answer(**fields):
    print(json.dumps(fields), file=ANSWERS, flush=True)


def libraries():
    """Says which libraries are there; the modules, or None where one is missing."""
    found = {}
    for name, module in (("opencv", "cv2"), ("scipy", "scipy"), ("numpy", "numpy"), ("torch", "torch")):
        try:
            found[name] = __import__(module)
            answer(library=name, version=found[name].__version__)
        except ImportError as error:
            found[name] = None
            answer(library=name, missing=str(error).splitlines()[0])
    answer(done=True)
    return found


class Problem:
    """A problem line and its operands in logical order: batch, group, channel, depth, height, width."""

    def __init__(self, np, request):
        verb, *words = request["problem"].split()
        self.verb, self.words, self.kernel = verb, dict(word.split("=", 1) for word in words), request.get("kernel")
        self.is_filter = verb in ("correlate", "convolve")
        self.boundary = self.words.get("boundary", "constant")
        self.space = 3 if "d" in self.words else 2 if "h" in self.words else 1
        self.operands = {name: self.read(np, request, name) for name in ("input", "filter", "output", "residual")}
        self.bias = np.load(request["bias"]) if request.get("bias") else None
        self.result = self.operands[request["result"]]

    @staticmethod
    def read(np, request, name):
        if not request.get(name):
            return None
        return np.transpose(np.load(request[name]), [request[name + "_order"].index(axis) for axis in "ngcdhw"])

    def has(self, *words):
        return bool(set(words) & set(self.words))

    def number(self, word, default=1):
        return int(self.words.get(word, default))

    def axes(self, word, default):
        """One number an axis of space; None if they differ before and after."""
        if ":" in self.words.get(word, ""):
            return None
        values = [int(value) for value in self.words.get(word, str(default)).split("x")]
        return values * self.space if len(values) == 1 else values

    def taps(self):
        """Taps an axis of space."""
        return [self.number(word) for word in "trs"[3 - self.space:]]

    def spatial_taps(self):
        """A filter problem's one filter, as the user wrote it."""
        return self.operands["filter"].reshape(self.taps())

    def spatial(self, name):
        """A filter problem's operand as users of arrays hold it: space, then the pixel's channels if there are any."""
        array = self.operands[name]
        return array[0, :, 0].transpose(1, 2, 3, 0).reshape(
            *array.shape[6 - self.space:], *([array.shape[1]] if "pixel" in self.words else []))


class Peer:
    """One implementation of one problem. finish, where given, turns what run returns into an array like the result."""

    def __init__(self, library, implementation, version, run, finish=None):
        self.library, self.implementation, self.version, self.run = library, implementation, version, run
        self.finish = finish or (lambda result: result)
        self.compared = False

    def time(self, seconds):
        """The first call warms up, and is the measurement if it alone takes longer than the seconds."""
        start = time.perf_counter()
        result = self.run()
        times, begin = [], time.perf_counter()
        if begin - start >= seconds:
            times = [begin - start]
        while not times or (time.perf_counter() - begin < seconds and len(times) < 1000):
            before = time.perf_counter()
            result = self.run()
            times.append(time.perf_counter() - before)
        return times, result


def compare(np, problem, peer, result):
    """Largest difference from Faltung's result, and whether it is as small as rounding explains."""
    expected = problem.result
    if problem.is_filter:
        expected = problem.spatial("output")
        reach = [size * dilation for size, dilation in zip(problem.taps(), problem.axes("dilation", 1))]
        middle = tuple(slice(r, n - r) for r, n in zip(reach, expected.shape))
    else:
        middle = ()
    got = np.asarray(peer.finish(result)).reshape(expected.shape)[middle]
    expected = expected[middle]
    if got.size == 0:
        return {}
    if expected.dtype.kind in "iu":
        passes = problem.space if (problem.kernel or "").startswith("gaussian:") else 1
        tolerance = float(passes)  # where a peer truncates or works in fixed point, in each pass
    else:
        tolerance = {2: 1e-2, 4: 1e-4, 8: 1e-11}[expected.dtype.itemsize] * float(np.max(np.abs(expected)))
    difference = float(np.max(np.abs(got.astype(np.float64) - expected)))
    return {"max_abs_difference": difference if np.isfinite(difference) else None, "tolerance": tolerance,
            "agrees": bool(difference <= tolerance)}


def load(np, modules, request):
    import filters
    import layers
    problem = Problem(np, request)
    peers = []
    for make in filters.PEERS + layers.PEERS:
        try:
            peers.extend(make(modules, problem, Peer))
        except Exception as error:  # a library refuses the problem: the others go on
            print(f"{make.__name__}: {error}", file=sys.stderr)
    for peer in peers:
        answer(library=peer.library, implementation=peer.implementation, version=peer.version)
    return problem, peers


def measure(np, problem, peer, seconds):
    try:
        times, result = peer.time(seconds)
        fields = {"seconds_median": statistics.median(times), "seconds_min": min(times), "runs": len(times)}
        if not peer.compared:
            fields.update(compare(np, problem, peer, result))
            peer.compared = True
    except Exception as error:  # a peer that cannot is a line in the table, not the end of it
        fields = {"error": (str(error) or type(error).__name__).splitlines()[0][:150]}
    time.sleep(0.01)  # its threads, which may still spin, go to sleep before Faltung's turn
    answer(**fields)


def main():
    modules = libraries()
    np, problem, peers = modules["numpy"], None, []
    if modules["opencv"]:
        modules["opencv"].setNumThreads(THREADS)
    if modules["torch"]:
        modules["torch"].set_num_threads(THREADS)
    for line in sys.stdin:
        request = json.loads(line)
        problem, peers = (problem, peers) if request["do"] == "time" else (None, [])
        if request["do"] == "load" and np:
            problem, peers = load(np, modules, request)
        elif request["do"] == "time":
            measure(np, problem, peers[request["peer"]], request["seconds"])
        answer(done=True)


if __name__ == "__main__":
    main()
