"""Applies functions along axes, which are brought into a single chunk; the other axes keep their chunks.

`map_along` is the base of Fourier transforms, sorting, medians and functions of stacks of matrices.
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
    """Rechunks `x` to a single chunk along all of `axes`; divides other axes further where chunks would grow large.

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
    return Tensor(rechunked(x.data, refined(chunks, axes, max(1, there // max(x.dtype.itemsize, 1)))))


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
    """Calls `function(block, **kwargs)` with blocks of `x` that span all of `axes`.

    Parameters
    ----------
    name
        Label in the view.
    function
        A function of NumPy or of a module, pickled by name.
    x, axes
        The tensor and the axes (0 or more each) that must lie in a single chunk.
    lengths
        New length by axis, for axes whose length the function changes.
    dtype
        dtype of the result; by default the function is called with one element to learn it.
    """
    x = single_chunk_along(x, axes)
    chunks = tuple((lengths[i],) if lengths and i in lengths else cut for i, cut in enumerate(x.chunks))
    return map_blocks(function, x, dtype=dtype, chunks=chunks, name=name, **kwargs)
