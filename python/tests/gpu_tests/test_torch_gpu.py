"""faltung.torch on a GPU beside torch in f64: layers, gradients, torch.compile, CUDA graphs, streams."""
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812

import faltung.torch as ours  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
LAYERS = [
    (1, (4, 16, 100), (24, 16, 5), {"padding": 2}),
    (2, (4, 32, 28, 28), (64, 32, 3, 3), {"padding": 1}),
    (2, (4, 32, 29, 31), (48, 32, 3, 3), {"stride": 2, "padding": 1}),
    (2, (4, 32, 28, 28), (32, 1, 7, 7), {"padding": 3, "groups": 32}),
    (3, (2, 8, 9, 12, 12), (16, 8, 3, 3, 3), {"padding": 1}),
]
SIZES = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float64: 1e-10}


def cuda(shape, dtype, seed=0):
    torch.manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64).to("cuda", dtype)


def near(got, want, size):
    assert got.shape == want.shape
    assert (got.double() - want).abs().max() <= size * want.abs().max()


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("space, shape, weight, options", LAYERS)
@pytest.mark.parametrize("last", [False, True])
def test_layers_and_gradients(space, shape, weight, options, dtype, last):
    mine, exact = getattr(ours, f"conv{space}d"), getattr(F, f"conv{space}d")
    x, w = cuda(shape, dtype), cuda(weight, dtype, 1)
    if last and space > 1:
        x = x.contiguous(memory_format=torch.channels_last if space == 2 else torch.channels_last_3d)
    wide = [t.double().requires_grad_() for t in (x, w)]
    x.requires_grad_(), w.requires_grad_()
    y, want = mine(x, w, **options), exact(*wide, **options)
    near(y, want, SIZES[dtype])
    g = cuda(y.shape, dtype, 2)
    for got, exactly in zip(torch.autograd.grad(y, (x, w), g), torch.autograd.grad(want, wide, g.double())):
        near(got, exactly, SIZES[dtype] * 2)


def test_gradcheck():
    x, w = cuda((2, 3, 6, 7), torch.float64).requires_grad_(), cuda((4, 3, 3, 3), torch.float64, 1).requires_grad_()

    def layer(x, w):
        return ours.conv2d(x, w, padding=1)

    assert torch.autograd.gradcheck(layer, (x, w)) and torch.autograd.gradgradcheck(layer, (x, w))


def test_compile():
    x, w = cuda((4, 16, 20, 20), torch.float32), cuda((16, 16, 3, 3), torch.float32, 1)
    compiled = torch.compile(lambda x, w: torch.relu(ours.conv2d(x, w, padding=1)) * 2, fullgraph=True)
    near(compiled(x, w), torch.relu(F.conv2d(x.double(), w.double(), padding=1)) * 2, 1e-4)


def test_cuda_graphs():
    """A captured layer, workspace included, reads the inputs of each replay."""
    x, w = cuda((4, 16, 20, 20), torch.float32), cuda((16, 16, 3, 3), torch.float32, 1)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        ours.conv2d(x, w, padding=1)  # planned before the capture
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = ours.conv2d(x, w, padding=1)
    for seed in (3, 4):
        x.copy_(cuda(x.shape, torch.float32, seed))
        graph.replay()
        near(y, F.conv2d(x.double(), w.double(), padding=1), 1e-4)


def test_streams_and_devices():
    w = cuda((8, 8, 3, 3), torch.float32, 1)
    stream = torch.cuda.Stream()
    x = cuda((4, 8, 256, 256), torch.float32)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(20):
            x = x * 1.0  # work that the layer must wait for
        y = ours.conv2d(x, w, padding=1) + 1
    stream.synchronize()
    near(y, F.conv2d(x.double(), w.double(), padding=1) + 1, 1e-4)
    for ordinal in range(torch.cuda.device_count()):
        there = [t.to(f"cuda:{ordinal}") for t in (x, w)]  # another device is the current one
        y = ours.conv2d(*there, padding=1)
        assert y.device.index == ordinal
        near(y, F.conv2d(*(t.double() for t in there), padding=1), 1e-4)
