"""Divides an array into cells, boxes that are drawn as a whole from separate random streams. Pure.

Cells depend on the shape of the array only, so values do not depend on chunks: a chunk draws all overlapping cells
and keeps the common part. Sides are powers of two, as chunk lengths often are, and longer towards the last axis,
since thin chunks are more common along the first axes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

__all__ = ["CELL", "SMALL", "Box", "Cell", "Cells", "align_splits"]

SMALL = 1 << 17  # elements of an array that is a single cell, drawn by the user's generator itself
CELL = 1 << 12  # elements of a cell of a larger array (measured: 2^11 costs a sixth more, 2^13 twice the thin slabs)

Box = tuple[tuple[int, int], ...]  # (begin, end) on each axis


class Cell(NamedTuple):
    """A box of an array that is drawn from its own stream."""

    number: int  # in C order of all cells
    begin: tuple[int, ...]  # first index in the array
    shape: tuple[int, ...]

    def overlap(self, box: Box) -> Box:
        """Intersection with an overlapping box."""
        return tuple((max(a, lo), min(a + n, hi)) for a, n, (lo, hi) in zip(self.begin, self.shape, box))


class Cells(NamedTuple):
    """Division of an array into cells of equal sides.

    Examples
    --------
    >>> Cells.of((200_000,)).sides, Cells.of((10_000, 10_000)).sides, Cells.of((500, 3)).sides
    ((4096,), (32, 128), (500, 3))
    >>> [cell.number for cell in Cells.of((10_000, 10_000)).over(((0, 40), (100, 200)))]
    [0, 1, 79, 80]
    """

    shape: tuple[int, ...]
    sides: tuple[int, ...]

    @classmethod
    def of(cls, shape: Sequence[int], vector: int = 0) -> Cells:
        """Chooses cells for an array whose last `vector` axes are drawn together."""
        whole = tuple(shape)
        own, room = len(whole) - vector, CELL // max(1, math.prod(whole[len(whole) - vector :]))
        if math.prod(whole) <= SMALL:
            return cls(whole, tuple(max(n, 1) for n in whole))
        sides = [1] * own
        while grown := [i for i, side in enumerate(sides) if side < whole[i]]:
            if math.prod(sides) * 2 > room:
                break
            # grow the axis that is shortest relative to its target: each axis four times as long as the axis before
            sides[min(grown, key=lambda i: (sides[i] / 4**i, -i))] *= 2
        return cls(whole, (*sides, *whole[own:]))

    @property
    def is_one(self) -> bool:
        """Whether the array is a single cell."""
        return all(n <= side for n, side in zip(self.shape, self.sides))

    def over(self, box: Box) -> Iterator[Cell]:
        """Cells that overlap a box, in C order."""
        counts = [-(-n // side) for n, side in zip(self.shape, self.sides)]
        ranges = [range(a // side, -(-b // side)) for (a, b), side in zip(box, self.sides)]
        for place in itertools.product(*ranges):
            number = 0
            for i, count in zip(place, counts):
                number = number * count + i
            begin = tuple(i * side for i, side in zip(place, self.sides))
            shape = tuple(min(side, n - a) for side, n, a in zip(self.sides, self.shape, begin))
            yield Cell(number, begin, shape)


def align_splits(lengths: Sequence[int], side: int) -> tuple[int, ...]:
    """Chunk lengths near `lengths` that divide no cell.

    Examples
    --------
    >>> align_splits((30, 30, 40), 32), align_splits((3, 3, 3), 32)
    ((32, 32, 36), (9,))
    """
    total = sum(lengths)
    ends = {max(1, round(end / side)) * side for end in itertools.accumulate(lengths[:-1])}
    return tuple(b - a for a, b in itertools.pairwise([0, *sorted(end for end in ends if end < total), total]))
