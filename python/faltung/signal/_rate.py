"""Changes of rate by products of matrices: a block of neighbouring outputs is a block of the input times a matrix.

Outputs repeat their taps after `period` of them, while the input goes on by `step` samples. GROUP neighbouring outputs
read a few more samples than one does, so the matrix of their taps is short and holds few zeros: numpy multiplies it with
the samples where they lie, many periods at once. Each product is small: BLAS libraries take one thread for it, and the
calls' own threads take blocks in turn. Blocks that hold NaN or infinity go an output of the period at a time, since zeros
in the matrix would spread them.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .. import _workers
from .._filter import rows_beyond

GROUP = 16  # outputs
LONGEST = 512  # taps; filters of more have faster ways of their own
LEAST = 1 << 12  # results; a plan for each residue takes no longer for fewer
PRODUCT = 1 << 18  # multiply-adds for which OpenBLAS starts no threads
BLOCK = 1 << 16  # results of a task
COLUMNS = 8  # from so many neighbours on, samples lie as a matrix of their own


class Residue(NamedTuple):
    """Taps of a residue, and where the first one stands for the first output."""

    taps: np.ndarray
    start: int


class Group(NamedTuple):
    """Neighbouring outputs of a period: a column of taps for each, the row where the matrix begins, and the first one."""

    matrix: np.ndarray
    start: int
    first: int
    residues: list[Residue]


class Rate(NamedTuple):
    """A change of rate. unit: values of a sample that lie together and are computed alike."""

    groups: list[Group]
    period: int
    step: int
    low: int  # the first and the end of the rows that a period reads
    high: int
    unit: int

    def whole(self, count: int, periods: int) -> tuple[int, int]:
        """The periods that read only samples of so many."""
        first = min(max(-(self.low // self.step), 0), periods)
        return first, max(min((count - self.high) // self.step + 1, periods), first)


def residues(h: np.ndarray, up: int, down: int, begin: int = 0) -> list[Residue]:
    """The filter of each residue of the outputs."""
    found = []
    for r in range(up // math.gcd(up, down)):
        place, phase = divmod(r * down, up)
        taps = np.ascontiguousarray(h[phase::up][::-1])
        found.append(Residue(taps, place + begin + 1 - taps.size))
    return found


def _group(found: list[Residue], first: int, unit: int) -> Group:
    start = min(r.start for r in found)
    matrix = np.zeros((max(r.start + r.taps.size for r in found) - start, len(found)), found[0].taps.dtype)
    for column, residue in zip(matrix.T, found):
        column[residue.start - start:][: residue.taps.size] = residue.taps
    return Group(np.kron(matrix, np.eye(unit, dtype=matrix.dtype)), start, first, found)


@functools.lru_cache(16)
def _rate(h: bytes, kind: str, up: int, down: int, begin: int, unit: int) -> Rate:
    """The matrices. A period is made so long that no sample is twice in a row of the blocks that BLAS reads."""
    own = residues(np.frombuffer(h, kind), up, down, begin)
    step, size = down // math.gcd(up, down), GROUP // unit
    span = max(r.taps.size for r in own) + size * down // up + 1
    times = max(-(-span // step), -(-size // len(own)))
    found = [r._replace(start=r.start + i * step) for i in range(times) for r in own]
    groups = [_group(found[i: i + size], i, unit) for i in range(0, len(found), size)]
    low = min(g.start for g in groups)
    return Rate(groups, len(found), step * times, low, max(g.start + len(g.matrix) // unit for g in groups), unit)


def products(h: np.ndarray, x: np.ndarray, count: int, up: int, down: int, axis: int, edge: int, begin: int) -> np.ndarray | None:
    """`count` outputs along the axis of a contiguous array of h's type, or None where products are not the way."""
    if count < LEAST or (h.size + GROUP * down) // up > LONGEST or min(h.size, x.size) == 0:
        return None
    inner = math.prod(x.shape[axis + 1:])
    if 2 < inner < COLUMNS:
        made = products(h, np.ascontiguousarray(np.moveaxis(x, axis, -1)), count, up, down, x.ndim - 1, edge, begin)
        return None if made is None else np.ascontiguousarray(np.moveaxis(made, -1, axis))
    unit = inner if inner <= 2 else 1
    rate = _rate(h.tobytes(), h.dtype.char, up, down, begin, unit)
    out = np.empty((*x.shape[:axis], count, *x.shape[axis + 1:]), x.dtype)
    samples = x.reshape(-1, x.shape[axis], inner)
    _whole_periods(rate, samples, out.reshape(len(samples), count, inner), edge)
    return out


def _whole_periods(rate: Rate, x: np.ndarray, out: np.ndarray, edge: int) -> None:
    """All outputs: periods inside the array where it lies, the others on copies that go on beyond its ends."""
    lines, count, inner = out.shape
    periods, rest = divmod(count, rate.period)
    first, end = rate.whole(x.shape[1], periods)
    _run(rate, x, out, first, end, 0)
    for low, high in ((0, first), (end, periods)):
        if low < high:
            rows = np.arange(low * rate.step + rate.low, (high - 1) * rate.step + rate.high)
            _run(rate, rows_beyond(x, 1, rows, (edge, edge), 0.0), out, low, high, int(rows[0]))
    if rest:
        rows = np.arange(rate.low, rate.high) + periods * rate.step
        last = np.empty((lines, rate.period, inner), out.dtype)
        _run(rate, rows_beyond(x, 1, rows, (edge, edge), 0.0), last, 0, 1, rate.low)
        out[:, periods * rate.period:] = last[:, :rest]


def _run(rate: Rate, x: np.ndarray, out: np.ndarray, low: int, high: int, origin: int) -> None:
    """The periods [low, high) of out, from samples of which x holds those from `origin` on."""
    if low >= high:
        return
    base, span = low * rate.step + rate.low - origin, rate.high - rate.low
    pairs = []
    for group in rate.groups:
        at = base + group.start - rate.low
        pairs.append((group, _windows(rate, x, at, group, high - low), _targets(rate, out, low, high, group)))

    def block(part: tuple[slice, slice, slice], _own: object) -> None:
        lines, periods, columns = part
        end = base + (min(periods.stop, high - low) - 1) * rate.step + span
        with np.errstate(over="ignore", invalid="ignore"):
            compute = _product if _finite(x[lines, base + periods.start * rate.step: end, columns]) else _apart
            for group, windows, targets in pairs:
                index = (lines, periods, slice(None), columns)[: windows.ndim]
                compute(group, windows[index], targets[index])

    _workers.each(_parts(rate, x, high - low), block, object)


def _windows(rate: Rate, x: np.ndarray, at: int, group: Group, count: int) -> np.ndarray:
    """What a group reads: (lines, periods, rows), and columns where samples have many values."""
    (line, sample, value), rows = x.strides, len(group.matrix)
    if x.shape[2] == rate.unit:
        return as_strided(x[:, at:], (len(x), count, rows), (line, rate.step * sample, value))
    return as_strided(x[:, at:], (len(x), count, rows, x.shape[2]), (line, rate.step * sample, sample, value))


def _targets(rate: Rate, out: np.ndarray, low: int, high: int, group: Group) -> np.ndarray:
    """Where a group writes, in the same order."""
    line, sample, value = out.strides
    size, columns = len(group.residues), out.shape[2]
    begin = out[:, low * rate.period + group.first:]
    if columns == rate.unit:
        return as_strided(begin, (len(out), high - low, size * columns), (line, rate.period * sample, value))
    return as_strided(begin, (len(out), high - low, size, columns), (line, rate.period * sample, sample, value))


def _parts(rate: Rate, x: np.ndarray, periods: int) -> Iterator[tuple[slice, slice, slice]]:
    """Blocks of lines, periods and columns."""
    lines, _, inner = x.shape
    size = max(PRODUCT // max(g.matrix.size for g in rate.groups), 1)
    if inner == rate.unit:
        columns, many = inner, min(size, periods)
    else:
        columns, many = min(size, inner), max(BLOCK // (rate.period * min(size, inner)), 1)
    together = max(BLOCK // (rate.period * columns * min(many, max(periods, 1))), 1)
    for line in range(0, lines, together):
        for first in range(0, periods, many):
            for column in range(0, inner, columns):
                yield slice(line, line + together), slice(first, first + many), slice(column, column + columns)


def _product(group: Group, samples: np.ndarray, results: np.ndarray) -> None:
    if samples.ndim == 4:
        np.matmul(group.matrix.T, samples, results)
    else:
        np.matmul(samples, group.matrix, results)


def _finite(x: np.ndarray) -> bool:
    """Whether all elements are, by their sum; which may be infinite where no element is."""
    return bool(np.isfinite(np.add.reduce(x, None)))


def _apart(group: Group, samples: np.ndarray, results: np.ndarray) -> None:
    """Each output from its own taps alone."""
    unit = group.matrix.shape[1] // len(group.residues)
    for i, residue in enumerate(group.residues):
        begin = residue.start - group.start
        rows = slice(begin, begin + residue.taps.size)
        if samples.ndim == 4:
            results[:, :, i] = residue.taps @ samples[:, :, rows]
            continue
        for value in range(unit):
            own = samples[:, :, value::unit]
            results[:, :, i * unit + value] = own[:, :, rows] @ residue.taps
