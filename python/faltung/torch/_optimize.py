"""Models with the faster layers: for inference with batch norms and activations folded into convolutions."""
from __future__ import annotations

import contextlib
import copy
from typing import Any

import torch
from torch import fx
from torch.nn.utils.fusion import fuse_conv_bn_eval

from . import _UNFUSED, _measure, _ops, nn

_MODULES = {torch.nn.ReLU: "relu", torch.nn.ReLU6: "relu6", torch.nn.SiLU: "silu", torch.nn.Sigmoid: "sigmoid",
            torch.nn.Tanh: "tanh"}
_FUNCTIONS: dict[Any, str] = {
    torch.relu: "relu", torch.nn.functional.relu: "relu", torch.nn.functional.relu6: "relu6",
    torch.nn.functional.silu: "silu", torch.sigmoid: "sigmoid", torch.tanh: "tanh"}
# What torch's times are multiplied by before ours must be less, and whether the kernels' times decide: networks whose host is
# slower than their kernels gain by the first of each, others by the second.
_CHOICES = ((_measure.GAIN, False), (_measure.GAIN, True), (0.8, False), (0.8, True), (0.5, False))
_NORMS = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)


def optimize(model: torch.nn.Module, example: Any, *, measure: bool = True, verbose: bool = True,
             seconds: float | None = None) -> torch.nn.Module:
    """A copy of a model with faltung's layers where they are faster than torch's on the example's sizes.

    A model in evaluation (`model.eval()`) is optimised for inference: batch norms are folded into the convolutions before
    them, activations into their epilogue. One in training keeps its graph; the forward pass and the two gradients of each
    convolution are chosen one by one. Layers are planned in parallel and measured beside torch's, under the autocast and
    the cudnn.benchmark of the call; the copy's `measurements` has the times, of which a table is printed. Then the copy is
    timed beside the model, gradients and the host's time included, with several choices of layers: the fastest stays, or none
    where all are slower. Its `step_seconds` has the fastest's time and the model's.

    example: a tensor, or a tuple of arguments. measure: False takes all of faltung's layers. verbose: False prints nothing.
    seconds: layers that are not planned and measured by then stay torch's. Models that torch.fx cannot trace keep their
    graph. Raises ValueError where results differ from torch's.

    >>> import torch
    >>> from faltung.torch import optimize
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU()).eval()
    >>> len(list(optimize(model, torch.rand(1, 3, 8, 8), verbose=False).children()))
    1
    """
    arguments = example if isinstance(example, tuple) else (example,)
    own: Any = copy.deepcopy(model)
    if not model.training:
        with contextlib.suppress(fx.proxy.TraceError, TypeError, NotImplementedError):  # control flow that depends on data
            own = _fused(fx.symbolic_trace(own))
    own.measurements, own.step_seconds = [], None
    if measure:
        _choose(own, model, arguments, seconds)
    else:
        nn.replace(own)
    if not model.training:
        with torch.no_grad():
            if not _measure.agrees(own(*arguments), model(*arguments)):
                raise ValueError("model: its results on the example are not those of the copy; please report it")
    if verbose and measure:
        print(_measure.table(own.measurements))
        if own.step_seconds:
            print("whole model: torch {1:.3f} ms, this model {0:.3f} ms".format(*(1e3 * t for t in own.step_seconds)))
    made: torch.nn.Module = own
    return made


def _choose(own: Any, model: torch.nn.Module, arguments: tuple[Any, ...], limit: float | None) -> None:
    """Gives each layer to the faster of both, in place: of several ways to choose the one whose whole is fastest."""
    sites = _measure.sites_of(own, arguments, tuple(nn.CLASSES), model.training)
    kinds = {name: type(site.module) for name, site in sites.items()}
    rows = _measure.measured(sites, model.training, _UNFUSED, _ours, limit)
    own.measurements = rows
    choices: dict[tuple[bool, ...], list[_measure.Measurement]] = {}
    for gain, alone in _CHOICES:
        chosen = [row._replace(gain=gain, alone=alone) for row in rows]
        choices.setdefault(tuple(row.wins for row in chosen), chosen)
    choices = {wins: chosen for wins, chosen in choices.items() if any(wins)}
    copies = []
    for chosen in choices.values():
        _give(sites, kinds, chosen)
        copies.append(copy.deepcopy(own))
    own.measurements = [row._replace(gain=0.0) for row in rows]  # faltung's where torch is wrong
    if copies:
        *times, whole = _measure.step_seconds([*copies, model], arguments, model.training)
        best = min(range(len(times)), key=times.__getitem__)
        if times[best] <= whole:
            own.measurements = list(choices.values())[best]
        own.step_seconds = times[best], whole
    _give(sites, kinds, own.measurements)


def _give(sites: dict[Any, Any], kinds: dict[str, type], rows: list[_measure.Measurement]) -> None:
    """Gives each layer to the one that its measurements name."""
    ways: dict[str, int] = {}
    won: set[str] = set()
    for row in rows:
        for name in row.names:
            ways[name] = ways.get(name, 0) | (0 if row.wins else _ops.BY_TORCH.get(row.direction, 0))
            won |= {name} if row.wins else set()
    for name, site in sites.items():
        activated = bool(getattr(site.module, "activation", None))  # torch's layers have no activation
        site.module.__class__ = nn.CLASSES[kinds[name]] if name in won or activated else kinds[name]
        site.module.ways = ways.get(name, _ops.BY_TORCH["forward"] if activated else 0)


def _ours(module: torch.nn.Module) -> torch.nn.Module:
    own = copy.deepcopy(module)
    own.__class__ = nn.CLASSES[type(module)]
    return own


def _fused(traced: fx.GraphModule) -> fx.GraphModule:
    modules = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        source = node.args[0] if node.args else None
        if not isinstance(source, fx.Node) or source.op != "call_module":
            continue
        known = modules.get(str(source.target))
        if not isinstance(known, _measure.CONVS) or len(source.users) != 1 or getattr(known, "activation", None):
            continue
        conv: Any = known
        if _shared(traced, source):
            continue
        if node.op == "call_module" and isinstance(modules[node.target], _NORMS) and modules[node.target].track_running_stats:
            modules[str(source.target)] = fused = fuse_conv_bn_eval(conv, modules[node.target])
            _set(traced, str(source.target), fused)
        elif name := _activation(node, modules):
            conv.activation = name
        else:
            continue
        node.replace_all_uses_with(source)
        traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced


def _shared(traced: fx.GraphModule, node: fx.Node) -> bool:
    """Whether the module is called in several places."""
    calls = [n for n in traced.graph.nodes if n.op == "call_module" and n.target == node.target]
    return len(calls) > 1


def _activation(node: fx.Node, modules: dict[Any, Any]) -> str | None:
    if node.op == "call_module":
        return _MODULES.get(type(modules[node.target]))
    if node.op == "call_function" and len(node.args) == 1 and not node.kwargs.get("inplace"):
        return _FUNCTIONS.get(node.target)
    return "relu" if node.op == "call_method" and node.target == "relu" else None


def _set(model: torch.nn.Module, path: str, module: torch.nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, module)
