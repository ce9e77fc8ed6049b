"""Threads, device and budget of the calls in a `with` block; each thread and each asyncio task has its own."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

from ._library import BudgetStruct, lib


class Settings(NamedTuple):
    """What plans made now obey."""

    threads: int = 0
    isa: str = ""
    max_workspace: int = -1
    tune_seconds: float = 0.0
    max_error: float = 0.0
    deterministic: bool = False
    allow_tf32: bool = False
    method: str = ""
    no_transforms: bool = False

    def fill(self, budget: BudgetStruct) -> BudgetStruct:
        """Sets the budget's fields."""
        budget.max_workspace = self.max_workspace
        budget.tune_seconds = self.tune_seconds
        budget.max_error = self.max_error
        budget.deterministic = self.deterministic
        budget.allow_tf32 = self.allow_tf32
        budget.method = self.method.encode()
        budget.no_transforms = self.no_transforms
        return budget

    def under(self, budget: BudgetStruct) -> BudgetStruct:
        """A budget of these settings where `budget`, a line's, has the defaults."""
        own = DEFAULT.budget()
        changed = {name: getattr(budget, name) for name, *_ in BudgetStruct._fields_[:-1]
                   if getattr(budget, name) != getattr(own, name)}
        merged = self.budget()
        for name, value in changed.items():
            setattr(merged, name, value)
        return merged

    def budget(self) -> BudgetStruct:
        """A falt_budget of these settings."""
        budget = BudgetStruct()
        lib.falt_budget_default(budget)
        return self.fill(budget)


DEFAULT = Settings()
current: ContextVar[Settings] = ContextVar("faltung_settings", default=DEFAULT)


@contextlib.contextmanager
def _changed(**values: Any) -> Iterator[Settings]:
    settings = current.get()._replace(**values)
    token = current.set(settings)
    try:
        yield settings
    finally:
        current.reset(token)


def threads(count: int, isa: str = "") -> contextlib.AbstractContextManager[Settings]:
    """Plans made in the block use at most `count` CPU threads; 0: one for each core that the process may use.

    `isa` caps the instruction set: "portable", "avx2", "avx512", "vnni", "bf16", "amx", "neon".

    >>> import faltung
    >>> with faltung.threads(1):
    ...     faltung.plan("correlate h=8 w=8 r=3 s=3").device.threads
    1
    """
    if count < 0:
        raise ValueError(f"count: {count} is negative; use 0 for every core")
    return _changed(threads=int(count), isa=isa)


def budget(*, max_workspace: int | None = None, tune_seconds: float = 0.0, max_error: float = 0.0,
           deterministic: bool = False, allow_tf32: bool = False, method: str = "",
           no_transforms: bool = False) -> contextlib.AbstractContextManager[Settings]:
    """Plans made in the block obey these limits, or raise OverBudget.

    max_workspace: bytes, None for no limit. tune_seconds: time for measuring candidates; 0 chooses by estimate.
    max_error: largest relative error to trade for speed. deterministic: the same bits in every run and for every
    number of threads. allow_tf32: tf32 products for f32 on GPUs. method: a solver's name. no_transforms: no FFT and no
    Winograd, so that sums of zeros are exactly 0, as they always are in `faltung.ndimage`.

    >>> import faltung
    >>> with faltung.budget(method="generic"):
    ...     faltung.plan("correlate h=8 w=8 r=3 s=3").solver
    'generic'
    """
    return _changed(max_workspace=-1 if max_workspace is None else int(max_workspace),
                    tune_seconds=float(tune_seconds), max_error=float(max_error), deterministic=bool(deterministic),
                    allow_tf32=bool(allow_tf32), method=method, no_transforms=bool(no_transforms))
