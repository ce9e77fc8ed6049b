"""Devices. One of each kind and number of threads is made when first needed, and kept."""
from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from ._errors import check
from ._library import CpuOptions, CudaOptions, add_cuda_directories, lib


class Device:
    """Where plans run: a CPU with a number of threads, or a GPU.

    kind is "cpu" or "cuda", ordinal the GPU's number, name one line such as "cpu avx512 threads=2".
    """

    __slots__ = ("handle", "kind", "ordinal", "name", "threads", "_process", "__weakref__")

    def __init__(self, handle: ctypes.c_void_p, kind: str, ordinal: int):
        self.handle = handle
        self.kind = kind
        self.ordinal = ordinal
        self.name: str = lib.falt_device_name(handle).decode()
        self.threads: int = lib.falt_device_threads(handle)
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"<faltung.Device {self.name}>"

    def synchronize(self) -> None:
        """Waits for everything that was started on the device."""
        check(lib.falt_device_synchronize(self.handle))

    def __del__(self, _ends: Any = sys.is_finalizing) -> None:
        if self.handle and not _ends() and self._process == os.getpid():
            lib.falt_device_destroy(self.handle)


_devices: dict[tuple[Any, ...], Device] = {}
_lock = threading.Lock()


def _after_fork() -> None:
    """A child has none of its parent's threads: it makes devices of its own."""
    global _lock
    _lock = threading.Lock()
    _devices.clear()


os.register_at_fork(after_in_child=_after_fork)


def _kept(key: tuple[Any, ...], make: Callable[[], Device]) -> Device:
    device = _devices.get(key)
    if device is None:
        with _lock:
            device = _devices.get(key)
            if device is None:
                device = _devices[key] = make()
    return device


def cpu(threads: int = 0, isa: str = "") -> Device:
    """The CPU with so many threads (0: one for each core that the process may use) and at most this instruction set."""

    def make() -> Device:
        options, handle = CpuOptions(), ctypes.c_void_p()
        lib.falt_cpu_options_default(options)
        options.threads, options.isa = threads, isa.encode()
        check(lib.falt_device_cpu(handle, options))
        return Device(handle, "cpu", 0)

    return _kept(("cpu", threads, isa), make)


def cuda(ordinal: int = 0, *, described: str = "") -> Device:
    """A GPU by its number, or one that is only described ("h200", "sm_90a"): for explaining, not for executing.

    Raises NoDevice where the GPU, its driver or NVRTC is missing.
    """

    def make() -> Device:
        add_cuda_directories()
        options, handle = CudaOptions(), ctypes.c_void_p()
        lib.falt_cuda_options_default(options)
        options.ordinal, options.described = ordinal, described.encode()
        check(lib.falt_device_cuda(handle, options))
        return Device(handle, "cuda", ordinal)

    return _kept(("cuda", ordinal, described), make)


def devices() -> list[Device]:
    """The CPU and every GPU of this machine."""
    count = ctypes.c_int()
    if lib.falt_cuda_count(count):
        count.value = 0
    return [cpu()] + [cuda(i) for i in range(count.value)]
