"""Layers of tensors as problems: plans by sizes and strides from the cache, executed on the tensors' memory and stream."""
from __future__ import annotations

import functools
from typing import Any

import torch

from .._arrays import Torch
from .._library import (
    AVGPOOL,
    BACKWARD_AVGPOOL,
    BACKWARD_DATA,
    BACKWARD_FILTER,
    BACKWARD_MAXPOOL,
    F32,
    F64,
    FORWARD,
    MAXPOOL,
    ProblemStruct,
    Tensor,
    lib,
)
from .._plan import Plan, cache, device_of
from .._problem import Problem
from .._settings import current

MEMORY = (torch.Tensor, torch.nn.Parameter)  # whose sizes are numbers
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
ACTIVATIONS = {"identity": 0, "relu": 1, "relu6": 2, "leaky_relu": 3, "silu": 4, "gelu": 5, "sigmoid": 6, "tanh": 7}


class Layer:
    """Geometry of a layer: one number for each axis; pads before and after; an index of BOUNDARIES."""

    __slots__ = ("stride", "pads", "dilation", "groups", "boundary", "taps", "count_pad", "key")

    def __init__(self, stride: Any, pads: Any, dilation: Any, groups: int = 1, boundary: int = 0, taps: Any = (),
                 count_pad: bool = False):
        self.stride, self.pads, self.dilation = tuple(stride), tuple(pads), tuple(dilation)
        self.groups, self.boundary, self.taps, self.count_pad = groups, boundary, tuple(taps), count_pad
        self.key = (self.stride, self.pads, self.dilation, groups, boundary, self.taps, count_pad)  # tells layers apart

    def output_size(self, size: Any, taps: Any) -> list[int]:
        """Outputs along each axis."""
        space = len(self.stride)
        return [(n + self.pads[2 * i] + self.pads[2 * i + 1] - self.dilation[i] * (k - 1) - 1) // self.stride[i] + 1
                for i, (n, k) in enumerate(zip(size[-space:], taps[-space:]))]


def is_last(t: torch.Tensor) -> bool:
    """Whether the strides are those of channels last; of [N, 1, H, W], too, where both orders are the same memory."""
    if t.dim() < 4:
        return False
    return (_is_last if type(t) in MEMORY else _is_last.__wrapped__)(t.shape, t.stride())


@functools.lru_cache(4096)
def _is_last(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    least = 1
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        if strides[axis] < least or (axis == 0 and least == strides[1]) or not shape[axis]:
            return False
        least = strides[axis] * shape[axis]
    return True


def order_of(dimensions: int, last: bool) -> torch.memory_format:
    """torch's memory format."""
    if not last or dimensions < 4:
        return torch.contiguous_format
    return torch.channels_last if dimensions == 4 else torch.channels_last_3d


def empty(shape: Any, like: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
    """A new tensor, with the channels last if they are last in `like` or the weights, as torch's layers have it."""
    order = order_of(like.dim(), is_last(like) or (weights is not None and is_last(weights)))
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=order)


@functools.lru_cache(4096)
def result(x: tuple[int, ...], x_strides: tuple[int, ...], w: tuple[int, ...], w_strides: tuple[int, ...],
           layer: Layer) -> tuple[tuple[int, ...], torch.memory_format]:
    """(size, order) of a layer's output, by the shapes and strides of its operands."""
    sizes = layer.output_size(x, w)
    if any(n < 1 for n in sizes):
        raise RuntimeError(f"input: {list(x[2:])} with its padding is smaller than the kernel, {list(w[2:])}")
    last = len(x) > 3 and (_is_last.__wrapped__(x, x_strides) or _is_last.__wrapped__(w, w_strides))
    return (x[0], w[0], *sizes), order_of(len(x), last)


def _data(tensor: Tensor, x: torch.Tensor, groups: int, channels_in_groups: bool = True) -> None:
    """Fills N, groups, channels and space. Pools have all channels in the groups."""
    space = x.dim() - 2
    tensor.type, tensor.offset = Torch.dtypes()[x.dtype], 0
    channels = x.shape[1] // groups if channels_in_groups else 1
    groups = groups if channels_in_groups else x.shape[1]
    tensor.size[0], tensor.size[1], tensor.size[2] = x.shape[0], groups, channels
    tensor.stride[0], tensor.stride[1], tensor.stride[2] = x.stride(0), channels * x.stride(1), x.stride(1)
    for i in range(space):
        tensor.size[6 - space + i], tensor.stride[6 - space + i] = x.shape[2 + i], x.stride(2 + i)


def _weights(tensor: Tensor, w: torch.Tensor, groups: int) -> None:
    """Fills outputs of a group, groups, channels and taps."""
    space, outputs = w.dim() - 2, w.shape[0] // groups
    tensor.type, tensor.offset = Torch.dtypes()[w.dtype], 0
    tensor.size[0], tensor.size[1], tensor.size[2] = outputs, groups, w.shape[1]
    tensor.stride[0], tensor.stride[1], tensor.stride[2] = w.stride(0), outputs * w.stride(0), w.stride(1)
    for i in range(space):
        tensor.size[6 - space + i], tensor.stride[6 - space + i] = w.shape[2 + i], w.stride(2 + i)


def _plan(operation: int, x: torch.Tensor, w: torch.Tensor | None, y: torch.Tensor, layer: Layer,
          extras: tuple[Any, ...]) -> Plan:
    """Plans a layer; x is laid out as its input, y as its output, whichever is read."""
    problem = ProblemStruct()
    lib.falt_problem_default(problem)
    space = x.dim() - 2
    problem.operation, problem.space = operation, space
    pools = operation >= MAXPOOL
    _data(problem.input, x, layer.groups, not pools)
    _data(problem.output, y, layer.groups, not pools)
    if w is not None:
        _weights(problem.filter, w, layer.groups)
    else:
        problem.filter.type = problem.input.type
        for i, k in enumerate(layer.taps):
            problem.filter.size[6 - space + i] = k
    for i in range(space):
        axis = problem.axis[3 - space + i]
        axis.stride, axis.dilation = layer.stride[i], layer.dilation[i]
        axis.pad[0], axis.pad[1] = layer.pads[2 * i], layer.pads[2 * i + 1]
        axis.boundary[0] = axis.boundary[1] = layer.boundary
    problem.accumulator = F64 if problem.input.type == F64 else F32
    problem.count_pad = layer.count_pad
    bias, activation, residual = extras
    problem.has_bias, problem.activation, problem.has_residual = bias, activation, residual
    if residual:
        _data(problem.residual, y, layer.groups)
    settings = current.get()
    return Plan(device_of(settings, Torch.view(x)), Problem(problem, settings.budget()))


def execute(operation: int, x: torch.Tensor, w: torch.Tensor | None, y: torch.Tensor, layer: Layer,
            shape: torch.Tensor | None = None, bias: torch.Tensor | None = None, activation: str = "identity",
            residual: torch.Tensor | None = None) -> None:
    """Runs an operation. Forward writes y, backward-data x, backward-filter w; backward-maxpool reads x and y and
    writes `shape`, which is laid out as x."""
    if 0 in x.shape or 0 in y.shape:
        _nothing(operation, x, w, y)
        return
    plan = planned(operation, x, w, y, layer, (bias is not None, ACTIVATIONS[activation], residual is not None))
    stream, workspace, held = plan._place(Torch, x)
    third = shape if shape is not None else residual
    plan.run(x.data_ptr(), None if w is None else w.data_ptr(), y.data_ptr(), None if bias is None else bias.data_ptr(), None,
             None if third is None else third.data_ptr(), stream, workspace)
    del held


def planned(operation: int, x: torch.Tensor, w: torch.Tensor | None, y: torch.Tensor, layer: Layer,
            extras: tuple[Any, ...]) -> Plan:
    """The plan from the cache. extras: (bias or not, activation's number, residual or not)."""
    taps = None if w is None else (w.shape, w.stride(), w.dtype)
    key = ("torch", operation, x.dtype, x.device, x.shape, x.stride(), taps, y.shape, y.stride(), layer.key, extras,
           current.get())
    plan: Plan = cache.get(key, lambda: _plan(operation, x, w, y, layer, extras))
    return plan


def _nothing(operation: int, x: torch.Tensor, w: torch.Tensor | None, y: torch.Tensor) -> None:
    """Sums of no terms."""
    written = {BACKWARD_DATA: x, BACKWARD_AVGPOOL: x, BACKWARD_FILTER: w}.get(operation, y)
    if written is not None and written.numel():
        written.zero_()


def check(*tensors: torch.Tensor | None) -> None:
    """Raises for types and devices that do not go together."""
    given = [t for t in tensors if t is not None]
    first = given[0]
    if first.dtype not in FLOATS:
        raise TypeError(f"input: type {first.dtype}; use float32, float64, float16 or bfloat16")
    for t in given[1:]:
        if t.dtype != first.dtype or t.device != first.device:
            raise RuntimeError(f"Input type ({first.dtype}, {first.device}) and weight type ({t.dtype}, {t.device}) "
                               "should be the same")


__all__ = ["AVGPOOL", "BACKWARD_AVGPOOL", "BACKWARD_DATA", "BACKWARD_FILTER", "BACKWARD_MAXPOOL", "FORWARD", "MAXPOOL", "MEMORY",
           "Layer", "check", "empty", "execute", "is_last", "order_of", "planned", "result"]
