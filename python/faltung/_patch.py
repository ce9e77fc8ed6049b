"""Puts faltung's functions in the place of scipy's, for programs that are not changed, and takes them back."""
from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from typing import Any

_MODULES = ("ndimage", "signal")
_replaced: list[tuple[Any, str, Any]] = []  # module, name, original


def pairs() -> dict[Any, Any]:
    """scipy's functions and ours."""
    found: dict[Any, Any] = {}
    for name in _MODULES:
        ours, theirs = importlib.import_module(f"faltung.{name}"), importlib.import_module(f"scipy.{name}")
        found |= {getattr(theirs, f): getattr(ours, f) for f in ours.__all__ if hasattr(theirs, f)}
    return found


def _homes() -> Iterator[Any]:
    """Modules where the functions may be: scipy.ndimage, scipy.signal and those of the program, not scipy's inside."""
    for name, module in list(sys.modules.items()):
        top = name.split(".")[0]
        if name in ("scipy.ndimage", "scipy.signal") or top not in ("scipy", "faltung"):
            yield module


def patch(*, verbose: bool = False) -> list[str]:
    """Replaces the functions of scipy.ndimage and scipy.signal that faltung has, in these modules and in every loaded
    module that imported them. Returns their names, such as "scipy.ndimage.correlate"; verbose prints a note on
    standard error. `unpatch` is the way back.

    >>> import faltung, scipy.ndimage
    >>> "scipy.ndimage.sobel" in faltung.patch()
    True
    >>> scipy.ndimage.sobel is faltung.ndimage.sobel
    True
    >>> faltung.unpatch()
    """
    table = {id(theirs): ours for theirs, ours in pairs().items()}  # some programs' objects fail when hashed
    for module in _homes():
        for name, value in list(getattr(module, "__dict__", {}).items()):
            ours = table.get(id(value))
            if ours is not None:
                setattr(module, name, ours)
                _replaced.append((module, name, value))
    names = sorted(f"{m.__name__}.{n}" for m, n, _ in _replaced if m.__name__ in ("scipy.ndimage", "scipy.signal"))
    if verbose:
        others = len(_replaced) - len(names)
        more = f" and {others} imported names" if others else ""
        print(f"faltung: in the place of {', '.join(names)}{more}", file=sys.stderr)
    return names


def unpatch() -> None:
    """Puts scipy's functions back wherever `patch` replaced them."""
    while _replaced:
        module, name, value = _replaced.pop()
        setattr(module, name, value)


@contextlib.contextmanager
def patched(*, verbose: bool = False) -> Iterator[list[str]]:
    """`patch` for a with block."""
    try:
        yield patch(verbose=verbose)
    finally:
        unpatch()
