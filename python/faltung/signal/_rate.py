"""Changes of rate by layers: the residues of the outputs are the channels of one strided convolution.

Output m = period*q + r is channel r of pixel q, so a layer with `period` channels writes the outputs in their order and
reads the input once, where a filter for each residue reads it `period` times. Groups of residues keep the rows of
weights, which hold zeros where another residue has taps, short.
"""
from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from .. import _arrays
from .._library import F32, ProblemStruct, lib
from .._plan import Plan, cache, device_of
from .._problem import Problem
from .._settings import current

GROUP = 16  # residues: 16 results in f32 are a cache line
LONGEST = 512  # taps; filters of more have faster ways of their own
LEAST = 1 << 12  # results; a plan for each residue takes no longer for fewer


class Residue(NamedTuple):
    """Taps of a residue, and where the first one stands for the first output."""

    taps: np.ndarray
    start: int


def residues(h: np.ndarray, up: int, down: int, begin: int = 0) -> list[Residue]:
    """The filter of each residue of the outputs."""
    found = []
    for r in range(up // math.gcd(up, down)):
        place, phase = divmod(r * down, up)
        taps = np.ascontiguousarray(h[phase::up][::-1])
        found.append(Residue(taps, place + begin + 1 - taps.size))
    return found


@functools.lru_cache(64)
def _groups(h: bytes, up: int, down: int, begin: int) -> list[tuple[np.ndarray, int]]:
    """The weights of each group of residues."""
    found = residues(np.frombuffer(h, np.float32), up, down, begin)
    return [weights(found[i: i + GROUP]) for i in range(0, len(found), GROUP)]


def weights(group: list[Residue]) -> tuple[np.ndarray, int]:
    """A row of taps for each residue, and where the rows begin."""
    start = min(r.start for r in group)
    rows = np.zeros((len(group), max(r.start + r.taps.size for r in group) - start), np.float32)
    for row, residue in zip(rows, group):
        row[residue.start - start:][: residue.taps.size] = residue.taps
    return rows, start


def _finite(x: np.ndarray) -> bool:
    """Whether all elements are, by their sum; which may be infinite where no element is."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.sum(x)))


def layers(h: np.ndarray, x: np.ndarray, shape: tuple[int, ...], up: int, down: int, edge: int, begin: int) -> np.ndarray | None:
    """The outputs along the last axis, or None where layers are not the way: zeros among the weights would spread
    infinities, and few outputs are done sooner without them."""
    shared, size = math.gcd(up, down), shape[-1]
    period, step = up // shared, down // shared
    if size < LEAST or x.dtype != np.float32 or (h.size + 15 * down) // up > LONGEST or not _finite(x):
        return None
    groups = _groups(h.tobytes(), up, down, begin)
    if any(rows.shape[1] > LONGEST for rows, _ in groups):
        return None
    lines = np.ascontiguousarray(x).reshape(-1, x.shape[-1])
    pixels = -(-size // period)
    out = np.empty((len(lines), pixels * period), np.float32)
    for i, (rows, start) in enumerate(groups):
        _layer(lines, rows, out[:, i * GROUP:], period, step, start, edge)
    return out[:, :size].reshape(shape)


def _layer(x: np.ndarray, rows: np.ndarray, out: np.ndarray, period: int, step: int, start: int, edge: int) -> None:
    """Writes the channels of a group."""
    settings = current.get()
    key = ("rate", x.shape, rows.shape, rows.tobytes(), out.shape, period, step, start, edge, settings)
    plan = cache.get(key, lambda: _planned(x, rows, out, period, step, start, edge))
    plan.run(x.ctypes.data, None, out.ctypes.data)


def _planned(x: np.ndarray, rows: np.ndarray, out: np.ndarray, period: int, step: int, start: int, edge: int) -> Plan:
    problem = ProblemStruct()
    lib.falt_problem_default(problem)
    (lines, count), (channels, taps) = x.shape, rows.shape
    row = out.strides[0] // out.itemsize
    pixels = row // period
    problem.operation, problem.space = 0, 1
    for tensor, sizes, strides in ((problem.input, (lines, 1, 1, count), (count, count, count, 1)),
                                   (problem.filter, (channels, 1, 1, taps), (taps, channels * taps, taps, 1)),
                                   (problem.output, (lines, 1, channels, pixels), (row, channels, 1, period))):
        tensor.type, tensor.offset = F32, 0
        for place, n, s in zip((0, 1, 2, 5), sizes, strides):
            tensor.size[place], tensor.stride[place] = n, s
    axis = problem.axis[2]
    axis.stride, axis.boundary[0], axis.boundary[1] = step, edge, edge
    axis.pad[0], axis.pad[1] = -start, (pixels - 1) * step + start + taps - count
    problem.accumulator = F32
    settings = current.get()
    return Plan(device_of(settings, _arrays.Numpy.view(x)), Problem(problem, settings.budget()), rows.ctypes.data)
