"""Computes which chunks, and which bytes of them, a slice of an array reads. Pure.

A result is sent in C order, piece by piece. A piece is put together from the chunks that overlap it; of each chunk only
the bytes between the first and the last wanted element are read.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, product

__all__ = ["PIECE", "ChunkRead", "Selection", "chunk_reads", "chunk_selection", "count_chunks", "parse_slice", "pieces"]

PIECE = 4 * 2**20  # bytes of one piece, about
_PART = re.compile(r"(-?\d+)|(-?\d*):(-?\d*)(?::(-?\d*))?")
Splits = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Selection:
    """Elements selected along the axes, and the axes that an integer index removed."""

    ranges: tuple[range, ...]
    dropped: tuple[bool, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the selection without the removed axes."""
        return tuple(len(one) for one, gone in zip(self.ranges, self.dropped) if not gone)


def parse_slice(text: str, shape: Sequence[int]) -> Selection:
    """Parses a slice such as "0:10,::2,-1"; axes left out are whole.

    Parameters
    ----------
    text
        For each axis an int or start:stop or start:stop:step with a step of 1 or more, joined by commas; "" is all.

    Raises
    ------
    ValueError
        If the text has another form or too many axes, or an index is out of bounds.

    Examples
    --------
    >>> parse_slice("1:,::2", (3, 5)).shape, parse_slice("-1", (3, 5)).shape
    ((2, 3), (5,))
    """
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if len(parts) > len(shape):
        raise ValueError(f"slice {text!r} has {len(parts)} axes and the array {len(shape)}; give one part per axis")
    ranges, dropped = [], []
    for axis, length in enumerate(shape):
        part = parts[axis] if axis < len(parts) else ":"
        found = _PART.fullmatch(part)
        if found is None:
            raise ValueError(f"{part!r} in slice {text!r} is no int and no start:stop:step; write e.g. 0:10,::2,-1")
        if found[1] is not None:
            index = int(found[1])
            if not -length <= index < length:
                raise ValueError(f"index {index} is outside of axis {axis}, which has {length} elements")
            ranges.append(range(index % length, index % length + 1))
        else:
            start, stop, step = (int(one) if one else None for one in found.group(2, 3, 4))
            if step is not None and step < 1:
                raise ValueError(f"step {step} in slice {text!r}; steps are 1 or more")
            ranges.append(range(*slice(start, stop, step).indices(length)))
        dropped.append(found[1] is not None)
    return Selection(tuple(ranges), tuple(dropped))


def chunk_selection(text: str, splits: Splits) -> Selection:
    """Selects the elements of a chunk by place in the grid, such as "3,0".

    Raises
    ------
    ValueError
        If there is no such chunk.
    """
    grid = [len(axis) for axis in splits]
    try:
        place = [int(part) for part in text.split(",")] if text.strip() else []
    except ValueError:
        place = [-1] * len(grid)
    if len(place) != len(grid) or any(not 0 <= at < n for at, n in zip(place, grid)):
        raise ValueError(f"there is no chunk {text!r}; the grid is {','.join(map(str, grid))}, counted from 0")
    ranges = []
    for at, axis in zip(place, splits):
        start = sum(axis[:at])
        ranges.append(range(start, start + axis[at]))
    return Selection(tuple(ranges), (False,) * len(grid))


def pieces(ranges: Sequence[range], itemsize: int, most: int = PIECE) -> Iterator[tuple[range, ...]]:
    """Splits a selection into boxes in C order, of at most `most` bytes unless an element is larger.

    Examples
    --------
    >>> [tuple(map(list, box)) for box in pieces((range(3), range(2)), 1, most=4)]
    [([0, 1], [0, 1]), ([2], [0, 1])]
    """
    if not math.prod(map(len, ranges)):
        return
    axis, inner = len(ranges), itemsize
    while axis > 0 and inner * len(ranges[axis - 1]) <= most:
        axis -= 1
        inner *= len(ranges[axis])
    if axis == 0:
        yield tuple(ranges)
        return
    cut, step = ranges[axis - 1], max(1, most // max(1, inner))
    for lead in product(*ranges[: axis - 1]):
        for at in range(0, len(cut), step):
            yield (*(range(i, i + 1) for i in lead), cut[at : at + step], *ranges[axis:])


@dataclass(frozen=True)
class ChunkRead:
    """The elements of a chunk that a box takes.

    Attributes
    ----------
    chunk
        Place in C order of the grid.
    start, stop
        Bytes of the chunk to read.
    shape, strides, offset
        Layout of the wanted elements among those bytes, as `np.ndarray` takes it, from `start`.
    target
        Place of the elements in the box, in elements along each axis.
    """

    chunk: int
    start: int
    stop: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    target: tuple[slice, ...]


def chunk_reads(box: Sequence[range], splits: Splits, itemsize: int) -> Iterator[ChunkRead]:
    """The chunks that overlap a box, with the bytes to read."""
    axes = [list(_met(cut, lengths)) for cut, lengths in zip(box, splits)]
    grid = [len(lengths) for lengths in splits]
    for place in product(*axes):
        chunk = 0
        for (at, *_), n in zip(place, grid):
            chunk = chunk * n + at
        step = itemsize
        strides, start, last = [], 0, 0
        for (at, within, _), lengths in zip(reversed(place), reversed(list(splits))):
            strides.append(step * within.step)
            start += step * within[0]
            last += step * within[-1]
            step *= lengths[at]
        shape = tuple(len(within) for _, within, _ in place)
        yield ChunkRead(chunk, start, last + itemsize, shape, tuple(reversed(strides)), tuple(t for *_, t in place))


def count_chunks(ranges: Sequence[range], splits: Splits) -> int:
    """Number of chunks that a selection overlaps."""
    return math.prod(sum(1 for _ in _met(cut, lengths)) for cut, lengths in zip(ranges, splits))


def _met(cut: range, lengths: Sequence[int]) -> Iterator[tuple[int, range, slice]]:
    """Chunks of an axis that overlap `cut`: number, elements within the chunk, and their place in the cut."""
    ends = list(accumulate(lengths))
    taken = 0
    while taken < len(cut):
        at = bisect_right(ends, cut[taken])
        begin, end = ends[at] - lengths[at], ends[at]
        count = min(len(cut) - taken, -(-(end - cut[taken]) // cut.step))
        first = cut[taken] - begin
        yield at, range(first, first + (count - 1) * cut.step + 1, cut.step), slice(taken, taken + count)
        taken += count
