"""faltung.torch beside torch: values, first and second derivatives, opcheck, torch.compile, modules, threads."""
import shutil

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812

import faltung.torch as ours  # noqa: E402
from faltung.torch import _measure  # noqa: E402

D = torch.float64


def close(a, b, size=1e-4):
    assert a.shape == b.shape and a.dtype == b.dtype
    torch.testing.assert_close(a, b, rtol=size, atol=size)


CONVS = [
    (1, (2, 6, 17), (8, 6, 3), {"padding": 1}),
    (1, (6, 17), (4, 6, 4), {"padding": "same"}),
    (2, (2, 6, 13, 17), (8, 6, 3, 3), {"stride": 2, "padding": (1, 2), "dilation": 2}),
    (2, (2, 6, 13, 17), (6, 1, 3, 3), {"padding": 1, "groups": 6}),
    (2, (6, 9, 9), (4, 3, 2, 5), {"groups": 2, "stride": (1, 3)}),
    (3, (2, 4, 5, 9, 8), (6, 4, 2, 3, 3), {"stride": (1, 2, 2), "padding": 1}),
]


@pytest.mark.parametrize("space, shape, weight, options", CONVS)
def test_conv(space, shape, weight, options):
    x, w, b = torch.randn(shape), torch.randn(weight), torch.randn(weight[0])
    mine, theirs = getattr(ours, f"conv{space}d"), getattr(F, f"conv{space}d")
    close(mine(x, w, b, **options), theirs(x, w, b, **options))
    close(mine(x, w, **options), theirs(x, w, **options))


@pytest.mark.parametrize("mode", ["replicate", "reflect", "circular"])
def test_padding_modes(mode):
    x, w = torch.randn(2, 3, 9, 8), torch.randn(4, 3, 3, 5)
    want = F.conv2d(F.pad(x, (2, 2, 1, 1), mode=mode), w)
    close(ours.conv2d(x, w, padding=(1, 2), padding_mode=mode), want)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_types_and_layouts(dtype):
    x, w = torch.randn(2, 8, 9, 8).to(dtype), torch.randn(4, 8, 3, 3).to(dtype)
    last = x.contiguous(memory_format=torch.channels_last)
    for a in (x, last, x.transpose(2, 3).contiguous().transpose(2, 3), x[:1].expand(2, -1, -1, -1), x[:, ::2, 1:, ::3]):
        v = w[:, : a.shape[1]]
        want = F.conv2d(a.double(), v.double(), padding=1).to(dtype)
        close(ours.conv2d(a, v, padding=1), want, 1e-12 if dtype == D else 3e-2)
    assert ours.conv2d(last, w).is_contiguous(memory_format=torch.channels_last)


def test_fused_epilogue():
    x, w, b = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3), torch.randn(4)
    r = torch.randn(2, 4, 8, 8)
    for name, function in (("relu", F.relu), ("gelu", F.gelu), ("silu", F.silu), ("leaky_relu", F.leaky_relu),
                           ("relu6", F.relu6), ("tanh", torch.tanh), ("sigmoid", torch.sigmoid)):
        want = function(F.conv2d(x, w, b, padding=1) + r)
        close(ours.conv2d(x, w, b, padding=1, activation=name, residual=r), want)
        learns = w.clone().requires_grad_()
        y = ours.conv2d(x, learns, b, padding=1, activation=name, residual=r)
        y.sum().backward()
        close(y.detach(), want)
        assert learns.grad is not None


TRANSPOSED = [(1, (2, 4, 7), (4, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
              (2, (2, 8, 7, 9), (8, 3, 3, 3), {"stride": 2, "padding": 1}),
              (2, (2, 4, 7, 9), (4, 3, 3, 2), {"stride": (2, 3), "groups": 2, "output_padding": (1, 2), "dilation": (2, 1)}),
              (3, (1, 2, 3, 4, 5), (2, 3, 2, 3, 2), {"stride": 2})]


@pytest.mark.parametrize("space, shape, weight, options", TRANSPOSED)
def test_conv_transpose(space, shape, weight, options):
    x, w, b = torch.randn(shape), torch.randn(weight), torch.randn(weight[1] * options.get("groups", 1))
    mine, theirs = getattr(ours, f"conv_transpose{space}d"), getattr(F, f"conv_transpose{space}d")
    close(mine(x, w, b, **options), theirs(x, w, b, **options))


POOLS = [("max_pool2d", (2, 3, 13, 17), (3, 2, 1), {}), ("max_pool2d", (2, 3, 13, 17), (3, 2, 1), {"ceil_mode": True}),
         ("max_pool1d", (2, 3, 13), (2,), {"dilation": 2}), ("max_pool3d", (1, 2, 5, 6, 7), (2,), {"ceil_mode": True}),
         ("avg_pool2d", (2, 3, 13, 17), (3, 2, 1), {}), ("avg_pool2d", (3, 13, 17), (3, 2, 1), {"count_include_pad": False}),
         ("avg_pool2d", (2, 3, 13, 17), (2, 2), {"ceil_mode": True}), ("avg_pool1d", (2, 3, 14), (4, 3), {}),
         ("avg_pool2d", (2, 3, 13, 17), (3, 2, 1), {"divisor_override": 5}), ("avg_pool3d", (1, 2, 5, 6, 7), (2, 1), {})]


@pytest.mark.parametrize("name, shape, arguments, options", POOLS)
def test_pooling(name, shape, arguments, options):
    x, y = torch.randn(shape, requires_grad=True), None
    z = x.detach().clone().requires_grad_()
    y, want = getattr(ours, name)(x, *arguments, **options), getattr(F, name)(z, *arguments, **options)
    close(y, want)
    g = torch.randn(y.shape)
    close(torch.autograd.grad(y, x, g)[0], torch.autograd.grad(want, z, g)[0])


GRADIENTS = {
    "conv1d": (lambda x, w, b: ours.conv1d(x, w, b, 2, 1), (2, 2, 7), (4, 2, 3)),
    "conv2d": (lambda x, w, b: ours.conv2d(x, w, b, (2, 1), 1, groups=2), (2, 4, 5, 6), (4, 2, 3, 2)),
    "dilated": (lambda x, w, b: ours.conv2d(x, w, b, 1, 2, 2), (1, 2, 5, 6), (4, 2, 3, 3)),
    "replicate": (lambda x, w, b: ours.conv2d(x, w, b, 2, 2, padding_mode="replicate"), (1, 2, 5, 4), (4, 2, 3, 3)),
    "reflect": (lambda x, w, b: ours.conv2d(x, w, b, 1, 2, padding_mode="reflect"), (1, 2, 5, 4), (4, 2, 3, 3)),
    "circular": (lambda x, w, b: ours.conv2d(x, w, b, 1, 1, padding_mode="circular"), (1, 2, 5, 4), (4, 2, 3, 3)),
    "conv3d": (lambda x, w, b: ours.conv3d(x, w, b, 1, 1), (1, 2, 3, 4, 3), (4, 2, 2, 3, 2)),
    "transposed": (lambda x, w, b: ours.conv_transpose2d(x, w, b, 2, 1, 1), (1, 3, 3, 4), (3, 4, 3, 3)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_derivatives(name):
    function, shape, weight = GRADIENTS[name]
    inputs = [torch.randn(s, dtype=D, requires_grad=True) for s in (shape, weight, (4,))]
    assert torch.autograd.gradcheck(function, inputs) and torch.autograd.gradgradcheck(function, inputs)


def test_derivatives_of_pools_and_filters():
    x = torch.randperm(60).to(D).view(1, 2, 5, 6).requires_grad_()
    for function in (lambda x: ours.max_pool2d(x, 3, 2, 1), lambda x: ours.avg_pool2d(x, 3, 2, 1),
                     lambda x: ours.avg_pool2d(x, 3, 2, 1, count_include_pad=False)):
        assert torch.autograd.gradcheck(function, (x,)) and torch.autograd.gradgradcheck(function, (x,))
    k = torch.randn(3, 2, dtype=D, requires_grad=True)
    for boundary in ("constant", "edge", "symmetric", "reflect101", "wrap"):
        assert torch.autograd.gradcheck(lambda x, k, b=boundary: ours.filter2d(x, k, b), (x, k))


def test_opcheck():
    op = torch.ops.faltung
    x, w, b = (torch.randn(s, requires_grad=True) for s in ((2, 4, 6, 7), (6, 2, 3, 3), (6,)))
    geometry = ([1, 2], [1, 1, 0, 1], [1, 1], 2, 0)
    g = torch.randn(2, 6, 6, 3, requires_grad=True)
    torch.library.opcheck(op.conv.default, (x, w, b, *geometry, "identity", None))
    torch.library.opcheck(op.conv_data.default, (g, w, [2, 4, 6, 7], *geometry))
    torch.library.opcheck(op.conv_weight.default, (x, g, [6, 2, 3, 3], *geometry))
    torch.library.opcheck(op.conv_weight_bias.default, (x, g, [6, 2, 3, 3], *geometry))
    torch.library.opcheck(op.max_pool.default, (x, [2, 2], [2, 2], [0] * 4, [1, 1]))
    torch.library.opcheck(op.avg_pool.default, (x, [2, 2], [2, 2], [0] * 4, True))


def test_modules_and_compile():
    def model(nn):
        torch.manual_seed(1)
        return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, padding_mode="circular"), torch.nn.ReLU(), nn.MaxPool2d(2),
                             nn.Conv2d(8, 4, 3, stride=2), nn.AvgPool2d(2), nn.ConvTranspose2d(4, 2, 2))

    reference, x = model(torch.nn), torch.randn(2, 3, 20, 20)
    changed = model(torch.nn)
    assert ours.nn.replace(changed) == ["0", "2", "3", "4", "5"]
    assert isinstance(changed[0], torch.nn.Conv2d) and type(changed[0]) is ours.nn.Conv2d
    changed.load_state_dict(reference.state_dict())
    want = reference(x)
    close(changed(x), want)
    compiled = torch.compile(changed, backend="aot_eager", fullgraph=True)
    close(compiled(x), want)
    compiled(x).sum().backward()
    reference(x).sum().backward()
    for a, b in zip(changed.parameters(), reference.parameters()):
        close(a.grad, b.grad, 1e-3)


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="inductor needs a C++ compiler")
def test_compile_by_inductor(tmp_path, monkeypatch):
    """torch.compile's default backend: values and gradients through our operator between fused torch code."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    x, w, b = (torch.randn(s, dtype=D, requires_grad=True) for s in ((2, 4, 9, 9), (4, 4, 3, 3), (4,)))

    def gradients(conv2d, wrap):
        y = wrap(lambda: torch.relu(conv2d(torch.sin(x), w, b, padding=1) * 2))()
        return y, *torch.autograd.grad((y * y).sum(), (x, w, b))

    for got, want in zip(gradients(ours.conv2d, lambda f: torch.compile(f, fullgraph=True)), gradients(F.conv2d, lambda f: f)):
        close(got, want, 1e-9)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1, padding_mode="reflect"), torch.nn.BatchNorm2d(8)
        self.second, self.shared = torch.nn.Conv2d(8, 8, 1), torch.nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x):
        y = F.relu(self.norm(self.first(x)))
        z = torch.sigmoid(self.second(y))
        return self.shared(torch.relu(self.shared(y))) + z


@pytest.mark.parametrize("measure", [True, False])
def test_optimize(measure, capsys, monkeypatch):
    torch.manual_seed(2)
    if measure:  # what is measured here decides nothing
        monkeypatch.setattr(_measure, "seconds", lambda device, calls: [(1.0, 1.0), (2.0, 2.0)])
        monkeypatch.setattr(_measure, "step_seconds", lambda models, *_: [float(i + 1) for i in range(len(models))])
    model, x = Block(), torch.randn(2, 3, 9, 9)
    model(x)  # running statistics of its own
    model.eval()
    fast = ours.optimize(model, x, measure=measure)
    with torch.no_grad():
        close(fast(x), model(x), 1e-4)
    assert (" forward " in capsys.readouterr().out) == measure
    modules = dict(fast.named_modules())
    assert "norm" not in modules and type(modules["first"]) is ours.nn.Conv2d and "norm" in dict(model.named_modules())
    assert (modules["first"].activation, modules["second"].activation) == ("relu", "sigmoid")
    assert getattr(modules["shared"], "activation", None) is None  # called twice, followed by relu once


def test_optimize_takes_the_faster_one():
    """Times are real here: whoever is taken, results are the model's."""
    torch.manual_seed(2)
    model, x = Block().eval(), torch.randn(2, 3, 9, 9)
    fast = ours.optimize(model, x, verbose=False)
    with torch.no_grad():
        close(fast(x), model(x), 1e-4)
    for row in fast.measurements:
        for name in row.names:
            module = fast.get_submodule(name)
            kept = type(module).__module__.startswith("torch") or getattr(module, "ways", 0) == 1
            assert row.direction == "whole" or kept == (not row.wins)


@pytest.mark.parametrize("winners", [set(), {"forward"}, {"data"}, {"weight"}, {"forward", "weight"}, {"data", "whole"},
                                     {"forward", "data", "weight", "whole"}])
@pytest.mark.parametrize("last", [False, True])
def test_optimize_training(winners, last, monkeypatch):
    """Each direction by faltung or by torch: losses and gradients are the model's, also compiled."""
    torch.manual_seed(2)
    model, x = Block().double(), torch.randn(2, 3, 9, 9, dtype=D)
    if last:
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    rows = _measure.measured

    def chosen(*arguments):
        return [row._replace(faltung=1.0 if row.direction in winners else 3.0, torch=2.0) for row in rows(*arguments)]

    monkeypatch.setattr(_measure, "measured", chosen)
    monkeypatch.setattr(_measure, "step_seconds", lambda models, *_: [float(i + 1) for i in range(len(models))])
    fast = ours.optimize(model, x, verbose=False)
    assert {row.direction for row in fast.measurements} == {"forward", "data", "weight", "whole"}
    want = model(x)
    want.square().mean().backward()
    torch._dynamo.reset()  # another model was compiled there
    for call in (fast, torch.compile(fast, backend="aot_eager", fullgraph=True)):
        y = call(x)
        close(y, want, 1e-9)
        y.square().mean().backward()
        for a, b in zip(fast.parameters(), model.parameters()):
            close(a.grad, b.grad, 1e-9)
            assert a.grad.stride() == b.grad.stride()
            a.grad = None


def test_optimize_finds_wrong_results(monkeypatch):
    """Layers that torch computes wrongly are faltung's, and faltung's wrong ones are an error."""
    model, x = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3)), torch.randn(1, 3, 8, 8)
    right = _measure.Conv._torch_forward
    monkeypatch.setattr(_measure.Conv, "_torch_forward", lambda self: right(self) + (self.w.dtype != D))
    fast = ours.optimize(model, x, verbose=False)
    forward = next(row for row in fast.measurements if row.direction == "forward")
    assert forward.wins and "wrong" in _measure.table([forward])
    monkeypatch.setattr(_measure.Conv, "_forward", lambda self: right(self) + 2)
    with pytest.raises(ValueError, match="0, forward: faltung's results"):
        ours.optimize(model, x, verbose=False)


def test_autocast():
    x, w = torch.randn(1, 4, 8, 8), torch.randn(4, 4, 3, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = ours.conv2d(x, w)
    assert y.dtype == torch.bfloat16
    close(y.float(), F.conv2d(x, w), 0.2)


def test_errors():
    x, w = torch.randn(1, 4, 8, 8), torch.randn(4, 4, 3, 3)
    for bad in (lambda: ours.conv2d(x, w.double()), lambda: ours.conv2d(x, w[:, :3]), lambda: ours.conv2d(x[0, 0], w),
                lambda: ours.conv2d(x, w, stride=2, padding="same"), lambda: ours.conv2d(x.int(), w.int()),
                lambda: ours.conv2d(x, w, padding_mode="none"), lambda: ours.max_pool2d(x, 2, padding=2),
                lambda: ours.conv2d(x[..., :2], w)):
        with pytest.raises((RuntimeError, TypeError, ValueError)):
            bad()
    assert ours.conv2d(x[:0], w).shape == (0, 4, 6, 6)


def test_core_functions_take_tensors():
    import faltung
    from faltung import ndimage

    x = torch.rand(9, 8)
    y = faltung.correlate(x, torch.ones(3, 3), boundary="edge")
    assert isinstance(y, torch.Tensor)
    want = ndimage.correlate(x.numpy(), torch.ones(3, 3).numpy(), mode="nearest")
    assert torch.allclose(y, torch.from_numpy(want))
    blurred = ndimage.gaussian_filter(x, 1)
    assert isinstance(blurred, torch.Tensor) and torch.allclose(blurred, torch.from_numpy(ndimage.gaussian_filter(x.numpy(), 1)))
    whole = (x * 100).to(torch.uint8)
    assert ndimage.sobel(whole).dtype == torch.uint8
    assert torch.equal(ndimage.sobel(whole, output=torch.int32), torch.from_numpy(ndimage.sobel(whole.numpy(), output="i4")))
