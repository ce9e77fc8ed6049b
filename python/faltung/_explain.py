"""Answers to "why", tuning and verification."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _arrays
from ._device import Device, cpu
from ._errors import error_of
from ._library import REPORT_CANDIDATE, REPORT_VERDICT, lib
from ._plan import Plan, interruptible, plan
from ._problem import Problem
from ._settings import budget, current


@dataclass(frozen=True)
class Candidate:
    """One way to compute a problem. Times are seconds, 0 unless measured; rejected is None or the reason."""

    solver: str
    plan: str
    rejected: str | None
    chosen: bool
    predicted_seconds: float
    seconds_median: float
    seconds_min: float
    flops: float
    bytes: float
    gbytes_per_s: float
    gflops: float
    limit_share: float
    bound: str
    workspace_bytes: int
    error: float
    out_of_scope: bool


@dataclass(frozen=True)
class Verdict:
    """One solver's result against the reference; message says why it is not ok."""

    solver: str
    max_abs_error: float
    max_rel_error: float
    tolerance: float
    ok: bool
    seed: int
    message: str


class Explanation(list[Any]):
    """The candidates of a problem, best first; `chosen` is the planner's choice, `str` a table."""

    def __init__(self, problem: Problem, candidates: list[Candidate]):
        super().__init__(candidates)
        self.problem = problem

    @property
    def chosen(self) -> Candidate | None:
        """The candidate that a plan would be."""
        return next((c for c in self if c.chosen), None)

    def __str__(self) -> str:
        lines = [str(self.problem)]
        for c in self:
            if c.out_of_scope:
                continue
            mark = "*" if c.chosen else " "
            if c.rejected:
                lines.append(f"{mark} {c.solver:22} rejected: {c.rejected}")
            else:
                measured = f", measured {c.seconds_median * 1e6:.1f} us" if c.seconds_median else ""
                lines.append(f"{mark} {c.solver:22} predicted {c.predicted_seconds * 1e6:.1f} us{measured}, "
                             f"{c.bound}-bound, workspace {c.workspace_bytes} B  {c.plan}")
        return "\n".join(lines)


def _ready(line: str | Problem, device: Device | None) -> tuple[Problem, Device]:
    problem = line if isinstance(line, Problem) else Problem(line)
    settings = current.get()
    return Problem(problem.struct, settings.under(problem.budget)), device or cpu(settings.threads, settings.isa)


def _values(problem: Problem, filter: Any) -> np.ndarray | None:
    if filter is None:
        return None
    library, array = _arrays.take(filter)
    return np.ascontiguousarray(library.host(array), _arrays.DTYPES[problem.struct.filter.type])


def _text(value: bytes | None) -> str:
    return value.decode() if value else ""


def explain(line: str | Problem, filter: Any = None, *, measure: float = 0.0, device: Device | None = None) -> Explanation:
    """Every solver's answer to a problem: its plan, time, bound, workspace and error, or why it was rejected.

    filter: the values, if they are known when planning. measure: seconds for timing each candidate.

    >>> import faltung
    >>> faltung.explain("correlate h=64 w=64 r=3 s=3").chosen.rejected is None
    True
    """
    problem, device = _ready(line, device)
    values = _values(problem, filter)
    found: list[Candidate] = []

    def report(_context: Any, item: Any) -> None:
        c = item.contents
        found.append(Candidate(
            _text(c.solver), _text(c.plan), _text(c.rejected) or None, c.chosen, c.predicted_seconds,
            c.seconds_median, c.seconds_min, c.flops, c.bytes, c.gbytes_per_s, c.gflops, c.limit_share,
            _text(c.bound), c.workspace_bytes, c.error, c.out_of_scope))

    address = None if values is None else values.ctypes.data
    interruptible(device, lambda _stop: lib.falt_explain(
        device.handle, problem.struct, problem.budget, address, measure, REPORT_CANDIDATE(report), None))
    return Explanation(problem, found)


def verify(line: str | Problem, *, seed: int = 1, device: Device | None = None) -> list[Verdict]:
    """Runs every solver that applies on random data and compares it with the reference."""
    problem, device = _ready(line, device)
    found: list[Verdict] = []

    def report(_context: Any, item: Any) -> None:
        v = item.contents
        message = "" if v.ok else _text(lib.falt_message())
        found.append(Verdict(_text(v.solver), v.max_abs_error, v.max_rel_error, v.tolerance, v.ok, v.seed, message))

    interruptible(device, lambda _stop: lib.falt_verify(
        device.handle, problem.struct, problem.budget, seed, REPORT_VERDICT(report), None))
    return found


def tune(line: str | Problem, filter: Any = None, *, seconds: float = 1.0, device: Device | None = None) -> Plan:
    """Measures the candidates for about so many seconds, remembers the fastest (wisdom), and returns its plan."""
    with budget(tune_seconds=seconds):
        return plan(line, filter, device=device)


def solvers() -> dict[str, str]:
    """Every solver's name and what it does."""
    found: dict[str, str] = {}
    while name := lib.falt_solver_name(len(found)):
        found[name.decode()] = lib.falt_solver_about(len(found)).decode()
    return found


class Wisdom:
    """What was measured on a device: which solver was the fastest for which problem."""

    @staticmethod
    def load(path: str | None = None, device: Device | None = None) -> None:
        """Reads a file; None: the one in FALTUNG_CACHE. Raises NoFile, InvalidText."""
        _checked(lib.falt_wisdom_load, path, device)

    @staticmethod
    def save(path: str | None = None, device: Device | None = None) -> None:
        """Writes a file; None: the one in FALTUNG_CACHE. Raises NoFile."""
        _checked(lib.falt_wisdom_save, path, device)

    @staticmethod
    def forget(device: Device | None = None) -> None:
        """Drops it from memory; files stay as they are."""
        lib.falt_wisdom_forget((device or cpu()).handle)


def _checked(function: Any, path: str | None, device: Device | None) -> None:
    status = function((device or cpu()).handle, None if path is None else path.encode())
    if status:
        raise error_of(status)
