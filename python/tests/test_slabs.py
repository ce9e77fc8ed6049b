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
    monkeypatch.setattr(_slabs, "SLAB", 1 << 11)


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


@pytest.mark.parametrize("mode", ["reflect", "constant", "nearest", "mirror"])
@pytest.mark.parametrize("dtype", ["u1", "f8"])
def test_slabs_of_one_row(random, mode, dtype):
    """Slabs at an end see the rows that are repeated beyond it, wherever the filter's origin is."""
    x = random.integers(0, 256, (31, 600)).astype(dtype)
    for size, origin in ((2, 0), (2, -1), (3, -1), (3, 1), (4, -2), (4, 1), (7, -3), (7, 3)):
        got, want = (m.uniform_filter(x, (size, 3), mode=mode, origin=(origin, 0)) for m in (ours, theirs))
        assert np.allclose(got, want, rtol=1e-12, atol=1e-10 * (dtype == "f8")), (size, origin)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("mode", ["reflect", "constant", "nearest", "mirror"])
def test_tall_passes_of_volumes(random, monkeypatch, dtype, mode):
    """The pass along the planes is one of the whole volume, into a new array, an output and a view of one."""
    taken, filtered = [], _slabs._filter
    monkeypatch.setattr(_slabs, "_filter", lambda step, *a: taken.append(len(step.source)) or filtered(step, *a))
    x = random.standard_normal((90, 23, 30)).astype(dtype)
    for name, call in {
        "gaussian": lambda m, out: m.gaussian_filter(x, [5, 2, 3], mode=mode, cval=2, output=out),
        "uniform": lambda m, out: m.uniform_filter(x, (31, 30, 28), mode=mode, cval=2, origin=(3, 0, 0), output=out),
    }.items():
        want = call(theirs, None)
        for out in (None, np.empty_like(x), np.empty((90, 46, 30), dtype)[:, ::2]):
            got = call(ours, out)
            assert out is None or got is out
            size = 1e-5 if dtype == "f4" else 1e-12
            assert np.allclose(got, want, rtol=size, atol=size * 10), name
    assert taken.count(90) == 6


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


def test_every_thread_takes_slabs(random, monkeypatch):
    """The result is one thread's, whoever computes which slab; threads get the settings of the caller."""
    import threading

    import faltung

    seen, slab = set(), _slabs._slab
    barrier = threading.Barrier(3)

    def watched(*arguments):
        if threading.get_ident() not in seen:
            seen.add(threading.get_ident())
            barrier.wait(20)
        slab(*arguments)

    x = random.random((300, 90))
    with faltung.threads(1):
        want = ours.uniform_filter(x, 7)
    monkeypatch.setattr(_slabs, "_slab", watched)
    with faltung.threads(3), faltung.budget(method="direct"):
        got = ours.uniform_filter(x, 7)
        assert faltung.plan("correlate h=64 w=64 r=3 s=3").device.threads == 3
    assert len(seen) == 3 and np.allclose(got, want, rtol=1e-14)


def test_a_failure_ends_every_thread(random, monkeypatch):
    import threading

    import faltung

    def fails(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(_slabs, "_slab", fails)
    before = threading.active_count()
    with faltung.threads(3), pytest.raises(KeyboardInterrupt):
        ours.gaussian_filter(random.random((300, 90)), 2)
    assert threading.active_count() == before


def test_means_of_whole_numbers_are_exact(random):
    """Sums are divided once: flat parts keep their value, beside constants beyond, too."""
    x = np.full((64, 70, 9), 5.0)
    assert (ours.uniform_filter(x, (31, 7, 3)) == 5).all()
    assert (ours.uniform_filter(x, (31, 7, 3), mode="constant", cval=5) == 5).all()
    y = random.integers(0, 99, (80, 90)).astype("f8")
    for cval in (3.0, -7.25):
        got, want = (m.uniform_filter(y, 7, mode="constant", cval=cval) for m in (ours, theirs))
        assert np.allclose(got, want, rtol=1e-13)


def test_a_volume_s_pass_along_slices_is_planned_as_an_image_s(random):
    """Axes without taps that lie together are one axis of the problem."""
    from faltung import _plan

    x = random.random((12, 20, 30))
    for axis, sizes in ((0, (1, 12, 600)), (1, (12, 20, 30)), (2, (1, 240, 30))):
        _plan.cache.clear()
        got = ours.correlate1d(x, [1.0, 2.0, 4.0], axis)
        assert np.allclose(got, theirs.correlate1d(x, [1.0, 2.0, 4.0], axis), rtol=1e-14)
        (pieces,) = _plan.cache._plans.values()
        assert tuple(pieces.plan.problem.struct.input.size)[3:] == sizes


@pytest.mark.parametrize("size", [2, 3, 31, 256, 257, 258, 301, 1000, 4095, 4096, 4097])
def test_every_sum_of_a_mean(size):
    """Sample i is floor(i / size), so the window that begins there has the sum i: all from 0 to 255 * size."""
    row = (np.arange(256 * size) // size).astype("u1")
    for x, axis in ((np.stack([row] * 3), 1), (np.stack([row] * 3, 1), 0)):
        for mode, cval in (("nearest", 0), ("constant", 255)):
            got, want = (m.uniform_filter1d(x, size, axis, mode=mode, cval=cval) for m in (ours, theirs))
            assert np.array_equal(got, want)


@pytest.mark.parametrize("sizes", [(258, 3), (301, 301), (2, 500)])
@pytest.mark.parametrize("mode", ["reflect", "constant", "nearest", "mirror"])
def test_wide_means(random, sizes, mode):
    for x in pictures(random, (640, 700), "u1"):
        got, want = (m.uniform_filter(x, sizes, mode=mode, cval=3) for m in (ours, theirs))
        assert np.array_equal(got, want)
