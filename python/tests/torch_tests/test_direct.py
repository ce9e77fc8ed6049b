"""Calls that are kept: the types of gradients, what tells calls apart, weights that change."""
import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402,N812

import faltung  # noqa: E402
from faltung import torch as ours  # noqa: E402
from faltung.torch import _direct  # noqa: E402

HALF = torch.bfloat16


def autocast():
    return torch.autocast("cpu", dtype=HALF)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("groups", [1, 4])
def test_weights_of_f32_under_autocast(last, groups):
    """Their gradient is f32, and not rounded to bf16 on the way."""
    order = torch.channels_last if last else torch.contiguous_format
    x = torch.randn(3, 8, 17, 19).contiguous(memory_format=order).requires_grad_()
    w = torch.randn(12, 8 // groups, 3, 3).contiguous(memory_format=order).requires_grad_()
    for _ in range(2):  # a new call, and the one that is kept
        with autocast():
            y = ours.conv2d(x, w, padding=1, groups=groups)
        assert y.dtype == HALF
        g = torch.randn_like(y)
        dx, dw = torch.autograd.grad(y, (x, w), g)
        assert dx.dtype == dw.dtype == torch.float32 and dw.stride() == w.stride()
        xd, wd = (t.detach().to(HALF).double().requires_grad_() for t in (x, w))
        wx, ww = torch.autograd.grad(F.conv2d(xd, wd, padding=1, groups=groups), (xd, wd), g.double())
        torch.testing.assert_close(dw.double(), ww, rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(dx.double(), wx, rtol=1e-2, atol=1e-1)


@pytest.mark.parametrize("ways", range(8))
def test_types_whoever_computes(ways):
    layer = ours.nn.Conv2d(4, 6, 3)
    layer.ways = ways
    x = torch.randn(2, 4, 9, 9, requires_grad=True)
    with autocast():
        layer(x).float().square().sum().backward()
    assert [t.grad.dtype for t in (x, layer.weight, layer.bias)] == [torch.float32] * 3


def test_gradients_of_gradients_under_autocast():
    x, w = torch.randn(2, 3, 8, 8, requires_grad=True), torch.randn(4, 3, 3, 3, requires_grad=True)

    def second(conv):
        with autocast():
            y = conv(x, w).float()
        (dx,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        return torch.autograd.grad(dx.square().sum(), (x, w))

    for a, e in zip(second(ours.conv2d), second(F.conv2d)):
        torch.testing.assert_close(a, e, rtol=5e-2, atol=5e-2 * float(e.abs().max()))


def test_weights_that_change():
    """Between a layer and its gradients, as torch under autocast takes the weights of the layer; gradients of gradients would
    need them anew."""
    x, w = torch.randn(2, 3, 8, 8, requires_grad=True), torch.randn(4, 3, 3, 3, requires_grad=True)

    def after(conv, **options):
        with autocast():
            y = conv(x, w)
        with torch.no_grad():
            w.mul_(2)
        dx = torch.autograd.grad(y.float().sum(), x, **options)[0]
        with torch.no_grad():
            w.div_(2)
        return dx

    torch.testing.assert_close(after(ours.conv2d), after(F.conv2d), rtol=1e-2, atol=1e-1)
    with pytest.raises(RuntimeError, match="was changed"):
        after(ours.conv2d, create_graph=True)
    y = ours.conv2d(x, w)
    with torch.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_what_tells_calls_apart():
    """Calls that differ in one thing, one after the other: each as torch's."""
    _direct._calls.clear()
    x, w = torch.randn(2, 4, 12, 12), torch.randn(8, 4, 3, 3)
    strided = torch.randn(2, 4, 12, 24)[..., ::2]
    for _ in range(2):
        for options in ({}, {"stride": 2}, {"padding": 1}, {"padding": (1, 0)}, {"dilation": 2}, {"padding": "same"},
                        {"stride": [2, 1]}):
            for data in (x, x.contiguous(memory_format=torch.channels_last), strided, x[:1], x.double()):
                weights = w.to(data.dtype)
                torch.testing.assert_close(ours.conv2d(data, weights, **options), F.conv2d(data, weights, **options),
                                           rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(ours.conv2d(x, w[:, :2], groups=2), F.conv2d(x, w[:, :2], groups=2), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(ours.conv2d(x[0], w), F.conv2d(x[0], w), rtol=1e-4, atol=1e-4)
        with pytest.raises(RuntimeError, match="2D .unbatched."):
            ours.conv1d(x, w)
        with pytest.raises(RuntimeError, match="should be the same"):
            ours.conv2d(x.to(HALF), w)
        with pytest.raises(ValueError, match="activation"):
            ours.conv2d(x, w, activation="sharp")
    assert 0 < len(_direct._calls) < 60


def test_no_elements():
    x, w = torch.empty(0, 3, 8, 8, requires_grad=True), torch.randn(4, 3, 3, 3, requires_grad=True)
    y = ours.conv2d(x, w)
    y.sum().backward()
    assert y.shape == (0, 4, 6, 6) and not w.grad.any()


def test_budget_of_the_call_holds_for_its_gradients():
    x, w = torch.randn(1, 3, 9, 9, requires_grad=True), torch.randn(4, 3, 3, 3, requires_grad=True)
    _direct._calls.clear()
    with faltung.budget(method="generic"):
        y = ours.conv2d(x, w)
    y.sum().backward()
    call = next(iter(_direct._calls._plans.values()))
    assert {plan.solver for plan in call._plans.values()} == {"generic"} and len(call._plans) == 3


@pytest.mark.parametrize("learns", [False, True])
def test_sizes_of_bias_and_residual(learns):
    """A residual of one image is for all, as torch's sums have it; nothing is read beyond the end of either."""
    x, w = torch.randn(3, 2, 6, 6), torch.randn(4, 2, 3, 3, requires_grad=learns)
    for size in ((1, 4, 4, 4), (4, 4, 4), (3, 1, 1, 1), ()):
        residual = torch.randn(size)
        torch.testing.assert_close(ours.conv2d(x, w, residual=residual), F.conv2d(x, w) + residual, rtol=1e-4, atol=1e-4)
    ours.conv2d(x, w, torch.zeros(4))
    for bias in (torch.zeros(1), torch.zeros(3), torch.zeros(4, 1), torch.zeros(0)):
        with pytest.raises(RuntimeError, match="bias"):
            ours.conv2d(x, w, bias)
        with pytest.raises(RuntimeError, match="bias"):
            torch.ops.faltung.conv(x, w, bias, [1, 1], [0] * 4, [1, 1], 1, 0, "identity", None, 0)
    with pytest.raises(RuntimeError):
        ours.conv2d(x, w, residual=torch.zeros(2, 4, 4, 4))
