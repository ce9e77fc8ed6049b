"""Grey pictures in a row or a column, with captions, as one PNG file."""
import os
import sys

import numpy as np
from PIL import Image, ImageDraw

GAP, LINE = 8, 16
TREE = os.path.dirname(os.path.abspath(__file__)) + "/../../.."


def save(name: str, panels: dict[str, np.ndarray], columns: int) -> None:
    """Writes pictures of equal shape, values from 0 to 1, to NAME in the folder that the command line names."""
    folder = sys.argv[1] if len(sys.argv) > 1 else TREE + "/docs/guide/pictures"
    height, width = next(iter(panels.values())).shape
    rows = -(-len(panels) // columns)
    sheet = Image.new("L", (columns * (width + GAP) - GAP, rows * (height + LINE + GAP) - GAP), 170)
    draw = ImageDraw.Draw(sheet)
    for i, (caption, values) in enumerate(panels.items()):
        left, top = i % columns * (width + GAP), i // columns * (height + LINE + GAP)
        draw.text((left + 1, top + 1), caption, fill=0)
        sheet.paste(Image.fromarray((np.clip(values, 0, 1) * 255).astype("uint8")), (left, top + LINE))
    sheet.save(os.path.join(folder, name), optimize=True)
