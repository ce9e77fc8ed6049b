"""Arrays of numpy, torch, CuPy and JAX as pointers, and new arrays of the same library. Nothing is imported but numpy."""
from __future__ import annotations

import ctypes
import importlib
import math
import sys
from typing import Any, NamedTuple

import numpy as np

from ._library import SIZES, TYPES

NUMPY_NAMES = ("uint8", "int8", "uint16", "int16", "int32", "float16", "bfloat16", "float32", "float64")
CODE_OF = {name: code for code, name in enumerate(NUMPY_NAMES)} | {"bool": 0}
DTYPES = tuple(np.dtype(name) if name != "bfloat16" else None for name in NUMPY_NAMES)
_addressof, _from_buffer = ctypes.addressof, ctypes.c_char.from_buffer
_codes: dict[Any, int | None] = {}


class View(NamedTuple):
    """An array's memory. strides count elements; code is None for a type that the library does not have."""

    pointer: int
    code: int | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: int | None  # None: host memory; else the GPU's number
    owner: Any

    @property
    def type(self) -> int:
        """The code. Raises TypeError for a type that the library does not have."""
        if self.code is None:
            raise TypeError(f"array: its type is none of {', '.join(TYPES)}")
        return self.code


def code_of(dtype: Any) -> int | None:
    """The library's type of a numpy dtype, None if it has none (or bytes in the other order)."""
    try:
        return _codes[dtype]
    except KeyError:
        code = CODE_OF.get(dtype.name) if dtype.isnative else None
        _codes[dtype] = code
        return code


def known_code(dtype: Any) -> int:
    """The library's type of a numpy dtype. Raises TypeError if it has none."""
    code = code_of(dtype)
    if code is None:
        raise TypeError(f"array: type {dtype} is none of {', '.join(TYPES)}")
    return code


def dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an array in C order."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def address_of(array: Any) -> int:
    """The address of an array's first element; by the buffer protocol, which is the fastest way, where that goes."""
    try:
        return _addressof(_from_buffer(array))
    except (TypeError, ValueError, BufferError):
        return int(array.ctypes.data)


class Numpy:
    """numpy, and everything that numpy.asarray takes."""

    name = "numpy"

    @staticmethod
    def view(array: np.ndarray) -> View:
        """The array's memory; strides that are no multiple of the element's size need a copy first."""
        code, item = code_of(array.dtype), array.itemsize
        strides = array.strides
        if [s for s in strides if s % item]:
            array = np.ascontiguousarray(array)
            strides = array.strides
        return View(address_of(array), code, array.shape, tuple([s // item for s in strides]), None, array)

    @staticmethod
    def empty(shape: tuple[int, ...], code: int, like: Any) -> np.ndarray:
        """A new array in C order."""
        if DTYPES[code] is None:
            ml_dtypes: Any = importlib.import_module("ml_dtypes")
            return np.empty(shape, ml_dtypes.bfloat16)
        return np.empty(shape, DTYPES[code])

    @staticmethod
    def type_of(array: Any) -> np.dtype:
        """The array's element type as numpy's."""
        dtype: np.dtype = array.dtype
        return dtype

    @staticmethod
    def cast(array: Any, dtype: np.dtype) -> Any:
        """The array in another of numpy's types; floats are cut towards zero by integers."""
        return array if array.dtype == dtype else array.astype(dtype)

    @staticmethod
    def joined(real: Any, imag: Any, dtype: np.dtype) -> Any:
        """A complex array of its parts."""
        result = real.astype(dtype)
        result.imag = imag
        return result

    @staticmethod
    def stream(device: int | None) -> int:
        """The stream that the library orders its work by."""
        return 0

    @classmethod
    def scratch(cls, bytes_: int, like: Any) -> tuple[int, Any]:
        """(address, owner) of memory on the device of `like`, which its stream orders."""
        owner = cls.empty((bytes_,), 0, like)
        return cls.view(owner).pointer, owner

    @staticmethod
    def host(array: Any) -> np.ndarray:
        """A numpy array of the values."""
        return np.asarray(array)

    @staticmethod
    def upload(array: np.ndarray, like: Any) -> Any:
        """A numpy array as one of the library, on the device of `like`."""
        return array

    @staticmethod
    def finish(array: Any, like: Any) -> Any:
        """What the caller receives for an array from `empty`."""
        return array


class Cupy(Numpy):
    """CuPy."""

    name = "cupy"

    @staticmethod
    def view(array: Any) -> View:
        item = array.itemsize
        return View(array.data.ptr, code_of(array.dtype), array.shape, tuple([s // item for s in array.strides]),
                    array.device.id, array)

    @staticmethod
    def empty(shape: tuple[int, ...], code: int, like: Any) -> Any:
        cupy = sys.modules["cupy"]
        with like.device:
            return cupy.empty(shape, NUMPY_NAMES[code])

    @staticmethod
    def stream(device: int | None) -> int:
        return int(sys.modules["cupy"].cuda.get_current_stream(device).ptr)

    @staticmethod
    def host(array: Any) -> np.ndarray:
        values: np.ndarray = array.get()
        return values

    @staticmethod
    def upload(array: np.ndarray, like: Any) -> Any:
        with like.device:
            return sys.modules["cupy"].asarray(array)


class Torch(Numpy):
    """torch."""

    name = "torch"
    _dtypes: dict[Any, int] = {}

    @classmethod
    def dtypes(cls) -> dict[Any, int]:
        """torch's types by ours."""
        if not cls._dtypes:
            torch = sys.modules["torch"]
            names = dict(zip(NUMPY_NAMES, range(9)))
            names["bool"] = 0
            cls._dtypes = {getattr(torch, n): c for n, c in names.items() if hasattr(torch, n)}
        return cls._dtypes

    @classmethod
    def view(cls, array: Any) -> View:
        if array.is_cuda:
            device = array.device.index or 0
        elif array.device.type == "cpu":
            device = None
        else:
            raise TypeError(f"array: a tensor on {array.device}; only CPUs and NVIDIA GPUs compute")
        return View(array.data_ptr(), cls.dtypes().get(array.dtype), tuple(array.shape), array.stride(), device, array)

    @classmethod
    def empty(cls, shape: tuple[int, ...], code: int, like: Any) -> Any:
        dtype = next(t for t, c in cls.dtypes().items() if c == code)
        return sys.modules["torch"].empty(shape, dtype=dtype, device=like.device)

    @classmethod
    def type_of(cls, array: Any) -> np.dtype:
        return np.dtype(str(array.dtype).removeprefix("torch."))

    @classmethod
    def cast(cls, array: Any, dtype: np.dtype) -> Any:
        return array.to(getattr(sys.modules["torch"], dtype.name))

    @staticmethod
    def joined(real: Any, imag: Any, dtype: np.dtype) -> Any:
        return sys.modules["torch"].complex(real, imag)

    @staticmethod
    def stream(device: int | None) -> int:
        torch = sys.modules["torch"]
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # a number, without an object around it
        if raw is None or device is None:
            return torch.cuda.current_stream(device).cuda_stream if device is not None else 0
        return int(raw(device))

    @staticmethod
    def scratch(bytes_: int, like: Any) -> tuple[int, Any]:
        torch = sys.modules["torch"]
        owner = torch.empty(bytes_, dtype=torch.uint8, device=like.device)
        return owner.data_ptr(), owner

    @staticmethod
    def host(array: Any) -> np.ndarray:
        values: np.ndarray = array.detach().cpu().numpy()
        return values

    @staticmethod
    def upload(array: np.ndarray, like: Any) -> Any:
        return sys.modules["torch"].from_numpy(np.ascontiguousarray(array)).to(like.device)


class Jax(Numpy):
    """JAX: arrays that nobody may write, so results are made by numpy and handed over."""

    name = "jax"

    @staticmethod
    def view(array: Any) -> View:
        if isinstance(array, np.ndarray):
            return Numpy.view(array)
        (device,) = array.devices()
        if device.platform == "cpu":
            return Numpy.view(np.asarray(array))
        array.block_until_ready()
        return View(array.unsafe_buffer_pointer(), code_of(array.dtype), array.shape, dense(array.shape),
                    device.local_hardware_id, array)

    @staticmethod
    def empty(shape: tuple[int, ...], code: int, like: Any) -> Any:
        (device,) = like.devices()
        if device.platform == "cpu":
            return Numpy.empty(shape, code, None)
        import jax

        return jax.numpy.zeros(shape, NUMPY_NAMES[code], device=device).block_until_ready()

    @staticmethod
    def upload(array: np.ndarray, like: Any) -> Any:
        return Jax.finish(array, like)

    @staticmethod
    def finish(array: Any, like: Any) -> Any:
        import jax

        return jax.device_put(array, next(iter(like.devices()))) if isinstance(array, np.ndarray) else array


class Interface(Numpy):
    """Arrays of other libraries, by __cuda_array_interface__; results come as CuPy's, if it is there, or fail."""

    name = "interface"

    @staticmethod
    def wrap(array: Any) -> Any:
        """The array as one of CuPy or torch."""
        if "cupy" in sys.modules:
            return sys.modules["cupy"].asarray(array)
        if "torch" in sys.modules:
            return sys.modules["torch"].as_tensor(array, device="cuda")
        raise TypeError("array: has __cuda_array_interface__ alone; import cupy or torch, whose array the result is")


_libraries: dict[type, Any] = {np.ndarray: Numpy}


def _find(kind: type) -> Any:
    module = kind.__module__.split(".")[0]
    if kind is np.ndarray or issubclass(kind, (np.ndarray, np.generic)):
        return Numpy
    bases = {base.__module__.split(".")[0]: base.__name__ for base in kind.__mro__}
    if bases.get("torch") in ("Tensor", "TensorBase") or bases.get("torch") and hasattr(kind, "data_ptr"):
        return Torch
    if module == "cupy":
        return Cupy
    if module in ("jax", "jaxlib"):
        return Jax
    return Interface if hasattr(kind, "__cuda_array_interface__") else None


def library_of(array: Any) -> Any:
    """The array's library: one of the classes above. None for what is no array (lists, numbers)."""
    kind = type(array)
    try:
        return _libraries[kind]
    except KeyError:
        library = _libraries[kind] = _find(kind)
        return library


def take(array: Any) -> tuple[Any, Any]:
    """(library, array) of an argument: as it is, through DLPack, or by numpy.asarray."""
    library = library_of(array)
    if library is Interface:
        array = Interface.wrap(array)
        library = library_of(array)
    if library is None:
        if hasattr(array, "__dlpack__"):
            array = np.from_dlpack(array)
        array, library = np.asarray(array), Numpy
    return library, array


def host(array: Any) -> np.ndarray:
    """A numpy array of an argument's values. GPU arrays are copied by their own library."""
    library, taken = take(array)
    values: np.ndarray = library.host(taken)
    return values


def place(array: Any) -> tuple[Any, Any, Any]:
    """(library, array, like) of an argument: numpy's if the array is in host memory. `give` takes `like`."""
    library, taken = take(array)
    if library is Numpy:
        return Numpy, np.asarray(taken), None
    if library.view(taken).device is None:
        return Numpy, library.host(taken), (library, taken)
    return library, taken, (library, taken)


def give(result: Any, like: Any) -> Any:
    """A result in the library and on the device of the argument that `place` took."""
    if like is None or not isinstance(result, np.ndarray):
        return result
    return like[0].upload(np.ascontiguousarray(result), like[1])


def aligned(size: int) -> tuple[int, Any]:
    """(address, owner) of host memory that 64 divides."""
    owner = ctypes.create_string_buffer(size + 64)
    address = ctypes.addressof(owner)
    return address + (-address) % 64, owner


def extent(shape: tuple[int, ...]) -> int:
    """Number of elements."""
    return math.prod(shape)


def type_name(code: int) -> str:
    """ "f32", ..."""
    return TYPES[code]


__all__ = ["SIZES", "View", "take", "host", "place", "give", "library_of", "dense", "aligned", "extent", "type_name", "code_of"]
