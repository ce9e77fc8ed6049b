"""faltung.signal beside scipy.signal on random arrays."""
import inspect

import numpy as np
import pytest
import scipy.signal as theirs

from faltung import signal as ours

TYPES = ["bool", "i1", "u1", "i4", "u8", "i8", "f2", "f4", "f8", "g", "c8", "c16"]


def array(random, shape, dtype):
    x = random.integers(0, 2 if dtype == "bool" else 50, shape)
    return (x + 1j * x[::-1]).astype(dtype) if dtype[0] == "c" else x.astype(dtype)


def same(got, want, size=None):
    assert got.dtype == want.dtype and got.shape == want.shape
    if want.dtype.kind in "biu":
        assert np.array_equal(got, want)
    elif want.size:
        size = size or {2: 1e-2, 4: 1e-5, 8: 1e-5 if want.dtype.kind == "c" else 1e-12}.get(want.dtype.itemsize, 1e-12)
        assert np.allclose(got, want, rtol=size, atol=size * max(1, float(np.abs(want).max())))


@pytest.mark.parametrize("a", TYPES)
@pytest.mark.parametrize("b", TYPES)
def test_types(random, a, b):
    x, h = array(random, (9, 8), a), array(random, (3, 4), b)
    for mode in ("full", "same", "valid"):
        for name in ("convolve", "correlate"):
            if np.result_type(x, h).char not in "?e":  # scipy has no planes of these
                same(getattr(ours, name)(x, h, mode, "direct"), getattr(theirs, name)(x, h, mode, "direct"))
            same(getattr(ours, name)(x[0], h[0], mode, "direct"), getattr(theirs, name)(x[0], h[0], mode, "direct"))


def test_whole_64_bits(random):
    """Integers whose sums exceed a double's, and those that wrap around."""
    for dtype in ("i8", "u8", "i4"):
        info = np.iinfo(dtype)
        x, h = random.integers(info.min, info.max, 50, dtype=dtype), random.integers(info.min, info.max, 7, dtype=dtype)
        same(ours.convolve(x, h, method="direct"), np.convolve(x, h))
        plane = x.reshape(5, 10)
        same(ours.convolve2d(plane, h[None], "same", "wrap"), theirs.convolve2d(plane, h[None], "same", "wrap"))


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
def test_planes(random, mode, boundary):
    x, h = random.random((11, 9)), random.random((4, 3)) + 1j
    for kernel in (h.real, h, h.real.astype("f4"), h.real[:1]):
        for name in ("convolve2d", "correlate2d"):
            same(getattr(ours, name)(x, kernel, mode, boundary, 2), getattr(theirs, name)(x, kernel, mode, boundary, 2))


def test_long_and_many_axes(random):
    x, h = random.random(5000), random.random(901)
    for name in ("convolve", "correlate", "fftconvolve", "oaconvolve"):
        for mode in ("full", "same", "valid"):
            same(getattr(ours, name)(x, h, mode), getattr(theirs, name)(x, h, mode), 1e-10)
    x, h = random.random((3, 4, 5, 6)), random.random((2, 3, 1, 4))
    same(ours.convolve(x, h, method="direct"), theirs.convolve(x, h, method="direct"))
    same(ours.oaconvolve(x, h), theirs.oaconvolve(x, h))
    same(ours.fftconvolve(x, h[:1], axes=[1, 3]), theirs.fftconvolve(x, h[:1], axes=[1, 3]))


@pytest.mark.parametrize("mode", ["constant", "wrap", "edge", "smooth", "symmetric", "reflect", "antisymmetric",
                                  "antireflect", "line"])
def test_upfirdn(random, mode):
    for up, down in ((1, 1), (3, 2), (2, 5), (7, 7), (147, 160)):
        for x in (random.random(60), random.random((4, 30)).astype("f4"), random.random((20, 3)) * 1j):
            for axis in range(x.ndim):
                h = random.random(11)
                same(ours.upfirdn(h, x, up, down, axis, mode), theirs.upfirdn(h, x, up, down, axis, mode), 1e-6)


def test_resample_and_lfilter(random):
    x = random.random((4, 200))
    for up, down in ((3, 2), (1, 4), (160, 147)):
        for pad in ("constant", "mean", "line", "edge"):
            same(ours.resample_poly(x, up, down, axis=1, padtype=pad), theirs.resample_poly(x, up, down, axis=1, padtype=pad))
    same(ours.resample_poly(x, 2, 3, axis=1, window="hamming"), theirs.resample_poly(x, 2, 3, axis=1, window="hamming"))
    b, a = theirs.butter(4, 0.2)
    for taps, feedback in ((b, 1), (b, a), ([1], a), (b, [2, 0.5])):
        order = max(len(np.atleast_1d(taps)), len(np.atleast_1d(feedback))) - 1
        same(ours.lfilter(taps, feedback, x), theirs.lfilter(taps, feedback, x), 1e-9)
        zi = random.random((4, order))
        for got, want in zip(ours.lfilter(taps, feedback, x, zi=zi), theirs.lfilter(taps, feedback, x, zi=zi)):
            same(got, want, 1e-9)
    same(ours.lfilter(b, a, x.astype("c8"), axis=0), theirs.lfilter(b, a, x.astype("c8"), axis=0), 1e-6)


def test_sepfir2d(random):
    for dtype in ("f4", "f8", "c8", "c16"):
        x = random.random((9, 12)).astype(dtype)
        h, v = random.random(5).astype(dtype), random.random(3).astype(dtype)
        same(ours.sepfir2d(x, h, v), theirs.sepfir2d(x, h, v), 1e-5)
    x, taps = random.random((9, 8)).astype("f4"), [1.0, 2.0, 1.0]
    same(ours.sepfir2d(x, taps, [1.0]), theirs.sepfir2d(x, taps, [1.0]), 1e-5)
    for module in (ours, theirs):
        with pytest.raises(TypeError, match="according to the rule 'safe'"):
            module.sepfir2d(x, np.array(taps), [1.0])
    for dtype in ("?", "u1", "i1", "u2", "i2", ">i2", "f2", "i4", "u8", ">f4", ">f8"):
        x = (random.random((9, 8)) * 50).astype(dtype)
        same(ours.sepfir2d(x, taps, [1.0]), theirs.sepfir2d(x, taps, [1.0]), 1e-5)


def test_choice_has_a_reason(random):
    short = ours.choose_conv_method(random.random(10000), random.random(5))
    long = ours.choose_conv_method(random.random(20000), random.random(20000))
    assert (short, long) == ("direct", "fft") and "us" in short.reason and "us" in long.reason
    method, times = ours.choose_conv_method(random.random(100), random.random(5), measure=True)
    assert method in times and set(times) == {"direct", "fft"}
    assert ours.choose_conv_method(np.array([2**40]), np.array([2**20])) == "direct"


def test_signatures():
    for name in set(ours.__all__) - {"sepfir2d"}:  # scipy's is compiled and has none
        a, b = (inspect.signature(getattr(m, name)).parameters.values() for m in (ours, theirs))
        assert [(p.name, p.default, p.kind) for p in a] == [(p.name, p.default, p.kind) for p in b], name


@pytest.mark.parametrize("samples", [127, 128, 4096, 70001])
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_feedback_in_groups_of_blocks(random, samples, dtype):
    """Long signals of one line and of many, with states in and out; an unstable filter's zeros stay zeros."""
    for lines in (1, 40):
        x = random.standard_normal((lines, samples)).astype(dtype)
        for b, a in (theirs.butter(4, 0.2), ([1.0], [1, -0.99]), ([1, 2, 3, 4, 5, 6], [2, 0.5])):
            zi = random.standard_normal((lines, max(len(a), len(b)) - 1)).astype(dtype)
            for got, want in zip(ours.lfilter(b, a, x, zi=zi), theirs.lfilter(b, a, x, zi=zi)):
                assert np.allclose(got, want, rtol=1e-9, atol=1e-9 * abs(want).max())
    assert not ours.lfilter([1.0], [1.0, -3.0], np.zeros(samples)).any()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", "i4"])
@pytest.mark.parametrize("shapes", [((5000,), (9,)), ((5000,), (900,)), ((60, 70), (33, 20)), ((10, 20, 30), (3, 3, 3))])
def test_fftconvolve_by_either_way(random, dtype, shapes, monkeypatch):
    """The library's plan and numpy's transforms give the same values, types and shapes as scipy."""
    x, h = ((random.standard_normal(n) * 9 + (1j if dtype[0] == "c" else 0)).astype(dtype) for n in shapes)
    for mode in ("full", "same", "valid"):
        want = theirs.fftconvolve(x, h, mode)
        for sums in (True, False):
            monkeypatch.setattr(ours, "_sums_are_faster", lambda *a, sums=sums: sums)
            got = ours.fftconvolve.__wrapped__(x, h, mode)  # not what calls like it are known to be
            size = 1e-3 if dtype == "f2" else 1e-5 if want.dtype.char in "fF" else 1e-12
            assert got.dtype == want.dtype and got.shape == want.shape
            assert np.allclose(got, want, rtol=size, atol=size * abs(want).max())


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_subclasses_of_arrays_count_as_arrays(random):
    x, h = random.random((4, 4)), random.random((3, 3))
    for kind in (np.matrix, np.ma.array):
        got = ours.convolve(kind(x), kind(h), "same", method="direct")
        assert type(got) is np.ndarray and np.allclose(got, theirs.convolve(x, h, "same"))
        assert np.allclose(ours.fftconvolve(kind(x), kind(h[:1, :1])), x * h[0, 0])
    assert np.allclose(ours.upfirdn([1, 2], np.ma.array([1.0, 2]), 2), theirs.upfirdn([1, 2], [1.0, 2], 2))


@pytest.mark.parametrize("place", [0, 500, 999])
def test_transforms_of_values_that_are_not_finite_warn(random, place):
    x = random.random(1000)
    x[place] = np.nan  # transforms of tiles spread it over its tile alone
    with pytest.warns(RuntimeWarning, match="Use of fft convolution"):
        ours.convolve(x, np.ones(200), "same", method="fft")


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("sizes", [(7, 3), (3, 7), (5, 5), (1, 4), (8, 8)])
def test_correlation_lags(sizes, mode):
    assert np.array_equal(ours.correlation_lags(*sizes, mode), theirs.correlation_lags(*sizes, mode))
