"""Reductions built from other operations: NaN-aware reductions, averages, comparisons of whole arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jmars.tensor.ops.blockwise.blockwise import blockwise
from jmars.tensor.ops.create.constants import full
from jmars.tensor.ops.elementwise.formula import Formula
from jmars.tensor.ops.elementwise.ufuncs import as_bool, astype, astype_unsafe, isclose, native, ufunc, where
from jmars.tensor.ops.out_argument import write_out
from jmars.tensor.ops.reduce.reduction import (
    accumulated,
    all_,
    argmax,
    argmin,
    max_,
    mean,
    min_,
    normal_axes,
    prod,
    std,
    sum_,
    var,
)
from jmars.tensor.ops.reduce.trial import is_given, loop_dtype, trial
from jmars.tensor.ops.reduce.where_argument import divide_by_count, element_count, is_mask, moment, warn_where
from jmars.tensor.ops.shape.axes import broadcast_arrays, broadcast_to
from jmars.tensor.ops.shape.reshape import reshape
from jmars.tensor.protocols import offers
from jmars.tensor.small_parts import truth
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = [
    "allclose",
    "array_equal",
    "array_equiv",
    "average",
    "broadcast_weights",
    "count_nonzero",
    "nanargmax",
    "nanargmin",
    "nanmean",
    "nanstd",
    "nanvar",
    "ptp",
    "real_if_close",
]

Array = np.ndarray[Any, Any]


def _without_nan(name: str, x: Tensor, put: float) -> Tensor:
    """Replaces NaN by `put`."""
    if x.dtype.kind not in "fc":
        return x
    formula = Formula(name)
    value = formula.read(x)
    return formula.tensor(formula.where(formula.apply("isnan", value), formula.read(x.dtype.type(put)), value))


@offers("nansum")
def nansum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **kwargs: Any) -> Any:
    """`np.nansum`: treats NaN as 0."""
    return sum_(_without_nan("nansum", native(a), 0), axis, dtype, out, keepdims, **kwargs)


@offers("nanprod")
def nanprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **kwargs: Any) -> Any:
    """`np.nanprod`: treats NaN as 1."""
    return prod(_without_nan("nanprod", native(a), 1), axis, dtype, out, keepdims, **kwargs)


@offers("nanmean")
def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *,
            where: Any = True) -> Any:  # fmt: skip
    """`np.nanmean`: mean without NaN; the sum is rounded to its dtype before it is divided."""
    x = native(a)
    if x.dtype.kind not in "fc":
        return mean(x, axis, dtype, out, keepdims, where=where)
    trial("nanmean", x, axis=axis, dtype=dtype, out=out, keepdims=keepdims, where=where)
    mask = _not_nan(x, where)
    total = accumulated("nanmean", "add", x, loop_dtype("add", x.dtype, dtype, out), axis, keepdims, mask)
    total = astype_unsafe(total, out.dtype) if is_given(out) else total
    count = element_count(x, axis, keepdims, mask)
    return write_out(warn_where(count == 0, divide_by_count(total, count), "Mean of empty slice"), "nanmean", out)


@offers("nanvar")
def nanvar(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, *,
           where: Any = True, mean: Any = None, correction: Any = np._NoValue) -> Any:  # fmt: skip
    """`np.nanvar`: variance without NaN; NaN where at most `ddof` elements remain."""
    return _nan_moment("nanvar", var, a, axis, dtype, out, ddof, keepdims, where, mean, correction)


@offers("nanstd")
def nanstd(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, *,
           where: Any = True, mean: Any = None, correction: Any = np._NoValue) -> Any:  # fmt: skip
    """`np.nanstd`: the square root of `nanvar`."""
    return _nan_moment("nanstd", std, a, axis, dtype, out, ddof, keepdims, where, mean, correction)


def _nan_moment(name: str, plain: Callable[..., Any], a: Any, axis: Any, dtype: Any, out: Any, ddof: Any, keepdims: Any,
                where: Any, mean: Any, correction: Any) -> Any:  # fmt: skip
    x = native(a)
    if x.dtype.kind not in "fc":
        return plain(x, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)
    trial(name, x, axis=axis, dtype=dtype, out=out, ddof=ddof, keepdims=keepdims, where=where, mean=mean,
          correction=correction)  # fmt: skip
    ddof = correction if is_given(correction) else ddof
    mask = _not_nan(x, where)
    value = moment(x, axis, dtype, out, ddof, keepdims, mask, mean, root=name == "nanstd", narrow=True)
    return write_out(value, name, out)


def _not_nan(x: Tensor, where: Any) -> Any:
    """Mask of the elements that are not NaN and selected by `where`; `where` itself for dtypes without NaN."""
    if x.dtype.kind not in "fc":
        return where
    formula = Formula("count")
    there = formula.apply("logical_not", formula.apply("isnan", formula.read(x)))
    if is_mask(where):
        there = formula.apply("logical_and", there, formula.cast(formula.read(False if where is None else where), bool))
    return formula.tensor(there, x.shape, x.chunks)


@offers("ptp")
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """`np.ptp`: maximum minus minimum."""
    x = native(a)
    trial("ptp", x, axis=axis, out=out, keepdims=keepdims)
    most, least = max_(x, axis, keepdims=keepdims), min_(x, axis, keepdims=keepdims)
    most = astype_unsafe(most, out.dtype) if is_given(out) else most
    return write_out(ufunc("subtract")(most, least), "ptp", out)


@offers("count_nonzero")
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """`np.count_nonzero`: a lazy tensor instead of an int."""
    x = native(a)
    trial("count_nonzero", x, axis=axis, keepdims=keepdims)
    return sum_(as_bool(x), axis, np.intp, keepdims=bool(keepdims))


@offers("average")
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    """`np.average`: mean, weighted if `weights` are given."""
    x = native(a)
    given = weights if weights is None else as_tensor(weights)
    trial("average", x, axis=axis, weights=given, keepdims=keepdims)
    axis = None if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    if weights is None:
        value = mean(x, axis, keepdims=keepdims)
        count = math.prod(x.shape[i] for i in normal_axes(axis, x.ndim))
        return (value, full(value.shape, count, value.dtype, chunks=value.chunks)) if returned else value
    w = as_tensor(given)
    if w.shape != x.shape:
        w = broadcast_weights(w, x, axis)
    dtype = np.result_type(x.dtype, w.dtype, *(["f8"] if x.dtype.kind in "biu" else []))
    total = sum_(broadcast_to(w, x.shape), axis, dtype, keepdims=keepdims)
    total = blockwise("average", _check_weights, [total], total.chunks, total.dtype)
    value = sum_(astype(x, dtype) * astype(w, dtype), axis, keepdims=keepdims) / total
    return (value, total) if returned else value


def _check_weights(total: Array) -> Array:
    if (total == 0).any():
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    return total


def broadcast_weights(weights: Tensor, x: Tensor, axis: Any) -> Tensor:
    """Reshapes weights, whose axes are the axes `axis` of `x`, so that they broadcast with `x`."""
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    axes = np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    if weights.shape != tuple(x.shape[i] for i in axes):
        raise ValueError(
            f"Shape of weights must be consistent with shape of a along specified axis: {weights.shape}, not "
            f"{tuple(x.shape[i] for i in axes)}"
        )
    ordered = weights.transpose([axes.index(i) for i in sorted(axes)])
    return reshape(ordered, tuple(n if i in axes else 1 for i, n in enumerate(x.shape)))


@offers("allclose")
def allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """`np.allclose`: a bool where small values are computed at once, else a lazy boolean; `bool(...)` computes it."""
    return truth(all_(isclose(a, b, rtol, atol, equal_nan)))


@offers("array_equal")
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """`np.array_equal`: a bool or lazy boolean as of `np.allclose`; False at once if the shapes differ."""
    x, y = as_tensor(a1), as_tensor(a2)
    if x.shape != y.shape:
        return False
    if equal_nan and a1 is a2:
        return True
    comparable = np.array_equal(np.zeros(1, x.dtype), np.zeros(1, y.dtype), equal_nan=equal_nan)  # or NumPy's error
    if not x.size or not comparable:
        return not x.size  # False of dtypes whose elements are never equal, as numbers and dates
    if x.dtype.names is not None:
        return truth(all_(x == y))
    formula = Formula("array_equal")
    left, right = formula.read(x), formula.read(y)
    same = formula.apply("equal", left, right)
    if equal_nan and x.dtype.kind in "fcmM" and y.dtype.kind in "fcmM":
        both = formula.apply("logical_and", formula.apply("isnan", left), formula.apply("isnan", right))
        same = formula.apply("logical_or", same, both)
    return truth(all_(formula.tensor(same)))


@offers("real_if_close")
def real_if_close(a: Any, tol: float = 100) -> Tensor:
    """`np.real_if_close`; the values decide the dtype, so they are computed at once."""
    x = as_tensor(a)
    if x.dtype.kind != "c":
        return x
    limit = tol * np.finfo(x.dtype).eps if tol > 1 else tol
    return x.real if bool(all_(ufunc("absolute")(x.imag) < limit)) else x


@offers("nanargmin")
def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """`np.nanargmin`: `argmin` without NaN; computes at once to raise ValueError for all-NaN slices."""
    return _arg_without_nan("nanargmin", argmin, np.inf, a, axis, out, keepdims)


@offers("nanargmax")
def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """`np.nanargmax`: `argmax` without NaN; computes at once to raise ValueError for all-NaN slices."""
    return _arg_without_nan("nanargmax", argmax, -np.inf, a, axis, out, keepdims)


def _arg_without_nan(
    name: str, function: Callable[..., Any], put: float, a: Any, axis: Any, out: Any, keepdims: Any
) -> Any:
    x = native(a)
    trial(name, x, axis=axis, out=out, keepdims=keepdims)
    if x.dtype.kind not in "fc":
        return function(x, axis, out, keepdims=keepdims)
    is_nan = ufunc("isnan")(x)
    if bool(as_tensor(all_(is_nan, axis)).fetch().any()):
        raise ValueError("All-NaN slice encountered")
    return function(where(is_nan, x.dtype.type(put), x), axis, out, keepdims=keepdims)


@offers("array_equiv")
def array_equiv(a1: Any, a2: Any) -> Any:
    """`np.array_equiv`: whether two arrays are equal after broadcasting: a bool or lazy boolean."""
    try:
        x, y = broadcast_arrays(as_tensor(a1), as_tensor(a2))
    except ValueError:
        return False
    return truth(all_(x == y))
