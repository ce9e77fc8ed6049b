"""Taps of Gaussians made of boxes, by the library's falt_kernel_gaussian_fast."""
from __future__ import annotations

import ctypes
import functools

import numpy as np

from .._errors import check
from .._library import F64, lib


class _KernelStruct(ctypes.Structure):
    """falt_kernel."""

    _fields_ = [("size", ctypes.c_int64 * 3), ("factors", ctypes.c_int), ("count", ctypes.c_int64),
                ("values", ctypes.POINTER(ctypes.c_double)), ("reserved", ctypes.c_uint64 * 4)]


_POINTER = ctypes.POINTER(_KernelStruct)
lib.falt_kernel_gaussian_fast.argtypes = [_POINTER, ctypes.c_int, ctypes.c_double * 3]
lib.falt_kernel_gaussian_fast.restype = ctypes.c_int
lib.falt_kernel_pack.argtypes = [_POINTER, ctypes.c_int, ctypes.c_void_p]
lib.falt_kernel_pack.restype = ctypes.c_int
lib.falt_kernel_free.argtypes = [_POINTER]
lib.falt_kernel_free.restype = None


@functools.lru_cache(maxsize=256)
def gaussian_of_boxes(sigma: float) -> np.ndarray:
    """The taps along one axis; their middle is at half of their number."""
    kernel = _KernelStruct()
    check(lib.falt_kernel_gaussian_fast(kernel, 1, (ctypes.c_double * 3)(sigma, sigma, sigma)))
    try:
        taps = np.empty(kernel.count)
        check(lib.falt_kernel_pack(kernel, F64, taps.ctypes.data))
        taps = taps[-kernel.size[2]:].copy()  # before them, one factor for each of the axes before
    finally:
        lib.falt_kernel_free(kernel)
    taps.flags.writeable = False
    return taps
