"""Exceptions, one for each status of the C library; the message is the library's."""
from __future__ import annotations

from ._library import lib


class FaltungError(Exception):
    """Any failure of the library. `status` is the C status's name, such as "FALT_INVALID_SIZE"."""

    status = ""


class InvalidArgument(FaltungError, ValueError):
    """A value outside its range, or arguments that do not agree."""


class InvalidType(FaltungError, TypeError):
    """Types that have no meaning together."""


class InvalidSize(InvalidArgument):
    """A size that is zero, negative or too large."""


class InvalidShape(InvalidArgument):
    """Sizes that do not agree with each other."""


class InvalidText(InvalidArgument):
    """A problem line that does not parse."""


class InvalidMethod(InvalidArgument):
    """No solver has this name."""


class OverBudget(FaltungError, RuntimeError):
    """Solvers apply, but none within the budget."""


class NoSolver(FaltungError, RuntimeError):
    """The named solver does not apply to the problem."""


class Cancelled(FaltungError, RuntimeError):
    """The call was interrupted."""


class NoMemory(FaltungError, MemoryError):
    """Memory ran out."""


class NoDevice(FaltungError, RuntimeError):
    """The device is absent or was lost, or a library that it needs is."""


class NoFile(FaltungError, OSError):
    """A cache or wisdom file cannot be read or written."""


class InternalError(FaltungError, RuntimeError):
    """A bug in the library: please report the problem line."""


_CLASSES = {1: InvalidArgument, 2: InvalidType, 3: InvalidSize, 4: InvalidShape, 5: InvalidText, 6: InvalidMethod,
            100: OverBudget, 101: NoSolver, 150: Cancelled, 200: NoMemory, 201: NoDevice, 202: NoFile,
            300: InternalError}


def error_of(status: int) -> FaltungError:
    """The exception for a status that this thread's last call returned."""
    error = _CLASSES.get(status, FaltungError)(lib.falt_message().decode())
    error.status = lib.falt_status_name(status).decode()
    return error


def check(status: int) -> None:
    """Raises the exception of any status but 0."""
    if status:
        raise error_of(status)
