"""Modules with torch's parameters and state: torch.nn's classes, whose forward is faltung's."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from faltung import torch as functional

__all__ = ["AvgPool1d", "AvgPool2d", "AvgPool3d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
           "ConvTranspose3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "replace"]


def _conv(name: str, space: int) -> type:
    base = getattr(torch.nn, name)

    def _conv_forward(self: Any, input: torch.Tensor, weight: torch.Tensor, bias: Any) -> torch.Tensor:
        activation, ways = self.activation, self.ways
        if ways & 1 and not (torch.is_grad_enabled() and (input.requires_grad or weight.requires_grad)):
            y = base._conv_forward(self, input, weight, bias)
            return y if activation is None else functional._UNFUSED[activation](y)
        return functional._conv(space, input, weight, bias, self.stride, self.padding, self.dilation, self.groups,
                                self.padding_mode, activation, None, ways)

    return type(name, (base,), {"_conv_forward": _conv_forward, "activation": None, "ways": 0, "__module__": __name__,
                                "__doc__": f"torch.nn.{name}; padding modes make no copy."})


def _transposed(name: str, function: Callable[..., torch.Tensor], space: int) -> type:
    def forward(self: Any, input: torch.Tensor, output_size: Any = None) -> torch.Tensor:
        more = self._output_padding(input, output_size, self.stride, self.padding, self.kernel_size, space, self.dilation)
        return function(input, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation)

    base = getattr(torch.nn, name)
    return type(name, (base,), {"forward": forward, "__module__": __name__, "__doc__": f"torch.nn.{name}."})


def _max(name: str, function: Callable[..., torch.Tensor]) -> type:
    def forward(self: Any, input: torch.Tensor) -> torch.Tensor:
        if self.return_indices:
            y: torch.Tensor = base.forward(self, input)
            return y
        return function(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)

    base = getattr(torch.nn, name)
    return type(name, (base,), {"forward": forward, "__module__": __name__, "__doc__": f"torch.nn.{name}."})


def _avg(name: str, function: Callable[..., torch.Tensor]) -> type:
    def forward(self: Any, input: torch.Tensor) -> torch.Tensor:
        override = getattr(self, "divisor_override", None)
        more = () if override is None else (override,)
        return function(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, *more)

    return type(name, (getattr(torch.nn, name),), {"forward": forward, "__module__": __name__,
                                                   "__doc__": f"torch.nn.{name}."})


Conv1d = _conv("Conv1d", 1)
Conv2d = _conv("Conv2d", 2)
Conv3d = _conv("Conv3d", 3)
ConvTranspose1d = _transposed("ConvTranspose1d", functional.conv_transpose1d, 1)
ConvTranspose2d = _transposed("ConvTranspose2d", functional.conv_transpose2d, 2)
ConvTranspose3d = _transposed("ConvTranspose3d", functional.conv_transpose3d, 3)
MaxPool1d = _max("MaxPool1d", functional.max_pool1d)
MaxPool2d = _max("MaxPool2d", functional.max_pool2d)
MaxPool3d = _max("MaxPool3d", functional.max_pool3d)
AvgPool1d = _avg("AvgPool1d", functional.avg_pool1d)
AvgPool2d = _avg("AvgPool2d", functional.avg_pool2d)
AvgPool3d = _avg("AvgPool3d", functional.avg_pool3d)


CLASSES = {getattr(torch.nn, name): globals()[name] for name in __all__ if name != "replace"}


def replace(model: torch.nn.Module) -> list[str]:
    """Makes the convolutions and pools of a model faltung's, in place; parameters stay. Returns the modules' names.

    >>> import torch
    >>> from faltung.torch import nn
    >>> nn.replace(torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU()))
    ['0']
    """
    found = [(name, module) for name, module in model.named_modules() if type(module) in CLASSES]
    for _, module in found:
        module.__class__ = CLASSES[type(module)]
    return [name for name, _ in found]
