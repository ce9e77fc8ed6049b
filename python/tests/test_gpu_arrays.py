"""Arrays that refuse implicit conversion, as CuPy's do, for every argument: a stub of CuPy in host memory."""
import sys
import types

import numpy as np
import pytest

from faltung import _arrays, _filter, ndimage, signal


class Device:
    """A device that is always the current one."""

    id = 77

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
        self.strides, self.flags = self.values.strides, self.values.flags

    def __array__(self, *arguments, **options):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __dlpack__(self, **options):
        raise BufferError("GPU memory")

    def get(self):
        return self.values

    def reshape(self, *shape):
        return Stub(self.values.reshape(*shape))

    def astype(self, dtype):
        return Stub(self.values.astype(dtype))

    @property
    def real(self):
        return Stub(self.values.real.copy())

    @property
    def imag(self):
        return Stub(self.values.imag.copy())

    @imag.setter
    def imag(self, part):
        self.values.imag = part.values

    def __add__(self, other):
        return Stub(self.values + other.values)

    def __sub__(self, other):
        return Stub(self.values - other.values)

    def __truediv__(self, number):
        return Stub(self.values / number)

    def __getitem__(self, index):
        return Stub(self.values[index])

    def __setitem__(self, index, value):
        self.values[index] = value


Stub.__module__ = "cupy"


@pytest.fixture
def stub(monkeypatch):
    module = types.SimpleNamespace(asarray=Stub, empty=lambda shape, dtype: Stub(np.full(shape, 77, dtype)))
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(_arrays.Cupy, "view", lambda array: _arrays.Numpy.view(array.values))
    return Stub


@pytest.fixture
def gpu(stub, monkeypatch):
    """The stub's arrays are on GPU 77, which is the CPU."""
    device_of = _filter.device_of
    monkeypatch.setattr(_arrays.Cupy, "view", lambda array: _arrays.Numpy.view(array.values)._replace(device=77, owner=array))
    monkeypatch.setattr(_filter, "device_of", lambda settings, view: device_of(settings, view._replace(device=None)))
    return stub


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
    "sepfir2d": lambda w: signal.sepfir2d(w(X), w(TAPS.astype("f4")), w(TAPS.astype("f4"))),
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


SIGNALS |= {
    "whole": lambda w: signal.correlate(w((X * 9).astype(int)), w(H.astype(int))),
    "long double": lambda w: signal.upfirdn(TAPS.astype("g"), w(LINE), 3, 2),
    "complex": lambda w: signal.oaconvolve(w(X), w(H + 1j)),
    "many phases": lambda w: signal.upfirdn(w(TAPS), w(X), 5, 2, axis=0, mode="wrap"),
    "f32": lambda w: signal.resample_poly(w(X), 2, 3, padtype="line", axis=1),
    "correlate2d, valid": lambda w: signal.correlate2d(w(X), w(H), "valid"),
}


@pytest.mark.parametrize("call", SIGNALS)
def test_results_stay_on_the_gpu(gpu, call):
    got, want = SIGNALS[call](gpu), SIGNALS[call](np.asarray)
    assert isinstance(got, Stub) and got.dtype == want.dtype and got.shape == want.shape
    assert np.allclose(got.get(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("x, weights", [(X, H + 1j), (X - 2j * X, H), (X - 2j * X, H + 1j)])
def test_complex_numbers_stay_on_the_gpu(gpu, x, weights):
    """By the parts of an array that numpy must not touch."""
    for function in (ndimage.correlate, ndimage.convolve):
        got, want = function(gpu(x), gpu(weights), mode="wrap"), function(x, weights, mode="wrap")
        assert isinstance(got, Stub) and got.dtype == want.dtype and np.allclose(got.get(), want, rtol=1e-5, atol=1e-4)
    got, want = ndimage.gaussian_filter(gpu(X + 1j), 1), ndimage.gaussian_filter(X + 1j, 1)
    assert isinstance(got, Stub) and got.dtype == want.dtype and np.allclose(got.get(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("call", [lambda x: ndimage.sobel(x, mode="wrap"), lambda x: ndimage.gaussian_filter(x, 1.5),
                                  lambda x: ndimage.correlate(x, H)])
def test_calls_made_before(gpu, monkeypatch, call):
    """The same call again is the plan at once, with the values of now."""
    first = call(gpu(X))
    monkeypatch.setattr(ndimage, "Input", None)  # the functions' own way is closed
    again, other = call(gpu(X)), call(gpu(2 * X))
    assert isinstance(again, Stub) and again is not first and np.array_equal(first.get(), again.get())
    assert np.allclose(other.get(), 2 * first.get(), atol=1e-4)
    with pytest.raises(TypeError):
        call(gpu(X[1:]))


INTEGERS = {
    "mean": lambda m, x: m.uniform_filter(x, 5),
    "whole taps": lambda m, x: m.sobel(x, mode="wrap"),
    "cut": lambda m, x: m.correlate1d(x, [0.25, 0.5, 0.125], 0, mode="constant", cval=3),
    "wrapped": lambda m, x: m.correlate1d(x, [1.5, 2.25, 0.25], 1),
    "passes": lambda m, x: m.gaussian_filter(x, 1.3, mode="nearest"),
}


@pytest.mark.parametrize("call", INTEGERS)
@pytest.mark.parametrize("dtype", ["u1", "u2", "i1", "i2"])
def test_integers(gpu, call, dtype):
    """Sums are cut and wrapped by the filter, also where a call is made again with other data."""
    theirs = pytest.importorskip("scipy.ndimage")
    info, random = np.iinfo(dtype), np.random.default_rng(4)
    for _ in range(3):
        x = random.integers(info.min, info.max, (31, 45), dtype, endpoint=True)
        got = INTEGERS[call](ndimage, gpu(x)).get()
        assert got.dtype == x.dtype and np.array_equal(got, INTEGERS[call](theirs, x))


def test_the_gpu_computes_real_floats(gpu, monkeypatch):
    taken = []
    monkeypatch.setattr(Stub, "get", lambda self: taken.append(self.shape) or self.values)
    for name in ("convolve2d", "correlate2d", "upfirdn", "resample_poly", "many phases"):
        SIGNALS[name](gpu)
    assert set(taken) == {H.shape, TAPS.shape}  # the filters alone come to the host


def test_the_final_state_goes_back_too(stub):
    got, state = signal.lfilter(stub(TAPS), 1, stub(LINE), zi=stub(np.ones(2)))
    want, final = signal.lfilter(TAPS, 1, LINE, zi=np.ones(2))
    assert np.array_equal(got.get(), want) and np.array_equal(state.get(), final)


def test_changed_weights_count(stub):
    weights = stub(H.copy())
    before = ndimage.correlate(X, weights)
    weights.values[...] *= 2
    assert np.allclose(ndimage.correlate(X, weights), 2 * before)
