"""Edges of a photograph that cuts a galaxy, with three boundaries: zeros, the mirror, and the opposite side."""
import numpy as np
from faltung import ndimage
from panels import TREE, save
from PIL import Image

photograph = Image.open(TREE + "/examples/hubble.jpg").convert("L").crop((728, 450, 838, 560))
image = np.asarray(photograph, "f4") / 255
panels = {"photograph": image}
for mode in ("constant", "reflect", "wrap"):
    edges = ndimage.gaussian_gradient_magnitude(image, 2, mode=mode)
    print(f"{mode:9} mean of the leftmost column {edges[:, 0].mean():.4f}, of the rightmost column {edges[:, -1].mean():.4f}")
    panels[f"mode={mode!r}"] = edges * 10
save("edges.png", {name: values.repeat(2, 0).repeat(2, 1) for name, values in panels.items()}, columns=4)
