"""Arguments as scipy.ndimage takes them: modes, sequences, axes, origins and outputs, with its error types."""
from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import _arrays

# scipy's mode: index in _library.BOUNDARIES
MODES = {"constant": 0, "grid-constant": 0, "nearest": 1, "reflect": 2, "grid-mirror": 2, "mirror": 3, "wrap": 4,
         "grid-wrap": 4}
NUMBERS = frozenset(["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
                     "complex64", "complex128", "longlong", "ulonglong"])


def mode_code(mode: Any) -> int:
    """The boundary of a mode's name."""
    try:
        return MODES[mode]
    except (KeyError, TypeError):
        raise RuntimeError("boundary mode not supported") from None


def each(value: Any, count: int) -> list[Any]:
    """The value of each axis: a sequence as it is, anything else repeated."""
    if isinstance(value, str) or not np.iterable(value):
        return [value] * count
    values = list(value)
    if len(values) != count:
        raise RuntimeError("sequence argument must have length equal to input rank")
    return values


def axis_of(axis: Any, dimensions: int) -> int:
    """An axis counted from 0."""
    index = operator.index(axis)
    if not -dimensions <= index < dimensions:
        raise np.exceptions.AxisError(index, dimensions)
    return index % dimensions


def axes_of(axes: Any, dimensions: int) -> tuple[int, ...]:
    """Axes counted from 0; None is all of them."""
    if axes is None:
        return tuple(range(dimensions))
    if np.isscalar(axes):
        return (axis_of(axes, dimensions),)
    if not isinstance(axes, Iterable):
        raise ValueError("axes must be an integer, iterable of integers, or None")
    indices = tuple(operator.index(axis) for axis in axes)
    for index in indices:
        if not -dimensions <= index < dimensions:
            raise ValueError(f"specified axis: {index} is out of range")
    found = tuple(index % dimensions for index in indices)
    if len(set(found)) != len(found):
        raise ValueError("axes must be unique")
    return found


def check_origin(origin: int, taps: int, name: str) -> None:
    """Whether the origin leaves the filter on its output's position."""
    if not -(taps // 2) <= origin <= (taps - 1) // 2:
        raise ValueError(f"Invalid origin; origin must satisfy -({name} // 2) <= origin <= ({name}-1) // 2")


class Input:
    """An input array with its library, and the output that the caller wants."""

    __slots__ = ("library", "array", "given", "dtype", "shape", "out", "out_dtype", "is_truth", "finish")

    def __init__(self, given: Any, output: Any = None, complex_output: bool = False):
        library = _arrays.library_of(given)
        if library is None or library is _arrays.Interface:
            library, given = (_arrays.Numpy, np.asarray(given)) if library is None else _arrays.take(given)
        self.library, self.given, self.array = library, given, given
        self.finish = library.finish
        if library is _arrays.Jax and next(iter(given.devices())).platform == "cpu":
            self.library = library = _arrays.Numpy  # JAX's memory, which numpy reads as it is
        if library is _arrays.Numpy and type(given) is not np.ndarray:
            self.array = np.asarray(given)
        self.dtype: np.dtype = library.type_of(self.array)
        self.shape = tuple(self.array.shape)
        complex_output = complex_output or self.dtype.kind == "c"
        self.out: Any = None
        if output is None:
            self.out_dtype = np.promote_types(self.dtype, np.complex64) if complex_output else self.dtype.newbyteorder("=")
        elif isinstance(output, (type, np.dtype)):
            self.out_dtype = np.dtype(output)
            if complex_output and self.out_dtype.kind != "c":
                warnings.warn("promoting specified output dtype to complex", stacklevel=4)
                self.out_dtype = np.promote_types(output, np.complex64)
        elif isinstance(output, str):
            self.out_dtype = np.dtype(output)
            if complex_output and self.out_dtype.kind != "c":
                raise RuntimeError("output must have complex dtype")
            if not issubclass(self.out_dtype.type, np.number):
                raise RuntimeError("output must have numeric dtype")
        else:
            self._take(output, complex_output)
        if self.dtype.name not in NUMBERS or self.out_dtype.name not in NUMBERS:
            raise RuntimeError("data type not supported")
        self._count_truths()

    def _count_truths(self) -> None:
        """Truth values are bytes until the result is delivered, also between passes."""
        self.is_truth = self.out_dtype.kind == "b"
        if self.dtype.kind == "b":
            numpy_s = self.library is _arrays.Numpy
            self.array = self.array.view(np.uint8) if numpy_s else self.library.cast(self.array, np.dtype(np.uint8))
            self.dtype = np.dtype(np.uint8)
        if self.is_truth:
            self.out_dtype = np.dtype(np.uint8)

    def _take(self, output: Any, complex_output: bool) -> None:
        """An array to write into."""
        library = _arrays.library_of(output)
        if library is None and hasattr(output, "dtype") is False and "torch.dtype" in str(type(output)):
            self.out_dtype = np.dtype(str(output).removeprefix("torch."))
            return
        self.out = np.asarray(output) if library is None else output
        if tuple(self.out.shape) != self.shape:
            raise RuntimeError("output shape not correct")
        self.out_dtype = (library or _arrays.Numpy).type_of(self.out)
        if complex_output and self.out_dtype.kind != "c":
            raise RuntimeError("output must have complex dtype")

    def deliver(self, result: Any) -> Any:
        """What the caller receives for a new array: itself, or the output that it is copied to."""
        if self.is_truth:
            result = result != 0
        if self.out is None:
            return self.finish(result, self.given)
        if self.out is not result:
            if isinstance(self.out, np.ndarray):
                np.copyto(self.out, result, casting="unsafe")
            else:
                self.out[...] = result
        return self.out
