"""Five networks in plain torch, as their papers describe them, without dropout and stochastic depth: their losses can be
compared step by step. `NETWORKS` has a maker, the input of a step and a tiny input for each."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


class ConvNeXtBlock(nn.Module):
    """A depthwise 7x7 layer, then two linear layers of each pixel."""

    def __init__(self, width: int):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.narrow(F.gelu(self.widen(y))) * self.scale
        return x + y.permute(0, 3, 1, 2)


class PixelNorm(nn.LayerNorm):
    """Layer normalisation over the channels of each pixel."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    """Liu et al., A ConvNet for the 2020s, 2022; the tiny one."""

    def __init__(self, depths: Sequence[int] = (3, 3, 9, 3), widths: Sequence[int] = (96, 192, 384, 768), classes: int = 1000):
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4), PixelNorm(widths[0], eps=1e-6)]
        for i, (depth, width) in enumerate(zip(depths, widths)):
            if i:
                layers += [PixelNorm(widths[i - 1], eps=1e-6), nn.Conv2d(widths[i - 1], width, 2, 2)]
            layers += [ConvNeXtBlock(width) for _ in range(depth)]
        self.layers = nn.Sequential(*layers)
        self.norm, self.head = nn.LayerNorm(widths[-1], eps=1e-6), nn.Linear(widths[-1], classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.layers(x).mean((2, 3))))


def normed(space: int, inputs: int, outputs: int, size: object, stride: object = 1, groups: int = 1,
           act: type[nn.Module] | None = nn.ReLU) -> list[nn.Module]:
    """A convolution that keeps the size (but for the stride), batch normalisation and an activation."""
    size = (size,) * space if isinstance(size, int) else size
    conv = getattr(nn, f"Conv{space}d")(inputs, outputs, size, stride, tuple(k // 2 for k in size), groups=groups, bias=False)
    return [conv, getattr(nn, f"BatchNorm{space}d")(outputs), *([act(inplace=True)] if act else [])]


class MBConv(nn.Module):
    """An inverted bottleneck with squeeze and excitation."""

    def __init__(self, inputs: int, outputs: int, widen: int, size: int, stride: int):
        super().__init__()
        width = inputs * widen
        first = normed(2, inputs, width, 1, act=nn.SiLU) if widen > 1 else []
        self.spatial = nn.Sequential(*first, *normed(2, width, width, size, stride, width, nn.SiLU))
        self.squeeze, self.excite = nn.Conv2d(width, inputs // 4, 1), nn.Conv2d(inputs // 4, width, 1)
        self.project = nn.Sequential(*normed(2, width, outputs, 1, act=None))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.spatial(x)
        y = y * torch.sigmoid(self.excite(F.silu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        y = self.project(y)
        return x + y if self.adds else y


class EfficientNet(nn.Module):
    """Tan and Le, EfficientNet, 2019; B0."""

    STAGES = ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
              (6, 3, 1, 320, 1))  # widening, kernel, stride, outputs, blocks

    def __init__(self, classes: int = 1000):
        super().__init__()
        layers, width = normed(2, 3, 32, 3, 2, act=nn.SiLU), 32
        for widen, size, stride, outputs, count in self.STAGES:
            for i in range(count):
                layers.append(MBConv(width, outputs, widen, size, 1 if i else stride))
                width = outputs
        self.layers = nn.Sequential(*layers, *normed(2, width, 1280, 1, act=nn.SiLU))
        self.head = nn.Linear(1280, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x).mean((2, 3)))


def factored(inputs: int, width: int, outputs: int, stride: int = 1) -> list[nn.Module]:
    """A 3x3x3 layer as one in space and one in time."""
    return [*normed(3, inputs, width, (1, 3, 3), (1, stride, stride)), *normed(3, width, outputs, (3, 1, 1), (stride, 1, 1))]


class VideoBlock(nn.Module):
    """Two factored layers beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        width = inputs * outputs * 27 // (inputs * 9 + 3 * outputs)
        self.layers = nn.Sequential(*factored(inputs, width, outputs, stride), *factored(outputs, width, outputs)[:-1])
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Sequential(*normed(3, inputs, outputs, 1, stride, act=None))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.layers(x) + self.shortcut(x))


class R2Plus1D(nn.Module):
    """Tran et al., A Closer Look at Spatiotemporal Convolutions, 2018; 18 layers."""

    def __init__(self, classes: int = 400):
        super().__init__()
        layers = [*normed(3, 3, 45, (1, 7, 7), (1, 2, 2)), *normed(3, 45, 64, (3, 1, 1))]
        for inputs, outputs in ((64, 64), (64, 128), (128, 256), (256, 512)):
            layers += [VideoBlock(inputs, outputs, 1 if inputs == outputs else 2), VideoBlock(outputs, outputs, 1)]
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(512, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x).mean((2, 3, 4)))


class UNet3d(nn.Module):
    """Cicek et al., 3D U-Net, 2016; a class for each voxel."""

    def __init__(self, width: int = 32, depth: int = 3, classes: int = 3):
        super().__init__()
        self.down, self.up, self.merge = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        inputs = 1
        for i in range(depth + 1):
            width_here = width << i
            self.down.append(nn.Sequential(*normed(3, inputs, width_here, 3), *normed(3, width_here, 2 * width_here, 3)))
            inputs = 2 * width_here
        for i in reversed(range(depth)):
            skip = 2 * width << i
            self.up.append(nn.ConvTranspose3d(inputs, inputs, 2, 2))
            self.merge.append(nn.Sequential(*normed(3, inputs + skip, skip, 3), *normed(3, skip, skip, 3)))
            inputs = skip
        self.head = nn.Conv3d(inputs, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for i, layers in enumerate(self.down):
            x = layers(x if not i else F.max_pool3d(x, 2))
            kept.append(x)
        for up, merge, skip in zip(self.up, self.merge, kept[-2::-1]):
            x = merge(torch.cat([skip, up(x)], 1))
        return self.head(x)


class Wav2Vec2Features(nn.Module):
    """Baevski et al., wav2vec 2.0, 2020: its feature encoder, with a class for each recording."""

    def __init__(self, width: int = 512, classes: int = 32):
        super().__init__()
        layers: list[nn.Module] = []
        for i, (size, stride) in enumerate(((10, 5), *((3, 2),) * 4, *((2, 2),) * 2)):
            layers.append(nn.Conv1d(width if i else 1, width, size, stride, bias=False))
            layers += [] if i else [nn.GroupNorm(width, width)]
            layers.append(nn.GELU())
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x).mean(2))


class Network(NamedTuple):
    """make(): the network; shape: a step's input; small: the same of a tiny network; classes; rate: SGD's."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    make_small: Callable[[], nn.Module]
    small: tuple[int, ...]
    classes: int
    rate: float


NETWORKS = {  # the cheapest first
    "wav2vec2-features": Network(Wav2Vec2Features, (8, 1, 160000), lambda: Wav2Vec2Features(16), (2, 1, 4000), 32, 0.05),
    "r2plus1d-18": Network(R2Plus1D, (16, 3, 16, 112, 112), R2Plus1D, (4, 3, 2, 32, 32), 400, 0.01),
    "unet3d": Network(UNet3d, (2, 1, 64, 128, 128), lambda: UNet3d(4, 2), (2, 1, 8, 16, 16), 3, 0.05),
    "convnext-t": Network(ConvNeXt, (128, 3, 224, 224), lambda: ConvNeXt((1, 1), (16, 32)), (2, 3, 32, 32), 1000, 0.05),
    "efficientnet-b0": Network(EfficientNet, (256, 3, 224, 224), EfficientNet, (2, 3, 64, 64), 1000, 0.05),
}
