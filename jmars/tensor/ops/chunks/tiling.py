"""Helpers for the `tile` methods of operands: chunk classes, chunk corners, boxes.

Chunks of equal shape and role form a class and share one program; the differences travel as arguments.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Program
from jmars.tensor.chunk import ChunkGraphBuilder
from jmars.tensor.operand import Splits

__all__ = ["add_by_class", "boxes", "chunk_classes", "chunk_starts", "corners"]

Ints = NDArray[np.int64]


def chunk_classes(axes: Sequence[Sequence[Hashable]]) -> tuple[list[tuple[Any, ...]], Ints]:
    """Groups the chunks of a grid by keys: returns all combinations of keys, and the combination number of each chunk.

    `axes` holds a key per chunk, usually the length, for each axis.

    Examples
    --------
    >>> found, which = chunk_classes([[3, 3, 1], ["a"]])
    >>> found, which.tolist()
    ([(3, 'a'), (1, 'a')], [[0], [0], [1]])
    """
    different: list[list[Hashable]] = []
    which: Ints = np.zeros((), np.int64)
    for axis in axes:
        number: dict[Hashable, int] = {}
        kind = np.array([number.setdefault(key, len(number)) for key in axis], np.int64)
        which = which[..., None] * len(number) + kind
        different.append(list(number))
    return list(itertools.product(*different)), which


def add_by_class(
    builder: ChunkGraphBuilder,
    program: Callable[[int], Program],
    which: Ints,
    inputs: Ints,
    args: Sequence[tuple[Any, ...]] | None = None,
) -> Ints:
    """Adds an operand per row of `inputs`; makes `program(k)` once for each class `k` in `which`, shape (n,)."""
    used, row = np.unique(which, return_inverse=True)
    return builder.add_many([program(int(k)) for k in used], row.reshape(-1), inputs, args)


def chunk_starts(lengths: Sequence[int]) -> list[int]:
    """Start of each chunk along an axis, in elements.

    Examples
    --------
    >>> chunk_starts((3, 3, 1))
    [0, 3, 6]
    """
    return list(itertools.accumulate(lengths, initial=0))[:-1]


def corners(splits: Splits) -> list[tuple[Any, ...]]:
    """First index of each chunk in C order of the grid, as a tuple of operand arguments.

    Examples
    --------
    >>> corners(((3, 1), (2, 2)))
    [((0, 0),), ((0, 2),), ((3, 0),), ((3, 2),)]
    """
    return [(corner,) for corner in itertools.product(*map(chunk_starts, splits))]


def boxes(shape: Sequence[int], start: int, stop: int) -> Iterator[tuple[slice, ...]]:
    """Splits the elements [start, stop), counted in C order, into boxes in that order.

    Examples
    --------
    >>> [tuple((s.start, s.stop) for s in box) for box in boxes((3, 4), 2, 9)]
    [((0, 1), (2, 4)), ((1, 2), (0, 4)), ((2, 3), (0, 1))]
    """
    if len(shape) <= 1:
        yield tuple(slice(start, stop) for _ in shape)
        return
    row = math.prod(shape[1:])
    if start >= stop:
        return
    first, begin = divmod(start, row)
    last, end = divmod(stop, row)
    if begin:
        within = min(row, begin + stop - start)
        yield from ((slice(first, first + 1), *box) for box in boxes(shape[1:], begin, within))
        first += 1
    if first < last:
        yield (slice(first, last), *(slice(0, n) for n in shape[1:]))
    if end and first <= last:
        yield from ((slice(last, last + 1), *box) for box in boxes(shape[1:], 0, end))
