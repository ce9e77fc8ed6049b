"""The command `faltung`: the binary inside the package, which finds NVRTC where Python's packages have it."""
from __future__ import annotations

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Becomes the command."""
    binary = os.path.join(os.path.dirname(__file__), "bin", "faltung")
    if "FALTUNG_CUDA_PATH" not in os.environ:
        from ._library import add_cuda_directories

        add_cuda_directories()
    os.execv(binary, ["faltung", *sys.argv[1:]])
