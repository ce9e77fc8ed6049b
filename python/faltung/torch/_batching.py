"""What vmap does with the operators: a batch of calls is one call, with the batch in the images where the weights are
shared, and in the groups where they are not."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Dims = Sequence[Any]  # the axis of each input's batch, or None


def merged(count: int, t: torch.Tensor, batch: int | None, axis: int) -> torch.Tensor:
    """A tensor whose axis has the batch outside of what it had."""
    t = t.unsqueeze(0).expand(count, *t.shape) if batch is None else t.movedim(batch, 0)
    return t.movedim(0, axis).flatten(axis, axis + 1)


def split(count: int, t: torch.Tensor, axis: int) -> torch.Tensor:
    """Undoes `merged`; the batch comes first."""
    return t.reshape(*t.shape[:axis], count, t.shape[axis] // count, *t.shape[axis + 1:]).movedim(axis, 0)


def convolution(op: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of activation(conv(x, w) + bias + residual)."""

    def rule(count: int, dims: Dims, x: Any, w: Any, bias: Any, stride: Any, pads: Any, dilation: Any, groups: int,
             boundary: int, activation: str, residual: Any, ways: int = 0) -> tuple[Any, ...]:
        shared = dims[1] is None and dims[2] is None
        axis = 0 if shared else 1
        if residual is not None:
            residual = merged(count, residual, dims[9], axis)
        if not shared:
            w = merged(count, w, dims[1], 0)
            bias = None if bias is None else merged(count, bias, dims[2], 0)
        if shared or dims[0] is not None or groups > 1:
            x, groups = merged(count, x, dims[0], axis), groups if shared else groups * count
        y = op(x, w, bias, stride, pads, dilation, groups, boundary, activation, residual, ways)
        return split(count, y, axis), 0

    return rule


def data_gradient(op: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of the gradient of a convolution's input."""

    def rule(count: int, dims: Dims, g: Any, w: Any, size: Any, stride: Any, pads: Any, dilation: Any, groups: int,
             boundary: int) -> tuple[Any, ...]:
        images, channels, *space = size
        if dims[1] is None:
            dx = op(merged(count, g, dims[0], 0), w, [count * images, channels, *space], stride, pads, dilation, groups,
                    boundary)
            return split(count, dx, 0), 0
        if dims[0] is None and groups == 1:
            w = merged(count, w, dims[1], 1)
        else:
            g, w, groups = merged(count, g, dims[0], 1), merged(count, w, dims[1], 0), groups * count
        dx = op(g, w, [images, count * channels, *space], stride, pads, dilation, groups, boundary)
        return split(count, dx, 1), 0

    return rule


def weight_gradient(op: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of the gradient of a convolution's weights, and of its bias where the operator gives both."""

    def rule(count: int, dims: Dims, x: Any, g: Any, size: Any, stride: Any, pads: Any, dilation: Any, groups: int,
             boundary: int, last: bool = False) -> tuple[Any, ...]:
        if dims[0] is not None or groups > 1:
            x, groups = merged(count, x, dims[0], 1), groups * count
        g = merged(count, g, dims[1], 1)
        result = op(x, g, [count * size[0], *size[1:]], stride, pads, dilation, groups, boundary, last)
        if isinstance(result, torch.Tensor):
            return split(count, result, 0), 0
        return tuple(split(count, t, 0) for t in result), (0,) * len(result)

    return rule


def pool(op: Callable[..., Any], tensors: int = 1) -> Callable[..., Any]:
    """The rule of pooling and its gradients, whose first inputs are the tensors."""

    def rule(count: int, dims: Dims, *inputs: Any) -> tuple[Any, ...]:
        images = [merged(count, t, batch, 0) for t, batch in zip(inputs[:tensors], dims)]
        return split(count, op(*images, *inputs[tensors:]), 0), 0

    return rule


def pool_of_size(op: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of an operator that takes the size of its result."""

    def rule(count: int, dims: Dims, g: Any, size: Any, *rest: Any) -> tuple[Any, ...]:
        return split(count, op(merged(count, g, dims[0], 0), [count * size[0], *size[1:]], *rest), 0), 0

    return rule
