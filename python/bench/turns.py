"""Processes that share a device: each asks for its turn, and the least (phase, place in the list) that waits is next."""
from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

import torch


class Turns:
    """A process's side: sends records, and waits for its turns."""

    def __init__(self, pipe: Connection, planner: Any):
        self.pipe, self.planner = pipe, planner

    def record(self, record: dict) -> None:
        """Hands a record over."""
        self.pipe.send(("record", record))

    @contextlib.contextmanager
    def __call__(self, phase: int, alone: bool = True) -> Iterator[None]:
        """A turn on the device; or, not alone, what starts when every network has come to this phase."""
        self.pipe.send(("ask", phase, alone))
        self.pipe.recv()
        yield
        self.pipe.send(("done",))


class Alone:
    """The same for a program of one process, whose records go to a function."""

    def __init__(self, take: Callable[[dict], Any]):
        self.record, self.planner = take, contextlib.nullcontext()

    def __call__(self, phase: int, alone: bool = True) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext()


def _enter(pipe: Connection, planner: Any, work: Callable, name: str, arguments: tuple) -> None:
    turns = Turns(pipe, planner)
    try:
        work(name, turns, *arguments)
    except BaseException as error:
        turns.record({"training": name, "error": f"{type(error).__name__}: {error}"[:400]})
        raise
    finally:
        pipe.send(("end",))


class _Worker:
    def __init__(self, spawn: Any, name: str, place: int, *arguments: Any):
        self.pipe, theirs = spawn.Pipe()
        self.name, self.place = name, place
        self.asks: tuple | None = None  # (phase, place, alone) of what it waits for
        self.holds: tuple | None = None
        self.phase, self.since = 0, 0.0
        self.process = spawn.Process(target=_enter, args=(theirs, *arguments), daemon=True)
        self.process.start()
        theirs.close()

    def end(self) -> None:
        self.process.terminate()
        self.pipe.close()


def _grant(workers: list[_Worker], late: bool) -> None:
    """Gives turns to those that wait, the first of them first. late: nobody waits for another's phase."""
    for worker in sorted((w for w in workers if w.asks), key=lambda w: w.asks):
        phase, _, alone = worker.asks
        if any(w.holds for w in workers) if alone else not late and any(w.phase < phase for w in workers):
            continue
        worker.holds, worker.asks, worker.since = worker.asks if alone else None, None, time.monotonic()
        worker.pipe.send("go")


def run(work: Callable, names: list[str], arguments: tuple, limit: float, turn_limit: float, planners: int,
        say: Callable[[str, str], None]) -> Iterator[dict]:
    """Records of work(name, turns, *arguments) of all names, each in a process, as they come. limit: seconds of all;
    turn_limit: of one turn, after which its process is ended. planners: how many plan at a time."""
    start = time.monotonic()
    end = start + limit
    spawn = torch.multiprocessing.get_context("spawn")
    planner = spawn.Semaphore(planners)
    workers = [_Worker(spawn, name, i, planner, work, name, arguments) for i, name in enumerate(names)]
    try:
        while workers and time.monotonic() < end:
            for pipe in wait([w.pipe for w in workers], timeout=min(1.0, max(0.0, end - time.monotonic()))):
                worker = next(w for w in workers if w.pipe is pipe)
                try:
                    kind, *rest = pipe.recv()
                except (EOFError, OSError):
                    kind, rest = "end", []
                    yield {"training": worker.name, "error": "its process has ended"}
                if kind == "record":
                    yield rest[0]
                elif kind == "ask":
                    worker.phase, worker.asks = rest[0], (rest[0], worker.place, rest[1])
                elif kind == "done":
                    worker.holds = None
                else:
                    workers.remove(worker)
            for worker in [w for w in workers if w.holds and time.monotonic() > w.since + turn_limit]:
                yield {"training": worker.name, "error": f"phase {worker.holds[0]} takes more than {turn_limit} s"}
                worker.end()
                workers.remove(worker)
            _grant(workers, time.monotonic() > start + limit / 2)
        if workers:
            say("all", f"--limit {limit}: {len(workers)} networks have not ended")
    finally:
        for worker in workers:
            worker.end()
