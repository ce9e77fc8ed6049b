"""Models for inference: batch norms folded into convolutions, activations into their epilogue."""
from __future__ import annotations

import contextlib
import copy
from typing import Any

import torch
from torch import fx
from torch.nn.utils.fusion import fuse_conv_bn_eval

from . import nn

_MODULES = {torch.nn.ReLU: "relu", torch.nn.ReLU6: "relu6", torch.nn.SiLU: "silu", torch.nn.Sigmoid: "sigmoid",
            torch.nn.Tanh: "tanh"}
_FUNCTIONS = {torch.relu: "relu", torch.nn.functional.relu: "relu", torch.nn.functional.relu6: "relu6",
              torch.nn.functional.silu: "silu", torch.sigmoid: "sigmoid", torch.tanh: "tanh"}
_NORMS = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)
_CONVS = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)


def optimize(model: torch.nn.Module, example: Any) -> torch.nn.Module:
    """A copy of a model for inference, with faltung's layers: batch norms folded into the convolutions before them,
    activations into their epilogue. Plans for the example's sizes are made.

    example: a tensor, or a tuple of arguments. Models that torch.fx cannot trace keep their graph and have their layers
    replaced. Raises ValueError where the results of model and copy on the example differ.

    >>> import torch
    >>> from faltung.torch import optimize
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU()).eval()
    >>> len(list(optimize(model, torch.rand(1, 3, 8, 8)).children()))
    1
    """
    arguments = example if isinstance(example, tuple) else (example,)
    own = copy.deepcopy(model).eval()
    with contextlib.suppress(fx.proxy.TraceError, TypeError, NotImplementedError):  # control flow that depends on data
        own = _fused(fx.symbolic_trace(own))
    nn.replace(own)
    with torch.no_grad():
        got, want = own(*arguments), copy.deepcopy(model).eval()(*arguments)
    _compare(got, want)
    return own


def _compare(got: Any, want: Any) -> None:
    if isinstance(want, torch.Tensor):
        size = {torch.float64: 1e-9, torch.float32: 1e-3}.get(want.dtype, 5e-2)
        if not torch.allclose(got, want, rtol=size, atol=size * float(want.abs().max().clamp(min=1e-6))):
            raise ValueError("model: its results on the example are not those of the copy; please report it")
    elif isinstance(want, (tuple, list)):
        for a, b in zip(got, want):
            _compare(a, b)


def _fused(traced: fx.GraphModule) -> fx.GraphModule:
    modules = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        source = node.args[0] if node.args else None
        conv = modules.get(source.target) if isinstance(source, fx.Node) and source.op == "call_module" else None
        if not isinstance(conv, _CONVS) or len(source.users) != 1 or getattr(conv, "activation", None):
            continue
        if _shared(traced, source):
            continue
        if node.op == "call_module" and isinstance(modules[node.target], _NORMS) and modules[node.target].track_running_stats:
            modules[source.target] = fuse_conv_bn_eval(conv, modules[node.target])
            _set(traced, source.target, modules[source.target])
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
    return sum(n.op == "call_module" and n.target == node.target for n in traced.graph.nodes) > 1


def _activation(node: fx.Node, modules: dict) -> str | None:
    if node.op == "call_module":
        return _MODULES.get(type(modules[node.target]))
    if node.op == "call_function" and len(node.args) == 1 and not node.kwargs.get("inplace"):
        return _FUNCTIONS.get(node.target)
    return "relu" if node.op == "call_method" and node.target == "relu" else None


def _set(model: torch.nn.Module, path: str, module: torch.nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, module)
