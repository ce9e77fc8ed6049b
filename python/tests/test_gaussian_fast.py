"""Gaussians made of boxes: near the Gaussian, as the same taps by scipy, for every type, boundary and order of axes."""
import numpy as np
import pytest
import scipy.ndimage as theirs

from faltung import ndimage as ours
from faltung.ndimage._boxes import gaussian_of_boxes

MODES = ["reflect", "constant", "nearest", "mirror", "wrap"]


ERRORS = [(2, 0.009, 0.015), (5, 0.003, 0.004), (16, 0.002, 0.003), (60, 0.002, 0.003)]  # sigma, of the peak, in total


@pytest.mark.parametrize(("sigma", "peak", "total"), ERRORS)
def test_taps_are_near_the_gaussian(sigma, peak, total):
    taps = gaussian_of_boxes(float(sigma))
    x = np.arange(len(taps)) - len(taps) // 2
    bell = np.exp(-0.5 * x**2 / sigma**2) / (sigma * np.sqrt(2 * np.pi))
    assert len(taps) % 2 == 1
    assert np.allclose(taps, taps[::-1], rtol=1e-12)
    assert abs(taps.sum() - 1) < 1e-12
    assert abs((taps * x**2).sum() / sigma**2 - 1) < 1e-9
    assert abs(taps - bell).max() <= 1.05 * peak * bell.max()
    assert abs(taps - bell).sum() <= 1.15 * total


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["f4", "f8", "u1", "i2"])
def test_as_scipy_with_the_same_taps(random, mode, dtype):
    x = random.integers(0, 100, (70, 90)).astype(dtype)
    got = ours.gaussian_fast(x, [3, 7.5], mode=mode, cval=2)
    want = x
    for axis, sigma in enumerate([3, 7.5]):
        want = theirs.correlate1d(want, gaussian_of_boxes(sigma), axis, mode=mode, cval=2)
    assert got.dtype == want.dtype
    if want.dtype.kind in "iu":  # the sums that rounding decides may be cut to the next integer, once an axis
        assert abs(got.astype(int) - want.astype(int)).max() <= 1
        assert np.mean(got != want) < 0.01
    else:
        assert np.allclose(got, want, rtol=1e-5 if dtype == "f4" else 1e-12, atol=1e-3 if dtype == "f4" else 1e-10)


def test_axes_outputs_and_small_sigma(random):
    x = random.random((9, 40, 11)).astype("f4")
    out = np.empty_like(x)
    assert ours.gaussian_fast(x, 2.5, out, axes=1) is out
    assert np.allclose(out, theirs.correlate1d(x, gaussian_of_boxes(2.5), 1), atol=1e-5)
    assert np.array_equal(ours.gaussian_fast(x, 0), x)
    assert np.allclose(ours.gaussian_fast(x, 1.5), theirs.gaussian_filter(x, 1.5), atol=1e-5)


def test_wrong_sigma():
    with pytest.raises(ValueError, match="sigma"):
        ours.gaussian_fast(np.ones(9), float("nan"))
