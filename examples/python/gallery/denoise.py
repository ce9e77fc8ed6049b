"""Denoises a volume: ellipsoids with noise, smoothed by a Gaussian in three dimensions and in two."""
import numpy as np
from faltung import ndimage
from panels import save

random = np.random.default_rng(5)
z, y, x = np.meshgrid(*[np.linspace(-1, 1, 192, dtype="f4")] * 3, indexing="ij")
truth = np.zeros(x.shape, "f4")
for place, size, value in (((0, 0, 0), (0.9, 0.7, 0.85), 0.35), ((0, 0.1, -0.3), (0.5, 0.35, 0.25), 0.3),
                           ((0, -0.2, 0.4), (0.4, 0.2, 0.3), -0.2), ((0, 0.4, 0.35), (0.3, 0.12, 0.12), 0.45)):
    truth[sum(((a - c) / s) ** 2 for a, c, s in zip((z, y, x), place, size)) < 1] += value
noisy = truth + random.normal(0, 0.25, truth.shape).astype("f4")

volume = ndimage.gaussian_filter(noisy, 1.2)
slices = ndimage.gaussian_filter(noisy, 1.2, axes=(1, 2))
panels = {}
for name, result in (("noisy", noisy), ("smoothed in 2 dimensions", slices), ("smoothed in 3 dimensions", volume)):
    error = np.sqrt(np.mean((result - truth) ** 2))
    print(f"{name:25} root mean square error {error:.3f}")
    panels[f"{name}, error {error:.3f}"] = result[96]
save("denoise.png", panels, columns=3)
