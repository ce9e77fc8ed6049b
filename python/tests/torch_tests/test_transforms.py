"""torch.func and forward-mode derivatives through faltung.torch beside torch: grad, vmap, jacrev, jacfwd, jvp, hessian."""
import functools
import warnings

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812
from torch.autograd import forward_ad  # noqa: E402
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vmap  # noqa: E402

import faltung.torch as ours  # noqa: E402

D = torch.float64
LAYERS = {
    "conv1d": ((3, 2, 9), (4, 2, 3), {"stride": 2, "padding": 1}, 4),
    "conv2d": ((2, 2, 5, 6), (3, 2, 3, 2), {"padding": 1}, 3),
    "grouped": ((2, 4, 6, 5), (6, 2, 3, 3), {"stride": (2, 1), "padding": 1, "groups": 2, "dilation": (1, 2)}, 6),
    "depthwise": ((2, 3, 6, 5), (3, 1, 3, 3), {"groups": 3}, 3),
    "conv3d": ((1, 2, 3, 4, 3), (4, 2, 2, 3, 2), {"padding": 1}, 4),
    "transposed": ((2, 3, 4, 3), (3, 4, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}, 4),
    "transposed groups": ((2, 4, 4, 3), (4, 2, 3, 3), {"groups": 2}, 4),
}


def close(got, want):
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


def _called(function, options, *tensors):
    return function(*tensors, **options)


def both(name):
    """(ours, torch's, x, w, b) of a layer."""
    shape, weight, options, outputs = LAYERS[name]
    kind = f"conv_transpose{len(shape) - 2}d" if "transposed" in name else f"conv{len(shape) - 2}d"
    torch.manual_seed(1)
    tensors = [torch.randn(s, dtype=D) for s in (shape, weight, (outputs,))]
    return (*(functools.partial(_called, getattr(of, kind), options) for of in (ours, F)), *tensors)


@pytest.fixture(autouse=True)
def no_loops():
    """vmap calls nothing once for each element."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


@pytest.mark.parametrize("name", LAYERS)
def test_gradients(name):
    mine, theirs, *tensors = both(name)

    def second(f):
        return lambda *t: sum(g.square().sum() for g in grad(lambda *t: f(*t).pow(3).sum(), (0, 1, 2))(*t))

    for f in (lambda f: lambda *t: f(*t).pow(3).sum(), second):
        close(grad(f(mine), (0, 1, 2))(*tensors), grad(f(theirs), (0, 1, 2))(*tensors))


@pytest.mark.parametrize("name", LAYERS)
def test_jacobians(name):
    mine, theirs, *tensors = both(name)
    want = jacrev(theirs, (0, 1, 2))(*tensors)
    close(jacrev(mine, (0, 1, 2))(*tensors), want)
    close(jacfwd(mine, (0, 1, 2))(*tensors), want)
    tangents = tuple(torch.randn_like(t) for t in tensors)
    close(jvp(mine, tuple(tensors), tangents), jvp(theirs, tuple(tensors), tangents))

    def loss(f):
        return lambda b, w: f(tensors[0], w, b).pow(3).sum()

    close(hessian(loss(mine), (0, 1))(tensors[2], tensors[1]), hessian(loss(theirs), (0, 1))(tensors[2], tensors[1]))
    jac = jacfwd(jacfwd(loss(mine), 1), 1)(tensors[2], tensors[1])
    close(jac, jacfwd(jacfwd(loss(theirs), 1), 1)(tensors[2], tensors[1]))


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("dims", [(0, None, None), (1, None, 0), (None, 0, None), (None, 1, 0), (0, 0, 0), (None, None, 1)])
def test_batches(name, dims):
    mine, theirs, *tensors = both(name)
    stacks = [t if d is None else torch.stack([t, -2 * t, t + 1], d) for t, d in zip(tensors, dims)]
    close(vmap(mine, dims)(*stacks), vmap(theirs, dims)(*stacks))

    def gradients(f):
        return vmap(grad(lambda *t: f(*t).pow(3).sum(), (0, 1, 2)), dims)(*stacks)

    close(gradients(mine), gradients(theirs))

    def outside(f):  # the batch within the gradient
        return grad(lambda *t: vmap(f, dims)(*t).pow(3).sum(), (0, 1, 2))(*stacks)

    close(outside(mine), outside(theirs))


def test_epilogue_and_boundaries():
    """Activations that have gradients are torch's, residuals have theirs, boundaries are the layer's."""
    x, w, b, r = (torch.randn(s, dtype=D) for s in ((2, 3, 6, 5), (4, 3, 3, 3), (4,), (2, 4, 6, 5)))

    def mine(x, w, b, r):
        return ours.conv2d(x, w, b, padding=1, padding_mode="circular", activation="tanh", residual=r)

    def theirs(x, w, b, r):
        return torch.tanh(F.conv2d(F.pad(x, (1, 1, 1, 1), mode="circular"), w, b) + r)

    close(jacrev(mine, (0, 1, 2, 3))(x, w, b, r), jacrev(theirs, (0, 1, 2, 3))(x, w, b, r))
    close(jacfwd(mine, (0, 3))(x, w, b, r), jacfwd(theirs, (0, 3))(x, w, b, r))
    stack = torch.stack([r, r.cos()])
    close(grad(lambda r: vmap(lambda r: mine(x, w, b, r))(r).sum())(stack),
          grad(lambda r: vmap(lambda r: theirs(x, w, b, r))(r).sum())(stack))
    last = x.contiguous(memory_format=torch.channels_last)
    close(vmap(lambda x: mine(x[None], w, b, r[:1]))(last), vmap(lambda x: theirs(x[None], w, b, r[:1]))(x))


@pytest.mark.parametrize("name, arguments", [("max_pool2d", (3, 2, 1)), ("avg_pool2d", (3, 2, 1)), ("max_pool1d", (2,)),
                                             ("avg_pool3d", (2,))])
def test_pools(name, arguments):
    x = torch.randperm(2 * 2 * 6 ** int(name[-2])).to(D).view(2, 2, *[6] * int(name[-2])) / 100
    mine, theirs = (lambda x, of=of: getattr(of, name)(x, *arguments) for of in (ours, F))
    close(jacrev(mine)(x), jacrev(theirs)(x))
    close(jacfwd(mine)(x), jacfwd(theirs)(x))
    close(grad(lambda x: grad(lambda x: mine(x).pow(3).sum())(x).pow(2).sum())(x),
          grad(lambda x: grad(lambda x: theirs(x).pow(3).sum())(x).pow(2).sum())(x))
    stack = torch.stack([x, x.sin()], 1)
    close(vmap(mine, 1)(stack), vmap(theirs, 1)(stack))
    close(vmap(grad(lambda x: mine(x).pow(2).sum()), 1)(stack), vmap(grad(lambda x: theirs(x).pow(2).sum()), 1)(stack))
    close(jvp(grad(lambda x: mine(x).pow(3).sum()), (x,), (x,)), jvp(grad(lambda x: theirs(x).pow(3).sum()), (x,), (x,)))


@pytest.mark.parametrize("learns", [False, True])
def test_forward_mode(learns):
    """Tangents of forward_ad, also of tensors whose gradients are recorded, reach the result."""
    x, w, b = (torch.randn(s, dtype=D, requires_grad=learns) for s in ((2, 3, 6, 5), (4, 3, 3, 3), (4,)))
    tangents = [torch.randn_like(t) for t in (x, w, b)]
    results = []
    for f in (ours.conv2d, F.conv2d):
        with forward_ad.dual_level():
            y = f(*(forward_ad.make_dual(t, d) for t, d in zip((x, w, b), tangents)), padding=1)
            results.append(forward_ad.unpack_dual(y).tangent)
    close(*results)


def test_per_sample_gradients_of_a_model():
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.Tanh(), torch.nn.MaxPool2d(2),
                                torch.nn.Conv2d(4, 4, 3, groups=2), torch.nn.Flatten(), torch.nn.Linear(16, 2)).to(D)
    x, parameters = torch.randn(5, 3, 8, 8, dtype=D), dict(model.named_parameters())

    def per_sample():
        return vmap(grad(lambda p, x: functional_call(model, p, (x[None],)).square().sum()), (None, 0))(parameters, x)

    want = per_sample()
    ours.nn.replace(model)
    close(per_sample(), want)
    close(torch.compile(per_sample, backend="aot_eager")(), want)
