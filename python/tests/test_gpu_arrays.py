"""Arrays that refuse implicit conversion, as CuPy's do, for every argument: a stub of CuPy in host memory."""
import sys
import types

import numpy as np
import pytest

from faltung import _arrays, ndimage, signal


class Device:
    """A device that is always the current one."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


class Stub:
    """An array of the stub."""

    device = Device()

    def __init__(self, values):
        self.values = np.asarray(values)
        self.shape, self.dtype, self.ndim = self.values.shape, self.values.dtype, self.values.ndim

    def __array__(self, *arguments, **options):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __dlpack__(self, **options):
        raise BufferError("GPU memory")

    def get(self):
        return self.values

    def reshape(self, *shape):
        return Stub(self.values.reshape(*shape))


Stub.__module__ = "cupy"


@pytest.fixture
def stub(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(asarray=Stub))
    monkeypatch.setattr(_arrays.Cupy, "view", lambda array: _arrays.Numpy.view(array.values))
    return Stub


X = np.random.default_rng(3).random((12, 14)).astype("f4")
H = np.arange(1.0, 10.0).reshape(3, 3)
TAPS = np.array([1.0, 2.0, 4.0])
LINE = np.linspace(0, 1, 50) ** 2
WEIGHTS = {
    "correlate": lambda w: ndimage.correlate(X, w(H)),
    "convolve": lambda w: ndimage.convolve(X, w(H + 1j), mode="wrap"),
    "no axes": lambda w: ndimage.correlate(X, w(np.array(2.0)), axes=()),
    "correlate1d": lambda w: ndimage.correlate1d(X, w(TAPS), 0),
    "convolve1d": lambda w: ndimage.convolve1d(X, w(TAPS[:2]), 1),
    "resample_poly": lambda w: signal.resample_poly(LINE, 3, 2, window=w(TAPS)),
    "lfilter": lambda w: signal.lfilter(w(TAPS), w(TAPS[:1]), LINE),
}
SIGNALS = {
    "convolve": lambda w: signal.convolve(w(X), w(H), "same"),
    "fftconvolve, numpy first": lambda w: signal.fftconvolve(X, w(H)),
    "correlate": lambda w: signal.correlate(w(X), w(H), "valid"),
    "correlate, numpy first": lambda w: signal.correlate(X, w(H)),
    "convolve2d": lambda w: signal.convolve2d(w(X), w(H), boundary="symm"),
    "convolve2d, swapped": lambda w: signal.convolve2d(w(H), w(X), "valid"),
    "convolve2d, whole": lambda w: signal.convolve2d(w((X * 9).astype(int)), w(H.astype(int)), "same"),
    "correlate2d": lambda w: signal.correlate2d(w(X), w(H), "same", "wrap"),
    "correlate2d, swapped": lambda w: signal.correlate2d(w(H), w(X), "valid"),
    "upfirdn": lambda w: signal.upfirdn(w(TAPS), w(LINE), 3, 2),
    "upfirdn, empty": lambda w: signal.upfirdn(w(TAPS), w(LINE[:0])),
    "upfirdn, extended": lambda w: signal.upfirdn(w(TAPS), w(LINE), 3, 2, mode="smooth"),
    "resample_poly": lambda w: signal.resample_poly(w(LINE), 3, 2),
    "resample_poly, mean": lambda w: signal.resample_poly(w(LINE), 3, 2, padtype="mean", window=w(TAPS)),
    "resample_poly, copy": lambda w: signal.resample_poly(w(LINE), 2, 2),
    "sepfir2d": lambda w: signal.sepfir2d(w(X), w(TAPS), w(TAPS)),
    "lfilter": lambda w: signal.lfilter(w(TAPS), w(TAPS), w(LINE)),
}


@pytest.mark.parametrize("call", WEIGHTS)
def test_weights_come_to_the_host(stub, call):
    got = WEIGHTS[call](stub)
    assert isinstance(got, np.ndarray) and np.array_equal(got, WEIGHTS[call](np.asarray))


@pytest.mark.parametrize("call", SIGNALS)
def test_results_go_back_to_the_library(stub, call):
    got, want = SIGNALS[call](stub), SIGNALS[call](np.asarray)
    assert isinstance(got, Stub) and got.dtype == want.dtype and np.array_equal(got.get(), want)


def test_the_final_state_goes_back_too(stub):
    got, state = signal.lfilter(stub(TAPS), 1, stub(LINE), zi=stub(np.ones(2)))
    want, final = signal.lfilter(TAPS, 1, LINE, zi=np.ones(2))
    assert np.array_equal(got.get(), want) and np.array_equal(state.get(), final)


def test_changed_weights_count(stub):
    weights = stub(H.copy())
    before = ndimage.correlate(X, weights)
    weights.values[...] *= 2
    assert np.allclose(ndimage.correlate(X, weights), 2 * before)
