"""Functions of masked arrays: reductions, sorting, reshaping, joining, selection and products.

Masked elements do not count; the result of a reduction is masked if all elements are masked. Most other functions apply
NumPy's to data and mask alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.ma.construction import asarray, filled
from jmars.tensor.ma.handle import MaskedTensor, data_of, fill_of, mask_of, whole_mask
from jmars.tensor.ma.masked_ufuncs import combined_mask, masked_like, takes_out
from jmars.tensor.ops.numpy_code import on_tensors
from jmars.tensor.ops.shape import broadcast_to, reshape
from jmars.tensor.ops.shape import ravel as tensor_ravel
from jmars.tensor.ops.ufuncs import astype, ufunc
from jmars.tensor.ops.ufuncs import where as choose_by
from jmars.tensor.ops.ufuncs import where as tensor_where
from jmars.tensor.protocols import FUNCTIONS, call, offers
from jmars.tensor.tensor import Tensor, as_tensor

masked = np.ma.masked

# Functions applied to data and mask; some results keep the fill value, as in numpy.ma.
_BOTH = "reshape transpose swapaxes squeeze repeat diagonal expand_dims diagflat diag".split()  # noqa: SIM905
_EACH = "atleast_1d atleast_2d atleast_3d".split()  # noqa: SIM905
_OF_MANY = "stack vstack hstack dstack column_stack".split()  # noqa: SIM905


def _of_both(name: str) -> None:
    @offers(f"ma.{name}", does=f"`numpy.ma.{name}`, of data and mask.")
    def function(a: Any, *args: Any, **kwargs: Any) -> MaskedTensor:
        mask = mask_of(a)
        data = FUNCTIONS[name](as_tensor(data_of(a)), *args, **kwargs)
        found = None if mask is None else FUNCTIONS[name](mask, *args, **kwargs)
        if isinstance(a, MaskedTensor) and name not in ("diagflat", "diag"):
            return a._like(data, found)
        return MaskedTensor(data, found)


for _name in _BOTH:
    _of_both(_name)


@offers("ma.ravel")
def ravel(a: Any, order: str = "C") -> MaskedTensor:
    """`numpy.ma.ravel`: flatten data and mask; the data's order in memory decides the orders "A" and "K"."""
    data, mask = as_tensor(data_of(a)), mask_of(a)
    if order in ("A", "K"):
        order = "F" if data.flags.fnc else "C"
    flat = call("ravel", data, order)
    lost = None if mask is None else call("ravel", mask, order)
    return a._like(flat, lost) if isinstance(a, MaskedTensor) else MaskedTensor(flat, lost)


def _of_each(name: str) -> None:
    @offers(f"ma.{name}", does=f"`numpy.ma.{name}`, of data and mask.")
    def function(*arys: Any) -> Any:
        found = [MaskedTensor(FUNCTIONS[name](as_tensor(data_of(a))), FUNCTIONS[name](whole_mask(a))) for a in arys]
        return found[0] if len(found) == 1 else tuple(found)


for _name in _EACH:
    _of_each(_name)


def _of_many(name: str) -> None:
    @offers(
        f"ma.{name}", *(("ma.row_stack",) if name == "vstack" else ()), does=f"`numpy.ma.{name}`, of data and masks."
    )
    def function(arrays: Sequence[Any], *args: Any, **kwargs: Any) -> MaskedTensor:
        given = list(arrays)
        data = FUNCTIONS[name]([as_tensor(data_of(a)) for a in given], *args, **kwargs)
        return MaskedTensor(data, FUNCTIONS[name]([whole_mask(a) for a in given], *args, **kwargs))


for _name in _OF_MANY:
    _of_many(_name)


@offers("ma.hsplit")
def hsplit(ary: Any, indices_or_sections: Any) -> list[MaskedTensor]:
    """`numpy.ma.hsplit`: split data and mask."""
    data, mask = (call("hsplit", one, indices_or_sections) for one in (as_tensor(data_of(ary)), whole_mask(ary)))
    return [MaskedTensor(x, m) for x, m in zip(data, mask)]


@offers("ma.concatenate")
def concatenate(arrays: Sequence[Any], axis: int | None = 0) -> MaskedTensor:
    """`numpy.ma.concatenate`: concatenate data and masks."""
    given = list(arrays)
    data = call("concatenate", [as_tensor(data_of(a)) for a in given], axis)
    if all(mask_of(a) is None for a in given):
        return MaskedTensor(data, None)
    return MaskedTensor(data, call("concatenate", [whole_mask(a) for a in given], axis))


@offers("ma.resize")
def resize(x: Any, new_shape: Any) -> MaskedTensor:
    """`numpy.ma.resize`: repeat the elements to fill a new shape."""
    mask = mask_of(x)
    data = call("resize", as_tensor(data_of(x)), new_shape)
    return MaskedTensor(data, None if mask is None else call("resize", mask, new_shape))


@offers("ma.take")
@takes_out("take")
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> MaskedTensor:
    """`numpy.ma.take`: take elements; results at masked positions are masked."""
    at, lost = data_of(indices), mask_of(indices)
    if lost is not None:
        at = filled(indices, 0)
    mask = mask_of(a)
    taken = None if mask is None else call("take", mask, at, axis, None, mode)
    return masked_like(call("take", as_tensor(data_of(a)), at, axis, None, mode), combined_mask(taken, lost))


@offers("ma.compress")
@takes_out("compress")
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> MaskedTensor:
    """`numpy.ma.compress`: select slices of an axis where the condition is true; the condition's mask is ignored."""
    wanted, mask = as_tensor(data_of(condition)), mask_of(a)
    data = call("compress", wanted, as_tensor(data_of(a)), axis)
    return masked_like(data, None if mask is None else call("compress", wanted, mask, axis), a)


@offers("ma.round_", "ma.round")
@takes_out("round")
def round_(a: Any, decimals: int = 0, out: Any = None) -> MaskedTensor:
    """`numpy.ma.round`: round to `decimals` places, halves to even."""
    return masked_like(call("round", as_tensor(data_of(a)), decimals), mask_of(a), a)


@offers("ma.clip")
@takes_out("clip")
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **kwargs: Any) -> MaskedTensor:
    """`numpy.ma.clip`: limit elements to [a_min, a_max]."""
    return masked_like(call("clip", as_tensor(data_of(a)), _bound(a_min), _bound(a_max), **kwargs),
                       mask_of(a), a)  # fmt: skip


def _bound(bound: Any) -> Any:
    """Return a bound, of a masked array the data."""
    return data_of(bound) if isinstance(bound, MaskedTensor | np.ma.MaskedArray) else bound


@offers("ma.where")
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """`numpy.ma.where`: choose `x` where the condition is true, else `y`; masked where the condition is masked."""
    if x is None and y is None:
        return call("ma.nonzero", condition)
    if x is None or y is None:
        raise ValueError("Must provide both 'x' and 'y' or neither.")
    wanted = filled(condition, False)
    data = [None if one is masked else data_of(one) for one in (x, y)]
    kind = next((one.dtype for one in data if one is not None), np.dtype(float))
    data = [kind.type(0) if one is None else one for one in data]
    lost = mask_of(condition)
    masks = [True if one is masked else mask_of(one) for one in (x, y)]
    value = choose_by(wanted, *data)
    if all(one is None for one in masks) and lost is None:
        return MaskedTensor(value, None)
    chosen = choose_by(wanted, *(False if mask is None else mask for mask in masks))
    return masked_like(value, combined_mask(astype(chosen, np.dtype(bool)), lost))


@offers("ma.choose")
@takes_out("choose")
def choose(indices: Any, choices: Sequence[Any], out: Any = None, mode: str = "raise") -> MaskedTensor:
    """`numpy.ma.choose`: choose among arrays; masked where the index or the chosen element is masked."""
    at = filled(indices, 0)
    data = call("choose", at, [filled(one) for one in choices], None, mode)
    masks = [as_tensor(whole_mask(one)) for one in choices]
    return masked_like(data, combined_mask(call("choose", at, masks, None, mode), mask_of(indices)))


@offers("ma.ediff1d")
def ediff1d(arr: Any, to_end: Any = None, to_begin: Any = None) -> MaskedTensor:
    """`numpy.ma.ediff1d`: subtract neighbours in C order, with optional values before and after."""
    x = call("ma.ravel", asarray(arr))
    x = MaskedTensor(x.data, x._lazy_mask)
    found: MaskedTensor = call("ma.subtract", x[1:], x[:-1])
    ends = [None if one is None else call("ma.atleast_1d", one) for one in (to_begin, to_end)]
    joined = [one for one in (ends[0], found, ends[1]) if one is not None]
    return call("ma.hstack", joined) if len(joined) > 1 else found


@offers("ma.dot")
@takes_out("dot")
def dot(a: Any, b: Any, strict: bool = False, out: Any = None) -> MaskedTensor:
    """`numpy.ma.dot`: masked elements count as 0; masked if no pair is unmasked, or with `strict` if any is masked."""
    x, y = asarray(a), asarray(b)
    if strict and x.ndim and y.ndim:
        x = _spread(x, x.ndim - 1)
        y = _spread(y, max(y.ndim - 2, 0))
    met = call("dot", astype(~whole_mask(x), np.float64), astype(~whole_mask(y), np.float64))
    return masked_like(call("dot", filled(x, 0), filled(y, 0)), met == 0)


def _spread(x: MaskedTensor, axis: int) -> MaskedTensor:
    """Mask all elements of a line along `axis` that contains a masked element."""
    mask = x._lazy_mask
    return x if mask is None else x._like(x.data, mask | call("any", mask, axis, keepdims=True))


@offers("ma.inner", "ma.innerproduct")
def inner(a: Any, b: Any) -> MaskedTensor:
    """`numpy.ma.inner`: compute the inner product; masked elements count as 0."""
    return MaskedTensor(as_tensor(call("inner", filled(a, 0), filled(b, 0))), None)


@offers("ma.outer", "ma.outerproduct")
def outer(a: Any, b: Any) -> MaskedTensor:
    """`numpy.ma.outer`: compute the outer product; masked where either factor is masked."""
    data = call("outer", filled(a, 0), filled(b, 0))
    if mask_of(a) is None and mask_of(b) is None:
        return MaskedTensor(data, None)
    one, other = (call("ravel", whole_mask(x)) for x in (a, b))
    return MaskedTensor(data, ufunc("logical_or")(one[:, None], other[None, :]))


@offers("ma.mask_rowcols")
def mask_rowcols(a: Any, axis: int | None = None) -> MaskedTensor:
    """`numpy.ma.mask_rowcols`: mask all elements of lines that contain a masked element."""
    x = asarray(a)
    if x.ndim != 2:
        raise NotImplementedError("mask_rowcols works for 2D arrays only.")
    if x._lazy_mask is None:
        return x
    across = (0, 1) if axis is None else (1 if axis else 0,)
    hit = [call("any", x._lazy_mask, 1 - one, keepdims=True) for one in across]
    return masked_like(x.data, combined_mask(x._lazy_mask, *hit), x)


def _spans(name: str) -> None:
    @offers(f"ma.{name}", does=f"`numpy.ma.{name}`: compute and fetch the mask, and apply NumPy's function.")
    def function(a: Any, *args: Any, **kwargs: Any) -> Any:
        x = asarray(a)
        mask = np.ma.nomask if x._lazy_mask is None else x._lazy_mask.fetch()
        stands_in = np.broadcast_to(np.zeros((), bool), x.shape)  # stands in for the data, since only the mask is used
        return getattr(np.ma, name)(np.ma.MaskedArray(stands_in, mask), *args, **kwargs)


for _name in """clump_masked clump_unmasked flatnotmasked_contiguous flatnotmasked_edges notmasked_contiguous
notmasked_edges""".split():  # noqa: SIM905
    _spans(_name)


def _asked(name: str) -> None:
    @offers(f"ma.{name}", does=f"`numpy.ma.{name}`.")
    def function(a: Any, *args: Any) -> Any:
        return FUNCTIONS[name](as_tensor(data_of(a)), *args)


for _name in ("shape", "ndim", "size"):
    _asked(_name)


_NO_VALUE = getattr(np, "_NoValue", None)  # NumPy's default of optional arguments


def _kept(keepdims: Any) -> bool:
    return keepdims is not _NO_VALUE and bool(keepdims)


def _all_masked(x: MaskedTensor, axis: Any, keepdims: bool) -> Tensor | None:
    """Return the mask of a reduction: true where all elements are masked."""
    return None if x._lazy_mask is None else call("all", x._lazy_mask, axis, keepdims=keepdims)


def _total(name: str, neutral: int) -> None:
    @offers(
        f"ma.{name}",
        *(("ma.product",) if name == "prod" else ()),
        does=f"`numpy.ma.{name}`: masked elements count as {neutral}.",
    )
    @takes_out(name)
    def function(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> MaskedTensor:
        x, keepdims = asarray(a), _kept(keepdims)
        return MaskedTensor(
            FUNCTIONS[name](filled(x, neutral), axis, dtype, keepdims=keepdims), _all_masked(x, axis, keepdims)
        )


_total("sum", 0)
_total("prod", 1)


def _truth(name: str, neutral: bool) -> None:
    @offers(f"ma.{name}", does=f"`numpy.ma.{name}`: masked elements count as {neutral}.")
    @takes_out(name)
    def function(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> MaskedTensor:
        x, keepdims = asarray(a), _kept(keepdims)
        return MaskedTensor(
            FUNCTIONS[name](filled(x, neutral), axis, keepdims=keepdims), _all_masked(x, axis, keepdims)
        )


_truth("all", True)
_truth("any", False)


def _along_first(name: str, reduction: str) -> None:
    @offers(f"ma.{name}", does=f"`numpy.ma.{name}`: `{reduction}` along the first axis.")
    def function(target: Any, axis: Any = 0, dtype: Any = None) -> MaskedTensor:
        found: MaskedTensor = call(f"ma.{reduction}", target, axis)
        return found


_along_first("alltrue", "all")
_along_first("sometrue", "any")


def _least(name: str, fill: Callable[[Any], Any]) -> None:
    @offers(f"ma.{name}", f"ma.a{name}", does=f"`numpy.ma.{name}`.")
    @takes_out(name)
    def function(a: Any, axis: Any = None, out: Any = None, fill_value: Any = None, keepdims: Any = False
                 ) -> MaskedTensor:  # fmt: skip
        x, keepdims = asarray(a), _kept(keepdims)
        put = fill(np.empty(0, x.dtype)) if fill_value is None else fill_value
        result, lost = FUNCTIONS[name](filled(x, put), axis, keepdims=keepdims), _all_masked(x, axis, keepdims)
        if lost is not None:
            result = astype(tensor_where(lost, fill_of(x.dtype, None), result), x.dtype)
        return MaskedTensor(result, lost)

    @offers(f"ma.arg{name}", does=f"`numpy.ma.arg{name}`: a tensor; the first position where all is masked.")
    @takes_out(f"arg{name}")
    def position(a: Any, axis: Any = None, fill_value: Any = None, out: Any = None, *, keepdims: Any = False) -> Tensor:
        x = asarray(a)
        put = fill(np.empty(0, x.dtype)) if fill_value is None else fill_value
        found: Tensor = call(f"arg{name}", filled(x, put), axis, keepdims=_kept(keepdims))
        return found


_least("min", np.ma.minimum_fill_value)
_least("max", np.ma.maximum_fill_value)


@offers("ma.ptp")
@takes_out("ptp")
def ptp(a: Any, axis: Any = None, out: Any = None, fill_value: Any = None, keepdims: Any = False) -> MaskedTensor:
    """`numpy.ma.ptp`: subtract the smallest from the largest element."""
    high, low = (call(f"ma.{one}", a, axis, None, fill_value, keepdims) for one in ("max", "min"))
    return MaskedTensor(high.data - low.data, high._lazy_mask)


@offers("ma.count")
def count(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """`numpy.ma.count`: count unmasked elements; an int if there is no mask and no axis."""
    x, keepdims = asarray(a), _kept(keepdims)
    if x._lazy_mask is None and axis is None and not keepdims:
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
    if x._lazy_mask is None:
        return masked_like(call("mean", x.data, axis, dtype, keepdims=keepdims), None, x)
    half = dtype is None and x.dtype == np.float16
    if dtype is None:
        dtype = np.dtype("f8") if x.dtype.kind in "biu" else np.dtype("f4") if half else None
    total = call("ma.sum", x, axis, dtype, keepdims=keepdims)
    result = call("ma.divide", call("ma.multiply", total, 1.0), count(x, axis, keepdims))
    return call("ma.astype", result, np.float16) if half else MaskedTensor(result.data, result._lazy_mask)


@offers("ma.var")
@takes_out("var")
def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False,
        mean: Any = None) -> MaskedTensor:  # fmt: skip
    """`numpy.ma.var`: divide by the number of unmasked elements less `ddof`; masked where the divisor is 0 or less."""
    x, keepdims = asarray(a), _kept(keepdims)
    if x._lazy_mask is None:
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
    return masked_like(result.data, result._lazy_mask, x)


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
    if weights is not None:
        return on_tensors(np.ma.average)(a, axis, weights, returned, keepdims=keepdims)
    value = mean(a, axis, keepdims=keepdims)
    if not returned:
        return value
    scale = astype(as_tensor(count(a, axis, _kept(keepdims))), value.dtype)
    return value, MaskedTensor(broadcast_to(scale, value.shape), None)


def _running(name: str, neutral: int) -> None:
    @offers(f"ma.{name}", does=f"`numpy.ma.{name}`: masked elements count as {neutral} and stay masked.")
    @takes_out(name)
    def function(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> MaskedTensor:
        x = asarray(a)
        mask = x._lazy_mask if axis is not None or x._lazy_mask is None else tensor_ravel(x._lazy_mask)
        return masked_like(FUNCTIONS[name](filled(x, neutral), axis, dtype), mask)


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
        x, axis = (
            masked_like(tensor_ravel(x.data), None if x._lazy_mask is None else tensor_ravel(x._lazy_mask), x),
            -1,
        )
    if x._lazy_mask is None:
        return masked_like(call("sort", x.data, axis, kind), None, x)
    if fill_value is not None:  # elements equal to the fill value may mix with masked elements
        at = argsort(x, axis, kind, None, endwith, fill_value)
        return masked_like(
            call("take_along_axis", x.data, at, axis), call("take_along_axis", x._lazy_mask, at, axis), x
        )
    axis = np.lib.array_utils.normalize_axis_index(axis, x.ndim)
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
    if x._lazy_mask is None:
        return MaskedTensor(call("median", x.data, axis, keepdims=keepdims), None)
    if x.dtype.kind not in "biuf":
        raise UnsupportedError(f"np.ma.median of {x.dtype} is not in jmars; compute it on the value, x.fetch()")
    data = x.data if x.dtype.kind == "f" else astype(x.data, np.dtype("f8"))
    some = x._lazy_mask & ~call("all", x._lazy_mask, axis, keepdims=True)  # nanmedian warns of the other lines
    result = call("nanmedian", tensor_where(some, data.dtype.type(np.nan), data), axis, keepdims=keepdims)
    if x.dtype.kind == "f":
        broken = call("any", ufunc("isnan")(data) & ~x._lazy_mask, axis, keepdims=keepdims)
        result = tensor_where(broken, data.dtype.type(np.nan), result)
    return MaskedTensor(result, _all_masked(x, axis, keepdims))


@offers("ma.nonzero")
def nonzero(a: Any) -> Any:
    """`numpy.ma.nonzero`: return positions of elements that are neither masked nor zero."""
    return call("nonzero", filled(a, 0))


@offers("ma.compressed")
def compressed(x: Any) -> Tensor:
    """`numpy.ma.compressed`: return the unmasked elements along a single axis, of unknown length."""
    data, mask = tensor_ravel(as_tensor(data_of(x))), mask_of(x)
    found: Tensor = data if mask is None else call("compress", ~tensor_ravel(mask), data)
    return found


@offers("ma.allequal")
def allequal(a: Any, b: Any, fill_value: bool = True) -> Any:
    """`numpy.ma.allequal`, lazily: whether all elements are equal; masked elements count as `fill_value`."""
    mask = combined_mask(mask_of(a), mask_of(b))
    same = ufunc("equal")(as_tensor(data_of(a)), as_tensor(data_of(b)))
    if mask is None:
        return call("all", same)
    return call("all", tensor_where(mask, bool(fill_value), same))


@offers("ma.allclose")
def allclose(a: Any, b: Any, masked_equal: bool = True, rtol: float = 1e-5, atol: float = 1e-8) -> Any:
    """`numpy.ma.allclose`, lazily: whether all elements are close; masked elements count as `masked_equal`."""
    close = call("isclose", as_tensor(data_of(a)), as_tensor(data_of(b)), rtol, atol)
    mask = combined_mask(mask_of(a), mask_of(b))
    return call("all", close if mask is None else tensor_where(mask, bool(masked_equal), close))
