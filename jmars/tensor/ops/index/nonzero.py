"""Positions of nonzero elements: index arrays selected by a boolean mask, so their number may stay unknown."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.create.constants import zeros
from jmars.tensor.ops.create.ranges import arange
from jmars.tensor.ops.elementwise.ufuncs import as_bool, astype
from jmars.tensor.ops.index.boolean_mask import select_by_mask
from jmars.tensor.ops.shape.concatenate import stack
from jmars.tensor.ops.shape.reshape import ravel, reshape
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["argwhere", "flatnonzero", "ix_", "nonzero"]


@offers("flatnonzero")
def flatnonzero(a: Any) -> Tensor:
    """`np.flatnonzero`: positions of nonzero elements in the flattened array."""
    return nonzero(ravel(as_tensor(a)))[0]


@offers("nonzero")
def nonzero(a: Any) -> tuple[Tensor, ...]:
    """`np.nonzero`: an array of positions per axis, all of the same unknown length."""
    mask = as_bool(as_tensor(a))
    if not mask.ndim:
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead. "
            "If the context of this error is of the form `arr[nonzero(cond)]`, just use `arr[cond]`."
        )
    return tuple(select_by_mask(one, mask) for one in _positions(mask))


@offers("argwhere")
def argwhere(a: Any) -> Tensor:
    """`np.argwhere`: a row of positions per nonzero element."""
    mask = as_bool(as_tensor(a))
    if not mask.ndim:
        return select_by_mask(zeros((1, 0), np.intp), reshape(mask, (1,)))
    places = stack(_positions(mask), axis=-1)
    return select_by_mask(Tensor(rechunked(places.data, (*places.chunks[:-1], (mask.ndim,)))), mask)


@offers("ix_")
def ix_(*args: Any) -> tuple[Any, ...]:
    """`np.ix_`: an open mesh of positions along each axis; the number of positions of a mask is computed."""
    if not any(isinstance(one, Tensor) for one in args):
        return np.ix_(*args)
    found = []
    for axis, one in enumerate(args):
        x = as_tensor(one)
        if x.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if x.dtype == bool:
            x = nonzero(x)[0]
        elif not isinstance(one, Tensor | np.ndarray) and not x.size:
            x = astype(x, np.intp)
        shape = [1] * len(args)
        shape[axis] = x.size
        found.append(reshape(x, shape))
    return tuple(found)


def _positions(mask: Tensor) -> list[Tensor]:
    """Index arrays with the splits of the mask, an array per axis; only values under a true mask are meaningful."""
    found = []
    for axis, length in enumerate(mask.shape):
        cut = mask.chunks[axis]
        along = arange(length, dtype=np.intp, chunk_size=(tuple(n for n in cut if n) or (0,),))
        along = Tensor(rechunked(along.data, (cut,)))  # after another mask chunks may be empty
        shape = tuple(length if i == axis else 1 for i in range(mask.ndim))
        found.append(along if mask.ndim == 1 else astype(mask, np.intp) * reshape(along, shape))
    return found
