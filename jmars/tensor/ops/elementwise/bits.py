"""`np.packbits` and `np.unpackbits`."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmars.tensor.ops.blockwise.map_blocks import map_blocks
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.create.constants import zeros
from jmars.tensor.ops.shape.axes import names_no_axis, normal_axis
from jmars.tensor.ops.shape.concatenate import concatenate, slice_axis
from jmars.tensor.ops.shape.reshape import ravel
from jmars.tensor.protocols import offers
from jmars.tensor.splits import split_axis
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["packbits", "unpackbits"]

Array = np.ndarray[Any, Any]


@offers("packbits")
def packbits(a: Any, /, axis: int | None = None, bitorder: str = "big") -> Tensor:
    """`np.packbits`: packs eight booleans into a byte, chunk by chunk."""
    x = as_tensor(a)
    if x.dtype.kind not in "biu":
        raise TypeError("Expected an input array of integer or boolean data type")
    x, axis = (ravel(x), 0) if axis is None or names_no_axis(axis, x.ndim) else (x, normal_axis(axis, x.ndim))
    own = x.chunks[axis]
    if any(n % 8 for n in own[:-1]):
        own = split_axis(x.shape[axis], max(8, max(own) // 8 * 8))
    return _mapped("packbits", x, axis, own, tuple(-(-n // 8) for n in own), bitorder=bitorder)


@offers("unpackbits")
def unpackbits(a: Any, /, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Tensor:
    """`np.unpackbits`: unpacks bytes into bits, chunk by chunk."""
    x = as_tensor(a)
    if x.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    x, axis = (ravel(x), 0) if axis is None or names_no_axis(axis, x.ndim) else (x, normal_axis(axis, x.ndim))
    n = 8 * x.shape[axis]
    n = n if count is None else count if count >= 0 else n + count
    if not x.shape[axis] and n > 0:  # NumPy returns uninitialised memory here
        return zeros(tuple(n if i == axis else m for i, m in enumerate(x.shape)), np.uint8)
    own = tuple(part for length in x.chunks[axis] for part in split_axis(length, max(1, -(-max(x.chunks[axis]) // 8))))
    bits = _mapped("unpackbits", x, axis, own, tuple(8 * length for length in own), bitorder=bitorder)
    if n > bits.shape[axis]:
        more = zeros(tuple(n - m if i == axis else m for i, m in enumerate(bits.shape)), np.uint8)
        return concatenate([bits, more], axis)
    return bits if n == bits.shape[axis] else slice_axis(bits, axis, slice(0, max(n, 0)))


def _mapped(name: str, x: Tensor, axis: int, own: tuple[int, ...], made: tuple[int, ...], **kwargs: Any) -> Tensor:
    """Calls NumPy's function for each chunk; `own` are the chunks of the axis, `made` those of the result."""
    cut, chunks = ((*x.chunks[:axis], one, *x.chunks[axis + 1 :]) for one in (own, made))
    line = Tensor(rechunked(x.data, cut))
    return map_blocks(getattr(np, name), line, dtype=np.uint8, chunks=chunks, name=name, axis=axis, **kwargs)
