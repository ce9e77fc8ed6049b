"""faltung.torch's short way past torch's dispatcher, and the limits of optimize."""
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import faltung.torch as ours  # noqa: E402
from faltung.torch import _measure, _ops  # noqa: E402

D = torch.float64


def layer(learns=True):
    torch.manual_seed(3)
    shapes = (2, 4, 7, 8), (6, 4, 3, 3), (6,), (2, 6, 7, 8)
    return [torch.randn(shape, dtype=D, requires_grad=learns) for shape in shapes]


def by_torch(x, w, bias, residual):
    return F.conv2d(x, w, bias, padding=1) + residual


def by_faltung(x, w, bias, residual):
    return ours.conv2d(x, w, bias, padding=1, residual=residual)


@pytest.mark.parametrize("learns", [True, False])
def test_bare_tensors_go_past_the_dispatcher(monkeypatch, learns):
    """The operators are not called, and all derivatives are torch's; gradients of gradients are the operators'."""
    tensors = layer(learns)
    monkeypatch.setattr(_ops, "conv", None)
    y, want = by_faltung(*tensors), by_torch(*tensors)
    torch.testing.assert_close(y, want)
    if not learns:
        return
    g = torch.randn_like(y)
    with monkeypatch.context() as patch:
        patch.setattr(_ops, "conv_data", None)
        patch.setattr(_ops, "conv_weight", None)
        first = torch.autograd.grad(y, tensors, g, retain_graph=True)
    exact = torch.autograd.grad(want, tensors, g, retain_graph=True)
    for a, b in zip(first, exact):
        torch.testing.assert_close(a, b)
    monkeypatch.undo()
    assert torch.autograd.gradgradcheck(by_faltung, tensors)


def test_watched_tensors_go_to_the_operator():
    """Tracers and tensors without memory see faltung::conv."""
    tensors = layer(False)
    graph = make_fx(by_faltung)(*tensors).graph
    assert any("faltung.conv" in str(node.target) for node in graph.nodes)
    assert by_faltung(*(t.to("meta") for t in tensors)).shape == (2, 6, 7, 8)


def test_profiles_name_convolutions():
    tensors = layer()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        by_faltung(*tensors).sum().backward()
    assert {"faltung::conv", "faltung::conv_backward"} <= {event.name for event in profile.events()}


def small():
    torch.manual_seed(2)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Conv2d(4, 4, 3)), torch.randn(1, 3, 9, 9)


@pytest.mark.parametrize("steps, kept", [([1.0, 2.0, 3.0], 2), ([2.0, 1.0, 3.0], 1), ([3.0, 3.0, 2.0], 0)])
def test_the_fastest_whole_stays(monkeypatch, steps, kept):
    """One layer wins by little, the other by a lot: both, the other, or none."""
    model, x = small()
    rows = _measure.measured

    def chosen(*arguments):
        return [row._replace(faltung=9.0 if row.names == ["0"] else 1.0, torch=10.0) for row in rows(*arguments)]

    monkeypatch.setattr(_measure, "measured", chosen)
    monkeypatch.setattr(_measure, "step_seconds", lambda models, *_: steps[: len(models)])
    fast = ours.optimize(model, x, verbose=False)
    assert [type(m) is ours.nn.Conv2d for m in (fast[0], fast[2])] == [kept == 2, kept > 0]
    assert {name for row in fast.measurements if row.wins for name in row.names} == (set(), {"2"}, {"0", "2"})[kept]
    assert fast.step_seconds == (min(steps[:2]), steps[2])
    assert fast(x).shape == model(x).shape


def test_kernels_decide_where_the_host_waits(monkeypatch):
    """A layer whose kernels are slower than torch's and whose call is faster: as the whole model says."""
    model, x = small()
    rows = _measure.measured

    def chosen(*arguments):
        return [row._replace(faltung=1.0, torch=10.0, kernels=(1.0, 2.0) if row.names == ["0"] else (2.0, 1.0))
                for row in rows(*arguments)]

    monkeypatch.setattr(_measure, "measured", chosen)
    for steps, kept in (([1.0, 2.0, 3.0], 2), ([2.0, 1.0, 3.0], 1)):
        monkeypatch.setattr(_measure, "step_seconds", lambda models, *_, steps=steps: steps)
        fast = ours.optimize(model, x, verbose=False)
        assert [type(m) is ours.nn.Conv2d for m in (fast[0], fast[2])] == [True, kept == 2]


def test_layers_out_of_time_stay_torchs():
    model, x = small()
    fast = ours.optimize(model, x, verbose=False, seconds=0)
    assert not fast.measurements and fast.step_seconds is None
    assert [type(m) for m in fast] == [type(m) for m in model]


def test_steps_leave_models_alone():
    model, x = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)), torch.randn(2, 3, 9, 9)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert all(t > 0 for t in _measure.step_seconds([model, model], (x,), True))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
