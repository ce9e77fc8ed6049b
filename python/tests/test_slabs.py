"""Passes over slabs beside scipy's: every type, boundary and order of axes that may take them, with slabs of few rows."""
import numpy as np
import pytest
import scipy.ndimage as theirs

from faltung import ndimage as ours
from faltung.ndimage import _slabs

CALLS = {
    "gaussian": lambda m, x, k: m.gaussian_filter(x, 2, **k),
    "gaussian by axis": lambda m, x, k: m.gaussian_filter(x, [0.3, 2, 1.5][: x.ndim], **k),
    "gaussian along one axis": lambda m, x, k: m.gaussian_filter1d(x, 3, **k),
    "derivative": lambda m, x, k: m.gaussian_filter(x, 1, order=1, **k),
    "uniform": lambda m, x, k: m.uniform_filter(x, 7, origin=1, **k),
    "uniform along one axis": lambda m, x, k: m.uniform_filter1d(x, 4, 0, **k),
    "sobel": lambda m, x, k: m.sobel(x, **k),
    "other order": lambda m, x, k: m.gaussian_filter(x, [1.0, 2.0], axes=(x.ndim - 1, 0), **k),
}


def pictures(random, shape, dtype):
    stripes = np.indices(shape).sum(0) // 20 % 2 * 200
    return [a.astype(dtype) for a in (random.integers(0, 256, shape), stripes, np.full(shape, 200))]


@pytest.fixture(autouse=True)
def small_slabs(monkeypatch):
    monkeypatch.setattr(_slabs, "LEAST", 1)
    monkeypatch.setattr(_slabs, "SLAB", 1 << 9)


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
@pytest.mark.parametrize("shape", [(97, 110), (60, 23, 30)])
@pytest.mark.parametrize("mode", ["reflect", "constant", "nearest", "mirror", "wrap"])
def test_values(random, dtype, shape, mode):
    for x in pictures(random, shape, dtype):
        for cval in (0, 7, 7.5) if mode == "constant" else (0,):
            for name, call in CALLS.items():
                got, want = (call(m, x, {"mode": mode, "cval": cval}) for m in (ours, theirs))
                if dtype == "u1":
                    assert np.array_equal(got, want), name
                else:
                    size = 1e-5 if dtype == "f4" else 1e-12
                    assert np.allclose(got, want, rtol=size, atol=size * 100), name


def test_slabs_are_taken(random, monkeypatch):
    """The functions above come this way, also into an output and from views."""
    taken = []
    chain = _slabs.chain
    monkeypatch.setattr(_slabs, "chain", lambda *a: taken.append(chain(*a)) or taken[-1])
    x = random.integers(0, 256, (80, 90)).astype("u1")
    out = np.empty_like(x)
    assert ours.gaussian_filter(x, 2, output=out) is out and taken[-1] is out
    assert np.array_equal(ours.sobel(x[::-1, ::2]), theirs.sobel(x[::-1, ::2])) and taken[-1] is not None
    assert np.array_equal(ours.gaussian_filter(x.T, 1.5), theirs.gaussian_filter(x.T, 1.5)) and taken[-1] is not None
    want = theirs.gaussian_filter(x, 2)
    assert ours.gaussian_filter(x, 2, output=x) is x and np.array_equal(x, want)  # the input is the output
