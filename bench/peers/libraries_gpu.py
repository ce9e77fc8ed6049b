"""The peer libraries on a GPU, and their common parts: NVIDIA's driver, shared arrays, one clock."""
import ctypes
import time
import warnings

import numpy as np

from npp import Npp

LONGEST_HEAD_START = 0.05
MOST_SAMPLES, FEWEST_SAMPLES, MOST_CALLS = 128, 3, 256


class Driver:
    """One GPU through libcuda, in the primary context, which is also that of PyTorch, CuPy and NPP."""

    def __init__(self, ordinal):
        self.cuda, self.ordinal = ctypes.CDLL("libcuda.so.1"), ordinal
        self.usleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)
        self.device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(self.device), ordinal)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.call("cuCtxSetCurrent", context)
        self.event = ctypes.c_void_p(), ctypes.c_void_p()
        for event in self.event:
            self.call("cuEventCreate", ctypes.byref(event), 0)

    def call(self, name, *arguments):
        error = getattr(self.cuda, name)(*arguments)
        if error:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorString(error, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'unknown error').decode()}")

    def attribute(self, number):
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, self.device)
        return value.value

    def version(self):
        value = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(value))
        return f"CUDA {value.value // 1000}.{value.value % 1000 // 10}"

    def copy(self, target, source, nbytes):
        self.call("cuMemcpyDtoDAsync_v2", target, source, ctypes.c_size_t(nbytes), None)

    def sample(self, run, count, head_start):
        """Seconds of one of so many calls in a row, and what starting them all took the host.

        The stream sleeps first, while the host starts the calls: its time, and Python's, is not in the GPU's."""
        self.call("cuLaunchHostFunc", None, self.usleep, ctypes.c_void_p(int(1e6 * head_start)))
        self.call("cuEventRecord", self.event[0], None)
        before = time.perf_counter()
        for _ in range(count):
            result = run()
        starting = time.perf_counter() - before
        self.call("cuEventRecord", self.event[1], None)
        self.call("cuEventSynchronize", self.event[1])
        milliseconds = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(milliseconds), self.event[0], self.event[1])
        return 1e-3 * milliseconds.value / count, starting, result

    def time(self, run, seconds):
        """Faltung's rule: batches of calls that last a hundredth of the time, as many as fit into it."""
        for _ in range(2):  # compiles, chooses, and warms up
            run()
            self.call("cuCtxSynchronize")
        count, (one, starting, result) = 1, self.sample(run, 1, 0.002)
        if one >= seconds:
            return [one], result
        while count < MOST_CALLS and one * count < seconds / MOST_SAMPLES:
            count *= 2
            one, starting, result = self.sample(run, count, min(3 * starting + 1e-4, LONGEST_HEAD_START))
        times, end = [one], time.perf_counter() + seconds
        while len(times) < FEWEST_SAMPLES or (time.perf_counter() < end and len(times) < MOST_SAMPLES):
            one, starting, result = self.sample(run, count, min(1.5 * starting + 1e-4, LONGEST_HEAD_START))
            times.append(one)
        return times, result


class Array:
    """Elements in the GPU's memory, dense. Other libraries take them by __cuda_array_interface__."""

    def __init__(self, driver, shape, dtype):
        self.driver, self.shape, self.dtype = driver, tuple(shape), np.dtype(dtype)
        self.nbytes = int(np.prod(self.shape)) * self.dtype.itemsize
        memory = ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(max(self.nbytes, 1)))
        self.pointer = memory.value
        self._as_parameter_ = ctypes.c_void_p(self.pointer)  # what C functions take it as
        self.__cuda_array_interface__ = {"shape": self.shape, "typestr": self.dtype.str, "strides": None,
                                         "data": (self.pointer, False), "version": 3}

    @classmethod
    def of(cls, driver, host):
        host = np.ascontiguousarray(host)
        array = cls(driver, host.shape, host.dtype)
        driver.call("cuMemcpyHtoD_v2", array, host.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))
        return array

    def read(self):
        host = np.empty(self.shape, self.dtype)
        self.driver.call("cuMemcpyDtoH_v2", host.ctypes.data_as(ctypes.c_void_p), self, ctypes.c_size_t(self.nbytes))
        return host

    def __del__(self):
        if getattr(self, "pointer", 0):
            self.driver.cuda.cuMemFree_v2(self)


# ---- the libraries

def load_cupy(driver):
    import cupy
    warnings.filterwarnings("ignore", module="cupyx")  # parts of it are experimental, which is not our user's business
    cupy.cuda.Device(driver.ordinal).use()
    cupy.zeros(1)
    return cupy


def load_torch(driver):
    import torch
    torch.backends.cudnn.benchmark = True  # its fastest algorithm, found when it is first called
    torch.backends.cudnn.allow_tf32 = False  # f32 means f32
    torch.zeros(1, device=f"cuda:{driver.ordinal}")
    return torch


def cudnn_version(torch):
    number = torch.backends.cudnn.version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}, torch {torch.__version__}"


def own_version(library):
    return library.__version__


LIBRARIES = (("npp", Npp, own_version), ("cupy", load_cupy, own_version), ("cudnn", load_torch, cudnn_version))
