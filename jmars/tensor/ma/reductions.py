"""Reductions, cumulative sums, sorting and medians of masked arrays.

Masked elements do not count; a result is masked if all its elements are masked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.ma.construction import asarray, filled
from jmars.tensor.ma.handle import MaskedTensor, data_of, fill_of, mask_of, whole_mask
from jmars.tensor.ma.masked_ufuncs import combined_mask, masked_like, takes_out
from jmars.tensor.ops.elementwise.ufuncs import astype, ufunc, where
from jmars.tensor.ops.shape.axes import broadcast_to
from jmars.tensor.ops.shape.reshape import ravel, reshape
from jmars.tensor.protocols import FUNCTIONS, call, offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["average", "count", "mean", "median", "sort", "std", "var"]

_NO_VALUE = getattr(np, "_NoValue", None)  # NumPy's default of optional arguments


def _kept(keepdims: Any) -> bool:
    return keepdims is not _NO_VALUE and bool(keepdims)


def _all_masked(x: MaskedTensor, axis: Any, keepdims: bool) -> Tensor | None:
    """Return the mask of a reduction: true where all elements are masked."""
    return None if x._mask is None else call("all", x._mask, axis, keepdims=keepdims)


def _total(name: str, neutral: int) -> None:
    @offers(f"ma.{name}", *(("ma.product",) if name == "prod" else ()))
    @takes_out(name)
    def function(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> MaskedTensor:
        x, keepdims = asarray(a), _kept(keepdims)
        return MaskedTensor(
            FUNCTIONS[name](filled(x, neutral), axis, dtype, keepdims=keepdims), _all_masked(x, axis, keepdims)
        )

    function.__name__ = name
    function.__doc__ = f"`numpy.ma.{name}`: masked elements count as {neutral}."


_total("sum", 0)
_total("prod", 1)


def _truth(name: str, neutral: bool) -> None:
    @offers(f"ma.{name}")
    @takes_out(name)
    def function(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> MaskedTensor:
        x, keepdims = asarray(a), _kept(keepdims)
        return MaskedTensor(
            FUNCTIONS[name](filled(x, neutral), axis, keepdims=keepdims), _all_masked(x, axis, keepdims)
        )

    function.__name__ = name
    function.__doc__ = f"`numpy.ma.{name}`: masked elements count as {neutral}."


_truth("all", True)
_truth("any", False)


@offers("ma.alltrue")
def alltrue(target: Any, axis: Any = 0, dtype: Any = None) -> MaskedTensor:
    """`numpy.ma.alltrue`: `all` along the first axis."""
    found: MaskedTensor = call("ma.all", target, axis)
    return found


@offers("ma.sometrue")
def sometrue(target: Any, axis: Any = 0, dtype: Any = None) -> MaskedTensor:
    """`numpy.ma.sometrue`: `any` along the first axis."""
    found: MaskedTensor = call("ma.any", target, axis)
    return found


def _least(name: str, fill: Callable[[Any], Any]) -> None:
    @offers(f"ma.{name}", f"ma.a{name}")
    @takes_out(name)
    def function(a: Any, axis: Any = None, out: Any = None, fill_value: Any = None, keepdims: Any = False
                 ) -> MaskedTensor:  # fmt: skip
        x, keepdims = asarray(a), _kept(keepdims)
        put = fill(np.empty(0, x.dtype)) if fill_value is None else fill_value
        result, lost = FUNCTIONS[name](filled(x, put), axis, keepdims=keepdims), _all_masked(x, axis, keepdims)
        if lost is not None:
            result = astype(where(lost, fill_of(x.dtype, None), result), x.dtype)
        return MaskedTensor(result, lost)

    function.__name__ = name
    function.__doc__ = f"`numpy.ma.{name}`."

    @offers(f"ma.arg{name}")
    @takes_out(f"arg{name}")
    def position(a: Any, axis: Any = None, fill_value: Any = None, out: Any = None, *, keepdims: Any = False) -> Tensor:
        x = asarray(a)
        put = fill(np.empty(0, x.dtype)) if fill_value is None else fill_value
        found: Tensor = call(f"arg{name}", filled(x, put), axis, keepdims=_kept(keepdims))
        return found

    position.__name__ = f"arg{name}"
    position.__doc__ = f"`numpy.ma.arg{name}`: a tensor; the first position where all is masked."


_least("min", np.ma.minimum_fill_value)
_least("max", np.ma.maximum_fill_value)


@offers("ma.ptp")
@takes_out("ptp")
def ptp(a: Any, axis: Any = None, out: Any = None, fill_value: Any = None, keepdims: Any = False) -> MaskedTensor:
    """`numpy.ma.ptp`: subtract the smallest from the largest element."""
    high, low = (call(f"ma.{one}", a, axis, None, fill_value, keepdims) for one in ("max", "min"))
    return MaskedTensor(high.data - low.data, high._mask)


@offers("ma.count")
def count(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """`numpy.ma.count`: count unmasked elements; an int if there is no mask and no axis."""
    x, keepdims = asarray(a), _kept(keepdims)
    if x._mask is None and axis is None and not keepdims:
        return x.size
    return call("sum", ~whole_mask(x), axis, np.intp, keepdims=keepdims)


@offers("ma.count_masked")
def count_masked(arr: Any, axis: Any = None) -> Tensor:
    """`numpy.ma.count_masked`: count masked elements."""
    found: Tensor = call("sum", whole_mask(arr), axis)
    return found


@offers("ma.mean")
@takes_out("mean")
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> MaskedTensor:
    """`numpy.ma.mean`: of float32 with a mask the result is float64, as in numpy.ma."""
    x, keepdims = asarray(a), _kept(keepdims)
    if x._mask is None:
        return masked_like(call("mean", x.data, axis, dtype, keepdims=keepdims), None, x)
    half = dtype is None and x.dtype == np.float16
    if dtype is None:
        dtype = np.dtype("f8") if x.dtype.kind in "biu" else np.dtype("f4") if half else None
    total = call("ma.sum", x, axis, dtype, keepdims=keepdims)
    result = call("ma.divide", call("ma.multiply", total, 1.0), count(x, axis, keepdims))
    return call("ma.astype", result, np.float16) if half else MaskedTensor(result.data, result._mask)


@offers("ma.var")
@takes_out("var")
def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False,
        mean: Any = None) -> MaskedTensor:  # fmt: skip
    """`numpy.ma.var`: divide by the number of unmasked elements less `ddof`; masked where the divisor is 0 or less."""
    x, keepdims = asarray(a), _kept(keepdims)
    if x._mask is None:
        return masked_like(call("var", x.data, axis, dtype, ddof=ddof, keepdims=keepdims), None, x)
    n = count(x, axis, keepdims) - ddof
    middle = call("ma.mean", x, axis, dtype, keepdims=True) if mean is None or mean is _NO_VALUE else mean
    distance = call("ma.subtract", x, middle)
    if x.dtype.kind == "c":
        distance = call("ma.absolute", distance)
    total = call("ma.sum", call("ma.multiply", distance, distance), axis, keepdims=keepdims)
    result = call("ma.divide", total, n)
    if result.ndim:
        result = masked_like(result.data, combined_mask(_all_masked(x, axis, keepdims), n <= 0))
    return masked_like(result.data, result._mask, x)


@offers("ma.std")
@takes_out("std")
def std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False,
        mean: Any = None) -> MaskedTensor:  # fmt: skip
    """`numpy.ma.std`: compute the square root of `var`."""
    found: MaskedTensor = call("ma.sqrt", var(a, axis, dtype, None, ddof, keepdims, mean))
    return found


@offers("ma.anom", "ma.anomalies")
def anom(a: Any, axis: Any = None, dtype: Any = None) -> MaskedTensor:
    """`numpy.ma.anom`: subtract the mean along an axis."""
    found: MaskedTensor = call("ma.subtract", a, mean(a, axis, dtype, keepdims=axis is not None))
    return found


@offers("ma.average")
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    """`numpy.ma.average`: compute the mean, with optional weights."""
    x, keepdims = asarray(a), _kept(keepdims)
    if weights is None:
        value = mean(x, axis, keepdims=keepdims)
        scale: Any = MaskedTensor(astype(as_tensor(count(x, axis, keepdims)), value.dtype), None)
    else:
        w = asarray(weights)
        kinds = (x.dtype, w.dtype, *(("f8",) if x.dtype.kind in "biu" else ()))
        dtype = np.result_type(*kinds)
        if x.shape != w.shape:
            w = _along(w, x, axis)
        if x._mask is not None:
            w = call("ma.multiply", w, MaskedTensor(~x._mask, x._mask))
        scale = call("ma.sum", w, axis, dtype, keepdims=keepdims)
        product = call("ma.ufunc", "multiply", x, w, dtype=dtype)
        value = call("ma.divide", call("ma.sum", product, axis, keepdims=keepdims), scale)
        value = MaskedTensor(value.data, value._mask)
    if not returned:
        return value
    if scale.shape != value.shape:
        scale = MaskedTensor(broadcast_to(scale.data, value.shape), None)
    return value, scale


def _along(weights: MaskedTensor, x: MaskedTensor, axis: Any) -> MaskedTensor:
    """Reshape the weights of axes `axis` so that they broadcast with `x`."""
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    axes = np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    if weights.shape != tuple(x.shape[i] for i in axes):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    ordered = call("ma.transpose", weights, tuple(axes.index(i) for i in sorted(axes)))
    made: MaskedTensor = call("ma.reshape", ordered, tuple(n if i in axes else 1 for i, n in enumerate(x.shape)))
    return made


def _running(name: str, neutral: int) -> None:
    @offers(f"ma.{name}")
    @takes_out(name)
    def function(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> MaskedTensor:
        x = asarray(a)
        mask = x._mask if axis is not None or x._mask is None else ravel(x._mask)
        return masked_like(FUNCTIONS[name](filled(x, neutral), axis, dtype), mask)

    function.__name__ = name
    function.__doc__ = f"`numpy.ma.{name}`: masked elements count as {neutral} and stay masked."


_running("cumsum", 0)
_running("cumprod", 1)


@offers("ma.trace")
@takes_out("trace")
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    """`numpy.ma.trace`: masked elements of the diagonal count as 0; the result has no mask, as in numpy.ma."""
    diagonal = call("ma.diagonal", asarray(a), offset, axis1, axis2)
    return call("sum", filled(call("ma.astype", diagonal, dtype), 0), -1)  # float64 if no dtype is given


def _end_of(x: MaskedTensor, endwith: bool, fill_value: Any) -> Any:
    """Return the value that replaces masked elements for sorting."""
    if fill_value is not None:
        return fill_value
    if not endwith:
        return np.ma.maximum_fill_value(np.empty(0, x.dtype))
    return np.nan if x.dtype.kind == "f" else np.ma.minimum_fill_value(np.empty(0, x.dtype))


@offers("ma.argsort")
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, endwith: bool = True, fill_value: Any = None,
            *, stable: Any = None) -> Tensor:  # fmt: skip
    """`numpy.ma.argsort`: return sorted positions; masked elements come last, or first with `endwith=False`."""
    x = asarray(a)
    found: Tensor = call("argsort", filled(x, _end_of(x, endwith, fill_value)), axis, kind)
    return found


@offers("ma.sort")
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, endwith: bool = True, fill_value: Any = None,
         *, stable: Any = None) -> MaskedTensor:  # fmt: skip
    """`numpy.ma.sort`: sort; masked elements come last, or first with `endwith=False`."""
    x = asarray(a)
    if axis is None:
        x, axis = masked_like(ravel(x.data), None if x._mask is None else ravel(x._mask), x), -1
    if x._mask is None:
        return masked_like(call("sort", x.data, axis, kind), None, x)
    if fill_value is not None:  # elements equal to the fill value may mix with masked elements
        at = argsort(x, axis, kind, None, endwith, fill_value)
        return masked_like(call("take_along_axis", x.data, at, axis), call("take_along_axis", x._mask, at, axis), x)
    axis = range(x.ndim)[axis]
    shape = tuple(-1 if i == axis else 1 for i in range(x.ndim))
    place = reshape(call("arange", x.shape[axis], chunks=(x.chunks[axis],)), shape)
    n = count(x, axis, True)
    mask = place >= n if endwith else place < x.shape[axis] - n
    return masked_like(call("sort", filled(x, _end_of(x, endwith, None)), axis, kind), mask, x)


@offers("ma.median")
@takes_out("median")
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False
           ) -> MaskedTensor:  # fmt: skip
    """`numpy.ma.median`: NaN if an unmasked element is NaN; masked if all elements are masked."""
    x, keepdims = asarray(a), _kept(keepdims)
    if x._mask is None:
        return MaskedTensor(call("median", x.data, axis, keepdims=keepdims), None)
    if x.dtype.kind not in "biuf":
        raise UnsupportedError(f"np.ma.median of {x.dtype} is not in jmars; compute it on the value, x.fetch()")
    data = x.data if x.dtype.kind == "f" else astype(x.data, np.dtype("f8"))
    some = x._mask & ~call("all", x._mask, axis, keepdims=True)  # nanmedian warns of the other lines
    result = call("nanmedian", where(some, data.dtype.type(np.nan), data), axis, keepdims=keepdims)
    if x.dtype.kind == "f":
        broken = call("any", ufunc("isnan")(data) & ~x._mask, axis, keepdims=keepdims)
        result = where(broken, data.dtype.type(np.nan), result)
    return MaskedTensor(result, _all_masked(x, axis, keepdims))


@offers("ma.nonzero")
def nonzero(a: Any) -> Any:
    """`numpy.ma.nonzero`: return positions of elements that are neither masked nor zero."""
    return call("nonzero", filled(a, 0))


@offers("ma.compressed")
def compressed(x: Any) -> Tensor:
    """`numpy.ma.compressed`: return the unmasked elements along a single axis, of unknown length."""
    data, mask = ravel(as_tensor(data_of(x))), mask_of(x)
    found: Tensor = data if mask is None else call("compress", ~ravel(mask), data)
    return found


@offers("ma.allequal")
def allequal(a: Any, b: Any, fill_value: bool = True) -> Any:
    """`numpy.ma.allequal`, lazily: whether all elements are equal; masked elements count as `fill_value`."""
    mask = combined_mask(mask_of(a), mask_of(b))
    same = ufunc("equal")(as_tensor(data_of(a)), as_tensor(data_of(b)))
    if mask is None:
        return call("all", same)
    return call("all", where(mask, bool(fill_value), same))


@offers("ma.allclose")
def allclose(a: Any, b: Any, masked_equal: bool = True, rtol: float = 1e-5, atol: float = 1e-8) -> Any:
    """`numpy.ma.allclose`, lazily: whether all elements are close; masked elements count as `masked_equal`."""
    close = call("isclose", as_tensor(data_of(a)), as_tensor(data_of(b)), rtol, atol)
    mask = combined_mask(mask_of(a), mask_of(b))
    return call("all", close if mask is None else where(mask, bool(masked_equal), close))
