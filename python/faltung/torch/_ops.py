"""Operators of torch.library: convolution and its gradients, each with its derivatives.

The gradients of a convolution are convolutions of the same three kinds, so every derivative is one.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch.autograd import forward_ad
from torch.library import custom_op

from . import _batching
from ._problems import BACKWARD_DATA, BACKWARD_FILTER, FORWARD, MEMORY, Layer, check, empty, execute, is_last, order_of, result
from ._transforms import Operator, keep, transformed

_Result = TypeVar("_Result")
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
    return _forward(x, w, bias, _layer(stride, pads, dilation, groups, boundary), activation, residual, ways)


def _forward(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, layer: Layer, activation: str,
             residual: torch.Tensor | None, ways: int) -> torch.Tensor:
    check(x, w, residual)
    size, order = result(x.shape, x.stride(), w.shape, w.stride(), layer)
    if ways & BY_TORCH["forward"]:
        bias = None if bias is None else bias.to(x.dtype)
        y = torch.convolution(x, w, bias, layer.stride, layer.pads[::2], layer.dilation, False, (0,) * len(layer.stride),
                              layer.groups)
        return y.contiguous(memory_format=order)
    y = torch.empty(size, dtype=x.dtype, device=x.device, memory_format=order)
    if bias is not None:  # the library's bias is f32, f64 for f64
        bias = bias.to(_bias_type(x)).contiguous()
    if residual is not None and residual.stride() != y.stride():
        residual = torch.empty_like(y).copy_(residual)
    execute(FORWARD, x, w, y, layer, bias=bias, activation=activation, residual=residual)
    return y


@_conv.register_fake
def _(x: Any, w: Any, bias: Any, stride: Any, pads: Any, dilation: Any, groups: Any, boundary: Any, activation: Any,
      residual: Any, ways: Any = 0) -> torch.Tensor:
    size, order = result.__wrapped__(x.shape, x.stride(), w.shape, w.stride(), _layer(stride, pads, dilation, groups, boundary))
    return torch.empty(size, dtype=x.dtype, device=x.device, memory_format=order)


@custom_op("faltung::conv_data", mutates_args=())
def _conv_data(g: torch.Tensor, w: torch.Tensor, size: Sequence[int], stride: Sequence[int], pads: Sequence[int],
              dilation: Sequence[int], groups: int, boundary: int) -> torch.Tensor:
    """The gradient of a convolution's input, which is the transposed convolution."""
    return _data(g, w, size, _layer(stride, pads, dilation, groups, boundary))


def _data(g: torch.Tensor, w: torch.Tensor, size: Sequence[int], layer: Layer) -> torch.Tensor:
    check(g, w)
    x = empty(size, g, w)
    execute(BACKWARD_DATA, x, w, g, layer)
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
    db = torch.empty(size[0], dtype=_bias_type(x), device=x.device)
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
    return w, torch.empty(size[0], dtype=_bias_type(x), device=x.device)


def _bias_type(x: torch.Tensor) -> torch.dtype:
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
              bias_type: torch.dtype | None = None, direct: bool = False) -> tuple[Any, ...]:
    """The gradients of a convolution's input, weights and bias that are needed, each by faltung or by torch. bias_type: None
    if there is no bias. direct: without the operators, where no gradients of the gradients are asked for."""
    stride, pads, dilation, groups, _ = geometry
    last = is_last(w)
    if not transformed():
        g = g.contiguous(memory_format=order_of(x.dim(), last or is_last(x)))
    torch_s = [bool(needs[i] and ways & bit) for i, bit in enumerate((BY_TORCH["data"], BY_TORCH["weight"]))]
    biased = bool(needs[2] and bias_type is not None)
    dx = dw = db = None
    if any(torch_s):
        dx, dw, _ = torch.ops.aten.convolution_backward.default(g, x, w, None, stride, pads[::2], dilation, False,
                                                                [0] * len(stride), groups, [*torch_s, False])
    if needs[0] and not torch_s[0]:
        dx = _data(g, w, x.shape, _layer(*geometry)) if direct else conv_data(g, w, x.shape, *geometry)
    if needs[1] and not torch_s[1]:
        dw, db = _weight_gradients(g, x, w.shape, geometry, last, biased and sums_bias(x), direct)
    if biased:
        db = g.sum((0, *range(2, g.dim())), dtype=bias_type) if db is None else db.to(bias_type)
    return dx, dw, db


def sums_bias(x: torch.Tensor) -> bool:
    """Whether the pass that makes the weights' gradient sums the bias's, too: on GPUs fewer solvers can do both."""
    return not x.is_cuda


def _weight_gradients(g: torch.Tensor, x: torch.Tensor, size: Any, geometry: Any, last: bool, biased: bool,
                      direct: bool) -> tuple[Any, ...]:
    """(dw, db), db None unless biased."""
    if not direct:
        return conv_weight_bias(x, g, size, *geometry, last) if biased else (conv_weight(x, g, size, *geometry, last), None)
    db = torch.empty(size[0], dtype=_bias_type(x), device=x.device) if biased else None
    return _weight(x, g, size, _layer(*geometry), last, db), db


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


class Direct(torch.autograd.Function):
    """The operator `conv` without torch's dispatcher, whose Python side takes longer than small layers."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, bias: Any, residual: Any, layer: Layer, ways: int) -> torch.Tensor:
        """Sums alone: activations that have gradients are torch's."""
        ctx.save_for_backward(x, w)
        ctx.layer, ctx.ways, ctx.bias_type = layer, ways, None if bias is None else bias.dtype
        return _named("faltung::conv", _forward, x, w, bias, layer, "identity", residual, ways)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[Any, ...]:
        """By the operators where gradients of the gradients are asked for."""
        x, w = ctx.saved_tensors
        needs, layer = ctx.needs_input_grad, ctx.layer
        geometry = (layer.stride, layer.pads, layer.dilation, layer.groups, layer.boundary)
        direct = not torch.is_grad_enabled() and bare(g)
        dx, dw, db = _named("faltung::conv_backward", gradients, g, x, w, geometry, needs, ctx.ways, ctx.bias_type, direct)
        return dx, dw, db, g if needs[3] else None, None, None


def _named(name: str, call: Callable[..., _Result], *arguments: Any) -> _Result:
    """call(*arguments), under a name in torch's profiler."""
    if torch._C._autograd._profiler_enabled():
        with torch.autograd.profiler.record_function(name):
            return call(*arguments)
    return call(*arguments)


def bare(x: torch.Tensor) -> bool:
    """Whether a tensor is memory, and nothing watches what is done with it: no compiler, transform or mode."""
    return (not torch.compiler.is_compiling() and type(x) in MEMORY and not x.is_meta
            and not torch._C._len_torch_dispatch_stack() and torch._C._functorch.peek_interpreter_stack() is None
            and forward_ad._current_level < 0 and not torch._C._get_tracing_state())


def convolve(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, geometry: tuple[Any, ...], activation: str,
             residual: torch.Tensor | None, ways: int, learns: bool) -> torch.Tensor:
    """`conv` the short way, or by the operator. learns: whether gradients are asked for."""
    y: torch.Tensor
    if not bare(x) or type(w) not in MEMORY:
        y = conv(x, w, bias, *map(list, geometry[:3]), *geometry[3:], activation, residual, ways)
        return y
    if learns:
        y = Direct.apply(x, w, bias, residual, _kept(*geometry), ways)
        return y
    return _named("faltung::conv", _forward, x, w, bias, _kept(*geometry), activation, residual, ways)
