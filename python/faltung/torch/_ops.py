"""Operators of torch.library: convolution, its two gradients, pooling and its gradients, each with autograd.

The gradients of a convolution are convolutions of the same three kinds, so every derivative is one.
"""

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch.library import custom_op

from ._problems import (
    AVGPOOL,
    BACKWARD_AVGPOOL,
    BACKWARD_DATA,
    BACKWARD_FILTER,
    BACKWARD_MAXPOOL,
    FORWARD,
    MAXPOOL,
    MEMORY,
    Layer,
    check,
    empty,
    execute,
    is_last,
    order_of,
)

BY_TORCH = {"forward": 1, "data": 2, "weight": 4}  # bits of `ways`: directions that torch computes


@functools.lru_cache(1024)
def _kept(*geometry: Any) -> Layer:
    return Layer(*geometry)


def _layer(stride: Any, pads: Any, dilation: Any, groups: int, boundary: int) -> Layer:
    return _kept(tuple(stride), tuple(pads), tuple(dilation), groups, boundary)


def _conv_shape(x: torch.Tensor, w: torch.Tensor, layer: Layer) -> list[int]:
    sizes = layer.output_size(x.shape, w.shape)
    if any(n < 1 for n in sizes):
        raise RuntimeError(f"input: {list(x.shape[2:])} with its padding is smaller than the kernel, {list(w.shape[2:])}")
    return [x.shape[0], w.shape[0], *sizes]


@custom_op("faltung::conv", mutates_args=())
def conv(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, stride: Sequence[int], pads: Sequence[int],
         dilation: Sequence[int], groups: int, boundary: int, activation: str,
         residual: torch.Tensor | None, ways: int = 0) -> torch.Tensor:
    """activation(conv(x, w) + bias + residual). ways: directions that torch computes, forward among them without
    activation and residual."""
    return _forward(x, w, bias, _layer(stride, pads, dilation, groups, boundary), activation, residual, ways)


def _forward(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, layer: Layer, activation: str,
             residual: torch.Tensor | None, ways: int) -> torch.Tensor:
    check(x, w, residual)
    last = is_last(x) or is_last(w)
    order = order_of(x.dim(), last)
    if ways & BY_TORCH["forward"]:
        bias = None if bias is None else bias.to(x.dtype)
        y = torch.convolution(x, w, bias, layer.stride, layer.pads[::2], layer.dilation, False, (0,) * len(layer.stride),
                              layer.groups)
        return y.contiguous(memory_format=order)
    y = torch.empty(_conv_shape(x, w, layer), dtype=x.dtype, device=x.device, memory_format=order)
    if bias is not None:  # the library's bias is f32, f64 for f64
        bias = bias.to(torch.float64 if x.dtype == torch.float64 else torch.float32).contiguous()
    if residual is not None and residual.stride() != y.stride():
        residual = torch.empty_like(y).copy_(residual)
    execute(FORWARD, x, w, y, layer, bias=bias, activation=activation, residual=residual)
    return y


@conv.register_fake
def _(x: Any, w: Any, bias: Any, stride: Any, pads: Any, dilation: Any, groups: Any, boundary: Any, activation: Any,
      residual: Any, ways: Any = 0) -> torch.Tensor:
    return empty(_conv_shape(x, w, _layer(stride, pads, dilation, groups, boundary)), x, w)


@custom_op("faltung::conv_data", mutates_args=())
def conv_data(g: torch.Tensor, w: torch.Tensor, size: Sequence[int], stride: Sequence[int], pads: Sequence[int],
              dilation: Sequence[int], groups: int, boundary: int) -> torch.Tensor:
    """The gradient of a convolution's input, which is the transposed convolution."""
    return _data(g, w, size, _layer(stride, pads, dilation, groups, boundary))


def _data(g: torch.Tensor, w: torch.Tensor, size: Sequence[int], layer: Layer) -> torch.Tensor:
    check(g, w)
    x = empty(size, g, w)
    execute(BACKWARD_DATA, x, w, g, layer)
    return x


@conv_data.register_fake
def _(g: Any, w: Any, size: Any, stride: Any, pads: Any, dilation: Any, groups: Any, boundary: Any) -> torch.Tensor:
    return empty(size, g, w)


@custom_op("faltung::conv_weight", mutates_args=())
def conv_weight(x: torch.Tensor, g: torch.Tensor, size: Sequence[int], stride: Sequence[int], pads: Sequence[int],
                dilation: Sequence[int], groups: int, boundary: int, last: bool = False) -> torch.Tensor:
    """The gradient of a convolution's weights; last: with their channels last."""
    return _weight(x, g, size, _layer(stride, pads, dilation, groups, boundary), last)


def _weight(x: torch.Tensor, g: torch.Tensor, size: Sequence[int], layer: Layer, last: bool) -> torch.Tensor:
    check(x, g)
    w = torch.empty(size, dtype=x.dtype, device=x.device, memory_format=order_of(x.dim(), last))
    execute(BACKWARD_FILTER, x, w, g, layer)
    return w


@conv_weight.register_fake
def _(x: Any, g: Any, size: Any, stride: Any, pads: Any, dilation: Any, groups: Any, boundary: Any,
      last: Any = False) -> torch.Tensor:
    return torch.empty(size, dtype=x.dtype, device=x.device, memory_format=order_of(x.dim(), last))


def _keep(ctx: Any, inputs: tuple, output: Any) -> None:
    a, b, *rest = inputs
    ctx.save_for_backward(a, b)
    ctx.rest = rest


def _conv_setup(ctx: Any, inputs: tuple, output: Any) -> None:
    x, w, bias, *geometry, activation, _, ways = inputs
    if activation != "identity":
        raise RuntimeError("activation: fused ones have no gradient; use torch's after the layer")
    ctx.save_for_backward(x, w)
    ctx.geometry, ctx.ways, ctx.has_bias = geometry, ways, bias is not None
    ctx.bias_type = None if bias is None else bias.dtype


def gradients(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor, geometry: Any, needs: Any, ways: int,
              direct: bool = False) -> tuple:
    """The gradients of a convolution's input and weights that are needed, each by faltung or by torch. direct: without
    the operators, where no gradients of the gradients are asked for."""
    stride, pads, dilation, groups, boundary = geometry
    last = is_last(w)
    g = g.contiguous(memory_format=order_of(x.dim(), last or is_last(x)))
    torch_s = [bool(needs[i] and ways & bit) for i, bit in enumerate((BY_TORCH["data"], BY_TORCH["weight"]))]
    dx = dw = None
    if any(torch_s):
        dx, dw, _ = torch.ops.aten.convolution_backward.default(g, x, w, None, stride, pads[::2], dilation, False,
                                                                [0] * len(stride), groups, [*torch_s, False])
    if needs[0] and not torch_s[0]:
        dx = _data(g, w, x.shape, _layer(*geometry)) if direct else conv_data(g, w, x.shape, *geometry)
    if needs[1] and not torch_s[1]:
        dw = _weight(x, g, w.shape, _layer(*geometry), last) if direct else conv_weight(x, g, w.shape, *geometry, last)
    return dx, dw


def _bias_gradient(ctx: Any, g: torch.Tensor) -> torch.Tensor | None:
    if not ctx.has_bias or not ctx.needs_input_grad[2]:
        return None
    return g.sum((0, *range(2, g.dim())), dtype=ctx.bias_type)


def _conv_backward(ctx: Any, g: torch.Tensor) -> tuple:
    x, w = ctx.saved_tensors
    needs = ctx.needs_input_grad
    dx, dw = gradients(g, x, w, ctx.geometry, needs, ctx.ways)
    return (dx, dw, _bias_gradient(ctx, g), None, None, None, None, None, None, g if needs[9] else None, None)


def _data_backward(ctx: Any, gx: torch.Tensor) -> tuple:
    g, w = ctx.saved_tensors
    geometry = ctx.rest[1:]
    dg = conv(gx, w, None, *geometry, "identity", None) if ctx.needs_input_grad[0] else None
    dw = conv_weight(gx, g, w.shape, *geometry) if ctx.needs_input_grad[1] else None
    return (dg, dw, *(None,) * 6)


def _weight_backward(ctx: Any, gw: torch.Tensor) -> tuple:
    x, g = ctx.saved_tensors
    geometry = ctx.rest[1:6]
    dx = conv_data(g, gw, x.shape, *geometry) if ctx.needs_input_grad[0] else None
    dg = conv(x, gw, None, *geometry, "identity", None) if ctx.needs_input_grad[1] else None
    return (dx, dg, *(None,) * 7)


class Direct(torch.autograd.Function):
    """The operator `conv` without torch's dispatcher, whose Python side takes longer than small layers."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, bias: Any, residual: Any, layer: Layer, ways: int) -> torch.Tensor:
        """Sums alone: activations that have gradients are torch's."""
        ctx.save_for_backward(x, w)
        ctx.layer, ctx.ways, ctx.has_bias = layer, ways, bias is not None
        ctx.bias_type = None if bias is None else bias.dtype
        return _named("faltung::conv", _forward, x, w, bias, layer, "identity", residual, ways)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple:
        """By the operators where gradients of the gradients are asked for."""
        x, w = ctx.saved_tensors
        needs, layer = ctx.needs_input_grad, ctx.layer
        geometry = (layer.stride, layer.pads, layer.dilation, layer.groups, layer.boundary)
        direct = not torch.is_grad_enabled() and bare(g)
        dx, dw = _named("faltung::conv_backward", gradients, g, x, w, geometry, needs, ctx.ways, direct)
        return dx, dw, _bias_gradient(ctx, g), g if needs[3] else None, None, None


def _named(name: str, call: Any, *arguments: Any) -> Any:
    """call(*arguments), under a name in torch's profiler."""
    if torch.autograd._profiler_enabled():
        with torch.autograd.profiler.record_function(name):
            return call(*arguments)
    return call(*arguments)


def bare(x: torch.Tensor) -> bool:
    """Whether a tensor is memory, and nothing watches what is done with it: no compiler, transform or mode."""
    return (not torch.compiler.is_compiling() and type(x) in MEMORY and not x.is_meta
            and not torch._C._len_torch_dispatch_stack() and torch._C._functorch.peek_interpreter_stack() is None
            and not torch._C._get_tracing_state())


def convolve(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, geometry: tuple, activation: str,
             residual: torch.Tensor | None, ways: int, learns: bool) -> torch.Tensor:
    """`conv` the short way, or by the operator. learns: whether gradients are asked for."""
    if not bare(x) or type(w) not in MEMORY:
        return conv(x, w, bias, *map(list, geometry[:3]), *geometry[3:], activation, residual, ways)
    if learns:
        return Direct.apply(x, w, bias, residual, _kept(*geometry), ways)
    return _named("faltung::conv", _forward, x, w, bias, _kept(*geometry), activation, residual, ways)


conv.register_autograd(_conv_backward, setup_context=_conv_setup)
conv_data.register_autograd(_data_backward, setup_context=_keep)
conv_weight.register_autograd(_weight_backward, setup_context=_keep)


# --------------------------------------------------------------------------------------------------- pooling


def _pool_layer(taps: Any, stride: Any, pads: Any, dilation: Any, count_pad: bool = False) -> Layer:
    return Layer(stride, pads, dilation, 1, 0, taps, count_pad)


@custom_op("faltung::max_pool", mutates_args=())
def max_pool(x: torch.Tensor, taps: Sequence[int], stride: Sequence[int], pads: Sequence[int],
             dilation: Sequence[int]) -> torch.Tensor:
    """The largest element of each window."""
    check(x)
    layer = _pool_layer(taps, stride, pads, dilation)
    y = empty([*x.shape[:2], *layer.output_size(x.shape, taps)], x)
    execute(MAXPOOL, x, None, y, layer)
    return y


@max_pool.register_fake
def _(x: Any, taps: Any, stride: Any, pads: Any, dilation: Any) -> torch.Tensor:
    return empty([*x.shape[:2], *_pool_layer(taps, stride, pads, dilation).output_size(x.shape, taps)], x)


@custom_op("faltung::max_pool_data", mutates_args=())
def max_pool_data(x: torch.Tensor, g: torch.Tensor, taps: Sequence[int], stride: Sequence[int], pads: Sequence[int],
                  dilation: Sequence[int]) -> torch.Tensor:
    """The gradient of max pooling's input."""
    check(x, g)
    dx = torch.empty_like(x)
    if dx.stride() != x.stride():
        x = torch.empty_like(dx).copy_(x)
    execute(BACKWARD_MAXPOOL, x, None, g, _pool_layer(taps, stride, pads, dilation), shape=dx)
    return dx


@max_pool_data.register_fake
def _(x: Any, g: Any, taps: Any, stride: Any, pads: Any, dilation: Any) -> torch.Tensor:
    return torch.empty_like(x)


def _max_backward(ctx: Any, g: torch.Tensor) -> tuple:
    return (max_pool_data(ctx.saved_tensors[0], g, *ctx.rest), None, None, None, None)


def _max_setup(ctx: Any, inputs: tuple, output: Any) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.rest = inputs[1:]


def _max_data_backward(ctx: Any, gx: torch.Tensor) -> tuple:
    """The output's gradient goes to the elements that were the largest: gx is looked up there."""
    x, _ = ctx.saved_tensors
    taps, stride, pads, dilation = ctx.rest
    space = len(taps)
    pad = [p for i in reversed(range(space)) for p in pads[2 * i: 2 * i + 2]]
    padded = torch.nn.functional.pad(x, pad, value=float("-inf"))
    pool = (torch.nn.functional.max_pool1d, torch.nn.functional.max_pool2d, torch.nn.functional.max_pool3d)[space - 1]
    _, places = pool(padded.detach(), taps, stride, 0, dilation, False, True)
    found = torch.nn.functional.pad(gx, pad).flatten(2).gather(2, places.flatten(2)).view(places.shape)
    return (torch.zeros_like(x) if ctx.needs_input_grad[0] else None, found, None, None, None, None)


max_pool.register_autograd(_max_backward, setup_context=_max_setup)
max_pool_data.register_autograd(_max_data_backward, setup_context=_keep)


@custom_op("faltung::avg_pool", mutates_args=())
def avg_pool(x: torch.Tensor, taps: Sequence[int], stride: Sequence[int], pads: Sequence[int],
             count_pad: bool) -> torch.Tensor:
    """The mean of each window."""
    check(x)
    layer = _pool_layer(taps, stride, pads, [1] * len(taps), count_pad)
    y = empty([*x.shape[:2], *layer.output_size(x.shape, taps)], x)
    execute(AVGPOOL, x, None, y, layer)
    return y


@avg_pool.register_fake
def _(x: Any, taps: Any, stride: Any, pads: Any, count_pad: Any) -> torch.Tensor:
    return empty([*x.shape[:2], *_pool_layer(taps, stride, pads, [1] * len(taps)).output_size(x.shape, taps)], x)


@custom_op("faltung::avg_pool_data", mutates_args=())
def avg_pool_data(g: torch.Tensor, size: Sequence[int], taps: Sequence[int], stride: Sequence[int], pads: Sequence[int],
                  count_pad: bool) -> torch.Tensor:
    """The gradient of average pooling's input."""
    check(g)
    dx = empty(size, g)
    execute(BACKWARD_AVGPOOL, dx, None, g, _pool_layer(taps, stride, pads, [1] * len(taps), count_pad))
    return dx


@avg_pool_data.register_fake
def _(g: Any, size: Any, taps: Any, stride: Any, pads: Any, count_pad: Any) -> torch.Tensor:
    return empty(size, g)


def _avg_setup(ctx: Any, inputs: tuple, output: Any) -> None:
    ctx.size, ctx.rest = inputs[0].shape, inputs[1:]


def _avg_backward(ctx: Any, g: torch.Tensor) -> tuple:
    return (avg_pool_data(g, ctx.size, *ctx.rest), None, None, None, None)


def _avg_data_setup(ctx: Any, inputs: tuple, output: Any) -> None:
    ctx.rest = inputs[2:]


def _avg_data_backward(ctx: Any, gx: torch.Tensor) -> tuple:
    return (avg_pool(gx, *ctx.rest), None, None, None, None, None)


avg_pool.register_autograd(_avg_backward, setup_context=_avg_setup)
avg_pool_data.register_autograd(_avg_data_backward, setup_context=_avg_data_setup)
