"""Operators of torch.library: convolution and its gradients, each with its derivatives.

The gradients of a convolution are convolutions of the same three kinds, so every derivative is one.
"""

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch.library import custom_op

from . import _batching
from ._problems import BACKWARD_DATA, BACKWARD_FILTER, FORWARD, Layer, check, empty, execute, is_last, order_of, result
from ._transforms import Operator, keep, transformed

BY_TORCH = {"forward": 1, "data": 2, "weight": 4}  # bits of `ways`: directions that torch computes


@functools.lru_cache(1024)
def _kept(*geometry: Any) -> Layer:
    return Layer(*geometry)


def _layer(stride: Any, pads: Any, dilation: Any, groups: int, boundary: int) -> Layer:
    return _kept(tuple(stride), tuple(pads), tuple(dilation), groups, boundary)


@custom_op("faltung::conv", mutates_args=())
def _conv(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, stride: Sequence[int], pads: Sequence[int],
         dilation: Sequence[int], groups: int, boundary: int, activation: str,
         residual: torch.Tensor | None, ways: int = 0) -> torch.Tensor:
    """activation(conv(x, w) + bias + residual). ways: directions that torch computes, forward among them without
    activation and residual."""
    layer = _layer(stride, pads, dilation, groups, boundary)
    check(x, w, residual)
    check_bias(bias, w)
    size, order = result(x.shape, x.stride(), w.shape, w.stride(), layer)
    if ways & BY_TORCH["forward"]:
        return by_torch(x, w, bias, layer, order)
    y = torch.empty(size, dtype=x.dtype, device=x.device, memory_format=order)
    if bias is not None:  # the library's bias is f32, f64 for f64
        bias = bias.to(bias_type_of(x)).contiguous()
    residual = laid_out(residual, y)
    execute(FORWARD, x, w, y, layer, bias=bias, activation=activation, residual=residual)
    return y


def check_bias(bias: torch.Tensor | None, w: torch.Tensor) -> None:
    """Raises for a bias that has not a value for each output of the weights, or is elsewhere."""
    if bias is not None and (tuple(bias.shape) != (w.shape[0],) or bias.device != w.device):
        raise RuntimeError(f"bias: {list(bias.shape)} on {bias.device}; give {w.shape[0]} values on {w.device}")


def laid_out(residual: torch.Tensor | None, y: torch.Tensor) -> torch.Tensor | None:
    """A residual in the sizes and strides of the output, copied where it has others."""
    if residual is None or (residual.shape == y.shape and residual.stride() == y.stride()):
        return residual
    return torch.empty_like(y).copy_(residual)


def by_torch(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, layer: Layer,
             order: torch.memory_format) -> torch.Tensor:
    """torch's convolution, laid out as ours."""
    bias = None if bias is None else bias.to(x.dtype)
    zeros = (0,) * len(layer.stride)
    y = torch.convolution(x, w, bias, layer.stride, layer.pads[::2], layer.dilation, False, zeros, layer.groups)
    return y.contiguous(memory_format=order)


def gradients_by_torch(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor, layer: Layer, which: list[bool]) -> tuple[Any, Any]:
    """torch's gradients of the input and the weights, those that are asked for."""
    dx, dw, _ = torch.ops.aten.convolution_backward.default(g, x, w, None, layer.stride, layer.pads[::2], layer.dilation, False,
                                                            [0] * len(layer.stride), layer.groups, [*which, False])
    return dx, dw


@_conv.register_fake
def _(x: Any, w: Any, bias: Any, stride: Any, pads: Any, dilation: Any, groups: Any, boundary: Any, activation: Any,
      residual: Any, ways: Any = 0) -> torch.Tensor:
    size, order = result.__wrapped__(x.shape, x.stride(), w.shape, w.stride(), _layer(stride, pads, dilation, groups, boundary))
    return torch.empty(size, dtype=x.dtype, device=x.device, memory_format=order)


@custom_op("faltung::conv_data", mutates_args=())
def _conv_data(g: torch.Tensor, w: torch.Tensor, size: Sequence[int], stride: Sequence[int], pads: Sequence[int],
              dilation: Sequence[int], groups: int, boundary: int) -> torch.Tensor:
    """The gradient of a convolution's input, which is the transposed convolution."""
    check(g, w)
    x = empty(size, g, w)
    execute(BACKWARD_DATA, x, w, g, _layer(stride, pads, dilation, groups, boundary))
    return x


@_conv_data.register_fake
def _(g: Any, w: Any, size: Any, stride: Any, pads: Any, dilation: Any, groups: Any, boundary: Any) -> torch.Tensor:
    return empty(size, g, w)


@custom_op("faltung::conv_weight", mutates_args=())
def _conv_weight(x: torch.Tensor, g: torch.Tensor, size: Sequence[int], stride: Sequence[int], pads: Sequence[int],
                 dilation: Sequence[int], groups: int, boundary: int, last: bool = False) -> torch.Tensor:
    """The gradient of a convolution's weights; last: with their channels last."""
    return _weight(x, g, size, _layer(stride, pads, dilation, groups, boundary), last)


@custom_op("faltung::conv_weight_bias", mutates_args=())
def _conv_weight_bias(x: torch.Tensor, g: torch.Tensor, size: Sequence[int], stride: Sequence[int], pads: Sequence[int],
                      dilation: Sequence[int], groups: int, boundary: int,
                      last: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of a convolution's weights and bias in one pass; the bias's is f32, f64 for f64."""
    db = torch.empty(size[0], dtype=bias_type_of(x), device=x.device)
    return _weight(x, g, size, _layer(stride, pads, dilation, groups, boundary), last, db), db


def _weight(x: torch.Tensor, g: torch.Tensor, size: Sequence[int], layer: Layer, last: bool,
            bias: torch.Tensor | None = None) -> torch.Tensor:
    check(x, g)
    w = torch.empty(size, dtype=x.dtype, device=x.device, memory_format=order_of(x.dim(), last))
    execute(BACKWARD_FILTER, x, w, g, layer, bias=bias)
    return w


@_conv_weight.register_fake
def _(x: Any, g: Any, size: Any, stride: Any, pads: Any, dilation: Any, groups: Any, boundary: Any,
      last: Any = False) -> torch.Tensor:
    return torch.empty(size, dtype=x.dtype, device=x.device, memory_format=order_of(x.dim(), last))


@_conv_weight_bias.register_fake
def _(x: Any, g: Any, size: Any, stride: Any, pads: Any, dilation: Any, groups: Any, boundary: Any,
      last: Any = False) -> tuple[torch.Tensor, torch.Tensor]:
    w = torch.empty(size, dtype=x.dtype, device=x.device, memory_format=order_of(x.dim(), last))
    return w, torch.empty(size[0], dtype=bias_type_of(x), device=x.device)


def bias_type_of(x: torch.Tensor) -> torch.dtype:
    """The library's type of a bias."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


conv, conv_data = Operator(_conv), Operator(_conv_data)
conv_weight, conv_weight_bias = Operator(_conv_weight), Operator(_conv_weight_bias)


def _conv_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, w, bias, *geometry, activation, _, ways = inputs
    if activation != "identity":
        raise RuntimeError("activation: fused ones have no gradient; use torch's after the layer")
    keep(ctx, x, w)
    ctx.geometry, ctx.ways, ctx.bias_type = geometry, ways, None if bias is None else bias.dtype


def gradients(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor, geometry: Any, needs: Any, ways: int,
              bias_type: torch.dtype | None = None) -> tuple[Any, ...]:
    """The gradients of a convolution's input, weights and bias that are needed, each by faltung or by torch, with gradients of
    their own. bias_type: None if there is no bias."""
    last = is_last(w)
    if not transformed():
        g = g.contiguous(memory_format=order_of(x.dim(), last or is_last(x)))
    torch_s = [bool(needs[i] and ways & bit) for i, bit in enumerate((BY_TORCH["data"], BY_TORCH["weight"]))]
    biased = bool(needs[2] and bias_type is not None)
    dx = dw = db = None
    if any(torch_s):
        dx, dw = gradients_by_torch(g, x, w, _layer(*geometry), torch_s)
    if needs[0] and not torch_s[0]:
        dx = conv_data(g, w, x.shape, *geometry)
    if needs[1] and not torch_s[1]:
        if biased and sums_bias(x):
            dw, db = conv_weight_bias(x, g, w.shape, *geometry, last)
        else:
            dw = conv_weight(x, g, w.shape, *geometry, last)
    if biased:
        db = g.sum((0, *range(2, g.dim())), dtype=bias_type) if db is None else db.to(bias_type)
    return dx, dw, db


def sums_bias(x: torch.Tensor) -> bool:
    """Whether the pass that makes the weights' gradient sums the bias's, too: on GPUs fewer solvers can do both."""
    return not x.is_cuda


def _conv_backward(ctx: Any, g: torch.Tensor) -> tuple[Any, ...]:
    x, w = ctx.saved_tensors
    needs = ctx.needs_input_grad
    dx, dw, db = gradients(g, x, w, ctx.geometry, needs, ctx.ways, ctx.bias_type)
    return (dx, dw, db, None, None, None, None, None, None, g if needs[9] else None, None)


def _conv_jvp(ctx: Any, tx: Any, tw: Any, tb: Any, *rest: Any) -> torch.Tensor:
    """The tangents that there are: zeros stand for tensors without one."""
    x, w = ctx.saved_tensors
    tangent: torch.Tensor = (conv(tx, w, None, *ctx.geometry, "identity", rest[6], 0)
                             + conv(x, tw, tb, *ctx.geometry, "identity", None, ctx.ways))
    return tangent


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    keep(ctx, *inputs[:2])
    ctx.size, ctx.geometry = inputs[2], inputs[3:8]


def _data_backward(ctx: Any, gx: torch.Tensor) -> tuple[Any, ...]:
    g, w = ctx.saved_tensors
    dg = conv(gx, w, None, *ctx.geometry, "identity", None, 0) if ctx.needs_input_grad[0] else None
    dw = conv_weight(gx, g, w.shape, *ctx.geometry, False) if ctx.needs_input_grad[1] else None
    return (dg, dw, *(None,) * 6)


def _data_jvp(ctx: Any, tg: torch.Tensor, tw: torch.Tensor, *_: None) -> torch.Tensor:
    g, w = ctx.saved_tensors
    tangent: torch.Tensor = (conv_data(tg, w, ctx.size, *ctx.geometry)
                             + conv_data(g, tw, ctx.size, *ctx.geometry))
    return tangent


def _weight_backward(ctx: Any, gw: torch.Tensor, gb: torch.Tensor | None = None) -> tuple[Any, ...]:
    """dw and db are linear in g, whose gradient is the convolution with gw and the bias gb."""
    x, g = ctx.saved_tensors
    dx = conv_data(g, gw, x.shape, *ctx.geometry) if ctx.needs_input_grad[0] else None
    dg = conv(x, gw, gb, *ctx.geometry, "identity", None, 0) if ctx.needs_input_grad[1] else None
    return (dx, dg, *(None,) * 7)


def _weight_jvp(ctx: Any, tx: torch.Tensor, tg: torch.Tensor, *_: None) -> torch.Tensor:
    x, g = ctx.saved_tensors
    tangent: torch.Tensor = (conv_weight(tx, g, ctx.size, *ctx.geometry, False)
                             + conv_weight(x, tg, ctx.size, *ctx.geometry, False))
    return tangent


def _weight_bias_jvp(ctx: Any, tx: torch.Tensor, tg: torch.Tensor, *_: None) -> tuple[Any, ...]:
    x, g = ctx.saved_tensors
    dw, db = conv_weight_bias(x, tg, ctx.size, *ctx.geometry, False)
    return conv_weight(tx, g, ctx.size, *ctx.geometry, False) + dw, db


conv.derivatives(_conv_setup, _conv_backward, _conv_jvp)
conv_data.derivatives(_keep, _data_backward, _data_jvp)
conv_weight.derivatives(_keep, _weight_backward, _weight_jvp)
conv_weight_bias.derivatives(_keep, _weight_backward, _weight_bias_jvp)
conv.batches(_batching.convolution(_conv))
conv_data.batches(_batching.data_gradient(_conv_data))
conv_weight.batches(_batching.weight_gradient(_conv_weight))
conv_weight_bias.batches(_batching.weight_gradient(_conv_weight_bias))
