"""python -m faltung [-q] script.py [arguments], or -m module: runs a program with faltung in scipy's place."""
from __future__ import annotations

import runpy
import sys

USAGE = "usage: python -m faltung [-q] (script.py | -m module) [arguments]"


def main(arguments: list[str]) -> None:
    """Patches, then runs the program as Python would."""
    quiet = arguments[:1] == ["-q"]
    arguments = arguments[1:] if quiet else arguments
    is_module = arguments[:1] == ["-m"]
    program = arguments[1:] if is_module else arguments
    if not program or program[0].startswith("-"):
        sys.exit(USAGE)
    from ._patch import patch

    patch(verbose=not quiet)
    sys.argv = program
    if is_module:
        sys.path[0] = ""
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    else:
        import os

        sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
        runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
