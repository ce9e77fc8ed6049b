"""Repeats earlier calls: keeps the plans that a call executed one after the other, and executes them in the next call."""
from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from ._arrays import Cupy, address_of, known_code, library_of
from ._plan import Cache, Plan
from ._settings import current

KEY_BYTES = 4096  # larger filters are looked up by the function itself
_Function = TypeVar("_Function", bound=Callable[..., Any])
_VALUES = (bool, int, float, complex, type)
_calls = Cache()
_local = threading.local()


class Execution(NamedTuple):
    """A plan's execution: its arrays, and how far before their first elements the plan's data begin. No plan: several."""

    plan: Plan | None
    source: Any
    target: Any
    before_source: int
    before_target: int


SEVERAL = Execution(None, None, None, 0, 0)  # what no later call can repeat


class _Step(NamedTuple):
    """One execution of a kept call. It reads the call's array or the result of the previous step."""

    plan: Plan
    before_source: int
    before_target: int
    shape: tuple[int, ...]
    dtype: np.dtype


def note(execution: Execution) -> None:
    """Tells the call under way in this thread, if one is watched, that a plan was executed."""
    seen = getattr(_local, "seen", None)
    if seen is not None:
        seen.append(execution)


def _part(value: Any) -> Any:
    """A hashable that equal arguments have, and no others. Raises TypeError where there is none."""
    kind = type(value)
    if kind is np.ndarray:
        if value.nbytes > KEY_BYTES or value.dtype.kind not in "biufc":
            raise TypeError
        return value.dtype, value.shape, value.tobytes()
    if kind is list or kind is tuple:
        return kind, tuple([_part(v) for v in value])
    if kind is str or value is None:
        return value
    if kind in _VALUES or issubclass(kind, (np.generic, np.dtype)):
        return kind, value
    raise TypeError  # arrays of other libraries hash by their identity, and change


def quick(function: _Function) -> _Function:
    """Makes the function keep what its calls turned out to be, by their arguments: the first one is an array of
    numpy or CuPy, of which type, shape, strides and device count, and every other one counts by its value."""

    @functools.wraps(function)
    def call(x: Any, *arguments: Any, **named: Any) -> Any:
        place = None
        if type(x) is not np.ndarray:
            if library_of(x) is not Cupy:
                return function(x, *arguments, **named)
            place = x.device.id
        try:
            key = (function, place, x.dtype, x.shape, x.strides, current.get(), *map(_part, arguments),
                   *[(name, _part(value)) for name, value in named.items()])
            known = _calls.get(key, _none)
        except TypeError:
            return function(x, *arguments, **named)
        if known is None:
            return _watched(key, function, x, arguments, named)
        for step in known:
            x = _on_cpu(step, x) if place is None else _on_gpu(step, x)
        return x

    return cast(_Function, call)


def _on_cpu(step: _Step, x: np.ndarray) -> np.ndarray:
    y = np.empty(step.shape, step.dtype)
    step.plan.run(address_of(x) + step.before_source, None, address_of(y) + step.before_target)
    note(Execution(step.plan, x, y, step.before_source, step.before_target))
    return y


def _on_gpu(step: _Step, x: Any) -> Any:
    """The step on an array of CuPy, on its device's current stream."""
    y = Cupy.empty(step.shape, known_code(step.dtype), x)
    stream, workspace, held = step.plan._place(Cupy, y)
    step.plan.run(Cupy.view(x).pointer + step.before_source, None, Cupy.view(y).pointer + step.before_target,
                  stream=stream, workspace=workspace)
    note(Execution(step.plan, x, y, step.before_source, step.before_target))
    del held
    return y


def _none() -> None:
    return None


def _watched(key: tuple[Any, ...], function: Callable[..., Any], x: np.ndarray, arguments: tuple[Any, ...],
             named: dict[str, Any]) -> Any:
    """Calls the function, and keeps its executions if they lead from x to the result one after the other."""
    outer, _local.seen = getattr(_local, "seen", None), []
    try:
        y = function(x, *arguments, **named)
        seen = _local.seen
    finally:
        _local.seen = outer
    given = any(y is value for value in (*arguments, *named.values()))
    steps = [] if given else _steps(x, seen)
    if steps and seen[-1].target is y:
        _calls.put(key, tuple(steps))
    if outer is not None:
        outer.extend(seen)
    return y


def _steps(x: Any, seen: list[Execution]) -> list[_Step]:
    """The executions as steps. Empty unless each reads the result of the previous one and writes a new array."""
    steps = []
    for plan, source, target, before_source, before_target in seen:
        fresh = type(target) is type(x) and target.flags.owndata and target.flags.c_contiguous
        if plan is None or source is not x or not fresh:
            return []
        steps.append(_Step(plan, before_source, before_target, target.shape, target.dtype))
        x = target
    return steps
