"""Conversion between flat positions and one position per axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmars.tensor.engine import can_compute
from jmars.tensor.ops.blockwise.blockwise import blockwise
from jmars.tensor.ops.shape.axes import broadcast_arrays
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["ravel_multi_index", "unravel_index"]

Array = np.ndarray[Any, Any]


@offers("unravel_index")
def unravel_index(indices: Any, shape: Any, order: Any = "C") -> tuple[Any, ...]:
    """`np.unravel_index`: converts flat positions to an array of positions per axis.

    A single position, such as `x.argmax()`, is computed at once if values can be, and gives NumPy's scalars.
    A position out of bounds raises NumPy's ValueError when it is computed.
    """
    lengths = (shape,) if isinstance(shape, int | np.integer) else tuple(int(n) for n in shape)
    x = as_tensor(indices)
    _check_indices(indices, x)
    if not lengths or not x.ndim and (can_compute() or not isinstance(indices, Tensor)):
        return tuple(np.unravel_index(x.fetch() if isinstance(indices, Tensor) else indices, lengths, order))
    found = [blockwise("unravel_index", _unravel_index, [x], x.chunks, np.intp, (i, lengths, order))
             for i in range(len(lengths))]  # fmt: skip
    return tuple(found)


def _check_indices(given: Any, x: Tensor) -> None:
    """Raise NumPy's error where indices are not integers."""
    if x.dtype.kind not in "biu":
        if isinstance(given, list | tuple) and not len(given):
            raise TypeError("indices must be integral: the provided empty sequence was inferred as float")
        raise TypeError("only int indices permitted")


def _unravel_index(*more: Any) -> Array:
    at, axis, lengths, order = more
    return np.asarray(np.unravel_index(at, lengths, order)[axis])


@offers("ravel_multi_index")
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Tensor:
    """`np.ravel_multi_index`: converts positions per axis to flat positions; errors are raised when it is computed."""
    for one in multi_index:
        _check_indices(one, as_tensor(one))
    at = broadcast_arrays(*(as_tensor(x) for x in multi_index))
    if not at:
        return as_tensor(_ravel_multi_index(dims, mode, order))
    dims = (dims,) if isinstance(dims, int | np.integer) else dims
    params = (tuple(int(n) for n in dims), mode, order)
    return blockwise("ravel_multi_index", _ravel_multi_index, [at[0], *(x.rechunk(at[0].chunks) for x in at[1:])],
                     at[0].chunks, np.intp, params)  # fmt: skip


def _ravel_multi_index(*more: Any) -> Array:
    *at, dims, mode, order = more
    return np.asarray(np.ravel_multi_index(tuple(at), dims, mode, order))
