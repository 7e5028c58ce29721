"""Expressions of values that lie side by side in several chunks, computed where they are, without a copy.

Shifted slices of an array have most of their elements in a chunk and a few in the neighbours. The output is divided
into cells, and in a cell every input lies in a single array.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jmars.kernels.blocks import BLOCK_SIZE
from jmars.kernels.numpy_backend import whole_function
from jmars.kernels.pipeline import Run, Stop, interrupted
from jmars.kernels.program import ChunkType, Elementwise

Array = np.ndarray[Any, Any]
Lengths = tuple[tuple[int, ...], ...]  # of the parts along each axis
Box = tuple[slice, ...]


class SideBySide(NamedTuple):
    """Arrays that hold a value together, as `Call.joins` says."""

    arrays: Sequence[Array]
    starts: tuple[int, ...]  # of the elements in the first arrays of each axis


class _Part(NamedTuple):
    """Where an input has the elements of a cell."""

    slot: int
    array: int  # index among the arrays laid side by side; -1 for an array of its own
    box: Box
    shifts: tuple[bool, ...]  # axes along which the box begins at the start of the value

    def of(self, values: Sequence[Any]) -> Array:
        """The elements, as a view."""
        value = values[self.slot]
        if self.array < 0:
            own: Array = value[self.box]
            return own
        box = tuple(
            slice(part.start + start, part.stop + start) if shifted else part
            for part, start, shifted in zip(self.box, value.starts, self.shifts)
        )
        found: Array = value.arrays[self.array][box]
        return found


class _Cell(NamedTuple):
    box: Box
    parts: tuple[_Part, ...]
    run: Run


def in_cells(
    middle: Elementwise,
    types: Sequence[ChunkType],
    joined: Mapping[int, Lengths],
    compiled: Callable[[Elementwise, list[ChunkType], bool], Run],
) -> Run:
    """Compile an expression whose inputs `joined` are `SideBySide`.

    Parameters
    ----------
    middle
        The expression.
    types
        Of all values of the program.
    joined
        Lengths of the parts of these inputs along each axis.
    compiled
        Compiles the expression for a part of the output whose rows lie apart, as those of the inputs. The last argument
        is whether the elements between these rows are computed later.
    """
    shape = middle.output.shape
    cells: list[_Cell] = []
    axes = [_cuts([joined[v][axis] for v in joined]) for axis in range(len(shape))]
    for box in sorted(itertools.product(*axes), key=_size, reverse=True):
        cell = tuple(part.stop - part.start for part in box)
        own = list(types)
        parts = []
        for slot in dict.fromkeys(middle.inputs):
            part = _part(slot, box, joined[slot]) if slot in joined else _Part(slot, -1, _within(box, types[slot]), ())
            parts.append(part)
            whole = types[slot].shape
            there = tuple(1 if n == 1 else m for n, m in zip(whole, cell[len(cell) - len(whole) :]))
            own[slot] = ChunkType(there, types[slot].dtype)
        is_thin = cell[-1] == 1 and shape[-1] > 1
        smaller = Elementwise(middle.expression, middle.inputs, ChunkType(cell, middle.output.dtype), middle.twin)
        run = _packed(smaller) if is_thin else compiled(smaller, own, not cells)
        cells.append(_Cell(box, tuple(parts), run))

    def all_cells(out: Any, values: Sequence[Any], args: Sequence[Any] = (), stop: Stop = None) -> None:
        given = list(values)
        for cell in cells:
            for part in cell.parts:
                given[part.slot] = part.of(values)
            cell.run(out[cell.box], given, args, stop)

    return all_cells


def _size(box: Box) -> int:
    return math.prod(part.stop - part.start for part in box)


def _cuts(lengths: Sequence[tuple[int, ...]]) -> list[slice]:
    """The parts of an axis between all cuts."""
    ends = sorted({end for own in lengths for end in itertools.accumulate(own)})
    return [slice(low, high) for low, high in itertools.pairwise([0, *ends]) if high > low]


def _within(box: Box, chunk: ChunkType) -> Box:
    """The part of a broadcast array in a box."""
    own = box[len(box) - len(chunk.shape) :]
    return tuple(slice(None) if n == 1 else part for n, part in zip(chunk.shape, own))


def _part(slot: int, box: Box, lengths: Lengths) -> _Part:
    """The part of a value side by side."""
    number, own, shifts = 0, [], []
    for part, axis in zip(box, lengths):
        ends = list(itertools.accumulate(axis))
        k = next(k for k, end in enumerate(ends) if part.start < end)
        number = number * len(axis) + k
        begin = ends[k] - axis[k]
        own.append(slice(part.start - begin, part.stop - begin))
        shifts.append(k == 0)
    return _Part(slot, number, tuple(own), tuple(shifts))


def _packed(middle: Elementwise) -> Run:
    """Compile an expression of single columns; they are copied, since NumPy's last bits differ for elements apart."""
    compute = whole_function(middle.expression, middle.inputs, middle.twin)
    shape = middle.output.shape
    rows = max(1, BLOCK_SIZE // max(1, math.prod(shape[1:])))

    def run(out: Any, values: Sequence[Any], args: Sequence[Any] = (), stop: Stop = None) -> None:
        packed = list(values)
        for low in range(0, shape[0], rows):
            part = out[low : low + rows]
            for slot in middle.inputs:
                value = values[slot]
                is_cut = value.ndim == len(shape) and len(value) == shape[0]
                packed[slot] = np.ascontiguousarray(value[low : low + rows] if is_cut else value)
            column = np.empty(part.shape, middle.output.dtype)
            compute(column, packed)
            part[...] = column
            if stop is not None and stop():
                raise interrupted()

    return run
