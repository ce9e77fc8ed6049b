"""Operators that torch.func and forward-mode derivatives go through: grad, vmap, jacrev, jacfwd, jvp, hessian.

torch.library's own autograd has no setup_context for transforms and drops tangents without a word. Where one of them is
in use, an operator is called as an autograd function that has both; otherwise it is called as it is.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad


def transformed() -> bool:
    """Whether a transform of torch.func or a level of forward-mode derivatives is in use."""
    return bool(torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0)


class Numbers(tuple[Any, ...]):
    """Numbers that are one argument: torch's transforms take lists and tuples apart."""


class Operator:
    """An operator of torch.library with its derivatives."""

    def __init__(self, op: Any):
        self.op = op
        self.function: Any = None

    def __call__(self, *arguments: Any) -> Any:
        if not transformed():
            return self.op(*arguments)
        return self.function.apply(*(Numbers(a) if isinstance(a, (list, tuple)) else a for a in arguments))

    def derivatives(self, setup: Callable[..., Any], backward: Callable[..., Any], jvp: Callable[..., Any]) -> None:
        """setup(ctx, inputs, output) keeps tensors for both; backward(ctx, gradient) gives the gradients of all inputs,
        jvp(ctx, *tangents) the tangent of the output."""
        op = self.op
        op.register_autograd(backward, setup_context=setup)

        def forward(*arguments: Any) -> Any:
            return op(*arguments)

        members = {"forward": forward, "setup_context": setup, "backward": backward, "jvp": jvp}
        self.function = type(op._name, (torch.autograd.Function,),
                             {**{name: staticmethod(call) for name, call in members.items()}, "generate_vmap_rule": True})

    def batches(self, rule: Callable[..., Any]) -> None:
        """rule(count, in_dims, *inputs): the output of a batch of calls, its batch first."""
        self.op.register_vmap(lambda info, in_dims, *inputs: rule(info.batch_size, in_dims, *inputs))


def keep(ctx: Any, *tensors: torch.Tensor | None) -> None:
    """Keeps tensors for backward and jvp."""
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)
