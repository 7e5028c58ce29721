"""Iterates over the elements of a tensor: `ndenumerate`. Elements are fetched in pieces of `PIECE` bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jmars.tensor.protocols import offers
from jmars.tensor.tensor import as_tensor

__all__ = ["ndenumerate"]

PIECE = 16 * 2**20  # bytes that are fetched at a time


@offers("ndenumerate")
def ndenumerate(arr: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """`np.ndenumerate`: index and value of each element, in C order; computes when the first element is read.

    Examples
    --------
    >>> from jmars.tensor.ops.create.ranges import arange
    >>> [(place, int(value)) for place, value in ndenumerate(arange(4, chunk_size=3).reshape(2, 2))]
    [((0, 0), 0), ((0, 1), 1), ((1, 0), 2), ((1, 1), 3)]
    """
    return _iterate(as_tensor(arr))


def _iterate(x: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    if not x.ndim:
        yield from np.ndenumerate(np.asarray(x))
        return
    x.execute()  # once, not for each piece again
    rows = max(1, PIECE * len(x) // max(1, x.nbytes))
    for start in range(0, len(x), rows):
        for place, value in np.ndenumerate(x[start : start + rows].fetch()):
            yield (start + place[0], *place[1:]), value
