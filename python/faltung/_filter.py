"""Filters on arrays of any number of axes: the problem that describes them, its plan from the cache, its execution.

A problem has up to three spatial axes, a batch and channels. Arrays with more axes run in pieces; filters along more
than three axes are sums of filters along three.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _arrays
from ._arrays import View
from ._library import F32, F64, S32, SIZES, ProblemStruct, Tensor, lib
from ._plan import Plan, cache, device_of
from ._problem import Problem
from ._quick import SEVERAL, Execution, note
from ._settings import current

KEPT_BYTES = 4096  # filters up to this size are the cache's key themselves, larger ones by their digest
KNOWN_BYTES = 1 << 16  # larger filters of a CPU's plan come with each execution: the cache does not keep them
FEW_CHANNELS = 16


class Kernel(NamedTuple):
    """A filter along some axes of an array, one entry of each tuple for each axis.

    out[o] = sum over taps j of taps[j] * x[o*stride + j*dilation - before]. boundary holds a pair of BOUNDARIES'
    indices for each axis; value is the constant beyond. transforms: whether FFT may compute it, whose rounding puts
    numbers beside 0, of either sign, in the place of 0.
    """

    taps: np.ndarray
    axes: tuple[int, ...]
    before: tuple[int, ...]
    boundary: tuple[tuple[int, int], ...]
    value: float = 0.0
    stride: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    alpha: float = 1.0
    beta: float = 0.0
    rank: int = 0
    transforms: bool = True


class _Pieces(NamedTuple):
    """A plan and where it runs: byte offsets into source and target."""

    plan: Plan
    offsets: list[tuple[int, int]]


def run(library: Any, source: View, target: View, kernel: Kernel) -> None:
    """Filters source into target, whose sizes say how many outputs there are along each axis."""
    taps = kernel.taps
    given = taps.nbytes > KNOWN_BYTES and source.device is None
    data = None if given else taps.tobytes() if taps.nbytes <= KEPT_BYTES else _digest(taps)
    settings = current.get()
    key = (source[1:5], target[1:5], taps.dtype.char, taps.shape, data, kernel[1:], settings)
    pieces = cache.get(key, lambda: _plan(source, target, kernel, settings, given))
    plan = pieces.plan
    filter_ = taps.ctypes.data if given else None
    stream, workspace, held = plan._place(library, target.owner)
    for a, b in pieces.offsets:
        plan.run(source.pointer + a, filter_, target.pointer + b, stream=stream, workspace=workspace)
    del held
    once = not given and len(pieces.offsets) == 1
    note(Execution(plan, source.owner, target.owner, *pieces.offsets[0]) if once else SEVERAL)


def _digest(taps: np.ndarray) -> bytes:
    """A name of a large filter's values."""
    import hashlib

    return hashlib.blake2b(taps.data).digest()


def _plan(source: View, target: View, kernel: Kernel, settings: Any, given: bool) -> _Pieces:
    """Describes the filter as a problem and plans it."""
    source, target, kernel = _merged(source, target, kernel)
    space, batch, loops = _roles(source, target, kernel)
    problem = ProblemStruct()
    lib.falt_problem_default(problem)
    problem.operation, problem.is_filter, problem.space = 0, True, len(space)
    problem.boundary_value, problem.rank = kernel.value, kernel.rank
    problem.alpha, problem.beta = kernel.alpha, kernel.beta
    taps_code = _arrays.known_code(kernel.taps.dtype)
    offsets = [_tensor(problem.input, source, batch, space), _tensor(problem.output, target, batch, space)]
    problem.filter.type = taps_code
    problem.filter.stride[0] = problem.filter.stride[1] = problem.filter.stride[2] = 0
    problem.filter.size[1] = source.shape[batch[1]] if batch[1] is not None else 1
    steps = _arrays.dense(kernel.taps.shape)
    for place, axis in zip(range(6 - len(space), 6), space):
        i = kernel.axes.index(axis) if axis in kernel.axes else None
        problem.filter.size[place] = kernel.taps.shape[i] if i is not None else 1
        problem.filter.stride[place] = steps[i] if i is not None else 0
        if i is not None:
            falt_axis = problem.axis[place - 3]
            falt_axis.stride = kernel.stride[i] if kernel.stride else 1
            falt_axis.dilation = kernel.dilation[i] if kernel.dilation else 1
            falt_axis.pad[0] = kernel.before[i]
            falt_axis.boundary[0], falt_axis.boundary[1] = kernel.boundary[i]
            reach = falt_axis.dilation * (kernel.taps.shape[i] - 1) + 1 - kernel.before[i]
            falt_axis.pad[1] = (target.shape[axis] - 1) * falt_axis.stride + reach - source.shape[axis]
    problem.accumulator = _accumulator(source.type, taps_code, target.type)
    device = device_of(settings, source)
    budget = settings._replace(no_transforms=settings.no_transforms or not kernel.transforms).budget()
    plan = Plan(device, Problem(problem, budget), None if given else kernel.taps.ctypes.data)
    return _Pieces(plan, _offsets(source, target, loops, offsets))


def _merged(source: View, target: View, kernel: Kernel) -> tuple[View, View, Kernel]:
    """Neighbouring axes without taps that both arrays walk as one are one axis: a filter along the slices of a volume
    is a filter along the rows of an image."""
    sizes: list[int] = []
    steps: list[list[int]] = [[], []]
    axes: dict[int, int] = {}
    free = False  # whether the axis before may grow
    for axis, size in enumerate(source.shape):
        strides = source.strides[axis], target.strides[axis]
        taps = axis in kernel.axes
        if free and not taps and all(own[-1] == step * size for own, step in zip(steps, strides)):
            sizes[-1] *= size
            steps[0][-1], steps[1][-1] = strides
            continue
        if taps:
            axes[axis] = len(sizes)
        sizes.append(size)
        for own, step in zip(steps, strides):
            own.append(step)
        free = not taps
    if len(sizes) == len(source.shape):
        return source, target, kernel
    filtered = {place: target.shape[axis] for axis, place in axes.items()}
    results = [filtered.get(place, size) for place, size in enumerate(sizes)]
    return (source._replace(shape=tuple(sizes), strides=tuple(steps[0])),
            target._replace(shape=tuple(results), strides=tuple(steps[1])),
            kernel._replace(axes=tuple(axes[axis] for axis in kernel.axes)))


def _accumulator(source: int, taps: int, target: int) -> int:
    """As the problem line chooses it."""
    if F64 in (source, taps, target):
        return F64
    return F64 if source <= S32 and taps <= S32 and max(SIZES[source], SIZES[taps]) > 1 else F32


def _tensor(tensor: Tensor, view: View, batch: tuple[int | None, int | None], space: list[int]) -> int:
    """Fills a tensor; returns how far before the view's pointer its data begin, in bytes."""
    offset, tensor.type = 0, view.type
    places = [(0, batch[0]), (1, batch[1])] + list(zip(range(6 - len(space), 6), space))
    for place, axis in places:
        if axis is None:
            continue
        tensor.size[place], tensor.stride[place] = view.shape[axis], view.strides[axis]
        if view.strides[axis] < 0:
            offset -= (view.shape[axis] - 1) * view.strides[axis]
    tensor.offset = offset
    return offset * SIZES[view.type]


def _offsets(source: View, target: View, loops: list[int], begin: list[int]) -> list[tuple[int, int]]:
    """Byte offsets of each piece."""
    steps = [(source.strides[i] * SIZES[source.type], target.strides[i] * SIZES[target.type]) for i in loops]
    found = []
    for index in itertools.product(*(range(source.shape[i]) for i in loops)):
        found.append((sum(n * a for n, (a, _) in zip(index, steps)) - begin[0],
                      sum(n * b for n, (_, b) in zip(index, steps)) - begin[1]))
    return found


def _roles(source: View, target: View, kernel: Kernel) -> tuple[list[int], tuple[Any, ...], list[int]]:
    """(spatial axes, (batch axis, channel axis), axes of the pieces): at most 3, 2 and the rest."""
    def step(axis: int) -> int:
        return abs(source.strides[axis])

    space = list(kernel.axes)
    rest = sorted((i for i in range(len(source.shape)) if i not in space and source.shape[i] > 1), key=step)
    channel = None
    if rest and source.shape[rest[0]] <= FEW_CHANNELS and all(step(rest[0]) < step(i) for i in space):
        channel = rest.pop(0)
    while rest and len(space) < 3:
        space.append(rest.pop(0))
    space.sort(key=lambda i: (-step(i), i))
    batch = rest.pop(0) if rest else None
    if channel is None and rest:
        channel = rest.pop(0)
    return space, (batch, channel), rest


def trim(kernel: Kernel, source: Sequence[int], target: Sequence[int]) -> Kernel:
    """Without the axes along which the filter has one tap and takes each element in its place."""
    taps = kernel.taps
    idle = [i for i, axis in enumerate(kernel.axes)
            if taps.shape[i] == 1 and kernel.before[i] == 0 and source[axis] == target[axis]
            and (not kernel.stride or kernel.stride[i] == 1)]
    if not idle:
        return kernel
    kept = [i for i in range(taps.ndim) if i not in idle] or [taps.ndim - 1]

    def pick(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(values[i] for i in kept) if values else values

    return kernel._replace(taps=taps.reshape(pick(taps.shape)), axes=pick(kernel.axes), before=pick(kernel.before),
                           boundary=pick(kernel.boundary), stride=pick(kernel.stride), dilation=pick(kernel.dilation))


def apply(library: Any, array: Any, kernel: Kernel, shape: tuple[int, ...], code: int) -> Any:
    """A new array of the shape and type with the filtered values."""
    if not is_plain_value(kernel):
        array, kernel = _padded(library, array, kernel, shape)
    result = library.empty(shape, code, array)
    source, target = library.view(array), library.view(result)
    kernel = trim(kernel, source.shape, shape)
    if len(kernel.axes) > 3:
        return _many_axes(library, array, kernel, shape, code)
    run(library, source, target, kernel)
    return result


def is_plain_value(kernel: Kernel) -> bool:
    """Whether the library takes the constant beyond: NaN, infinity and what f32 sums cannot hold are padded here."""
    return bool(abs(kernel.value) < 3e38) or all(pair != (0, 0) for pair in kernel.boundary)


def _padded(library: Any, array: Any, kernel: Kernel, shape: tuple[Any, ...]) -> tuple[Any, Kernel]:
    """The array as floats with the constant around it, and the filter that begins there."""
    host = library.host(array)
    dtype = np.float32 if host.dtype == np.float32 and not math.isfinite(kernel.value) else np.float64
    widths, before = [(0, 0)] * host.ndim, list(kernel.before)
    for i, axis in enumerate(kernel.axes):
        if kernel.boundary[i] == (0, 0):
            stride, dilation = kernel.stride[i] if kernel.stride else 1, kernel.dilation[i] if kernel.dilation else 1
            end = (shape[axis] - 1) * stride + dilation * (kernel.taps.shape[i] - 1) + 1 - before[i]
            widths[axis] = max(before[i], 0), max(end - host.shape[axis], 0)
            before[i] -= widths[axis][0]
    padded = np.pad(host.astype(dtype, copy=False), widths, constant_values=kernel.value)
    return library.upload(padded, array), kernel._replace(before=tuple(before), value=0.0)


def _many_axes(library: Any, array: Any, kernel: Kernel, shape: tuple[int, ...], code: int) -> Any:
    """Sums over the taps of the first axis: each term filters, along the others, the slab that the tap sees."""
    axis, before, taps = kernel.axes[0], kernel.before[0], kernel.taps
    stride = kernel.stride[0] if kernel.stride else 1
    dilation = kernel.dilation[0] if kernel.dilation else 1
    inner = kernel._replace(axes=kernel.axes[1:], before=kernel.before[1:], boundary=kernel.boundary[1:],
                            stride=kernel.stride[1:], dilation=kernel.dilation[1:], beta=0.0, rank=0)
    host: np.ndarray = library.host(array)
    total: Any = 0.0
    for j in range(taps.shape[0]):
        rows = np.arange(shape[axis]) * stride + j * dilation - before
        slab = rows_beyond(host, axis, rows, kernel.boundary[0], kernel.value)
        part = inner._replace(taps=np.ascontiguousarray(taps[j]))
        total = total + apply(_arrays.Numpy, slab, part, shape, F64)
    total = total + kernel.beta
    result = library.empty(shape, code, array)
    view = library.view(result)
    if view.device is None:
        np.copyto(np.asarray(result), total, casting="unsafe")
        return result
    return library.upload(total.astype(_arrays.DTYPES[code]), array)


def rows_beyond(array: np.ndarray, axis: int, rows: np.ndarray, boundary: tuple[int, int], value: float) -> np.ndarray:
    """The array's rows along an axis, also those beyond its ends, where the boundary continues it."""
    size = array.shape[axis]
    places = np.where(rows < 0, _continued(rows, size, boundary[0]), rows)
    places = np.where(rows >= size, _continued(rows, size, boundary[1]), places)
    taken = np.take(array, np.clip(places, 0, size - 1), axis=axis)
    outside = ((rows < 0) & (boundary[0] == 0)) | ((rows >= size) & (boundary[1] == 0))
    if outside.any():
        index: list[Any] = [slice(None)] * array.ndim
        index[axis] = outside
        taken = taken.astype(np.float64) if array.dtype.kind in "biu" else taken
        taken[tuple(index)] = value
    return taken


def _continued(rows: np.ndarray, size: int, boundary: int) -> np.ndarray:
    """The inner row that stands at each row: edge, symmetric, reflect101 or wrap."""
    if boundary == 2:
        place = rows % (2 * size)
        return np.where(place < size, place, 2 * size - 1 - place)
    if boundary == 3:
        place = rows % max(2 * size - 2, 1)
        return np.where(place < size, place, 2 * size - 2 - place)
    return rows % size if boundary == 4 else np.clip(rows, 0, size - 1)
