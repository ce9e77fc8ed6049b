"""Convolution in every form: filters and network layers, on CPUs and NVIDIA GPUs, by libfaltung.

    import faltung
    y = faltung.correlate(x, w, boundary="edge")            # arrays of numpy, torch, CuPy or JAX
    plan = faltung.plan("correlate h=480 w=640 r=3 s=3", w)  # planned once, called often
    print(faltung.explain("correlate h=480 w=640 r=3 s=3"))  # why

`faltung.ndimage`, `faltung.signal` and `faltung.torch` have the functions of scipy.ndimage, scipy.signal and torch
with their signatures. `faltung.patch()` puts them in the place of scipy's.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"


def _check_interpreter() -> None:
    """The library's threads and devices belong to the main interpreter."""
    for name in ("_interpreters", "_xxsubinterpreters"):  # since 3.13, before
        try:
            interpreters = importlib.import_module(name)
        except ImportError:
            continue
        if interpreters.get_current() != interpreters.get_main():
            raise ImportError("faltung: sub-interpreters cannot import it; use threads or processes")
        return


_check_interpreter()
_HOMES = {
    "_core": ("correlate", "convolve", "library_version"),
    "_device": ("Device", "cpu", "cuda", "devices"),
    "_errors": ("Cancelled", "FaltungError", "InternalError", "InvalidArgument", "InvalidMethod", "InvalidShape",
                "InvalidSize", "InvalidText", "InvalidType", "NoDevice", "NoFile", "NoMemory", "NoSolver", "OverBudget"),
    "_explain": ("Candidate", "Explanation", "Verdict", "Wisdom", "explain", "solvers", "tune", "verify"),
    "_patch": ("patch", "patched", "unpatch"),
    "_plan": ("Plan", "plan"),
    "_problem": ("Problem",),
    "_settings": ("budget", "threads"),
}
_MODULES = ("ndimage", "signal", "torch")
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted([*_HOME, *_MODULES])

if TYPE_CHECKING:
    from . import ndimage, signal, torch  # noqa: F401
    from ._core import convolve, correlate, library_version  # noqa: F401
    from ._device import Device, cpu, cuda, devices  # noqa: F401
    from ._errors import (  # noqa: F401
        Cancelled,
        FaltungError,
        InternalError,
        InvalidArgument,
        InvalidMethod,
        InvalidShape,
        InvalidSize,
        InvalidText,
        InvalidType,
        NoDevice,
        NoFile,
        NoMemory,
        NoSolver,
        OverBudget,
    )
    from ._explain import Candidate, Explanation, Verdict, Wisdom, explain, solvers, tune, verify  # noqa: F401
    from ._patch import patch, patched, unpatch  # noqa: F401
    from ._plan import Plan, plan  # noqa: F401
    from ._problem import Problem  # noqa: F401
    from ._settings import budget, threads  # noqa: F401


def __getattr__(name: str) -> Any:
    """Loads what is asked for: importing the package alone loads neither the library nor numpy."""
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module 'faltung' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
