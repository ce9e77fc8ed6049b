"""NVIDIA Performance Primitives through ctypes: the image filters of libnppif."""
import ctypes
import glob
import os
import sys

REPLICATE = 2  # NPP_BORDER_REPLICATE, the only one that all its filters have
TYPES = {"uint8": "8u", "uint16": "16u", "int16": "16s", "float16": "16f", "float32": "32f"}
MASKS = {3: 200, 5: 201, 7: 400, 9: 500, 11: 600, 13: 700, 15: 800}  # NppiMaskSize of squares
ERRORS = {-6: "NPP_SIZE_ERROR", -12: "NPP_DATA_TYPE_ERROR", -14: "NPP_STEP_ERROR", -33: "NPP_MASK_SIZE_ERROR",
          -1000: "NPP_CUDA_KERNEL_EXECUTION_ERROR", -9999: "NPP_NOT_SUPPORTED_MODE_ERROR"}


class Size(ctypes.Structure):
    _fields_ = [("width", ctypes.c_int), ("height", ctypes.c_int)]


class Point(ctypes.Structure):
    _fields_ = [("x", ctypes.c_int), ("y", ctypes.c_int)]


class Stream(ctypes.Structure):
    """NppStreamContext of CUDA 12 and 13."""
    _fields_ = [("stream", ctypes.c_void_p), ("device", ctypes.c_int), ("multiprocessors", ctypes.c_int),
                ("threads_per_multiprocessor", ctypes.c_int), ("threads_per_block", ctypes.c_int),
                ("shared_per_block", ctypes.c_size_t), ("major", ctypes.c_int), ("minor", ctypes.c_int),
                ("flags", ctypes.c_uint), ("reserved", ctypes.c_int)]


class Version(ctypes.Structure):
    _fields_ = [("major", ctypes.c_int), ("minor", ctypes.c_int), ("build", ctypes.c_int)]


def open_library(name):
    """The library as the loader finds it, with the toolkit, or from NVIDIA's package for Python."""
    path = os.environ.get("FALTUNG_CUDA_PATH", "").split(":")
    folders = [folder for base in [*path, "/usr/local/cuda"] if base for folder in (base, base + "/lib64")]
    folders += [folder for base in sys.path for folder in glob.glob(f"{base}/nvidia/*/lib")]
    for candidate in [f"{name}.so", *(found for folder in folders for found in glob.glob(f"{folder}/{name}.so*"))]:
        try:
            return ctypes.CDLL(candidate, ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    raise ImportError(f"{name}.so was not found")


class Npp:
    def __init__(self, driver):
        core = open_library("libnppc")
        self.filters = open_library("libnppif")
        core.nppGetLibVersion.restype = ctypes.POINTER(Version)
        version = core.nppGetLibVersion().contents
        self.__version__ = f"{version.major}.{version.minor}.{version.build}"
        self.stream = Stream(None, driver.ordinal, driver.attribute(16), driver.attribute(39), driver.attribute(1),
                             driver.attribute(8), driver.attribute(75), driver.attribute(76), 0, 0)

    def bind(self, name, x, out, size, pixel_bytes, plane, *middle):
        """A call of NAME_Ctx on one plane: source and target as all its filters take them, then its own arguments."""
        function = getattr(self.filters, name + "_Ctx", None)
        if not function:
            raise RuntimeError(f"{name} is not in this NPP")
        step = size.width * pixel_bytes
        offset = plane * step * size.height
        arguments = (ctypes.c_void_p(x.pointer + offset), ctypes.c_int(step), size, Point(0, 0),
                     ctypes.c_void_p(out.pointer + offset), ctypes.c_int(step), size, *middle, ctypes.c_int(REPLICATE),
                     self.stream)

        def run():
            status = function(*arguments)
            if status < 0:
                raise RuntimeError(ERRORS.get(status, f"status {status}"))

        return run
