"""lfilter: FIR filters by the library; recursive ones in blocks, by matrices that step the filter's state.

The recursion is linear in samples and state, so a block is one matrix product, and so is a step of the state over a
block or a group of blocks. Everything is computed in double.
"""
from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .. import _arrays
from ._convolution import part

BLOCK = 64
GROUP = 32  # blocks
CHUNK = 1 << 18  # samples of all lines


def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Filters along an axis with the coefficients b and a; as scipy.signal.lfilter.

    a of one element: an FIR filter, by the library. More elements: the feedback is computed by numpy, a block of
    samples at a time. zi: the initial state; the final one is then returned, too.

    >>> from faltung import signal
    >>> signal.lfilter([0.5, 0.5], 1, [2.0, 4.0, 6.0])
    array([1., 3., 5.])
    """
    library, x, like = _arrays.place(x)
    b, a, x = np.atleast_1d(_arrays.host(b)), np.atleast_1d(_arrays.host(a)), library.host(x)
    for name, value in (("b", b), ("a", a)):
        if value.ndim != 1 or value.size == 0:
            raise ValueError(f"Parameter {name} is not a non-empty 1d array, since {name}.shape={value.shape}!")
    if x.ndim == 0:
        raise ValueError("x must be at least 1-D")
    zi = None if zi is None else _arrays.host(zi)
    dtype = np.result_type(b, a, x, *([] if zi is None else [zi]))
    if dtype.char not in "fdgFDGO":
        raise NotImplementedError(f"Parameter's dtypes produced result type '{dtype}', which is not supported!")
    axis = range(x.ndim)[axis]
    order = max(len(a), len(b)) - 1
    state = _state(zi, x, axis, order)
    first = a[0] if dtype.kind == "O" else np.asarray(a, dtype)[0]
    if first == 0 and len(a) > 1:
        raise ValueError("a[0] is 0; no filter has such coefficients")
    b, a = np.asarray(b, dtype) / first, np.asarray(a, dtype) / first
    lines = np.moveaxis(np.asarray(x, dtype), axis, -1)
    state = None if state is None else np.moveaxis(state, axis, -1)
    out, final = (_forward if len(a) == 1 else _feedback)(b, a, lines, state, order)
    out = _arrays.give(np.ascontiguousarray(np.moveaxis(out, -1, axis), dtype), like)
    if zi is None:
        return out
    return out, _arrays.give(np.ascontiguousarray(np.moveaxis(final, -1, axis), dtype), like)


def _state(zi: np.ndarray | None, x: np.ndarray, axis: int, order: int) -> np.ndarray | None:
    """The initial state of every line; axes of one element are repeated."""
    if zi is None:
        return None
    if zi.ndim != x.ndim:
        raise ValueError(f"Dimensions of parameters x and zi must match, but x.ndim={x.ndim}, zi.ndim={zi.ndim}!")
    shape = tuple(order if i == axis else n for i, n in enumerate(x.shape))
    for i, (n, m) in enumerate(zip(zi.shape, shape)):
        if n != m and (i == axis or n != 1):
            raise ValueError(f"Unexpected shape for parameter zi: expected {shape}, found {zi.shape}.")
    return np.broadcast_to(zi, shape)


def _forward(b: np.ndarray, a: np.ndarray, x: np.ndarray, state: Any, order: int) -> tuple[Any, ...]:
    """The full convolution: its beginning is the result, its end the state."""
    taps = b.reshape((1,) * (x.ndim - 1) + b.shape)
    size = (*x.shape[:-1], x.shape[-1] + len(b) - 1)
    full = part(x, taps, (0,) * x.ndim, size) if x.size else np.zeros(size, x.dtype)
    if state is not None:
        full[..., : state.shape[-1]] += state
    return full[..., : x.shape[-1]], full[..., x.shape[-1]:]


def _feedback(b: np.ndarray, a: np.ndarray, x: np.ndarray, state: Any, order: int) -> tuple[Any, ...]:
    """Direct form II transposed, all lines at once."""
    b, a = (np.concatenate([c, np.zeros(order + 1 - len(c), c.dtype)]) for c in (b, a))
    count = math.prod(x.shape[:-1])
    lines = x.reshape(count, x.shape[-1])
    held = np.zeros((count, order), x.dtype)
    if state is not None:
        held[...] = np.asarray(state).reshape(count, order)
    steps = _blocks if x.dtype.char in "fdFD" and lines.shape[1] >= 2 * BLOCK else _samples
    out, held = steps(b, a, lines, held)
    return out.reshape(x.shape), held.reshape(*x.shape[:-1], order)


def _samples(b: np.ndarray, a: np.ndarray, x: np.ndarray, held: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sample after sample: (results, states), lines first."""
    out = np.empty(x.shape, x.dtype)
    z = np.concatenate([held.T, np.zeros((1, x.shape[0]), x.dtype)])
    for i in range(x.shape[1]):
        now = x[:, i]
        out[:, i] = y = b[0] * now + z[0]
        z[:-1] = z[1:] + np.multiply.outer(b[1:], now) - np.multiply.outer(a[1:], y)
    return out, z[:-1].T


@functools.lru_cache(maxsize=64)
def _matrix(b: bytes, a: bytes, dtype: type, count: int) -> np.ndarray:
    """What `count` samples and the state become: results and the next state."""
    taps: np.ndarray = np.frombuffer(b, dtype)
    feedback: np.ndarray = np.frombuffer(a, dtype)
    units: np.ndarray = np.eye(count + len(b) // np.dtype(dtype).itemsize - 1, dtype=dtype)
    return np.concatenate(_samples(taps, feedback, units[:, :count], units[:, count:]), axis=1)


def _blocks(b: np.ndarray, a: np.ndarray, x: np.ndarray, held: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Chunks of blocks: one product gives every block's results and next state from a zero state, a scan the states
    between the blocks, a second product what those add."""
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    names = b.astype(wide).tobytes(), a.astype(wide).tobytes(), wide
    matrix = _matrix(*names, BLOCK)
    out, held = np.empty(x.shape, x.dtype), held.astype(wide)
    lines, samples = x.shape
    chunk = max(CHUNK // lines // BLOCK, 1) * BLOCK
    end = samples // BLOCK * BLOCK
    for begin in range(0, end, chunk):
        part = x[:, begin: min(begin + chunk, end)]
        forced = part.reshape(lines, -1, BLOCK).astype(wide, copy=False) @ matrix[:BLOCK]
        states, held = _scan(forced[..., BLOCK:], matrix[BLOCK:, BLOCK:], held)
        results = forced[..., :BLOCK] + states @ matrix[BLOCK:, :BLOCK]
        out[:, begin: begin + part.shape[1]] = results.reshape(lines, -1)
    if end < samples:
        rest = x[:, end:]
        row = np.concatenate([rest, held], axis=1, dtype=wide) @ _matrix(*names, rest.shape[1])
        out[:, end:], held = row[:, : rest.shape[1]], row[:, rest.shape[1]:]
    return out, held


def _scan(added: np.ndarray, step: np.ndarray, held: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(states before each block, state after the last): s' = s @ step + added, of every line."""
    lines, count, order = added.shape
    states = np.empty_like(added)
    groups = count // GROUP
    with np.errstate(over="ignore", invalid="ignore"):  # unstable filters go block by block
        leap = np.linalg.matrix_power(step, GROUP)
    if groups > 1 and np.isfinite(leap).all():  # all groups at once from zero, then their first states, then all again
        inner = added[:, : groups * GROUP].reshape(lines, groups, GROUP, order)
        total = np.zeros((lines, groups, order), added.dtype)
        for i in range(GROUP):
            total = total @ step + inner[:, :, i]
        first = np.empty_like(total)
        for g in range(groups):
            first[:, g] = held
            held = held @ leap + total[:, g]
        into = np.empty_like(inner)
        for i in range(GROUP):
            into[:, :, i] = first
            first = first @ step + inner[:, :, i]
        states[:, : groups * GROUP] = into.reshape(lines, -1, order)
    else:
        groups = 0
    for i in range(groups * GROUP, count):
        states[:, i] = held
        held = held @ step + added[:, i]
    return states, held
