"""Several axes in one pass over memory: beside scipy's passes, and what does not change the result."""
import numpy as np
import pytest
import scipy.ndimage as theirs

import faltung
from faltung import ndimage as ours
from faltung.ndimage import _passes, _slabs

CALLS = {  # and the sum of all |taps|
    "gaussian": (lambda m, x, k: m.gaussian_filter(x, 2, **k), 1),
    "gaussian by axis": (lambda m, x, k: m.gaussian_filter(x, [0.3, 2, 1.5][-x.ndim :], **k), 1),
    "derivatives": (lambda m, x, k: m.gaussian_filter(x, 1, order=[1, 2, 0][: x.ndim], **k), 2),
    "uniform": (lambda m, x, k: m.uniform_filter(x, [7, 4, 5][: x.ndim], origin=1, **k), 1),
    "sobel": (lambda m, x, k: m.sobel(x, **k), 32),
    "prewitt": (lambda m, x, k: m.prewitt(x, 0, **k), 18),
    "other order": (lambda m, x, k: m.gaussian_filter(x, [1.0, 2.0], axes=(x.ndim - 1, 0), **k), 1),
}
ROUNDINGS = 16  # of sums that scipy adds in another order; each is half of an ulp
EPS = np.finfo(float).eps


@pytest.fixture
def no_slabs(monkeypatch):
    monkeypatch.setattr(_slabs, "chain", None)


@pytest.mark.parametrize("shape", [(150, 130), (30, 23, 40)])
@pytest.mark.parametrize("mode", ["reflect", "constant", "nearest", "mirror", "wrap", "several"])
def test_f64_is_scipy_s_but_for_roundings(random, no_slabs, shape, mode):
    x = random.standard_normal(shape)
    modes = {"mode": ["wrap", "mirror", "constant"][: x.ndim] if mode == "several" else mode}
    for name, (call, weight) in CALLS.items():
        kept = {"mode": modes["mode"][:2]} if name == "other order" and mode == "several" else modes
        got, want = call(ours, x, kept), call(theirs, x, kept)
        assert got.dtype == want.dtype
        assert np.abs(got - want).max() <= ROUNDINGS * EPS * weight * np.abs(x).max(), name


def test_views_outputs_and_orders(random, no_slabs):
    x = random.standard_normal((300, 280))
    for view in (x[::2, ::2], x[::-1, ::-1], x.T, np.asfortranarray(x)):
        for call in (lambda m, y, k: m.gaussian_filter(y, 1, **k), lambda m, y, k: m.uniform_filter(y, 5, **k)):
            want = call(theirs, view, {})
            for out in (None, np.empty(view.shape), np.empty((2 * view.shape[0], view.shape[1]))[::2]):
                got = call(ours, view, {"output": out})
                assert out is None or got is out
                assert np.allclose(got, want, rtol=1e-13, atol=1e-14)
    want = theirs.uniform_filter(x, 5)
    assert ours.uniform_filter(x, 5, output=x) is x and np.allclose(x, want, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("shape", [(1100, 1000), (64, 100, 170)])
def test_threads_do_not_change_a_bit(random, no_slabs, shape):
    """Of one solver's result; which is the fastest may depend on their number."""
    x = random.standard_normal(shape)
    for name in ("gaussian", "derivatives", "uniform"):
        results = []
        for count in (1, 2, 3, 7):
            with faltung.threads(count), faltung.budget(method="separable"):
                results.append(CALLS[name][0](ours, x, {}))
        assert all(np.array_equal(one, results[0]) for one in results[1:]), name


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_where_scipy_has_it(random, no_slabs, value):
    x = random.standard_normal((140, 150))
    x[70, 75] = x[0, 3] = x[139, 149] = value
    for name in ("gaussian", "derivatives", "sobel", "prewitt"):
        got, want = (CALLS[name][0](m, x, {}) for m in (ours, theirs))
        assert np.array_equal(np.isnan(got), np.isnan(want)) and np.array_equal(np.isinf(got), np.isinf(want)), name
        assert np.array_equal(got[np.isinf(got)], want[np.isinf(want)]), name
    got = ours.uniform_filter(x, 7)
    assert np.array_equal(np.isfinite(got), theirs.maximum_filter(~np.isfinite(x), 7) == 0)


@pytest.mark.parametrize("size", [200, 1100])
def test_every_call_divides_means(random, size):
    """A call that is kept is one execution of a plan, which a mean in f64 is not."""
    x = np.full((size, 1000), 5.0)
    for _ in range(3):
        assert (ours.uniform_filter(x, (31, 7)) == 5).all()


def test_short_rows_and_many_taps_go_by_slabs(random, monkeypatch):
    """Pixels' channels are of the row. Filters are fused that plans keep."""
    taken, chain = [], _slabs.chain
    monkeypatch.setattr(_slabs, "chain", lambda *a: taken.append(1) or chain(*a))
    monkeypatch.setattr(_slabs, "LEAST", 1 << 14)
    for shape, axes, sigma, slabs in (((200, 100), None, 2, 0), ((300, 80), None, 2, 1), ((200, 40, 3), (0, 1), 2, 0),
                                      ((40, 40, 100), None, 2, 0), ((40, 40, 100), None, 3, 1)):
        x = random.standard_normal(shape)
        got, want = (m.gaussian_filter(x, sigma, axes=axes) for m in (ours, theirs))
        assert np.allclose(got, want, rtol=1e-12, atol=1e-13) and len(taken) == slabs
        taken.clear()


def test_few_f64_have_the_bits_of_single_passes(random):
    x = random.standard_normal((100, 110))
    assert x.size < _passes.LEAST_F64
    want = ours.gaussian_filter1d(ours.gaussian_filter1d(x, 2, 0), 2, 1)
    assert np.array_equal(ours.gaussian_filter(x, 2), want)
