"""Cuts a chunk into blocks that fit the second-level cache.

Neighbouring axes on which every input is whole, or broadcast in the same way, are joined first, so that arrays of equal
shape become a single long axis. Blocks cover the chunk in C order without gaps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from jmars.model.record import record

__all__ = ["Blocks"]

BLOCK_SIZE = 16384  # elements; 128 KiB of float64: four buffers fit in 1 MiB (measured: 16 Ki best, 8-64 Ki near)

Index = tuple[int | slice, ...]


@record
class Blocks:
    """The blocks of `shape` after joining axes.

    Examples
    --------
    >>> Blocks.of((4, 6), [(4, 6), (4, 6)]).shape
    (24,)
    >>> Blocks.of((4, 6), [(4, 6), (6,)]).shape
    (4, 6)
    """

    shape: tuple[int, ...]
    operands: tuple[tuple[int, ...], ...]  # shape of each operand with the same axes; 1 where it is broadcast

    @classmethod
    def of(cls, shape: tuple[int, ...], operands: Sequence[tuple[int, ...]], apart: bool = False) -> Blocks:
        """Join the axes of `shape` that all `operands` (broadcastable to `shape`) treat alike; none if `apart`."""
        full = [(1,) * (len(shape) - len(operand)) + operand for operand in operands]
        groups: list[list[int]] = []
        pattern: list[bool] | None = None
        for axis, length in enumerate(shape):
            if length == 1:  # belongs to any group
                continue
            here = [operand[axis] == 1 for operand in full]
            if pattern is not None and here == pattern and not apart:
                groups[-1].append(axis)
            else:
                groups.append([axis])
                pattern = here
        if not groups:  # one element
            groups = [[]]
        return cls(
            tuple(math.prod(shape[axis] for axis in group) for group in groups),
            tuple(tuple(math.prod(operand[axis] for axis in group) for group in groups) for operand in full),
        )

    def cut(self, block_size: int = BLOCK_SIZE) -> Iterator[tuple[int, tuple[int, ...], Index, list[Index]]]:
        """Yield (start in C order, shape, index in the whole, index in each input) for all blocks.

        A block has at most `block_size` elements. Leading axes are indexed by numbers and vanish from the block.
        """
        axis = self.cut_axis(block_size)
        row = math.prod(self.shape[axis + 1 :])  # elements behind one step on `axis`
        step = max(1, block_size // max(row, 1))
        length = self.shape[axis]
        whole = slice(None)
        start = 0
        for lead in itertools.product(*map(range, self.shape[:axis])):
            leads = [tuple(0 if n == 1 else i for i, n in zip(lead, operand)) for operand in self.operands]
            for low in range(0, length, step):
                high = min(low + step, length)
                part = slice(low, high)
                inputs = [(*at, whole if n[axis] == 1 else part) for at, n in zip(leads, self.operands)]
                yield start, (high - low, *self.shape[axis + 1 :]), (*lead, part), inputs
                start += (high - low) * row

    def cut_axis(self, block_size: int) -> int:
        """The axis that is cut: earlier axes are iterated index by index, later axes stay whole."""
        axis = 0
        while axis < len(self.shape) - 1 and math.prod(self.shape[axis + 1 :]) > block_size:
            axis += 1
        return axis
