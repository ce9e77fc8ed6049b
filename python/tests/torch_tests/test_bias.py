"""The gradient of a bias, which comes with that of the weights from one plan, beside torch."""
import random

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812

import faltung.torch as ours  # noqa: E402

D = torch.float64
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def layer(seed):
    """(space, shape of x, shape of w, options) at random."""
    choose = random.Random(seed)
    space, groups = choose.choice((1, 2, 2, 3)), choose.choice((1, 1, 2, 5))
    c = groups * choose.choice((1, 2, 3, 8, 17) if groups != 5 else (1, 1, 3))
    k = groups * choose.choice((1, 2, 4, 9))
    taps = [choose.randint(1, 4) for _ in range(space)]
    size = [choose.randint(7, 33 // space) for _ in range(space)]
    options = {"stride": choose.randint(1, 3), "padding": choose.randint(0, 2), "dilation": choose.randint(1, 2),
               "groups": groups}
    return space, (choose.randint(1, 3), c, *size), (k, c // groups, *taps), options


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("last", [False, True])
def test_random_layers(dtype, last, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "sum", None)  # no pass of its own
    for seed in range(60):
        space, shape, weight, options = layer(seed)
        torch.manual_seed(seed)
        tensors = [torch.randn(s).to(dtype) for s in (shape, weight, weight[:1])]
        if last and space > 1:
            order = torch.channels_last if space == 2 else torch.channels_last_3d
            tensors[:2] = [t.contiguous(memory_format=order) for t in tensors[:2]]
        wide = [t.double().requires_grad_() for t in tensors]
        tensors = [t.requires_grad_() for t in tensors]
        y, z = getattr(ours, f"conv{space}d")(*tensors, **options), getattr(F, f"conv{space}d")(*wide, **options)
        g = torch.randn(z.shape).to(dtype)
        got, want = torch.autograd.grad(y, tensors, g), torch.autograd.grad(z, wide, g.double())
        for a, b in zip(got, want):
            assert a.dtype == dtype
            assert (a.double() - b).abs().max() <= TOLERANCE[dtype] * (1 + b.abs().max()), (seed, a.shape)
        assert got[1].stride() == tensors[1].stride()


def test_which_gradients_are_asked_for(monkeypatch):
    """Bias alone, weights alone, weights by torch: each as torch's."""
    x, w, b = torch.randn(2, 3, 6, 7, dtype=D), torch.randn(4, 3, 3, 3, dtype=D), torch.randn(4, dtype=D)
    for learns in ((0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 1), (1, 1, 1)):
        for ways in (0, 4, 6):
            inputs = [t.clone().requires_grad_(bool(need)) for t, need in zip((x, w, b), learns)]
            y = ours._conv(2, *inputs, 1, 1, 1, 1, "zeros", None, None, ways)
            y.pow(2).sum().backward()
            own = [t.clone().requires_grad_(bool(need)) for t, need in zip((x, w, b), learns)]
            F.conv2d(*own, padding=1).pow(2).sum().backward()
            for a, e in zip(inputs, own):
                assert (a.grad is None) == (e.grad is None)
                if e.grad is not None:
                    torch.testing.assert_close(a.grad, e.grad, rtol=1e-9, atol=1e-9)


def test_autocast():
    """A bias that stays f32 beside bf16 layers has an f32 gradient, not rounded to bf16."""
    x, w, b = torch.randn(2, 4, 40, 40), torch.randn(4, 4, 3, 3, requires_grad=True), torch.randn(4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = ours.conv2d(x, w, b)
    g = torch.randn_like(y)
    db, = torch.autograd.grad(y, b, g)
    assert db.dtype == torch.float32
    torch.testing.assert_close(db, g.float().sum((0, 2, 3)), rtol=1e-5, atol=1e-3)


def test_second_order():
    """The plain way and the operators: gradients of gradients go through the bias's."""
    inputs = [torch.randn(s, dtype=D, requires_grad=True) for s in ((2, 2, 5, 4), (4, 2, 3, 2), (4,))]
    for f in (lambda x, w, b: ours.conv2d(x, w, b, padding=1).pow(2),
              lambda x, w, b: torch.ops.faltung.conv(x, w, b, [1, 1], [1] * 4, [1, 1], 1, 0, "identity", None).pow(2)):
        assert torch.autograd.gradgradcheck(f, inputs)
    assert torch.autograd.gradcheck(
        lambda x, g: torch.ops.faltung.conv_weight_bias(x, g, [4, 2, 3, 2], [1, 1], [1, 1, 0, 1], [1, 1], 1, 0),
        (inputs[0], torch.randn(2, 4, 5, 4, dtype=D, requires_grad=True)))
