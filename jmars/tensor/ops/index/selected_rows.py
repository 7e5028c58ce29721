"""Copies the rows of a chunk that a mask selects.

NumPy's `x[mask]` takes a branch for each element, and copies rows one by one through an iterator. `take` by the
positions of true elements is faster for rows, and for elements unless few or nearly all are selected.
Positions are found block by block, for little memory.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["selected_rows"]

Array = np.ndarray[Any, Any]
BLOCK = 2**16  # elements of a block
DENSE = 0.9  # share of selected elements from which `x[mask]` is the faster
FEW = 2**13  # elements of a mask up to which `x[mask]` costs less than one call more


def selected_rows(x: Array, mask: Array, out: Array | None = None) -> Array:
    """`x[mask]`, in C order, written to `out` where given.

    Parameters
    ----------
    x
        An array of shape (*mask.shape, ...).
    mask
        Booleans.
    out
        An array of the result's shape and dtype in C order.

    Raises
    ------
    ValueError
        If `out` has another length than the mask has true elements.

    Examples
    --------
    >>> selected_rows(np.arange(6).reshape(3, 2), np.array([True, False, True]))
    array([[0, 1],
           [4, 5]])
    """
    if mask.ndim > 1 and x.flags.c_contiguous:
        x, mask = x.reshape(mask.size, *x.shape[mask.ndim :]), mask.reshape(-1)
    count = np.count_nonzero(mask)
    if out is not None and count != len(out):
        raise ValueError(f"the mask selects {count} rows, and there is room for {len(out)}")
    dense = x.ndim == 1 and count > DENSE * mask.size
    if mask.ndim > 1 or mask.size <= FEW or dense or not x.flags.c_contiguous:  # `take` copies strided blocks whole
        found = np.ascontiguousarray(x[mask])
        if out is not None:
            np.copyto(out, found)
        return found if out is None else out
    if out is None:
        out = np.empty((count, *x.shape[1:]), x.dtype)
    step, begin = max(1, BLOCK // max(1, math.prod(x.shape[1:]))), 0
    for start in range(0, len(mask), step):
        positions = np.flatnonzero(mask[start : start + step])
        end = begin + len(positions)
        if begin < end:  # a mode other than "raise" needs no buffer
            x[start : start + step].take(positions, axis=0, out=out[begin:end], mode="clip")
        begin = end
    return out
