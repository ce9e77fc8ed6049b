"""Operators of torch.library: pooling and its gradients, each with its derivatives."""
from collections.abc import Sequence
from typing import Any

import torch
from torch.library import custom_op

from . import _batching
from ._problems import AVGPOOL, BACKWARD_AVGPOOL, BACKWARD_MAXPOOL, MAXPOOL, Layer, check, empty, execute
from ._transforms import Operator, keep


def _pool_layer(taps: Any, stride: Any, pads: Any, dilation: Any, count_pad: bool = False) -> Layer:
    return Layer(stride, pads, dilation, 1, 0, taps, count_pad)


@custom_op("faltung::max_pool", mutates_args=())
def _max_pool(x: torch.Tensor, taps: Sequence[int], stride: Sequence[int], pads: Sequence[int],
             dilation: Sequence[int]) -> torch.Tensor:
    """The largest element of each window."""
    check(x)
    layer = _pool_layer(taps, stride, pads, dilation)
    y = empty([*x.shape[:2], *layer.output_size(x.shape, taps)], x)
    execute(MAXPOOL, x, None, y, layer)
    return y


@_max_pool.register_fake
def _(x: Any, taps: Any, stride: Any, pads: Any, dilation: Any) -> torch.Tensor:
    return empty([*x.shape[:2], *_pool_layer(taps, stride, pads, dilation).output_size(x.shape, taps)], x)


@custom_op("faltung::max_pool_data", mutates_args=())
def _max_pool_data(x: torch.Tensor, g: torch.Tensor, taps: Sequence[int], stride: Sequence[int], pads: Sequence[int],
                  dilation: Sequence[int]) -> torch.Tensor:
    """The gradient of max pooling's input."""
    check(x, g)
    dx = torch.empty_like(x)
    if dx.stride() != x.stride():
        x = torch.empty_like(dx).copy_(x)
    execute(BACKWARD_MAXPOOL, x, None, g, _pool_layer(taps, stride, pads, dilation), shape=dx)
    return dx


@_max_pool_data.register_fake
def _(x: Any, g: Any, taps: Any, stride: Any, pads: Any, dilation: Any) -> torch.Tensor:
    return torch.empty_like(x)


def _max_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    keep(ctx, inputs[0])
    ctx.rest = inputs[1:]


def _max_backward(ctx: Any, g: torch.Tensor) -> tuple[Any, ...]:
    return (max_pool_data(ctx.saved_tensors[0], g, *ctx.rest), None, None, None, None)


def _max_jvp(ctx: Any, tx: torch.Tensor, *_: None) -> torch.Tensor:
    return _at_largest(ctx.saved_tensors[0], tx, *ctx.rest)


def _max_data_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    keep(ctx, inputs[0])
    ctx.rest = inputs[2:]


def _max_data_backward(ctx: Any, gx: torch.Tensor) -> tuple[Any, ...]:
    x = ctx.saved_tensors[0]
    found = _at_largest(x, gx, *ctx.rest)
    return (torch.zeros_like(x) if ctx.needs_input_grad[0] else None, found, None, None, None, None)


def _max_data_jvp(ctx: Any, tx: Any, tg: torch.Tensor, *_: None) -> torch.Tensor:
    tangent: torch.Tensor = max_pool_data(ctx.saved_tensors[0], tg, *ctx.rest)
    return tangent


def _at_largest(x: torch.Tensor, t: torch.Tensor, taps: Any, stride: Any, pads: Any, dilation: Any) -> torch.Tensor:
    """The elements of t where x has each window's largest."""
    space = len(taps)
    pad = [p for i in reversed(range(space)) for p in pads[2 * i: 2 * i + 2]]
    padded = torch.nn.functional.pad(x, pad, value=float("-inf"))
    pool = (torch.nn.functional.max_pool1d, torch.nn.functional.max_pool2d, torch.nn.functional.max_pool3d)[space - 1]
    _, places = pool(padded.detach(), taps, stride, 0, dilation, False, True)
    return torch.nn.functional.pad(t, pad).flatten(2).gather(2, places.flatten(2)).view(places.shape)


max_pool, max_pool_data = Operator(_max_pool), Operator(_max_pool_data)
max_pool.derivatives(_max_setup, _max_backward, _max_jvp)
max_pool_data.derivatives(_max_data_setup, _max_data_backward, _max_data_jvp)
max_pool.batches(_batching.pool(_max_pool))
max_pool_data.batches(_batching.pool(_max_pool_data, 2))


@custom_op("faltung::avg_pool", mutates_args=())
def _avg_pool(x: torch.Tensor, taps: Sequence[int], stride: Sequence[int], pads: Sequence[int],
             count_pad: bool) -> torch.Tensor:
    """The mean of each window."""
    check(x)
    layer = _pool_layer(taps, stride, pads, [1] * len(taps), count_pad)
    y = empty([*x.shape[:2], *layer.output_size(x.shape, taps)], x)
    execute(AVGPOOL, x, None, y, layer)
    return y


@_avg_pool.register_fake
def _(x: Any, taps: Any, stride: Any, pads: Any, count_pad: Any) -> torch.Tensor:
    return empty([*x.shape[:2], *_pool_layer(taps, stride, pads, [1] * len(taps)).output_size(x.shape, taps)], x)


@custom_op("faltung::avg_pool_data", mutates_args=())
def _avg_pool_data(g: torch.Tensor, size: Sequence[int], taps: Sequence[int], stride: Sequence[int], pads: Sequence[int],
                  count_pad: bool) -> torch.Tensor:
    """The gradient of average pooling's input."""
    check(g)
    dx = empty(size, g)
    execute(BACKWARD_AVGPOOL, dx, None, g, _pool_layer(taps, stride, pads, [1] * len(taps), count_pad))
    return dx


@_avg_pool_data.register_fake
def _(g: Any, size: Any, taps: Any, stride: Any, pads: Any, count_pad: Any) -> torch.Tensor:
    return empty(size, g)


def _avg_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.size, ctx.rest = inputs[0].shape, inputs[1:]


def _avg_backward(ctx: Any, g: torch.Tensor) -> tuple[Any, ...]:
    return (avg_pool_data(g, ctx.size, *ctx.rest), None, None, None, None)


def _avg_data_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.size, ctx.rest = inputs[1], inputs[2:]


def _avg_data_backward(ctx: Any, gx: torch.Tensor) -> tuple[Any, ...]:
    return (avg_pool(gx, *ctx.rest), None, None, None, None, None)


def _avg_jvp(ctx: Any, tx: torch.Tensor, *_: None) -> torch.Tensor:
    tangent: torch.Tensor = avg_pool(tx, *ctx.rest)
    return tangent


def _avg_data_jvp(ctx: Any, tg: torch.Tensor, *_: None) -> torch.Tensor:
    tangent: torch.Tensor = avg_pool_data(tg, ctx.size, *ctx.rest)
    return tangent


avg_pool, avg_pool_data = Operator(_avg_pool), Operator(_avg_pool_data)
avg_pool.derivatives(_avg_setup, _avg_backward, _avg_jvp)
avg_pool_data.derivatives(_avg_data_setup, _avg_data_backward, _avg_data_jvp)
avg_pool.batches(_batching.pool(_avg_pool))
avg_pool_data.batches(_batching.pool_of_size(_avg_pool_data))
