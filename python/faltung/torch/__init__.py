"""torch's convolutions and pooling by faltung: functions with torch's signatures, with autograd, and modules.

    from faltung.torch import conv2d           # was: from torch.nn.functional import conv2d

The operators are registered by torch.library: first and second derivatives, torch.compile and CUDA graphs work. Layouts
are taken as they are; padding_mode is part of the layer, no padded copy is made.
"""
from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch

from . import _direct, _ops, _pools
from ._problems import Layer
from ._transforms import transformed

__all__ = ["avg_pool1d", "avg_pool2d", "avg_pool3d", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
           "conv_transpose3d", "filter2d", "max_pool1d", "max_pool2d", "max_pool3d", "nn", "optimize"]

_BOUNDARY = {"zeros": 0, "constant": 0, "replicate": 1, "edge": 1, "symmetric": 2, "reflect": 3, "reflect101": 3,
             "circular": 4, "wrap": 4}
_UNFUSED = {"relu": torch.relu, "relu6": torch.nn.functional.relu6, "leaky_relu": torch.nn.functional.leaky_relu,
            "silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu, "sigmoid": torch.sigmoid,
            "tanh": torch.tanh}


def _each(value: Any, space: int, name: str) -> list[int]:
    values = list(value) if isinstance(value, (tuple, list, torch.Size)) else [value] * space
    if len(values) == 1:
        values = values * space
    if len(values) != space:
        raise RuntimeError(f"{name}: {len(values)} numbers for {space} axes")
    return [int(v) for v in values]


def _geometry(space: int, stride: Any, padding: Any, dilation: Any, shape: torch.Size) -> tuple[Any, ...]:
    """(stride, pads, dilation) of each axis."""
    if not torch.compiler.is_compiling():
        with contextlib.suppress(TypeError):  # lists
            return _known_geometry(space, stride, padding, dilation, shape)
    return _new_geometry(space, stride, padding, dilation, shape)


def _new_geometry(space: int, stride: Any, padding: Any, dilation: Any, shape: torch.Size) -> tuple[Any, ...]:
    stride, dilation = _each(stride, space, "stride"), _each(dilation, space, "dilation")
    return tuple(stride), tuple(_pads(padding, shape, stride, dilation)), tuple(dilation)


_known_geometry = functools.lru_cache(1024)(_new_geometry)


def _pads(padding: Any, shape: torch.Size, stride: list[int], dilation: list[int]) -> list[int]:
    """Before and after of each axis."""
    space = len(stride)
    if padding == "valid":
        return [0] * (2 * space)
    if padding == "same":
        if any(s != 1 for s in stride):
            raise RuntimeError("padding='same' is not supported for strided convolutions")
        reach = [d * (k - 1) for d, k in zip(dilation, shape[2:])]
        return [p for r in reach for p in (r // 2, r - r // 2)]
    if isinstance(padding, str):
        raise RuntimeError(f"padding: {padding!r}; use 'valid', 'same' or numbers")
    values = list(padding) if isinstance(padding, (tuple, list)) else [padding]
    if values and isinstance(values[0], (tuple, list)):
        return [int(p) for pair in values for p in pair]
    return [p for p in _each(padding, space, "padding") for _ in range(2)]


def _autocast_type(x: torch.Tensor) -> torch.dtype | None:
    """The type of a layer's input and weights under autocast; None where it is not in use."""
    kind = x.device.type
    if kind == "meta" or x.dtype == torch.float64 or not torch.is_autocast_enabled(kind):
        return None
    return torch.get_autocast_dtype(kind)


def _cast(first: torch.Tensor, *others: torch.Tensor | None) -> tuple[Any, ...]:
    """Under autocast, tensors in its type."""
    dtype, tensors = _autocast_type(first), (first, *others)
    return tensors if dtype is None else tuple(None if t is None else t.to(dtype) for t in tensors)


def _batched(x: torch.Tensor, space: int) -> tuple[torch.Tensor, bool]:
    if x.dim() == space + 1:
        return x.unsqueeze(0), True
    if x.dim() != space + 2:
        raise RuntimeError(f"Expected {space + 1}D (unbatched) or {space + 2}D (batched) input, but got {x.dim()}D")
    return x, False


def _conv(space: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int,
          padding_mode: str, activation: str | None, residual: Any, ways: int = 0) -> torch.Tensor:
    """ways: bits of _ops.BY_TORCH. The bias stays as it is under autocast: sums are kept in f32."""
    if input.dim() != space + 2:
        x, _ = _batched(input, space)
        return _conv(space, x, weight, bias, stride, padding, dilation, groups, padding_mode, activation,
                     None if residual is None else residual.unsqueeze(0), ways).squeeze(0)
    cast = _autocast_type(input)
    x, dtype = input, cast or input.dtype
    if cast is not None:
        x, residual = x.to(cast), None if residual is None else residual.to(cast)

    def layer() -> Layer:
        """The layer, of arguments that are right."""
        if weight.dim() != space + 2 or x.shape[1] != weight.shape[1] * groups or weight.shape[0] % groups:
            raise RuntimeError(f"Given groups={groups}, weight of size {list(weight.shape)}, expected input{list(x.shape)} to "
                               f"have {weight.shape[1] * groups} channels")
        _ops.check_bias(bias, weight)
        if padding_mode not in _BOUNDARY:
            raise ValueError(f"padding_mode: {padding_mode!r}; use {', '.join(_BOUNDARY)}")
        if activation != "identity" and activation not in _UNFUSED:
            raise ValueError(f"activation: {activation!r}; use {', '.join(_UNFUSED)}")
        steps, pads, gaps = _geometry(space, stride, padding, dilation, weight.shape)
        return Layer(steps, pads, gaps, groups, _BOUNDARY[padding_mode])

    activation = activation or "identity"
    learns = transformed() or (torch.is_grad_enabled() and (
        x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
        or (residual is not None and residual.requires_grad)))
    fused = "identity" if learns or ways & 1 else activation
    y = None
    if weight.dtype == dtype or cast is not None:
        words = (space, stride, padding, dilation, groups, padding_mode, activation, ways)
        y = _direct.convolve(x, weight, bias, residual, dtype, learns, words, lambda: (layer(), fused, ways))
    if y is None:
        known, w = layer(), weight if cast is None else weight.to(cast)
        y = _ops.conv(x, w, bias, *map(list, known.key[:3]), *known.key[3:5], fused, residual, ways)
    return y if fused == activation else _UNFUSED[activation](y)


def conv1d(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, stride: Any = 1, padding: Any = 0,
           dilation: Any = 1, groups: int = 1, *, padding_mode: str = "zeros", activation: str | None = None,
           residual: torch.Tensor | None = None) -> torch.Tensor:
    """torch.nn.functional.conv1d on (N, C, L) or (C, L); see conv2d."""
    return _conv(1, input, weight, bias, stride, padding, dilation, groups, padding_mode, activation, residual)


def conv2d(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, stride: Any = 1, padding: Any = 0,
           dilation: Any = 1, groups: int = 1, *, padding_mode: str = "zeros", activation: str | None = None,
           residual: torch.Tensor | None = None) -> torch.Tensor:
    """torch.nn.functional.conv2d on (N, C, H, W) or (C, H, W), in any memory format.

    padding: numbers, a pair (before, after) for each axis, "same" or "valid". padding_mode: "zeros", "replicate",
    "reflect", "circular" or "symmetric". y = activation(conv + bias + residual) in one pass where no gradient is asked
    for; activation: "relu", "relu6", "leaky_relu", "silu", "gelu", "sigmoid", "tanh".

    >>> import torch
    >>> from faltung.torch import conv2d
    >>> conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3), padding=1, padding_mode="replicate")[0, 0]
    tensor([[9., 9., 9.],
            [9., 9., 9.],
            [9., 9., 9.]])
    """
    return _conv(2, input, weight, bias, stride, padding, dilation, groups, padding_mode, activation, residual)


def conv3d(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, stride: Any = 1, padding: Any = 0,
           dilation: Any = 1, groups: int = 1, *, padding_mode: str = "zeros", activation: str | None = None,
           residual: torch.Tensor | None = None) -> torch.Tensor:
    """torch.nn.functional.conv3d on (N, C, D, H, W) or (C, D, H, W); see conv2d."""
    return _conv(3, input, weight, bias, stride, padding, dilation, groups, padding_mode, activation, residual)


def _transposed(space: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int,
                dilation: Any) -> torch.Tensor:
    g, w, bias = _cast(input, weight, bias)
    g, single = _batched(g, space)
    stride, dilation = _each(stride, space, "stride"), _each(dilation, space, "dilation")
    padding, more = _each(padding, space, "padding"), _each(output_padding, space, "output_padding")
    if w.dim() != space + 2 or g.shape[1] != w.shape[0]:
        raise RuntimeError(f"Given transposed=1, weight of size {list(w.shape)}, expected input{list(g.shape)} to have "
                           f"{w.shape[0]} channels")
    if any(m >= max(s, d) for m, s, d in zip(more, stride, dilation)):
        raise RuntimeError("output padding must be smaller than either stride or dilation")
    size = [(n - 1) * s - 2 * p + d * (k - 1) + m + 1
            for n, s, p, d, k, m in zip(g.shape[2:], stride, padding, dilation, w.shape[2:], more)]
    pads = [q for p in padding for q in (p, p)]
    y: torch.Tensor = _ops.conv_data(g, w, [g.shape[0], w.shape[1] * groups, *size], stride, pads, dilation, groups, 0)
    if bias is not None:
        y = y + bias.view(-1, *[1] * space)
    return y.squeeze(0) if single else y


def conv_transpose1d(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, stride: Any = 1,
                     padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> torch.Tensor:
    """torch.nn.functional.conv_transpose1d."""
    return _transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, stride: Any = 1,
                     padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> torch.Tensor:
    """torch.nn.functional.conv_transpose2d.

    >>> import torch
    >>> from faltung.torch import conv_transpose2d
    >>> conv_transpose2d(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2), stride=2).shape
    torch.Size([1, 1, 4, 4])
    """
    return _transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, stride: Any = 1,
                     padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> torch.Tensor:
    """torch.nn.functional.conv_transpose3d."""
    return _transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def _windows(x: torch.Tensor, taps: list[int], stride: list[int], padding: list[int], dilation: list[int],
             ceil_mode: bool) -> list[int]:
    """Pads of pooling; with ceil_mode more after the end, so that the last window is not left out."""
    pads = []
    for n, k, s, p, d in zip(x.shape[2:], taps, stride, padding, dilation):
        if p > k // 2:
            raise RuntimeError(f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k}")
        extent, after = d * (k - 1) + 1, p
        if ceil_mode:
            count = -(-(n + 2 * p - extent) // s) + 1
            if (count - 1) * s >= n + p:  # a window that begins beyond the input and its pad
                count -= 1
            after = (count - 1) * s + extent - n - p
        pads += [p, after]
    return pads


def _max(space: int, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> torch.Tensor:
    x, single = _batched(input, space)
    taps = _each(kernel_size, space, "kernel_size")
    stride = taps if stride is None or stride == [] else _each(stride, space, "stride")
    dilation = _each(dilation, space, "dilation")
    pads = _windows(x, taps, stride, _each(padding, space, "padding"), dilation, ceil_mode)
    y: torch.Tensor = _pools.max_pool(x, taps, stride, pads, dilation)
    return y.squeeze(0) if single else y


def max_pool1d(input: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False) -> torch.Tensor:
    """torch.nn.functional.max_pool1d, without indices."""
    return _max(1, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(input: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False) -> torch.Tensor:
    """torch.nn.functional.max_pool2d, without indices.

    >>> import torch
    >>> from faltung.torch import max_pool2d
    >>> max_pool2d(torch.arange(16.0).view(1, 4, 4), 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    return _max(2, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(input: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False) -> torch.Tensor:
    """torch.nn.functional.max_pool3d, without indices."""
    return _max(3, input, kernel_size, stride, padding, dilation, ceil_mode)


def _avg(space: int, input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
         divisor_override: int | None) -> torch.Tensor:
    x, single = _batched(input, space)
    taps = _each(kernel_size, space, "kernel_size")
    stride = taps if stride is None or stride == [] else _each(stride, space, "stride")
    padding = _each(padding, space, "padding")
    pads = _windows(x, taps, stride, padding, [1] * space, ceil_mode)
    beyond = ceil_mode and any(a > p for a, p in zip(pads[1::2], padding))
    if beyond and (count_include_pad and any(padding)) and divisor_override is None:
        raise NotImplementedError("ceil_mode with count_include_pad and padding, where the last window goes beyond the "
                                  "padding: give count_include_pad=False")
    whole = (count_include_pad and not beyond) or divisor_override is not None
    y: torch.Tensor = _pools.avg_pool(x, taps, stride, pads, whole)
    if divisor_override is not None:
        y = y * (float(torch.Size(taps).numel()) / divisor_override)
    return y.squeeze(0) if single else y


def avg_pool1d(input: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True) -> torch.Tensor:
    """torch.nn.functional.avg_pool1d."""
    return _avg(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(input: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor_override: int | None = None) -> torch.Tensor:
    """torch.nn.functional.avg_pool2d."""
    return _avg(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(input: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor_override: int | None = None) -> torch.Tensor:
    """torch.nn.functional.avg_pool3d."""
    return _avg(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def filter2d(x: torch.Tensor, kernel: torch.Tensor, boundary: str = "reflect101") -> torch.Tensor:
    """Correlates each channel of (..., H, W) with one kernel (R, S), anchored at its centre; the size stays.

    boundary: "constant" (zeros), "edge", "symmetric", "reflect101" or "wrap". Gradients go to x and the kernel.

    >>> import torch
    >>> from faltung.torch import filter2d
    >>> filter2d(torch.ones(2, 3, 4), torch.ones(3, 3) / 9).shape
    torch.Size([2, 3, 4])
    """
    planes = x.reshape(-1, 1, *x.shape[-2:])
    pads = [(k // 2, k - 1 - k // 2) for k in kernel.shape]
    y = conv2d(planes, kernel[None, None].to(x.dtype), padding=pads, padding_mode=boundary)
    return y.reshape(x.shape)


from . import nn  # noqa: E402  (its modules call the functions above)
from ._optimize import optimize  # noqa: E402
