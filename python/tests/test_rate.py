"""upfirdn and resample_poly by layers of residues beside scipy: rates, lengths, axes, boundaries, infinities."""
import warnings

import numpy as np
import pytest
import scipy.signal

from faltung import signal
from faltung.signal import _rate

MODES = ["constant", "edge", "symmetric", "reflect", "wrap", "smooth", "line"]


@pytest.fixture
def calls(monkeypatch):
    """The layers that ran."""
    found, run = [], _rate._layer
    monkeypatch.setattr(_rate, "_layer", lambda *arguments: (found.append(arguments), run(*arguments)))
    return found


def close(got, want):
    assert got.shape == want.shape and got.dtype == want.dtype
    assert np.allclose(got, want, rtol=0, atol=2e-6 * (1 + np.abs(want).max(initial=0)))


def test_random_rates(calls):
    random = np.random.default_rng(5)
    for i in range(150):
        up, down = (int(n) for n in random.integers(1, 50, 2))
        h = random.standard_normal(random.integers(1, 400)).astype("f4")
        n = int(random.integers(h.size // up + 4, 5000 + h.size // up))
        shape, axis = [((n,), 0), ((3, n), 1), ((2, n, 3), 1), ((n, 2), 0)][i % 4]
        x = random.standard_normal(shape).astype("f4")
        mode = MODES[i % len(MODES)]
        close(signal.upfirdn(h, x, up, down, axis=axis, mode=mode), scipy.signal.upfirdn(h, x, up, down, axis=axis, mode=mode))
    assert len(calls) > 60


@pytest.mark.parametrize("up, down", [(160, 147), (147, 160), (3, 2), (2, 1), (17, 16), (33, 1)])
@pytest.mark.parametrize("padtype", ["constant", "line", "mean", "edge"])
def test_resample(up, down, padtype, calls):
    x = np.random.default_rng(6).standard_normal(9001).astype("f4")
    close(signal.resample_poly(x, up, down, padtype=padtype), scipy.signal.resample_poly(x, up, down, padtype=padtype))
    assert calls


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_infinities_stay_in_their_windows(value):
    x = np.ones(9000, "f4")
    x[4000:4002] = value
    h = np.ones(40, "f4")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = signal.upfirdn(h, x, 16, 15)
    with np.errstate(all="ignore"):
        want = scipy.signal.upfirdn(h, x, 16, 15)
    assert np.array_equal(np.isfinite(got), np.isfinite(want)) and np.isfinite(got).sum() > 9000


def test_constants_beyond_and_other_types(calls):
    """These go a residue at a time."""
    x, h = np.random.default_rng(7).standard_normal(9000), np.ones(7, "f4")
    for y, options in ((x.astype("f4"), {"mode": "constant", "cval": 2.0}), (x, {}), (x.astype("f4")[:50], {})):
        close(signal.upfirdn(h, y, 3, 2, **options), scipy.signal.upfirdn(h, y, 3, 2, **options))
    assert not calls
