"""faltung.ndimage beside scipy.ndimage on random arrays: types, boundaries, axes, outputs."""
import inspect

import numpy as np
import pytest
import scipy.ndimage as theirs

from faltung import ndimage as ours
from faltung.ndimage import _passes

MODES = ["reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-constant", "grid-wrap"]
TYPES = ["bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8", "c8", "c16"]
CALLS = {
    "correlate": lambda m, x, k: m.correlate(x, WEIGHTS[: x.ndim and 3], **k),
    "convolve": lambda m, x, k: m.convolve(x, WEIGHTS, **k),
    "correlate1d": lambda m, x, k: m.correlate1d(x, [1.5, -2, 0.25, 3], axis=0, **k),
    "convolve1d": lambda m, x, k: m.convolve1d(x, [1, -2, 1], origin=1, **k),
    "gaussian_filter": lambda m, x, k: m.gaussian_filter(x, [1.2, 0.7], **k),
    "gaussian order": lambda m, x, k: m.gaussian_filter(x, 1.1, order=[1, 2], radius=3, **k),
    "gaussian_filter1d": lambda m, x, k: m.gaussian_filter1d(x, 1.3, **k),
    "uniform_filter": lambda m, x, k: m.uniform_filter(x, [3, 4], origin=[1, -1], **k),
    "uniform_filter1d": lambda m, x, k: m.uniform_filter1d(x, 5, axis=0, **k),
    "sobel": lambda m, x, k: m.sobel(x, axis=0, **k),
    "prewitt": lambda m, x, k: m.prewitt(x, **k),
    "laplace": lambda m, x, k: m.laplace(x, **k),
    "gaussian_laplace": lambda m, x, k: m.gaussian_laplace(x, 1.0, **k),
    "gaussian_gradient_magnitude": lambda m, x, k: m.gaussian_gradient_magnitude(x, 1.0, **k),
}
WEIGHTS = np.array([[1, 0.5, -2], [0.25, 3, 1], [1, -1, 0.125]])


def image(random, dtype):
    x = random.integers(0, 2 if dtype == "bool" else 100, (13, 17))
    return (x + 1j * x[::-1]).astype(dtype) if dtype[0] == "c" else x.astype(dtype)


def same(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    if want.dtype.kind in "biu":
        assert np.array_equal(got, want)
    else:
        size = 1e-5 if want.dtype in (np.float32, np.complex64) else 1e-13
        assert np.allclose(got, want, rtol=size, atol=size * 2000)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("dtype", TYPES)
def test_values_and_types(random, call, dtype):
    """Every type; integers are scipy's exactly, also where a sum lies at an integer."""
    x = image(random, dtype)
    if dtype == "bool" and call in ("laplace", "gaussian_laplace", "gaussian_gradient_magnitude"):
        x = x.astype("u1")
    same(CALLS[call](ours, x, {}), CALLS[call](theirs, x, {}))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("mode", MODES)
def test_modes_and_outputs(random, call, mode):
    x = image(random, "u1")
    for options in ({"mode": mode, "cval": 7}, {"mode": mode, "output": np.float64}, {"mode": mode, "output": "i4"}):
        same(CALLS[call](ours, x, options), CALLS[call](theirs, x, options))
    given, wanted = np.empty(x.shape, "f4"), np.empty(x.shape, "f4")
    assert CALLS[call](ours, x, {"output": given}) is given
    CALLS[call](theirs, x, {"output": wanted})
    same(given, wanted)


def test_constants_where_sums_are_cut():
    """A constant image: the sum of a Gaussian's taps is 1 but for rounding, which decides what is left after cutting."""
    for value in (1, 3, 7, 10, 100, 255):
        x = np.full((20, 21), value, np.uint8)
        for sigma in (0.5, 1, 1.7, 2, 3.1):
            assert np.array_equal(ours.gaussian_filter(x, sigma), theirs.gaussian_filter(x, sigma))
            assert np.array_equal(ours.gaussian_filter(x, sigma, mode="constant"),
                                  theirs.gaussian_filter(x, sigma, mode="constant"))
        w = np.full((3, 3), 1 / 9)
        assert np.array_equal(ours.correlate(x, w, mode="wrap"), theirs.correlate(x, w, mode="wrap"))


@pytest.mark.parametrize("shape", [(6, 5, 4), (3, 4, 5, 6), (3, 2, 4, 3, 5)])
def test_more_axes(random, shape):
    x = random.random(shape)
    w = random.random((2, 3, 2, 1, 3)[: len(shape)])
    for mode in ("reflect", "constant", "wrap"):
        same(ours.correlate(x, w, mode=mode, cval=2), theirs.correlate(x, w, mode=mode, cval=2))
        same(ours.gaussian_filter(x, 1, mode=mode, axes=(0, -1)), theirs.gaussian_filter(x, 1, mode=mode, axes=(0, -1)))


def test_filters_larger_than_arrays(random):
    x, w = random.random((3, 2)), random.random((9, 12))
    for mode in MODES:
        same(ours.convolve(x, w, mode=mode), theirs.convolve(x, w, mode=mode))
        same(ours.uniform_filter1d(x, 11, axis=0, mode=mode), theirs.uniform_filter1d(x, 11, axis=0, mode=mode))


def test_odd_arrays(random):
    """Non-contiguous, reversed, Fortran-ordered, big-endian, read-only and empty arrays; overlapping outputs."""
    x = random.random((20, 24))
    x.flags.writeable = False
    for view in (x[::2, 1::3], x[::-1, ::-1], x.T, np.asfortranarray(x), x.astype(">f4"), x.astype(">i2"), x[:0], x[:, :0]):
        same(ours.gaussian_filter(view, 1), theirs.gaussian_filter(view, 1))
        same(ours.correlate(view, WEIGHTS), theirs.correlate(view, WEIGHTS))
    for function in ("uniform_filter", "sobel", "laplace"):
        a, b = np.array(x), np.array(x)
        getattr(ours, function)(a, output=a)
        getattr(theirs, function)(b, output=b)
        if function == "uniform_filter":
            same(a, b)
    a, b = np.array(x), np.array(x)
    same(ours.correlate(a, WEIGHTS, output=a), theirs.correlate(b, WEIGHTS, output=b))


@pytest.mark.parametrize("call", [
    lambda m: m.correlate(np.ones((3, 3)), np.ones(3)),
    lambda m: m.correlate(np.ones((3, 3)), np.ones((0, 3))),
    lambda m: m.correlate1d(np.ones(3), []),
    lambda m: m.correlate1d(np.ones(3), [1, 2], axis=1),
    lambda m: m.correlate1d(np.ones(3), [1, 2], origin=2),
    lambda m: m.correlate1d(np.ones(3), [1, 2], mode="nothing"),
    lambda m: m.correlate(np.ones((3, 3)), np.ones((2, 2)), origin=(0, 1)),
    lambda m: m.correlate(np.ones(3), np.ones(2), mode=["wrap"]),
    lambda m: m.gaussian_filter(np.ones((3, 3)), [1, 2, 3]),
    lambda m: m.gaussian_filter(np.ones(3), 1, order=-1),
    lambda m: m.gaussian_filter(np.ones(3), 1, radius=-1),
    lambda m: m.gaussian_filter(np.ones(3), 1, axes=3),
    lambda m: m.gaussian_filter(np.ones((3, 3)), 1, axes=(0, 0)),
    lambda m: m.uniform_filter1d(np.ones(3), 0),
    lambda m: m.uniform_filter1d(np.ones(3), 3, origin=2),
    lambda m: m.sobel(np.ones(3), output=np.ones(4)),
    lambda m: m.sobel(np.array([object()])),
    lambda m: m.sobel(np.ones(3, "f2")),
    lambda m: m.correlate(np.ones(3), [1j], cval=1j),
])
def test_errors_are_scipy_s(call):
    with pytest.raises(Exception) as want:  # noqa: B017, PT011
        call(theirs)
    with pytest.raises(type(want.value)):
        call(ours)


def test_signatures():
    for name in set(ours.__all__) - {"gaussian_fast"}:  # scipy has none
        a, b = (inspect.signature(getattr(m, name)).parameters.values() for m in (ours, theirs))
        assert [(p.name, p.default, p.kind) for p in a] == [(p.name, p.default, p.kind) for p in b], name


@pytest.mark.parametrize("cval", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("call", sorted(set(CALLS) - {"uniform_filter", "uniform_filter1d"}))  # scipy's NaN stay in running sums
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_constants_that_the_library_does_not_take(random, call, dtype, cval):
    """cval=nan marks what sees beyond the border."""
    x = image(random, dtype)
    options = {"mode": "constant", "cval": cval, "output": "f8"}
    got, want = CALLS[call](ours, x, options), CALLS[call](theirs, x, options)
    assert got.dtype == want.dtype
    assert np.allclose(got, want, rtol=1e-5, atol=1e-5 * 2000, equal_nan=True)
    out = np.zeros_like(got)
    CALLS[call](ours, x, options | {"output": out})
    assert np.array_equal(out, got, equal_nan=True)


@pytest.mark.parametrize("dtype", [">i2", ">u4", ">i8", ">f4", ">f8"])
def test_other_byte_order(dtype, random):
    """Every filter takes arrays of the other byte order; results have the machine's."""
    x = (random.random((12, 14)) * 200 - 100 * (dtype != ">u4")).astype(dtype)
    for name, arguments in (("uniform_filter", (3,)), ("uniform_filter1d", (5,)), ("gaussian_filter", (1.3,)), ("sobel", ()),
                            ("correlate", (np.ones((3, 3), ">f4"),)), ("laplace", ()), ("convolve1d", ([1, 2, 3],))):
        got, want = getattr(ours, name)(x, *arguments), getattr(theirs, name)(x, *arguments)
        assert got.dtype == want.dtype and np.allclose(got, want, rtol=1e-5, atol=1e-4), name


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("sigma", [2, 9, 40])
def test_zeros_stay_zeros_and_positive_sums_positive(dtype, sigma):
    x = np.zeros((3, 700), dtype)
    x[1, 350] = 1
    reach = 2 * sigma
    for got in (ours.gaussian_filter(x, sigma, truncate=2), ours.correlate(x, np.ones((3, 2 * reach + 1))),
                ours.uniform_filter1d(x, 2 * reach + 1)):
        assert (got >= 0).all() and got.any()
        assert not got[:, : 350 - reach].any() and not got[:, 351 + reach :].any()


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "f8"])
@pytest.mark.parametrize("mode", ["reflect", "nearest", "wrap", "constant"])
def test_passes_as_one_filter(random, monkeypatch, dtype, mode):
    """As arrays on a GPU are filtered: integers modulo their range, whether cut after each pass or once."""
    monkeypatch.setattr(_passes, "_most_taps", lambda item, passes: _passes.FEW_TAPS)
    for shape, name in (((40, 50), "sobel"), ((40, 50), "prewitt"), ((9, 20, 30), "sobel")):
        x = random.integers(0, 127, shape).astype(dtype)
        got, want = (getattr(m, name)(x, mode=mode) for m in (ours, theirs))
        assert got.dtype == want.dtype and np.array_equal(got, want)
