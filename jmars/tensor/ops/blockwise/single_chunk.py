"""NumPy functions of whole lines: the axes that they work along lie in one chunk, the others stay cut.

`map_along` is what transforms, sorting, medians and functions of stacks of matrices are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jmars.tensor.ops.blockwise.map_blocks import map_blocks
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.splits import chunk_bytes, refined
from jmars.tensor.tensor import Tensor

__all__ = ["map_along", "single_chunk_along"]


def single_chunk_along(x: Tensor, axes: Sequence[int]) -> Tensor:
    """`x` with each of `axes` in one chunk; other axes are cut further where a chunk would become too large.

    Examples
    --------
    >>> from jmars.tensor.ops.create.constants import ones
    >>> single_chunk_along(ones((4, 6), chunk_size=2), [1]).chunks
    ((2, 2), (6,))
    """
    chunks = tuple((n,) if axis in axes else cut for axis, (n, cut) in enumerate(zip(x.shape, x.chunks)))
    if chunks == x.chunks:
        return x
    there = max(chunk_bytes(), x.dtype.itemsize * int(np.prod([max(cut) for cut in x.chunks])))
    return Tensor(rechunked(x.data, refined(chunks, axes, max(1, there // x.dtype.itemsize))))


def map_along(
    name: str,
    function: Callable[..., Any],
    x: Tensor,
    axes: Sequence[int],
    *,
    lengths: Mapping[int, int] | None = None,
    dtype: Any = None,
    **kwargs: Any,
) -> Tensor:
    """`function(block, **kwargs)` of blocks of `x` that are whole along `axes`.

    Parameters
    ----------
    name
        What the view shows.
    function
        NumPy's, or one of a module: it travels by its name.
    x, axes
        What it works on, along which axes (0 or more each).
    lengths
        Length of an axis of the result where it is another than that of `x`.
    dtype
        Of the result; by default what the function gives for one element.
    """
    x = single_chunk_along(x, axes)
    chunks = tuple((lengths[i],) if lengths and i in lengths else cut for i, cut in enumerate(x.chunks))
    return map_blocks(function, x, dtype=dtype, chunks=chunks, name=name, **kwargs)
