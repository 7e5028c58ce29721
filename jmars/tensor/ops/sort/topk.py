"""`topk`: the largest or smallest elements along an axis, per chunk first, then of these results.

Source: `dask.array.topk` (2025), arguments and order.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from jmars.tensor.ops.blockwise.blockwise import blockwise
from jmars.tensor.ops.blockwise.single_chunk import single_chunk_along
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["topk"]

Array = np.ndarray[Any, Any]


@offers("topk")
def topk(a: Any, k: int, axis: int = -1) -> Tensor:
    """Returns the `k` largest elements along an axis, in descending order.

    Parameters
    ----------
    a
        Any array; NaN counts as the largest value, as in sorting.
    k
        Number of elements; -k asks for the k smallest in ascending order. A shorter axis is returned completely.
    axis
        The axis.

    Examples
    --------
    >>> topk([3, 1, 4, 1, 5, 9], 2).fetch().tolist(), topk([3, 1, 4, 1, 5, 9], -2).fetch().tolist()
    ([9, 5], [1, 1])

    Source: `dask.array.topk`.
    """
    x, k = as_tensor(a), operator.index(k)
    axis = np.lib.array_utils.normalize_axis_index(axis, x.ndim)
    if len(x.chunks[axis]) > 1:
        x = single_chunk_along(_topk_of_chunks(x, k, axis), [axis])
    return _topk_of_chunks(x, k, axis)


def _topk_of_chunks(x: Tensor, k: int, axis: int) -> Tensor:
    """Takes the largest elements of each chunk."""
    cut = tuple(tuple(min(n, abs(k)) for n in lengths) if i == axis else lengths for i, lengths in enumerate(x.chunks))
    return blockwise("topk", largest_elements, [x], cut, x.dtype, (k, axis))


def largest_elements(block: Array, k: int, axis: int) -> Array:
    """Takes the `k` largest elements of a block along an axis, descending; for negative `k` the smallest, ascending."""
    n = min(abs(k), block.shape[axis])
    if 0 < n < block.shape[axis]:
        block = np.partition(block, -n if k > 0 else n - 1, axis)
    lines = np.moveaxis(block, axis, 0)
    part = np.sort(lines[len(lines) - n :] if k > 0 else lines[:n], axis=0)
    return np.moveaxis(part[::-1] if k > 0 else part, 0, axis)
