#!/usr/bin/env python3
"""Runs the peers for `faltung bench --peers`, which starts it once and sends one JSON object a line:

    {"do": "load", "problem": LINE, "kernel": NAME or null, "result": OPERAND, and for each operand that exists
     "input": X.npy, "input_order": "ngcdhw", "filter": ..., "output": ..., "bias": ..., "residual": ...}
    {"do": "time", "peer": INDEX, "seconds": S}
    {"do": "drop"}

Its argument is Faltung's device: cpu, or cuda:N for the peers on that GPU.

It answers with one JSON object a line and ends every answer with {"done": true}: at the start the libraries, after
"load" the peers that can compute the problem, after "time" the measurement. The arrays are those of Faltung's timing.
Among them is Faltung's own output; each peer's output is compared with it away from the edges, where no boundary has an
effect.
"""
import gc
import json
import os
import re
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

THREADS = int(os.environ.get("FALTUNG_THREADS") or len(os.sched_getaffinity(0)))
for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # read when the libraries are loaded
    os.environ[pool] = str(THREADS)
WANTED = re.compile(os.environ.get("FALTUNG_PEERS", ""))
sys.dont_write_bytecode = True  # where it is installed need not be writable
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what libraries print must not come between the answers


def answer(**fields):
    print(json.dumps(fields), file=ANSWERS, flush=True)


def find(found, name, module, version=lambda module: module.__version__):
    """Says whether a library is there; module() loads it, and found[name] is None where that fails."""
    try:
        found[name] = module()
        answer(library=name, version=version(found[name]))
    except Exception as error:  # absent, or there and broken
        found[name] = None
        answer(library=name, missing=(str(error) or type(error).__name__).splitlines()[0][:200])


def libraries_cpu():
    """The modules of peers on the CPU, None for each that is missing."""
    found = {}
    for name, module in (("opencv", "cv2"), ("scipy", "scipy"), ("numpy", "numpy"), ("torch", "torch")):
        find(found, name, lambda module=module: __import__(module))
    find(found, "onednn", load_onednn)
    find(found, "fftw", load_fftw)
    answer(done=True)
    if not found["numpy"]:
        return {}
    if found["opencv"]:
        found["opencv"].setNumThreads(THREADS)
    if found["torch"]:
        found["torch"].set_num_threads(THREADS)
    return found


def load_onednn():
    import onednn
    return onednn.Library(THREADS)


def load_fftw():
    import fftw
    return fftw.Library(THREADS)


def libraries_gpu(ordinal):
    """The same on a GPU, with what they share: its driver."""
    try:
        import libraries_gpu as gpu
        found = {"driver": gpu.Driver(ordinal)}
    except Exception as error:  # without numpy or the driver there are no peers at all
        answer(library="npp, cupy, cudnn", missing=str(error))
        answer(done=True)
        return {}
    for name, load_it, version in gpu.LIBRARIES:
        find(found, name, lambda: load_it(found["driver"]), version)
    answer(done=True)
    return found


class Problem:
    """A problem line and its operands in logical order: batch, group, channel, depth, height, width."""

    def __init__(self, request):
        import numpy as np
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

    def type_of(self, name):
        """NumPy's name of an operand's type, or bf16, which NumPy holds as two bytes without a meaning."""
        dtype = self.operands[name].dtype
        return "bf16" if dtype.kind == "V" else dtype.name

    @property
    def filter_known(self):
        """Whether the filter is known before the time: without the word, a filter's is and a layer's is given."""
        return self.words.get("filter", "known" if self.is_filter else "given") == "known"

    def has(self, *words):
        return bool(set(words) & set(self.words))

    def number(self, word, default=1):
        return int(self.words.get(word, default))

    def axes(self, word, default):
        """One number an axis of space; None if they differ before and after."""
        text = self.words.get(word, str(default)).removeprefix("max:")
        if ":" in text:
            return None
        values = [int(value) for value in text.split("x")]
        return values * self.space if len(values) == 1 else values

    def taps(self):
        """Taps an axis of space."""
        return [self.number(word) for word in "trs"[3 - self.space:]]

    def spatial_taps(self):
        """A filter problem's one filter, as the user wrote it."""
        return self.operands["filter"].reshape(self.taps())

    def planes(self):
        """Images, volumes or signals that a filter problem has."""
        return self.number("n") * self.number("c")

    def has_planes(self):
        return self.planes() > 1

    def spatial(self, name):
        """A filter problem's operand as users of arrays hold it: planes if there are several, space, then the pixel's
        channels if there are any."""
        array = self.operands[name][:, :, 0]  # n, channels, d, h, w
        if self.has("pixel"):
            array = array.transpose(0, 2, 3, 4, 1)
        space = array.shape[1:][-self.space - 1:] if self.has("pixel") else array.shape[-self.space:]
        return array.reshape(*([self.planes()] if self.has_planes() else []), *space)


class Peer:
    """One implementation of one problem. finish, where given, turns what run returns into an array like the result;
    differ finds the largest difference from such an array, and its largest value, where the result is; compared: its
    result is no filter's, or of other taps."""

    def __init__(self, library, implementation, version, run, finish=None, compared=False, differ=None):
        self.library, self.implementation, self.version, self.run = library, implementation, version, run
        self.finish, self.compared = finish or (lambda result: result), compared
        self.differ = differ or self.differ_here

    def differ_here(self, result, expected, middle=()):
        import numpy as np
        got, expected = np.asarray(self.finish(result)).reshape(expected.shape)[middle], expected[middle]
        if expected.dtype.kind == "V":
            got, expected = upconverted(got), upconverted(expected)
        return largest(lambda a, b: np.abs(a.astype(np.float64) - b), got, expected), largest(np.abs, expected)


def by_host_clock(run, seconds):
    """The first call warms up, and is the measurement if it alone takes longer than the seconds."""
    start = time.perf_counter()
    result = run()
    times, begin = [], time.perf_counter()
    if begin - start >= seconds:
        times = [begin - start]
    while not times or (time.perf_counter() - begin < seconds and len(times) < 1000):
        before = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - before)
    return times, result


def largest(function, *arrays):
    """The largest value of a function of arrays, NaN if there is one, a block at a time on every core."""
    import numpy as np
    blocks = zip(*(np.array_split(array, 64) for array in arrays))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return float(np.max(list(pool.map(lambda block: np.max(function(*block), initial=0), blocks))))


def upconverted(array):
    """Values of bf16, the upper halves of f32, as numbers that NumPy knows."""
    import numpy as np
    return (np.ascontiguousarray(array).view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def inner(problem):
    """The part of a filter's result that no boundary reaches."""
    reach = [size * dilation for size, dilation in zip(problem.taps(), problem.axes("dilation", 1))]
    shape = problem.spatial("output").shape[problem.has_planes():]
    return (slice(None),) * problem.has_planes() + tuple(slice(r, n - r) for r, n in zip(reach, shape))


def compare(problem, peer, result):
    """Largest difference from Faltung's result, and whether it is as small as rounding explains."""
    import numpy as np
    if problem.is_filter:
        expected, middle = problem.spatial("output"), inner(problem)
        if expected[middle].size == 0:
            return {}
        difference, most = peer.differ_here(result, expected, middle)
    else:
        expected = problem.result
        difference, most = peer.differ(result, expected)
    if expected.dtype.kind in "iu":
        passes = problem.space if (problem.kernel or "").startswith("gaussian:") else 1
        tolerance = float(passes)  # where a peer truncates or works in fixed point, in each pass
    else:
        tolerance = {2: 1e-2, 4: 1e-4, 8: 1e-11}[expected.dtype.itemsize] * most
        if not np.isfinite(tolerance):
            raise ArithmeticError("Faltung's result has values that are not finite")
    return {"max_abs_difference": difference if np.isfinite(difference) else None, "tolerance": tolerance,
            "agrees": bool(difference <= tolerance)}


def makers(modules):
    """Functions that yield peers, and what times them."""
    if not modules:
        return (), by_host_clock
    if "driver" in modules:
        import filters_gpu
        import layers_gpu
        return filters_gpu.PEERS + layers_gpu.PEERS, modules["driver"].time
    import filters
    import layers
    import onednn
    return filters.PEERS + layers.PEERS + onednn.PEERS, by_host_clock


def load(modules, make_all, request):
    problem, peers = Problem(request), []
    for make in make_all:
        try:
            peers.extend(make(modules, problem, Peer))
        except Exception as error:  # a library refuses the problem: the others go on
            print(f"{make.__name__}: {error}", file=sys.stderr)
    peers = [peer for peer in peers if WANTED.search(f"{peer.library} {peer.implementation}")]
    for peer in peers:
        answer(library=peer.library, implementation=peer.implementation, version=peer.version)
    return problem, peers


def measure(problem, peer, clock, seconds):
    try:
        times, result = clock(peer.run, seconds)
        fields = {"seconds_median": statistics.median(times), "seconds_min": min(times), "runs": len(times)}
        if not peer.compared:
            fields.update(compare(problem, peer, result))
            peer.compared = True
    except Exception as error:  # a peer that cannot is a line in the table, not the end of it
        fields = {"error": (str(error) or type(error).__name__).splitlines()[0][:150]}
    time.sleep(0.01)  # its threads, which may still spin, go to sleep before Faltung's turn
    answer(**fields)


def forget(modules):
    """Gives back the memory that libraries on a GPU keep: others are next."""
    gc.collect()
    if modules.get("cudnn"):
        modules["cudnn"].cuda.empty_cache()
    if modules.get("cupy"):
        modules["cupy"].get_default_memory_pool().free_all_blocks()


def main():
    kind, _, ordinal = (sys.argv[1] if len(sys.argv) > 1 else "cpu").partition(":")
    modules = libraries_gpu(int(ordinal or 0)) if kind == "cuda" else libraries_cpu()
    make_all, clock = makers(modules)
    problem, peers = None, []
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "time":
            measure(problem, peers[request["peer"]], clock, request["seconds"])
        else:
            problem, peers = None, []
            forget(modules)
        if request["do"] == "load" and modules:
            problem, peers = load(modules, make_all, request)
        answer(done=True)


if __name__ == "__main__":
    main()
