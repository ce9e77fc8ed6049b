"""upfirdn and resample_poly by products of matrices beside scipy: rates, types, axes, boundaries, infinities, threads."""
import warnings

import numpy as np
import pytest
import scipy.signal

import faltung
from faltung import signal
from faltung.signal import _rate

MODES = ["constant", "edge", "symmetric", "reflect", "wrap", "smooth", "line"]


@pytest.fixture
def calls(monkeypatch):
    """The products that ran."""
    found, run = [], _rate._product
    monkeypatch.setattr(_rate, "_product", lambda *arguments: (found.append(arguments), run(*arguments)))
    return found


def close(got, want):
    assert got.shape == want.shape and got.dtype == want.dtype
    error = 2e-6 if want.dtype.char in "fF" else 2e-14
    assert np.allclose(got, want, rtol=0, atol=error * (1 + np.abs(want).max(initial=0)))


def numbers(random, shape, kind):
    """Random numbers of a type."""
    real = random.standard_normal(shape)
    return (real + 1j * random.standard_normal(shape) if kind in "FD" else real).astype(kind)


@pytest.mark.parametrize("kind", "fdFD")
def test_random_rates(kind, calls):
    random = np.random.default_rng(5)
    for i in range(120):
        up, down = (int(n) for n in random.integers(1, 50, 2))
        h = random.standard_normal(random.integers(1, 400)).astype(kind.lower())
        n = int(random.integers(h.size // up + 4, 5000 + h.size // up))
        shape, axis = [((n,), 0), ((3, n), 1), ((2, n, 3), 1), ((n, 2), 0), ((n, 9), 0), ((2, n, 17), -2)][i % 6]
        x = numbers(random, shape, kind)
        mode = MODES[i % len(MODES)]
        close(signal.upfirdn(h, x, up, down, axis=axis, mode=mode), scipy.signal.upfirdn(h, x, up, down, axis=axis, mode=mode))
    assert len(calls) > 60


@pytest.mark.parametrize("up, down", [(160, 147), (147, 160), (3, 2), (2, 1), (17, 16), (33, 1), (441, 480)])
@pytest.mark.parametrize("padtype", ["constant", "line", "mean", "edge"])
@pytest.mark.parametrize("kind", "fdD")
def test_resample(up, down, padtype, kind, calls):
    x = numbers(np.random.default_rng(6), 9001, kind)
    close(signal.resample_poly(x, up, down, padtype=padtype), scipy.signal.resample_poly(x, up, down, padtype=padtype))
    assert calls


@pytest.mark.parametrize("up, count", [(4999, 4500), (97, 120), (5003, 9000)])
@pytest.mark.parametrize("mode", ["constant", "wrap", "reflect"])
def test_few_periods(up, count, mode, calls):
    """Periods as long as the result, and filters as long as the array."""
    random = np.random.default_rng(11)
    h, x = random.standard_normal(3 * up + 7), random.standard_normal(count)
    close(signal.upfirdn(h, x, up, up - 2, mode=mode), scipy.signal.upfirdn(h, x, up, up - 2, mode=mode))
    h, x = random.standard_normal(60 * up), random.standard_normal(50)
    close(signal.upfirdn(h, x, up, 2, mode=mode), scipy.signal.upfirdn(h, x, up, 2, mode=mode))
    assert calls


def test_sums_that_overflow_give_no_warning():
    x = np.where(np.arange(9000) % 2, -3e38, 3e38).astype("f4")
    h = np.where(np.arange(40) % 6 < 3, 1, -1).astype("f4")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = signal.upfirdn(h, x, 3, 2)
    with np.errstate(all="ignore"):
        want = scipy.signal.upfirdn(h, x, 3, 2)
    assert np.isinf(want).sum() > 1000 and np.isinf(got[np.isinf(want)]).mean() > 0.9


def test_complex_filters_and_constants(calls):
    random = np.random.default_rng(8)
    h, x = numbers(random, 40, "D"), numbers(random, 9000, "D")
    for taps, y, cval in ((h, x, 0), (h, x.real, 0), (h.real, x, 2 + 1j), (h, x.real, 1 - 1j), (h.real, x, 3.0)):
        want = scipy.signal.upfirdn(taps, np.concatenate([[cval] * 50, y, [cval] * 50]) if cval else y, 3, 2)
        got = signal.upfirdn(taps, y, 3, 2, cval=cval)
        close(got, want[75: 75 + got.size] if cval else want)
    assert calls


@pytest.mark.parametrize("shape, axis", [((9000,), 0), ((3000, 2), 0), ((600, 16), 0), ((3, 3000), 1)])
@pytest.mark.parametrize("kind", "fd")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, "most"])
def test_infinities_stay_in_their_windows(shape, axis, kind, value):
    x = np.ones(shape, kind)
    np.moveaxis(x, axis, 0)[400:402] = 0.9 * np.finfo(kind).max if value == "most" else value
    h = np.ones(40, kind)
    h[3:9] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = signal.upfirdn(h, x, 16, 15, axis)
    with np.errstate(all="ignore"):
        want = scipy.signal.upfirdn(h, x, 16, 15, axis)
    assert np.array_equal(np.isfinite(got), np.isfinite(want)) and np.isfinite(got).sum() > 0.9 * want.size
    assert np.array_equal(got[np.isfinite(got)] == 3, want[np.isfinite(want)] == 3)
    assert np.array_equal(np.isnan(got), np.isnan(want))


def test_threads_give_the_same_bits(calls):
    x, h = np.random.default_rng(9).standard_normal(1 << 18), np.random.default_rng(10).standard_normal(900)
    results = []
    for threads in (1, 2, 3):
        with faltung.threads(threads):
            results.append(signal.upfirdn(h, x, 40, 37))
    assert calls and np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])


def test_others_go_a_residue_at_a_time(calls):
    """A constant beyond, few results, one residue, and residues of many taps."""
    x, h = np.random.default_rng(7).standard_normal(9000), np.ones(7)
    for y, taps, rate, options in ((x, h, (3, 2), {"mode": "constant", "cval": 2.0}), (x[:50], h, (3, 2), {}), (x, h, (1, 2), {}),
                                   (x, np.ones(1700), (3, 2), {})):
        close(signal.upfirdn(taps, y, *rate, **options), scipy.signal.upfirdn(taps, y, *rate, **options))
    assert not calls
