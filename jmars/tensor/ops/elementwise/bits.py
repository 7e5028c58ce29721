"""`np.packbits` and `np.unpackbits`."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmars.tensor.ops.blockwise.single_chunk import map_along
from jmars.tensor.ops.create.constants import zeros
from jmars.tensor.ops.shape.axes import names_no_axis, normal_axis
from jmars.tensor.ops.shape.reshape import ravel
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["packbits", "unpackbits"]

Array = np.ndarray[Any, Any]


@offers("packbits")
def packbits(a: Any, /, axis: int | None = None, bitorder: str = "big") -> Tensor:
    """`np.packbits`: packs eight booleans into a byte; the axis is brought into a single chunk."""
    x = as_tensor(a)
    if x.dtype.kind not in "biu":
        raise TypeError("Expected an input array of integer or boolean data type")
    x, axis = (ravel(x), 0) if axis is None or names_no_axis(axis, x.ndim) else (x, normal_axis(axis, x.ndim))
    lengths = {axis: -(-x.shape[axis] // 8)}
    return map_along("packbits", np.packbits, x, [axis], lengths=lengths, dtype=np.uint8, axis=axis, bitorder=bitorder)


@offers("unpackbits")
def unpackbits(a: Any, /, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Tensor:
    """`np.unpackbits`: unpacks bytes into bits; the axis is brought into a single chunk."""
    x = as_tensor(a)
    if x.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    x, axis = (ravel(x), 0) if axis is None or names_no_axis(axis, x.ndim) else (x, normal_axis(axis, x.ndim))
    n = 8 * x.shape[axis]
    n = n if count is None else count if count >= 0 else n + count
    if not x.shape[axis] and n > 0:  # NumPy returns uninitialised memory here
        return zeros(tuple(n if i == axis else m for i, m in enumerate(x.shape)), np.uint8)
    return map_along("unpackbits", np.unpackbits, x, [axis], lengths={axis: n}, dtype=np.uint8, axis=axis, count=count,
                 bitorder=bitorder)  # fmt: skip
