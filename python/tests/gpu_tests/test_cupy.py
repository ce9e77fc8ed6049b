"""faltung on CuPy arrays beside scipy on the same values: every device, other streams, views, threads."""
import threading

import numpy as np
import pytest

theirs = pytest.importorskip("scipy.ndimage")
cupy = pytest.importorskip("cupy")
import faltung  # noqa: E402
from faltung import ndimage as ours  # noqa: E402
from faltung import signal  # noqa: E402


def gpus():
    try:
        return cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0


pytestmark = pytest.mark.skipif(gpus() == 0, reason="no GPU")
CALLS = {
    "gaussian": lambda m, x: m.gaussian_filter(x, 1.7),
    "uniform": lambda m, x: m.uniform_filter(x, 5, mode="wrap"),
    "sobel": lambda m, x: m.sobel(x, mode="nearest"),
    "laplace": lambda m, x: m.laplace(x, mode="mirror"),
    "correlate": lambda m, x: m.correlate(x, WEIGHTS.reshape((1,) * (x.ndim - 2) + (3, 3)), mode="constant", cval=2.0),
}
WEIGHTS = np.arange(9.0).reshape(3, 3) / 9


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "u1"])
@pytest.mark.parametrize("shape", [(70, 90), (20, 33, 41)])
def test_ndimage(random, call, dtype, shape):
    x = random.integers(0, 200, shape).astype(dtype)
    got, want = CALLS[call](ours, cupy.asarray(x)), CALLS[call](theirs, x)
    assert isinstance(got, cupy.ndarray) and got.dtype == want.dtype
    if dtype == "u1":  # sums are added in another order: one apart where they lie at an integer
        apart = got.get() - want  # scipy's conversion wraps, so 255 and 0 are one apart
        assert np.minimum(apart, -apart).max() <= 1
    else:
        size = 1e-5 if dtype == "f4" else 1e-12
        assert np.allclose(got.get(), want, rtol=size, atol=size * 200)


EXACT = {
    "uniform": lambda m, x: m.uniform_filter(x, 31),
    "uniform along rows": lambda m, x: m.uniform_filter1d(x, 9, 0, mode="constant", cval=7),
    "sobel": lambda m, x: m.sobel(x),
    "correlate": lambda m, x: m.correlate(x, np.arange(9).reshape(3, 3), mode="wrap"),
}


@pytest.mark.parametrize("call", EXACT)
@pytest.mark.parametrize("dtype", ["u1", "u2", "i1", "i2"])
def test_exact_integers(random, call, dtype):
    """Means and whole taps have one right result; a call that was made before repeats what it did then."""
    info = np.iinfo(dtype)
    for _ in range(3):
        x = random.integers(info.min, info.max, (150, 170), dtype, endpoint=True)
        got, want = EXACT[call](ours, cupy.asarray(x)), EXACT[call](theirs, x)
        assert got.dtype == want.dtype and np.array_equal(got.get(), want)


@pytest.mark.parametrize("dtype", ["u1", "u2"])
@pytest.mark.parametrize("cval", [0, 3, 200])
def test_sums_at_integers(random, dtype, cval):
    """Halves and quarters are exact: sums that are integers stay what they are, others are cut."""
    x = random.integers(0, np.iinfo(dtype).max, (90, 110), dtype, endpoint=True)
    for taps in ([0.25, 0.5, 0.25], [0.5, 0.25, 0.125, 0.125], [1.5, 2.25, 0.25]):
        for axis in (0, 1):
            got = ours.correlate1d(cupy.asarray(x), taps, axis, mode="constant", cval=cval)
            assert np.array_equal(got.get(), theirs.correlate1d(x, taps, axis, mode="constant", cval=cval))
    level = np.full((64, 64), 255, "u1")
    assert np.array_equal(ours.gaussian_filter(cupy.asarray(level), 2).get(), level)


@pytest.mark.parametrize("dtype", ["f4", "f8", "u1"])
def test_calls_again(random, dtype):
    """Several plans one after the other, repeated with other data and in another stream."""
    for _ in range(3):
        x = random.integers(0, 200, (120, 130)).astype(dtype)
        with cupy.cuda.Stream(non_blocking=True) as stream:
            got = ours.gaussian_filter(cupy.asarray(x), 3)
            stream.synchronize()
        assert np.abs(got.get() - theirs.gaussian_filter(x, 3).astype(float)).max() <= (1 if dtype == "u1" else 1e-3)


def test_views(random):
    x = random.random((50, 60)).astype("f4")
    for view in (lambda a: a.T, lambda a: a[::-1, ::2], lambda a: a[3:, 5:-2]):
        got = ours.gaussian_filter(view(cupy.asarray(x)), 2)
        assert np.allclose(got.get(), theirs.gaussian_filter(view(x), 2), rtol=1e-5, atol=1e-5)


def test_every_device(random):
    x = random.random((64, 64)).astype("f4")
    for ordinal in range(gpus()):
        with cupy.cuda.Device(ordinal):
            array = cupy.asarray(x)
        got = ours.gaussian_filter(array, 2)  # another device is the current one
        assert got.device.id == ordinal and np.allclose(got.get(), theirs.gaussian_filter(x, 2), rtol=1e-5, atol=1e-5)


def test_work_is_ordered_by_the_current_stream(random):
    x = random.random((2048, 2048)).astype("f4")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        array = cupy.asarray(x)
        for _ in range(20):
            array = array * 1.0  # work that the filter must wait for
        got = ours.gaussian_filter(array, 2) + 1
    stream.synchronize()
    assert np.allclose(got.get(), theirs.gaussian_filter(x, 2) + 1, rtol=1e-5, atol=1e-4)


def test_threads_with_streams_of_their_own(random):
    images = [random.random((512, 512)).astype("f4") for _ in range(4)]
    wrong = []

    def work(x):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            for _ in range(20):
                got = ours.gaussian_filter(cupy.asarray(x), 3)
                stream.synchronize()
                if not np.allclose(got.get(), theirs.gaussian_filter(x, 3), rtol=1e-5, atol=1e-5):
                    wrong.append(x)

    threads = [threading.Thread(target=work, args=(x,)) for x in images]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_signal_and_core(random):
    x, h = random.random(5000).astype("f4"), random.random(65).astype("f4")
    got = signal.convolve(cupy.asarray(x), h, "same")
    assert isinstance(got, cupy.ndarray) and np.allclose(got.get(), np.convolve(x, h, "same"), rtol=1e-4)
    plan = faltung.plan("correlate h=40 w=50 r=3 s=3", WEIGHTS, device=faltung.cuda(0))
    image = random.random((40, 50)).astype("f4")
    assert np.allclose(plan(cupy.asarray(image)).get(), theirs.correlate(image, WEIGHTS, mode="constant"), atol=1e-4)


SIGNALS = {
    "convolve2d": lambda m, a: m.convolve2d(a(IMAGE), a(WEIGHTS), boundary="symm"),
    "convolve2d, whole": lambda m, a: m.convolve2d(a(IMAGE.astype(int)), a(WEIGHTS.astype(int)), "same"),
    "correlate2d": lambda m, a: m.correlate2d(a(IMAGE), a(WEIGHTS), "same", "wrap"),
    "correlate2d, swapped": lambda m, a: m.correlate2d(a(WEIGHTS), a(IMAGE), "valid"),
    "convolve, swapped": lambda m, a: m.convolve(a(WEIGHTS), a(IMAGE.astype("f8")), "valid"),
    "upfirdn": lambda m, a: m.upfirdn(a(WEIGHTS[1]), a(LINE), 5, 3, mode="reflect"),
    "upfirdn, few taps": lambda m, a: m.upfirdn(a(WEIGHTS[1]), a(LINE), 7, 2),
    "upfirdn, rows": lambda m, a: m.upfirdn(a(WEIGHTS[1]), a(IMAGE), 2, 3, axis=0),
    "resample_poly": lambda m, a: m.resample_poly(a(LINE), 160, 147),
    "resample_poly, mean": lambda m, a: m.resample_poly(a(LINE), 2, 3, padtype="mean"),
    "sepfir2d": lambda m, a: m.sepfir2d(a(IMAGE), a(WEIGHTS[0].astype("f4")), a(WEIGHTS[1].astype("f4"))),
    "lfilter": lambda m, a: m.lfilter(a(WEIGHTS[1]), a(np.array([1.0, -0.5])), a(LINE)),
}
IMAGE = np.random.default_rng(1).integers(0, 99, (61, 45)).astype("f4")
LINE = np.random.default_rng(2).random(3000).astype("f4")


@pytest.mark.parametrize("call", SIGNALS)
def test_signals(call):
    scipy_signal = pytest.importorskip("scipy.signal")
    got, want = SIGNALS[call](signal, cupy.asarray), SIGNALS[call](scipy_signal, np.asarray)
    assert isinstance(got, cupy.ndarray) and got.dtype == want.dtype and got.shape == want.shape
    assert np.allclose(got.get(), want, rtol=1e-4, atol=1e-4 * max(np.abs(want).max(), 1))


@pytest.mark.parametrize("name", ["correlate", "convolve"])
def test_weights_on_the_gpu(name):
    for weights in (WEIGHTS, WEIGHTS + 1j):
        for x in (IMAGE, cupy.asarray(IMAGE)):
            got = getattr(ours, name)(x, cupy.asarray(weights), mode="mirror")
            want = getattr(theirs, name)(IMAGE, weights, mode="mirror")
            assert type(got) is type(x) and np.allclose(cupy.asnumpy(got), want, rtol=1e-4, atol=1e-2)
    line = getattr(ours, name + "1d")(cupy.asarray(IMAGE), cupy.asarray(WEIGHTS[1]), 0)
    assert np.allclose(line.get(), getattr(theirs, name + "1d")(IMAGE, WEIGHTS[1], 0), rtol=1e-4, atol=1e-2)
