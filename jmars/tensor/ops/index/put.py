"""NumPy functions that write into a tensor: `put`, `place`, `putmask`, `fill_diagonal`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jmars.errors import ObjectArrayError, UnsupportedError
from jmars.tensor.ops.blockwise.blockwise import blockwise
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.create.ranges import arange
from jmars.tensor.ops.elementwise.ufuncs import where
from jmars.tensor.ops.index.getitem import is_many
from jmars.tensor.ops.index.take import as_positions
from jmars.tensor.ops.reduce.cumulative import cumsum
from jmars.tensor.ops.reduce.reduction import any_
from jmars.tensor.ops.shape.reshape import ravel, reshape
from jmars.tensor.ops.shape.resize import resize
from jmars.tensor.ops.written_values import converted
from jmars.tensor.protocols import call, offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = [
    "fill_diagonal",
    "place",
    "put",
    "putmask",
]

Array = np.ndarray[Any, Any]


@offers("putmask")
def putmask(a: Any, /, mask: Any, values: Any) -> None:
    """`np.putmask`: writes values where a mask is true; values of another shape are repeated cyclically."""
    x = _require_tensor("putmask", a)
    if not x._place.is_array:
        raise TypeError("putmask: first argument must be an array")  # NumPy's words
    if np.size(mask) != x.size:
        raise ValueError("putmask: mask and data must be the same size")
    put = as_tensor(converted(values, x.dtype, "safe"))
    if not put.size:
        return
    x[...] = where(as_tensor(mask).astype(bool).reshape(x.shape), _fill_cyclically(put, x.shape), x)


@offers("place")
def place(arr: Any, mask: Any, vals: Any) -> None:
    """`np.place`: writes consecutive values where a mask is true, repeated cyclically."""
    x = _require_tensor("place", arr)
    if np.size(mask) != x.size:
        raise ValueError("place: mask and data must be the same size")
    put = ravel(as_tensor(converted(vals, x.dtype, "safe")))
    holds = as_tensor(mask).astype(bool).reshape(x.shape)
    if not put.size:
        if any_(holds):  # computed at once
            raise ValueError("Cannot insert from an empty array!")
        return
    number = cumsum(holds.astype(np.intp)).reshape(x.shape) - 1
    x[...] = where(holds, _cycle_values(put, number), x)


def _cycle_values(values: Tensor, number: Tensor) -> Tensor:
    """`values[number % len(values)]`, with the values in a single chunk."""
    return blockwise("place", _take_cyclically, [number, values.rechunk(-1)], number.chunks, values.dtype)


def _take_cyclically(number: Array, values: Array) -> Array:
    found: Array = values[number % len(values)]
    return found


def _fill_cyclically(put: Tensor, shape: tuple[int, ...]) -> Tensor:
    if not put.ndim or put.shape == shape:
        return put
    return _cycle_values(ravel(put), arange(math.prod(shape)).reshape(shape))


@offers("put")
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """`np.put`: writes values cyclically at flat positions; few positions of a tensor are computed at once.

    Raises
    ------
    IndexError
        If a position is out of bounds and `mode` is "raise".
    """
    x = _require_tensor("put", a)
    x = x if x._place.is_array else call("array", x)  # of a scalar of NumPy's, which stays as it is
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    at: Any = as_positions(ind)
    at = ravel(at) if is_many(at) else np.asarray(at).reshape(-1)
    values = ravel(as_tensor(converted(v, x.dtype)))
    if at.size and not x.size:
        raise IndexError("cannot replace elements of an empty array")
    if not at.size or not values.size:
        return
    if mode != "raise":
        at = np.clip(at, 0, x.size - 1) if mode == "clip" else at % x.size
    flat = Tensor(ravel(x).data)
    flat[at] = values if values.size == 1 else resize(values, len(at))
    x[...] = reshape(flat, x.shape)


@offers("method.set_flat")
def set_flat(x: Tensor, value: Any) -> None:
    """`x.flat = value`: writes values in C order, repeated cyclically; nothing if there are none."""
    values = cyclic(value, x.shape, x.dtype)
    if values is not None:
        x[...] = values


@offers("method.cyclic")
def cyclic(value: Any, shape: tuple[int, ...], dtype: Any) -> Tensor | None:
    """Values in C order, repeated cyclically, as `x.flat[index] = value` writes them; None if there are none."""
    values = ravel(as_tensor(converted(value, dtype)))
    return reshape(resize(values, (math.prod(shape),)), shape) if values.size else None


@offers("fill_diagonal")
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """`np.fill_diagonal`: writes a number, or numbers cyclically, to the main diagonal of a tensor."""
    x = _require_tensor("fill_diagonal", a)
    if x.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if x.ndim > 2 and len(set(x.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    step = x.shape[1] + 1 if x.ndim == 2 else 1 + int(np.cumprod(x.shape[:-1]).sum())
    end = x.shape[1] * x.shape[1] if x.ndim == 2 and not wrap else x.size
    values = ravel(as_tensor(converted(val, x.dtype)))
    if values.size:
        at = arange(x.size).reshape(x.shape)
        inputs = [Tensor(x.data), Tensor(rechunked(at.data, x.chunks)), values.rechunk(-1)]
        x[...] = blockwise("fill diagonal", _fill_diagonal_block, inputs, x.chunks, x.dtype, (step, end))


def _fill_diagonal_block(block: Array, at: Array, values: Array, step: int, end: int) -> Array:
    result, on = block.copy(), (at % step == 0) & (at < end)
    result[on] = values[at[on] // step % len(values)]
    return result


def _require_tensor(name: str, x: Any) -> Tensor:
    if isinstance(x, np.ndarray):  # NumPy's function writes, at once
        raise ObjectArrayError(f"np.{name} writes into tensors in jmars where no value can be computed")
    if not isinstance(x, Tensor):
        raise UnsupportedError(f"np.{name} writes into tensors in jmars; give one, np.asarray(x)")
    return x
