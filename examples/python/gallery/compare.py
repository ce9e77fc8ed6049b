"""Compares the pictures in a folder with the guide's: they differ by rounding at most. Each of those has its script."""
import glob
import os
import sys

import numpy as np
from panels import TREE
from PIL import Image

GUIDE = TREE + "/docs/guide/pictures"
names = [os.path.basename(path) for path in sorted(glob.glob(sys.argv[1] + "/*.png"))]
if not names:
    sys.exit(f"compare: {sys.argv[1]} has no picture")
for path in glob.glob(GUIDE + "/*.png"):
    script = os.path.basename(path).removesuffix(".png") + ".py"
    if not os.path.exists(os.path.join(os.path.dirname(__file__), script)):
        sys.exit(f"compare: {path} has no script {script}")
for name in names:
    made, kept = (np.asarray(Image.open(os.path.join(folder, name)), float) for folder in (sys.argv[1], GUIDE))
    if made.shape != kept.shape or np.abs(made - kept).mean() > 0.5:
        sys.exit(f"compare: {name} is not the picture that its script makes; run the script without an argument")
