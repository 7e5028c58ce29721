"""The arguments `where=`, `initial=` and `mean=` of reductions.

Masked-out elements are replaced by a neutral value before the reduction, `initial` is combined after it.
Source: NumPy `_core/_methods.py` (`_mean`, `_var`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jmars.tensor.ops.elementwise.formula import Formula
from jmars.tensor.ops.written_values import element
from jmars.tensor.protocols import call
from jmars.tensor.tensor import Tensor

__all__ = ["apply_initial", "apply_where", "element_count", "is_given", "moment"]

_NO_VALUE = getattr(np, "_NoValue", None)  # NumPy's mark for an argument that was not given


def is_given(value: Any) -> bool:
    """Whether an optional argument was given."""
    return value is not None and value is not _NO_VALUE


def apply_where(name: str, x: Tensor, where: Any, put: Any) -> Tensor:
    """Replaces the elements of `x` by `put` where the mask is false; returns `x` itself without a mask.

    Raises
    ------
    ValueError
        If the mask does not broadcast to the shape of `x`.
    """
    if where is True or not is_given(where):
        return x
    formula = Formula(name)
    mask, neutral = formula.read(where), formula.read(element(put, x.dtype))
    return formula.tensor(formula.where(mask, formula.read(x), neutral), x.shape, x.chunks)


def apply_initial(ufunc: str, result: Tensor, initial: Any) -> Tensor:
    """Combines the result of a reduction with `initial`."""
    if not is_given(initial):
        return result
    formula = Formula(ufunc)
    start = formula.read(element(initial, result.dtype))
    return formula.tensor(formula.apply(ufunc, start, formula.read(result)), result.shape)


def element_count(x: Tensor, axis: Any, keepdims: Any, where: Any) -> Any:
    """Number of elements that take part in a reduction."""
    mask = call("broadcast_to", True if where is True or not is_given(where) else where, x.shape)
    return call("sum", mask, axis, np.intp, keepdims=keepdims)


def moment(
    x: Tensor, axis: Any, inner: Any, ddof: float, keepdims: Any, where: Any, mean: Any, *, root: bool
) -> Tensor:
    """Variance, or with `root` the standard deviation, of the selected elements around `mean`, in `inner` precision."""
    if not is_given(mean):
        total = call("sum", x, axis, inner, keepdims=True, where=where)
        mean = call("divide", total, call("astype", element_count(x, axis, True, where), total.real.dtype))
    distance = call("subtract", call("astype", x, inner), mean)
    squares = call("square", distance.real)
    if distance.dtype.kind == "c":
        squares = squares + call("square", distance.imag)
    total = call("sum", squares, axis, keepdims=keepdims, where=where)
    count = call("maximum", element_count(x, axis, keepdims, where) - ddof, 0)
    value = call("divide", total, call("astype", count, total.dtype))
    found: Tensor = call("sqrt", value) if root else value
    return found
