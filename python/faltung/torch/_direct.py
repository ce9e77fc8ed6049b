"""Convolutions and their gradients without torch's dispatcher, whose Python side takes longer than small layers: what the
calls on tensors of the same sizes, strides and types have in common is found once and kept."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch
from torch.autograd import forward_ad

from .._arrays import Torch
from .._plan import Cache, Plan
from .._settings import Settings, current
from . import _ops
from ._ops import BY_TORCH, bias_type_of
from ._problems import (
    ACTIVATIONS,
    BACKWARD_DATA,
    BACKWARD_FILTER,
    FORWARD,
    MEMORY,
    Layer,
    check,
    is_last,
    order_of,
    planned,
    result,
)

_Result = TypeVar("_Result")


class Shape(NamedTuple):
    """Sizes and strides of new tensors."""

    size: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, size: tuple[int, ...], last: bool) -> Shape:
        """Dense."""
        return cls(size, torch.empty(size, device="meta", memory_format=order_of(len(size), last)).stride())

    def empty(self, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """A tensor that nothing is written to."""
        return torch.empty_strided(self.size, self.strides, dtype=dtype, device=device)


class Call:
    """A layer on tensors of given sizes, strides and types, none of them empty. dtype: that of the sums' factors, to which
    the weights are converted if theirs is another, as under autocast. ways: bits of BY_TORCH."""

    __slots__ = ("layer", "dtype", "activation", "ways", "settings", "order", "x", "w", "y", "_plans")

    def __init__(self, x: torch.Tensor, w: torch.Tensor, layer: Layer, dtype: torch.dtype, activation: str = "identity",
                 ways: int = 0):
        size, self.order = result(x.shape, x.stride(), w.shape, w.stride(), layer)
        last = self.order != torch.contiguous_format
        self.layer, self.dtype, self.activation, self.ways = layer, dtype, activation, ways
        self.x, self.w, self.y = Shape.of(tuple(x.shape), last), Shape.of(tuple(w.shape), is_last(w)), Shape.of(size, last)
        self.settings: Settings = current.get()  # autograd's threads have settings of their own
        self._plans: dict[tuple[Any, ...], Plan] = {}

    def plan(self, operation: int, x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, bias: bool = False,
             residual: bool = False) -> Plan:
        """The plan of a direction."""
        key = (operation, w.dtype, bias, residual)
        plan = self._plans.get(key)
        if plan is None:
            activation = ACTIVATIONS[self.activation] if operation == FORWARD else 0
            token = current.set(self.settings)
            try:
                plan = self._plans[key] = planned(operation, x, w, y, self.layer, (bias, activation, residual))
            finally:
                current.reset(token)
        return plan

    def _run(self, operation: int, x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, bias: torch.Tensor | None = None,
             residual: torch.Tensor | None = None) -> None:
        plan = self.plan(operation, x, w, y, bias is not None, residual is not None)
        stream, workspace, held = plan._place(Torch, x)
        plan.run(x.data_ptr(), w.data_ptr(), y.data_ptr(), None if bias is None else bias.data_ptr(), None,
                 None if residual is None else residual.data_ptr(), stream, workspace)
        del held

    def forward(self, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None = None,
                residual: torch.Tensor | None = None) -> torch.Tensor:
        """activation(conv(x, w) + bias + residual)."""
        if self.ways & BY_TORCH["forward"]:
            return _ops.by_torch(x, w, bias, self.layer, self.order)
        y = self.y.empty(self.dtype, x.device)
        if bias is not None:  # the library's bias is f32, f64 for f64
            bias = bias.to(bias_type_of(x)).contiguous()
        residual = _ops.laid_out(residual, y)
        self._run(FORWARD, x, w, y, bias, residual)
        return y

    def gradients(self, g: torch.Tensor, x: torch.Tensor, w: torch.Tensor, needs: tuple[bool, ...],
                  weight_type: torch.dtype, bias_type: torch.dtype | None) -> tuple[Any, ...]:
        """The gradients of input, weights and bias that are needed. bias_type: None if there is no bias."""
        if g.stride() != self.y.strides:
            g = g.contiguous(memory_format=self.order)
        ways = self.ways
        dx = dw = db = None
        torch_s = [bool(needs[0] and ways & BY_TORCH["data"]), bool(needs[1] and ways & BY_TORCH["weight"])]
        if torch_s[0] or torch_s[1]:
            dx, dw = _ops.gradients_by_torch(g, x, w, self.layer, torch_s)
            dw = dw if dw is None else dw.to(weight_type)
        if needs[0] and not torch_s[0]:
            dx = self.x.empty(self.dtype, x.device)
            self._run(BACKWARD_DATA, dx, w, g)
        biased = bias_type is not None and needs[2]
        if needs[1] and not torch_s[1]:
            dw = self.w.empty(weight_type, x.device)
            db = torch.empty(w.shape[0], dtype=bias_type_of(x), device=x.device) if biased and _ops.sums_bias(x) else None
            self._run(BACKWARD_FILTER, x, dw, g, db)
        if biased:
            db = g.sum((0, *range(2, g.dim())), dtype=bias_type) if db is None else db.to(bias_type)
        return dx, dw, db


class Function(torch.autograd.Function):
    """A call with its gradients, of sums alone: activations that have gradients are torch's. The weights' gradient comes in
    the weights' own type, without a rounding to that of the factors."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, bias: Any, residual: Any, call: Call) -> torch.Tensor:
        factors = w if w.dtype == call.dtype else w.to(call.dtype)
        ctx.save_for_backward(x, factors)
        ctx.call, ctx.bias_type, ctx.weight_type = call, None if bias is None else bias.dtype, w.dtype
        ctx.weights, ctx.version = (None, 0) if factors is w else (w, w._version)
        return named("faltung::conv", call.forward, x, factors, bias, residual)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[Any, ...]:
        """By the operators where gradients of the gradients are asked for."""
        x, w = ctx.saved_tensors
        needs, call = ctx.needs_input_grad, ctx.call
        if torch.is_grad_enabled() or not bare(g):
            dx, dw, db = named("faltung::conv_backward", _by_operators, ctx, g, x, w)
        else:
            dx, dw, db = named("faltung::conv_backward", call.gradients, g, x, w, needs, ctx.weight_type, ctx.bias_type)
        return dx, dw, db, g if needs[3] else None, None


_apply = super(torch.autograd.Function, Function).apply  # without a look for transforms: `bare` has looked


def _by_operators(ctx: Any, g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> tuple[Any, ...]:
    """The gradients, with derivatives of their own."""
    layer = ctx.call.layer
    geometry = (layer.stride, layer.pads, layer.dilation, layer.groups, layer.boundary)
    if ctx.weights is not None and torch.is_grad_enabled():
        if ctx.weights._version != ctx.version:
            raise RuntimeError("weight: was changed between a layer and the gradients of its gradients")
        w = ctx.weights.to(w.dtype)
    dx, dw, db = _ops.gradients(g, x, w, geometry, ctx.needs_input_grad, ctx.call.ways, ctx.bias_type)
    return dx, dw if dw is None else dw.to(ctx.weight_type), db


def named(name: str, call: Callable[..., _Result], *arguments: Any) -> _Result:
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


_calls = Cache(1024)


def _none() -> None:
    return None


def convolve(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None, dtype: torch.dtype,
             learns: bool, words: tuple[Any, ...], arguments: Callable[[], tuple[Layer, str, int]]) -> torch.Tensor | None:
    """The convolution by a call that is kept, or by a new one; None where tensors are not memory or have no elements.

    dtype: of the factors; weights of f32 are converted to it. learns: whether gradients are asked for. words: what tells
    calls apart besides the tensors. arguments(): layer, activation and ways of a new call."""
    if not (bare(x) and type(w) in MEMORY and x.dtype == dtype and w.dtype in (dtype, torch.float32) and x.numel() and w.numel()):
        return None
    key: Any = (x.shape, x.stride(), dtype, x.get_device(), w.shape, w.stride(), w.dtype, w.get_device(), learns, current.get(),
                None if bias is None else (bias.shape, bias.get_device()),
                None if residual is None else (residual.dtype, residual.shape, residual.get_device()), words)
    try:
        call = _calls.get(key, _none)
    except TypeError:  # lists
        call = key = None
    if call is None:
        layer, activation, ways = arguments()
        check(x, w.detach().to(dtype), residual)
        call = Call(x, w, layer, dtype, activation, ways)
        if key is not None:
            _calls.put(key, call)
    y: torch.Tensor
    if learns:
        y = _apply(x, w, bias, residual, call)
    else:
        y = named("faltung::conv", call.forward, x, w if w.dtype == dtype else w.to(dtype), bias, residual)
    return y


__all__ = ["Call", "convolve"]
