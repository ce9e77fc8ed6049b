"""faltung.patch, its way back, and python -m faltung."""
import subprocess
import sys

import numpy as np
import scipy.ndimage
from scipy.ndimage import sobel

import faltung
import faltung.ndimage

PROGRAM = """
import sys
from scipy import ndimage
from scipy.ndimage import gaussian_filter
print(ndimage.sobel.__module__, gaussian_filter.__module__, __name__, sys.argv[1:], ndimage.median_filter.__module__[:5])
"""


def test_patch_and_back():
    theirs = scipy.ndimage.sobel
    with faltung.patched() as names:
        assert scipy.ndimage.sobel is faltung.ndimage.sobel and "scipy.ndimage.sobel" in names
        assert sobel is faltung.ndimage.sobel  # what this module imported
        assert np.array_equal(sobel([1, 5, 2]), theirs([1, 5, 2]))
    assert scipy.ndimage.sobel is theirs and sobel is theirs


def test_program_that_is_not_changed(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    want = "faltung.ndimage faltung.ndimage __main__ ['a', '-b'] scipy\n"
    run = [sys.executable, "-m", "faltung"]
    for command in ([*run, str(path), "a", "-b"], [*run, "-m", "program", "a", "-b"]):
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.stdout == want, done.stderr
        assert "faltung: in the place of" in done.stderr and "scipy.ndimage.sobel" in done.stderr
    assert subprocess.run([*run, "-q", str(path)], capture_output=True, text=True).stderr == ""
    assert subprocess.run(run, capture_output=True, text=True).returncode == 1


def test_objects_that_cannot_be_hashed(monkeypatch):
    """Modules may hold objects whose hash raises anything; they stay as they are."""

    class Strange:
        def __hash__(self):
            raise NameError("no hash")

    monkeypatch.setattr(sys.modules[__name__], "strange", Strange(), raising=False)
    with faltung.patched():
        assert scipy.ndimage.sobel is faltung.ndimage.sobel
