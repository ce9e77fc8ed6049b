"""Compares the pictures in a folder with those of the guide: they differ by rounding at most."""
import glob
import os
import sys

import numpy as np
from panels import TREE
from PIL import Image

GUIDE = TREE + "/docs/guide/pictures"
names = [os.path.basename(path) for path in sorted(glob.glob(GUIDE + "/*.png"))]
if not names:
    sys.exit("compare: docs/guide/pictures has no picture")
for name in names:
    made, kept = (np.asarray(Image.open(os.path.join(folder, name)), float) for folder in (sys.argv[1], GUIDE))
    if made.shape != kept.shape or np.abs(made - kept).mean() > 0.5:
        sys.exit(f"compare: {name} is not the picture that its script makes; run the script without an argument")
