"""Writes results to the `out=` argument: a tensor is rebound to the result, a NumPy array is written at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmars.tensor.tensor import Tensor

__all__ = ["assign_out"]

_NO_VALUE = getattr(np, "_NoValue", None)  # NumPy's mark for an argument that was not given


def assign_out(result: Tensor, out: Any, name: str, casting: Any = "same_kind") -> Any:
    """Returns `result`, or `out` after writing it; a NumPy array as `out` makes the function compute at once.

    Raises
    ------
    TypeError
        If `out` is no array, or `casting` does not allow its dtype.
    ValueError
        If the result does not broadcast to the shape of `out`.

    Examples
    --------
    >>> from jmars.tensor.ops.create.ranges import arange
    >>> there = np.zeros(3)
    >>> assign_out(arange(3), there, "arange") is there, there.tolist()
    (True, [0.0, 1.0, 2.0])
    """
    if isinstance(out, tuple):
        (out,) = out
    if out is None or out is _NO_VALUE:
        return result
    if isinstance(out, Tensor):
        return out._assign(result, casting, name)
    if isinstance(out, np.ndarray):
        if not np.can_cast(result.dtype, out.dtype, casting):
            raise TypeError(f"Cannot cast {name} output from {result.dtype!r} to {out.dtype!r} with rule {casting!r}")
        if result.ndim > out.ndim:
            raise ValueError(
                f"non-broadcastable output operand with shape {out.shape} doesn't match the broadcast shape "
                f"{result.shape}"
            )
        np.copyto(out, result.fetch(copy=False), casting=casting)
        return out
    raise TypeError("return arrays must be of ArrayType")
