"""Optimises a network for inference: oriented edges, smoothed and summed; batch norms and activations are folded."""
import math

import numpy as np
import torch
from faltung.torch import optimize
from panels import TREE, save
from PIL import Image

ORIENTATIONS = 8
photograph = Image.open(TREE + "/examples/hubble.jpg").convert("L").crop((600, 380, 820, 600))
image = torch.from_numpy(np.asarray(photograph, "f4") / 255)[None, None]

axis = torch.arange(-4.0, 5.0)
y, x = torch.meshgrid(axis, axis, indexing="ij")
bell = torch.exp(-(x * x + y * y) / 5)
angles = [math.pi * i / ORIENTATIONS for i in range(ORIENTATIONS)]
edges = torch.nn.Conv2d(1, ORIENTATIONS, 9, padding=4, padding_mode="reflect", bias=False)
edges.weight.data = torch.stack([(x * math.cos(a) + y * math.sin(a)) * bell for a in angles])[:, None] / 10
smooth = torch.nn.Conv2d(ORIENTATIONS, ORIENTATIONS, 5, padding=2, groups=ORIENTATIONS, bias=False)
smooth.weight.data.fill_(1 / 25)
total = torch.nn.Conv2d(ORIENTATIONS, 1, 1, bias=False)
total.weight.data.fill_(0.5)
model = torch.nn.Sequential(edges, torch.nn.BatchNorm2d(ORIENTATIONS), torch.nn.ReLU(), smooth,
                            torch.nn.BatchNorm2d(ORIENTATIONS), torch.nn.ReLU(), total).eval()

fast = optimize(model, image)
with torch.no_grad():
    before, after = model(image)[0, 0], fast(image)[0, 0]
print(f"{len(list(model.children()))} modules became {len(list(fast.children()))}; "
      f"results differ by {float((after - before).abs().max()):.1g} at most")
save("optimize.png", {"photograph": image[0, 0].numpy(), "model": before.numpy(), "optimised": after.numpy()}, columns=3)
