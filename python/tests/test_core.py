"""Plans, problems, settings, errors: the core of the package."""
import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import timeit

import numpy as np
import pytest

import faltung
from faltung import _library, _plan

LINES = ["correlate h=9 w=7 r=3 s=3 boundary=edge type=u8", "forward n=2 c=4 h=8 w=8 k=6 r=3 s=3 pad=1 bias=1 act=relu",
         "maxpool n=1 c=3 h=8 w=8 r=2 s=2", "convolve w=50 s=7 mode=full type=f64", "backward-data c=4 h=8 w=8 k=2 r=3 s=3",
         "correlate pixel=3 h=12 w=10 r=5 s=5 boundary=y=wrap,x=edge:constant value=2"]


@pytest.mark.parametrize("line", LINES)
def test_structs_are_the_library_s(line):
    """What ctypes reads in the struct is what the line says: a field of another size would shift the rest."""
    problem = faltung.Problem(line)
    copy = _library.ProblemStruct.from_buffer_copy(problem.struct)
    assert str(faltung.Problem(str(problem))) == str(problem) == str(faltung.Problem(copy))
    assert hash(problem) == hash(faltung.Problem(str(problem)))
    assert list(problem.struct.reserved) == [0] * 4 and list(problem.struct.pool) == [1, 1, 1]


def test_fields_of_a_problem():
    problem = faltung.Problem("forward n=2 c=4 h=8 w=9 k=6 r=3 s=5 pad=1x2 stride=2 layout=nhwc act=clip:-1:3 max-workspace=5K")
    assert problem.struct.act_a == -1 and problem.struct.act_b == 3 and problem.struct.axis[2].pad[1] == 2
    assert problem.budget.max_workspace == 5120
    assert problem.shape("input") == (2, 8, 9, 4) and problem.shape("filter") == (6, 3, 5, 4)
    assert problem.shape("output") == (2, 4, 5, 6) and problem.type("output") == "f32" and problem.operation == "forward"
    assert faltung.Problem("correlate pixel=3 h=8 w=9 r=3 s=3").shape("input") == (8, 9, 3)
    assert faltung.Problem("forward c=4 h=8 w=9 k=6 r=3 s=5").shape("filter") == (6, 4, 3, 5)


def definition(x, w, boundary):
    """A filter by numpy.pad, the anchor at K//2."""
    mode = {"constant": "constant", "edge": "edge", "symmetric": "symmetric", "reflect101": "reflect", "wrap": "wrap"}
    padded = np.pad(x.astype("f8"), [(k // 2, k - 1 - k // 2) for k in w.shape], mode=mode[boundary])
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape)
    return np.tensordot(windows, w.astype("f8"), axes=(range(x.ndim, 2 * x.ndim), range(w.ndim)))


@pytest.mark.parametrize("boundary", ["constant", "edge", "symmetric", "reflect101", "wrap"])
@pytest.mark.parametrize("shape, taps", [((40,), (5,)), ((17, 23), (4, 3)), ((9, 8, 7), (3, 2, 5)),
                                         ((5, 6, 4, 7), (2, 3, 1, 3)), ((4, 5, 3, 6, 5), (3, 2, 2, 3, 2))])
def test_correlate_is_its_definition(random, boundary, shape, taps):
    x, w = random.random(shape), random.random(taps)
    assert np.allclose(faltung.correlate(x, w, boundary=boundary), definition(x, w, boundary), rtol=1e-12)
    flipped = w[(slice(None, None, -1),) * w.ndim]
    anchor = [k - 1 - k // 2 for k in taps]
    assert np.allclose(faltung.convolve(x, flipped, boundary=boundary, anchor=anchor), definition(x, w, boundary))


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (2, 0), (1, 3), (4,), (0, 1, 4)])
def test_axes_and_strides(random, axes):
    """Any axes of an array with any strides, by views and without a copy, are the same as a dense array's."""
    base = random.random((6, 5, 8, 7, 20)).astype("f4")
    taps = random.random((3, 4, 2)[:len(axes)])
    for x in (base, base[::2, :, ::-1, 1:, ::3], base.transpose(4, 2, 0, 1, 3), np.broadcast_to(base[:1], base.shape)):
        full = np.moveaxis(taps.reshape(taps.shape + (1,) * (5 - taps.ndim)), range(len(axes)), axes)
        y = faltung.correlate(x, taps, axes=axes, boundary="wrap")
        assert np.allclose(y, definition(x, full, "wrap"), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["u8", "s8", "u16", "s16", "s32", "f16", "f32", "f64"])
def test_types(random, name):
    dtype = {"u": "uint", "s": "int", "f": "float"}[name[0]] + name[1:]
    x = (random.random((20, 30)) * 20).astype(dtype)
    y = faltung.correlate(x, [[1, 2, 1]], boundary="edge")
    assert y.dtype == x.dtype
    most = 127 if name == "s8" else None
    assert np.allclose(y, np.clip(definition(x, np.array([[1, 2, 1]]), "edge"), None, most), rtol=2e-3)
    assert faltung.correlate(x, [[1]], out_type="f64").dtype == np.float64


def test_modes_strides_and_out(random):
    x, w = random.random(20), random.random(4)
    assert np.allclose(faltung.convolve(x, w, mode="full"), np.convolve(x, w))
    assert np.allclose(faltung.correlate(x, w, mode="valid"), np.correlate(x, w, "valid"))
    assert np.allclose(faltung.convolve(x, w, anchor=1), np.convolve(x, w, "same"))
    assert np.allclose(faltung.correlate(x, w, stride=3), faltung.correlate(x, w)[::3])
    dilated = np.zeros(7)
    dilated[::2] = w
    assert np.allclose(faltung.correlate(x, w, dilation=2, mode="valid"), faltung.correlate(x, dilated, mode="valid"))
    assert np.allclose(faltung.correlate(x, w, alpha=2, beta=1), 2 * faltung.correlate(x, w) + 1)
    out = np.empty((20, 2))[:, 0]
    assert faltung.correlate(x, w, out=out) is out and np.allclose(out, faltung.correlate(x, w))


def test_other_arrays(random):
    """Lists, scalars of numpy, bytes in the other order, 64-bit integers, read-only arrays: right, or a clear error."""
    x = random.integers(0, 9, 12)
    want = definition(x, np.ones(3), "edge")
    read_only = x.astype("f4")
    read_only.flags.writeable = False
    alike = (x, x.tolist(), x.astype(">f4"), x.astype("<u8"), read_only, x.astype("f8")[::-1][::-1], memoryview(x))
    for array in alike:
        assert np.allclose(faltung.correlate(array, [1, 1, 1], boundary="edge"), want)
    with pytest.raises(ValueError, match="read-only"):
        faltung.plan("correlate w=12 s=3", np.ones(3))(x.astype("f4"), out=read_only)
    for bad in (np.array([object()]), np.array(["a"]), x.astype(complex)):
        with pytest.raises(TypeError):
            faltung.correlate(bad, [1])
    with pytest.raises(ValueError):
        faltung.correlate(np.empty((0, 3)), [[1, 1, 1]])
    with pytest.raises(ValueError):
        faltung.correlate(x, [])


class Exported:
    """An array of a library that nobody knows: DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack(random):
    x = random.random((9, 8)).astype("f4")
    want = faltung.correlate(x, np.ones((3, 3)), boundary="wrap")
    assert np.array_equal(faltung.correlate(Exported(x), np.ones((3, 3)), boundary="wrap"), want)
    assert np.allclose(faltung.correlate(Exported(x.T), np.ones((3, 3)), boundary="wrap"), want.T)


def test_jax(random):
    jax = pytest.importorskip("jax")
    x = random.random((9, 8)).astype("f4")
    want = faltung.correlate(x, np.ones((3, 3)), boundary="wrap")
    y = faltung.correlate(jax.numpy.asarray(x), np.ones((3, 3)), boundary="wrap")
    assert isinstance(y, jax.Array) and np.array_equal(np.asarray(y), want)
    from faltung import ndimage

    whole = (x * 100).astype("u1")
    z = ndimage.gaussian_filter(jax.numpy.asarray(whole), 1)
    assert isinstance(z, jax.Array) and np.array_equal(np.asarray(z), ndimage.gaussian_filter(whole, 1))


def test_asyncio_tasks_have_their_own_settings():
    import asyncio

    async def task(count):
        with faltung.threads(count):
            await asyncio.sleep(0.01)
            return faltung.plan("correlate w=64 s=3").device.threads

    async def both():
        return await asyncio.gather(task(1), task(2))

    assert asyncio.run(both()) == [1, 2]


def test_an_output_that_overlaps_is_refused(random):
    x = random.random(30).astype("f4")
    with pytest.raises(faltung.InvalidArgument, match="shares|overlap|element"):
        faltung.correlate(x, [1, 2, 1], out=x)


def test_kept_plans(random):
    plan = faltung.plan("forward n=2 c=4 h=8 w=9 k=6 r=3 s=3 pad=1 layout=nhwc bias=1 residual=1 act=relu")
    x, w, r = (random.standard_normal(s).astype("f4") for s in ((2, 8, 9, 4), (6, 3, 3, 4), (2, 8, 9, 6)))
    b = random.standard_normal(6).astype("f4")
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    want = np.maximum(np.einsum("nhwcrs,krsc->nhwk", windows, w) + b + r, 0)
    assert np.allclose(plan(x, w, bias=b, residual=r), want, atol=1e-4)
    assert str(plan).startswith("(") and plan.solver in faltung.solvers() and plan.workspace >= 0
    with pytest.raises(TypeError, match="reads 2 arrays"):
        plan(x)
    with pytest.raises(ValueError, match="shape"):
        plan(x[:1], w, bias=b, residual=r)
    with pytest.raises(ValueError, match="type"):
        plan(x.astype("i4"), w, bias=b, residual=r)
    with pytest.raises(faltung.InvalidArgument, match="bias"):
        plan(x, w, residual=r)


@pytest.mark.parametrize("line, error", [
    ("correlate h=8", faltung.InvalidText), ("correlate w=0 s=1", faltung.FaltungError),
    ("correlate w=8 s=3 method=nothing", faltung.InvalidMethod), ("forward c=4 w=8 k=6 s=30", faltung.InvalidShape),
    ("correlate w=8 s=3 method=cuda-direct", faltung.NoSolver)])
def test_errors_are_typed_and_say_why(line, error):
    with pytest.raises(error, match=".+: .+") as caught:
        faltung.plan(line)
    assert caught.value.status.startswith("FALT_")


def test_settings_nest_and_end():
    with faltung.threads(1), faltung.budget(method="generic", max_workspace=0):
        plan = faltung.plan("correlate h=64 w=64 r=3 s=3")
        assert plan.device.threads == 1 and plan.solver == "generic" and plan.workspace == 0
        with faltung.budget(method="reference"):
            assert faltung.plan("correlate w=8 s=3").solver == "reference"
        assert faltung.plan("correlate w=8 s=3").solver == "generic"
        assert faltung.plan("correlate w=8 s=3 method=reference").solver == "reference"
    assert faltung.plan("correlate h=64 w=64 r=3 s=3").solver != "generic"
    seen = []
    with faltung.budget(method="reference"):
        thread = threading.Thread(target=lambda: seen.append(faltung.plan("correlate w=64 s=3").solver))
        thread.start()
        thread.join()
    assert seen[0] != "reference"


def test_explain_tune_verify(tmp_path, monkeypatch):
    why = faltung.explain("correlate h=64 w=64 r=3 s=3", np.outer([1, 2, 1], [1, 2, 1]), measure=0.01)
    assert why.chosen.predicted_seconds > 0 and why.chosen.seconds_median > 0
    assert any(c.rejected for c in why) and why.chosen.solver in str(why)
    assert faltung.tune("correlate h=32 w=32 r=3 s=3", seconds=0.05).solver
    faltung.Wisdom.save(str(tmp_path / "wisdom"))
    faltung.Wisdom.forget()
    faltung.Wisdom.load(str(tmp_path / "wisdom"))
    with pytest.raises(faltung.NoFile):
        faltung.Wisdom.load(str(tmp_path / "none"))
    verdicts = faltung.verify("correlate h=16 w=16 r=3 s=3")
    assert len(verdicts) > 2 and all(v.ok for v in verdicts)


def test_devices():
    assert faltung.devices()[0].kind == "cpu" and faltung.cpu() is faltung.cpu()
    if len(faltung.devices()) == 1:
        with pytest.raises(faltung.NoDevice):
            faltung.cuda(0)
    assert faltung.explain("correlate h=64 w=64 r=3 s=3", np.ones((3, 3)), device=faltung.cuda(described="h200")).chosen


def test_plans_are_cached_and_bounded(random):
    _plan.cache.clear()
    x = random.random((8, 8)).astype("f4")
    for _ in range(5):
        faltung.correlate(x * 1, [[1, 2, 3]])
    assert len(_plan.cache) == 1
    for i in range(_plan.cache.most + 10):
        faltung.correlate(x, [[1, 2, i]])
    assert len(_plan.cache) == _plan.cache.most


def test_calls_made_before(random):
    """The same call again is the same plan at once, and other arguments are another call."""
    from faltung import ndimage, signal

    x, w = random.random((9, 8)).astype("f4"), random.random((3, 3))
    for function, arguments in ((faltung.correlate, (w,)), (ndimage.correlate, (w,)), (ndimage.gaussian_filter, (1,)),
                                (signal.convolve, (w.astype("f4"), "same")), (ndimage.sobel, ())):
        first = function(x, *arguments)
        again, other, kept = function(x, *arguments), function(x * 2, *arguments), first.copy()
        assert np.array_equal(first, again) and first is not again and np.array_equal(first, kept)
        assert np.allclose(other, 2 * first, rtol=1e-5)
        out = function(x[::2, ::-1].astype("f8"), *arguments)
        assert out.dtype == np.float64 and out.shape[0] < first.shape[0]
    before = ndimage.correlate(x, w)
    w[1, 1] += 1
    assert np.allclose(ndimage.correlate(x, w), before + x, rtol=1e-5)
    assert ndimage.correlate(x, [[1]]).dtype == np.float32 and ndimage.correlate(x, [[1]], output="f8").dtype == np.float64
    assert signal.convolve(x.astype("i4"), [[1]]).dtype == np.int64
    assert signal.convolve(x.astype("i4"), [[1.0]]).dtype == np.float64
    out = np.zeros_like(x)
    for _ in range(3):
        out[:] = 0
        assert ndimage.correlate(x, w, output=out) is out and np.allclose(out, before + x, rtol=1e-5)


def test_threads_share_a_plan(random):
    x = random.random((64, 64)).astype("f4")
    plan = faltung.plan("correlate h=64 w=64 r=5 s=5 boundary=wrap", random.random((5, 5)))
    want, wrong = plan(x), []

    def work():
        for _ in range(200):
            if not np.array_equal(plan(x), want) or faltung.correlate(x, [[1]]).shape != x.shape:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


def test_the_gil_stays_off():
    """A Python without a GIL keeps it off when the package is loaded and used; threads then share plans as above."""
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        pytest.skip("this Python has a GIL; python3.13t and python3.14t have none")
    code = """
import sys, warnings
warnings.simplefilter("error")
import numpy, faltung, faltung.ndimage, faltung.signal
faltung.ndimage.gaussian_filter(numpy.ones((9, 9)), 1)
assert not sys._is_gil_enabled()
"""
    out, err = child(code).communicate()
    assert err == "", err


def test_calls_are_cheap(random):
    """Beyond falt_execute a kept plan's call costs under 5 us, an array function's under 25 us: thrice that here, where
    other processes may run."""
    x, w = random.random((8, 8)).astype("f4"), np.ones((3, 3))
    plan = faltung.plan("correlate h=8 w=8 r=3 s=3", w)
    written = plan(x)  # kept: the bare execution writes there again
    lease = plan._leases[0]

    def seconds(call):
        return min(timeit.repeat(call, number=200, repeat=50)) / 200

    bare = seconds(lambda: _library.lib.falt_execute(plan._handle, lease.address))
    assert lease.operands.output == written.ctypes.data
    assert seconds(lambda: plan(x)) - bare < 15e-6
    assert seconds(lambda: faltung.correlate(x, w)) - bare < 75e-6


def test_nothing_leaks(random):
    """Memory after 10^5 calls is what it was after the first thousands."""
    x = random.random((8, 8)).astype("f4")
    plan = faltung.plan("correlate h=8 w=8 r=3 s=3", np.ones((3, 3)))

    def resident():
        gc.collect()
        return int(open("/proc/self/statm").read().split()[1]) * 4096

    def calls(count):
        for i in range(count):
            plan(x)
            if i % 10 == 0:
                faltung.correlate(x, [[1, i % 500]])

    calls(10000)
    before = resident()
    calls(100000)
    assert resident() - before < 8 << 20


def child(code, **options):
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True, **options)


def test_control_c_interrupts_an_execution():
    code = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored
import numpy, faltung
plan = faltung.plan("correlate h=6000 w=6000 r=301 s=301 method=generic")
x, w = numpy.ones((6000, 6000), "f4"), numpy.ones((301, 301), "f4")
print("ready", flush=True)
try:
    plan(x, w)
except KeyboardInterrupt:
    print(faltung.correlate(numpy.float32([1, 2]), [2]).tolist(), flush=True)
"""
    process = child(code)
    assert process.stdout.readline() == "ready\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert out == "[2.0, 4.0]\n", err
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_processes(way):
    code = f"""
import multiprocessing, numpy, faltung
def work(i): return float(faltung.correlate(numpy.float32([i, 1]), [1, 1], mode="valid")[0])
if __name__ == "__main__":
    work(0)
    with multiprocessing.get_context({way!r}).Pool(2) as pool:
        print(pool.map(work, range(6)))
"""
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"faltung_{way}_{os.getpid()}.py")
    with open(path, "w") as file:
        file.write(code)
    try:
        out = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=100, check=True)
    finally:
        os.remove(path)
    assert out.stdout == "[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\n"


def test_import_is_light():
    """import faltung loads neither numpy nor the library, and its calls no GPU's driver."""
    code = """
import sys, time
start = time.perf_counter(); import faltung; took = time.perf_counter() - start
assert "numpy" not in sys.modules and took < 0.06, took
import numpy
start = time.process_time(); faltung.correlate; took = time.process_time() - start
faltung.correlate(numpy.float32([1]), [1])
assert took < 0.06, took
assert "libcuda" not in open("/proc/self/maps").read()
"""
    best = min((child(code).communicate()[1] for _ in range(5)), key=len)
    assert best == "", best


def test_command_is_inside():
    from faltung import _command

    binary = os.path.join(os.path.dirname(_command.__file__), "bin", "faltung")
    if not os.path.exists(binary):
        pytest.skip("the tree has no command: tested where the wheel is installed")
    out = subprocess.run([os.path.join(os.path.dirname(sys.executable), "faltung"), "--version"], capture_output=True,
                         text=True, check=True)
    assert faltung.library_version() in out.stdout


def test_size_of_operands():
    assert ctypes.sizeof(_library.Operands) == 8 * ctypes.sizeof(ctypes.c_void_p)


@pytest.mark.parametrize("module", ["_interpreters", "_xxsubinterpreters"])
def test_sub_interpreters_are_refused(module):
    code = f"""
import {module} as interpreters
run = getattr(interpreters, "exec", None) or interpreters.run_string
run(interpreters.create(), '''
try:
    import faltung
except ImportError as error:
    print(error, flush=True)
''')
"""
    out, err = child(code).communicate()
    if "No module named" in err:
        pytest.skip(f"this Python has no {module}")
    assert out == "faltung: sub-interpreters cannot import it; use threads or processes\n", err


def test_workspaces_are_held_until_the_work_is_started(random, monkeypatch):
    """On a GPU the array library's memory must not go to another thread between its allocation and the launch."""
    import weakref

    class Owner(np.ndarray):
        pass

    plan, owners = faltung.plan("correlate h=8 w=8 r=3 s=3", np.ones((3, 3))), []

    def place(library, like):
        owner = np.empty(64).view(Owner)
        owners.append(weakref.ref(owner))
        return 0, None, owner

    run = plan.run
    monkeypatch.setattr(plan, "_place", place)
    monkeypatch.setattr(plan, "run", lambda *a: (run(*a), owners.append(owners[0]() is not None)))
    plan._one = ()
    plan(random.random((8, 8)).astype("f4").T)
    assert owners[1] is True and owners[0]() is None
