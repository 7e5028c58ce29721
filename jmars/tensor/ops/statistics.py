"""Reductions made of others: without NaN, averages, norms, comparisons of whole arrays.

Used as `jmars.tensor.<name>` and by NumPy's protocols.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.ops.elementwise import isclose, ufunc, where
from jmars.tensor.ops.formula import Formula
from jmars.tensor.ops.reduction import all_, max_, mean, min_, normal_axes, prod, std, sum_, var
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["allclose", "array_equal", "average", "count_nonzero", "nanmean", "nanstd", "nanvar", "norm", "ptp"]


def _without_nan(name: str, x: Tensor, put: float) -> Tensor:
    """`x` with `put` in place of NaN."""
    if x.dtype.kind not in "fc":
        return x
    formula = Formula(name)
    value = formula.read(x)
    return formula.tensor(formula.where(formula.apply("isnan", value), formula.read(x.dtype.type(put)), value))


@offers("nansum")
def nansum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **kwargs: Any) -> Any:
    """`np.nansum`: NaN counts as 0."""
    return sum_(_without_nan("nansum", as_tensor(a), 0), axis, dtype, out, keepdims, **kwargs)


@offers("nanprod")
def nanprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **kwargs: Any) -> Any:
    """`np.nanprod`: NaN counts as 1."""
    return prod(_without_nan("nanprod", as_tensor(a), 1), axis, dtype, out, keepdims, **kwargs)


@offers("nanmean")
def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """`np.nanmean`: the mean of what is not NaN."""
    x = as_tensor(a)
    if x.dtype.kind not in "fc":
        return mean(x, axis, dtype, out, keepdims)
    total = nansum(x, axis, dtype, keepdims=keepdims)
    return ufunc("divide")(total, _count(x, axis, keepdims).astype(total.dtype), out=out)


@offers("nanvar")
def nanvar(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False) -> Any:
    """`np.nanvar`: the variance of what is not NaN."""
    x = as_tensor(a)
    if x.dtype.kind not in "fc":
        return var(x, axis, dtype, out, ddof, keepdims)
    if x.dtype.kind == "c":
        raise UnsupportedError("np.nanvar of complex numbers is not in jmars; apply it to x.real and x.imag")
    distance = x - nanmean(x, axis, dtype, keepdims=True)
    squares = nansum(ufunc("square")(distance), axis, dtype, keepdims=keepdims)
    count = _count(x, axis, keepdims)
    value = squares / (count - ddof).astype(squares.dtype)
    return ufunc("positive")(where(count > ddof, value, squares.dtype.type(np.nan)), out=out)


@offers("nanstd")
def nanstd(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False) -> Any:
    """`np.nanstd`: the root of `nanvar`."""
    x = as_tensor(a)
    if x.dtype.kind not in "fc":
        return std(x, axis, dtype, out, ddof, keepdims)
    return ufunc("sqrt")(nanvar(x, axis, dtype, None, ddof, keepdims), out=out)


def _count(x: Tensor, axis: Any, keepdims: Any) -> Tensor:
    """How many are not NaN."""
    formula = Formula("count")
    there = formula.tensor(formula.apply("logical_not", formula.apply("isnan", formula.read(x))))
    count: Tensor = sum_(there, axis, keepdims=keepdims)
    return count


@offers("ptp")
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """`np.ptp`: greatest minus least."""
    return ufunc("subtract")(max_(a, axis, keepdims=keepdims), min_(a, axis, keepdims=keepdims), out=out)


@offers("count_nonzero")
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """`np.count_nonzero`, lazily: a tensor, not an int."""
    return sum_(as_tensor(a).astype(bool), axis, np.intp, keepdims=keepdims)


@offers("average")
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    """`np.average`: the mean, weighted where `weights` are given."""
    x = as_tensor(a)
    if weights is None:
        value = mean(x, axis, keepdims=keepdims)
        count = math.prod(x.shape[i] for i in normal_axes(axis, x.ndim))
        return (value, ufunc("multiply")(ufunc("isnan")(value), 0) + float(count)) if returned else value
    w = as_tensor(weights)
    if w.shape != x.shape and (w.ndim != 1 or not isinstance(axis, int | np.integer) or w.shape[0] != x.shape[axis]):
        raise TypeError("weights need the shape of the array, or one axis= and its length")
    if w.shape != x.shape and normal_axes(axis, x.ndim) != (x.ndim - 1,):
        raise UnsupportedError("np.average with weights of another axis than the last is not in jmars; reshape them")
    total = sum_(w * (x * 0 + 1) if w.shape != x.shape else w, axis, keepdims=keepdims)
    value = sum_(x * w, axis, keepdims=keepdims) / total
    return (value, total) if returned else value


@offers("linalg.norm")
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """`np.linalg.norm`: Frobenius, or of vectors along one axis of orders 1, 2, inf and -inf."""
    x = as_tensor(x)
    vectors = axis is not None or x.ndim == 1
    if ord is not None and not (vectors and ord in (1, 2, np.inf, -np.inf)) and ord != "fro":
        raise UnsupportedError(f"np.linalg.norm with ord={ord!r} is not in jmars; orders 1, 2, inf, -inf, 'fro' are")
    size = builtins.abs(x)
    if x.dtype.kind not in "fc":
        size = size.astype(float)
    if ord in (np.inf, -np.inf):
        return (max_ if ord > 0 else min_)(size, axis, keepdims=keepdims)
    return (
        sum_(size, axis, keepdims=keepdims) if ord == 1 else ufunc("sqrt")(sum_(size * size, axis, keepdims=keepdims))
    )


@offers("allclose")
def allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """`np.allclose`, lazily: `bool(...)` of it computes."""
    return all_(isclose(a, b, rtol, atol, equal_nan))


@offers("array_equal")
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """`np.array_equal`, lazily: `bool(...)` of it computes."""
    x, y = as_tensor(a1), as_tensor(a2)
    if x.shape != y.shape:
        return False
    formula = Formula("array_equal")
    left, right = formula.read(x), formula.read(y)
    same = formula.apply("equal", left, right)
    if equal_nan and x.dtype.kind in "fc" and y.dtype.kind in "fc":
        both = formula.apply("logical_and", formula.apply("isnan", left), formula.apply("isnan", right))
        same = formula.apply("logical_or", same, both)
    return all_(formula.tensor(same))
