"""The arguments `where=`, `initial=` and `mean=` of reductions.

Masked-out elements are replaced by a neutral value before the reduction, `initial` is combined after it.
Source: NumPy `_core/_methods.py` (`_mean`, `_var`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jmars.kernels.float_errors import BITS
from jmars.tensor.operand import Unknown, is_known, warn_user
from jmars.tensor.ops.elementwise.formula import Formula
from jmars.tensor.ops.elementwise.ufuncs import astype_unsafe
from jmars.tensor.ops.reduce.trial import is_given, loop_dtype
from jmars.tensor.ops.written_values import element
from jmars.tensor.protocols import call
from jmars.tensor.tensor import Tensor

__all__ = ["apply_initial", "apply_where", "divide_by_count", "element_count", "is_mask", "moment", "warn_where"]


def is_mask(where: Any) -> bool:
    """Whether the argument `where=` leaves elements out; None leaves out all, as in NumPy."""
    return where is not True and (where is None or is_given(where))


def apply_where(name: str, x: Tensor, where: Any, put: Any) -> Tensor:
    """Replaces the elements of `x` by `put` where the mask is false; returns `x` itself without a mask.

    Raises
    ------
    ValueError
        If the mask does not broadcast to the shape of `x`.
    """
    if not is_mask(where):
        return x
    formula = Formula(name)
    mask, neutral = formula.read(False if where is None else where), formula.read(element(put, x.dtype))
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
    if not is_mask(where):
        axes = range(x.ndim) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
        if not any(isinstance(x.shape[i], Unknown) for i in axes):
            return np.intp(math.prod(x.shape[i] for i in axes))
        where = True
    mask = call("broadcast_to", False if where is None else where, x.shape)
    return call("sum", mask, axis, np.intp, keepdims=keepdims)


def warn_where(condition: Any, value: Tensor, text: str) -> Tensor:
    """`value`, computed with a warning at the user's line if the condition holds for an element.

    The workers divide 0 by 0 there, and tell that as any floating point error (docs/decisions/0055).
    """
    formula = Formula("warn")
    wrong, read = formula.read(condition), formula.read(value)
    if wrong.number == -1:  # known at once
        if wrong.scalar:
            warn_user(text, RuntimeWarning)
        return value
    divisor = formula.where(wrong, formula.read(np.float64(0)), formula.read(np.float64(1)))
    formula.warns, formula.text = BITS["invalid"], text
    divided = formula.apply("divide", formula.read(np.float64(0)), divisor)
    formula.warns, formula.text = 0, ""
    return formula.tensor(formula.where(formula.apply("isnan", divided), read, read))


def divide_by_count(total: Tensor, count: Any, dtype: Any = None) -> Tensor:
    """A sum divided by a number of elements, in the sum's dtype or in `dtype`; 0 / 0 is NaN without a warning."""
    with np.errstate(all="ignore"):
        value = call("true_divide", total, count)
        return astype_unsafe(astype_unsafe(value, total.dtype), dtype or total.dtype)


def moment(
    x: Tensor, axis: Any, dtype: Any, out: Any, ddof: Any, keepdims: Any, where: Any, mean: Any, *, root: bool,
    narrow: bool = False,
) -> Tensor:  # fmt: skip
    """Variance, or with `root` the standard deviation, of the selected elements around `mean`.

    Rounds where NumPy rounds: the mean and the sum of squares to `dtype`, the latter to that of `out`, and with
    `narrow`, as `nanvar` does, distances to that of `x`. Then too few elements give NaN instead of a division by 0.
    """
    if not is_given(mean):
        mean = divide_by_count(
            call("sum", x, axis, dtype, keepdims=True, where=where), element_count(x, axis, True, where)
        )
    distance = call("subtract", x, mean)
    if narrow and distance.ndim and is_known([x.data.shape, distance.data.shape]) and distance.shape != x.shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {x.shape} doesn't match the broadcast shape {distance.shape}"
        )
    distance = astype_unsafe(distance, x.dtype) if narrow else distance
    if x.dtype.kind in "iuf" or distance.dtype.kind != "c":  # NumPy looks at the dtype of `x`, but for booleans
        squares = call("square", distance)  # also where a complex dtype makes them complex
    elif narrow:
        squares = call("multiply", distance, call("conj", distance)).real
    else:
        squares = call("square", distance.real) + call("square", distance.imag)
    loop = loop_dtype("add", squares.dtype, dtype, out)
    total = call("sum", squares, axis, loop, keepdims=keepdims, where=where)
    total = astype_unsafe(total, out.dtype) if is_given(out) else total
    freedom = element_count(x, axis, keepdims, where) - ddof
    value = divide_by_count(total, freedom if narrow else call("maximum", freedom, 0))
    if narrow:
        value = call("where", freedom <= 0, value.dtype.type(np.nan), value)
    if narrow or is_mask(where):
        value = warn_where(freedom <= 0, value, "Degrees of freedom <= 0 for slice" + "." * narrow)
    return astype_unsafe(call("sqrt", value), value.dtype) if root else value
