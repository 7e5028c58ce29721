"""Writes results to the `out=` argument: a tensor is rebound to the result, a NumPy array is written at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmars.tensor.tensor import Tensor

__all__ = ["assign_core_out", "assign_out", "without_leading_ones", "write_out"]

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


def assign_core_out(result: Tensor, out: Any, name: str, core: int, casting: Any = "same_kind") -> Any:
    """As `assign_out`, for ufuncs on matrices and vectors, of which the last `core` axes do not broadcast."""
    there = out[0] if isinstance(out, tuple) else out
    if there is None:
        return result
    if core and there.shape[-core:] != result.shape[-core:]:
        raise ValueError(f"{name}: out of shape {there.shape} does not fit the product's shape {result.shape}")
    return assign_out(without_leading_ones(result, there.ndim), out, name, casting)


def without_leading_ones(x: Tensor, ndim: int) -> Tensor:
    """`x` without its first axes of length 1, until `ndim` axes are left."""
    ones = next((i for i, n in enumerate(x.shape) if n != 1), x.ndim)
    drop = min(ones, max(x.ndim - ndim, 0))
    return x[(0,) * drop] if drop else x


def write_out(result: Tensor, name: str, out: Any, casting: Any = "unsafe", back: bool = False) -> Any:
    """As `assign_out`, for functions that are no ufuncs: `out` has the shape of the result.

    With `back`, as for `np.take`, NumPy casts `out` to the dtype of the result, safely, and the values back.

    Raises
    ------
    ValueError
        If the shapes differ.
    """
    if out is not None and out is not _NO_VALUE:
        if not isinstance(out, Tensor | np.ndarray):
            raise TypeError("output must be an array")
        if out.shape != result.shape:
            raise ValueError(f"output array of shape {out.shape} does not match the result's shape {result.shape}")
        if back and not np.can_cast(out.dtype, result.dtype, "safe"):
            raise TypeError(
                f"Cannot cast array data from {out.dtype!r} to {result.dtype!r} according to the rule 'safe'"
            )
    return assign_out(result, out, name, casting)
