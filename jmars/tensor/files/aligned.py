"""Chooses chunks that consist of whole pieces of a file, so that no two workers read or write the same piece."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jmars.tensor.operand import Splits
from jmars.tensor.splits import ChunkSize, chunk_bytes, decide_splits, split_axis

__all__ = ["aligned_splits", "regular_size"]


def aligned_splits(
    shape: tuple[int, ...], dtype: np.dtype, own: Sequence[int] | None, chunk_size: ChunkSize, chunks: ChunkSize
) -> Splits:
    """Decide the chunks of an array in a file: the user's, else whole pieces up to the default chunk size.

    Parameters
    ----------
    shape, dtype
        Shape and dtype of the array.
    own
        Lengths of the file's pieces along each axis; None if the file is a single piece.
    chunk_size, chunks
        The user's setting; see `decide_splits`.

    Examples
    --------
    >>> aligned_splits((10, 10), np.dtype("f8"), (4, 10), None, None)
    ((10,), (10,))
    >>> aligned_splits((10, 10), np.dtype("f8"), (4, 10), (4, 5), None)
    ((4, 4, 2), (5, 5))
    """
    if chunk_size is not None or chunks is not None or own is None or not math.prod(shape):
        return decide_splits(shape, dtype, chunk_size, chunks)
    size = [min(max(1, n), length) for n, length in zip(own, shape)]
    room = chunk_bytes() // dtype.itemsize
    for axis in reversed(range(len(shape))):  # pieces that are neighbours in C order are joined first
        others = math.prod(size) // size[axis]
        pieces = max(1, room // max(1, others * size[axis]))
        size[axis] = min(size[axis] * pieces, shape[axis])
    return tuple(split_axis(length, n) for length, n in zip(shape, size))


def regular_size(splits: Splits) -> tuple[int, ...]:
    """Return piece lengths for a file that is cut regularly: the longest chunk of each axis.

    Examples
    --------
    >>> regular_size(((4, 4, 2), (3, 5)))
    (4, 5)
    """
    return tuple(max(1, *axis) if len(axis) > 1 else max(1, axis[0]) for axis in splits)
