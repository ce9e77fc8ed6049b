"""Work in several of Python's threads: for steps that are short, and whose memory is a cache."""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from ._device import cpu
from ._settings import current

_Task = TypeVar("_Task")
_Own = TypeVar("_Own")


def thread_count() -> int:
    """How many threads a call may use."""
    settings = current.get()
    return cpu(settings.threads, settings.isa).threads


def in_threads(count: int, work: Callable[[], None], end: Callable[[], None]) -> None:
    """work() in so many threads, the caller's among them, whose plans have one thread each. end() makes the others
    return, where one has failed or Ctrl-C was pressed."""
    failures: list[BaseException] = []
    settings = current.get()

    def call() -> None:
        token = current.set(settings._replace(threads=1))
        try:
            work()
        except BaseException as failure:
            end()
            failures.append(failure)
        finally:
            current.reset(token)

    others = [threading.Thread(target=call, daemon=True) for _ in range(count - 1)]
    for other in others:
        other.start()
    call()
    for other in others:
        try:
            other.join()
        except BaseException as failure:
            end()
            failures.append(failure)
            other.join()
    if failures:
        raise failures[0]


def each(tasks: Iterable[_Task], do: Callable[[_Task, _Own], None], own: Callable[[], _Own]) -> None:
    """Does every task once, in about this order, in the threads of the settings; own() makes what each thread keeps."""
    waiting = list(tasks)[::-1]

    def work() -> None:
        kept = own()
        while waiting:
            try:
                task = waiting.pop()
            except IndexError:
                return
            do(task, kept)

    in_threads(min(thread_count(), len(waiting)), work, waiting.clear)
