"""Statistics built from other operations: NaN-aware reductions, averages, covariance, histograms.

A histogram counts every chunk by NumPy's function, with common edges; a tree sums the counts. Edges that depend on the
data, on minimum and maximum, are computed in the same graph. The rules for the number of bins, as `bins="auto"` or
"fd", need a few statistics of the data, computed at once; "stone" needs a histogram for every number of bins that is
tried.
Source: NumPy `lib/_function_base_impl.py`, `lib/_histograms_impl.py` and the papers cited there.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from jmars.kernels.reducers import CountedSumReducer
from jmars.tensor.engine import get_engine
from jmars.tensor.operand import is_known, warn_user
from jmars.tensor.ops.arguments import is_given, loop_dtype, trial, write_out
from jmars.tensor.ops.blockwise import blockwise
from jmars.tensor.ops.chunks import rechunked
from jmars.tensor.ops.constants import full, zeros
from jmars.tensor.ops.formula import Formula
from jmars.tensor.ops.indexing import HELD, scatter_by_tensor
from jmars.tensor.ops.records_and_objects import field
from jmars.tensor.ops.reduction import (
    all_,
    apply_where,
    argmax,
    argmin,
    cumsum,
    diff,
    divide_by_count,
    is_mask,
    max_,
    mean,
    min_,
    moment,
    normal_axes,
    prod,
    reduce,
    std,
    sum_,
    var,
    warn_where,
)
from jmars.tensor.ops.shape import broadcast_arrays, broadcast_to, concatenate, ravel, reshape, stack
from jmars.tensor.ops.sort import argsort_long_axis, put_back
from jmars.tensor.ops.ufuncs import as_bool, astype, astype_unsafe, isclose, native, ufunc, where
from jmars.tensor.protocols import FUNCTIONS, call, offers
from jmars.tensor.small_parts import truth
from jmars.tensor.splits import chunk_bytes
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]
COUNTED_AT_ONCE = 2**17  # elements, in the cache as positions


def _without_nan(name: str, x: Tensor, put: float) -> Tensor:
    """Replaces NaN by `put`."""
    if x.dtype.kind not in "fc":
        return x
    formula = Formula(name)
    value = formula.read(x)
    return formula.tensor(formula.where(formula.apply("isnan", value), formula.read(x.dtype.type(put)), value))


def _nan_total(name: str, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
               **kwargs: Any) -> Any:  # fmt: skip
    function, put = {"nansum": (sum_, 0), "nanprod": (prod, 1)}[name]
    return function(_without_nan(name, native(a), put), axis, dtype, out, keepdims, **kwargs)


offers("nansum", does="`np.nansum`: treats NaN as 0.")(partial(_nan_total, "nansum"))
offers("nanprod", does="`np.nanprod`: treats NaN as 1.")(partial(_nan_total, "nanprod"))


@offers("nanmean")
def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *,
            where: Any = True) -> Any:  # fmt: skip
    """`np.nanmean`: mean without NaN; the sum is rounded to the dtype before the division."""
    x = native(a)
    if x.dtype.kind not in "fc":
        return mean(x, axis, dtype, out, keepdims, where=where)
    trial("nanmean", x, axis=axis, dtype=dtype, out=out, keepdims=keepdims, where=where)
    loop = loop_dtype("add", x.dtype, dtype, out)
    x = apply_where("nanmean", x, where, np.nan)
    x = astype_unsafe(x, loop) if loop == np.dtype("f2") else x
    reducer = CountedSumReducer(np.result_type(loop, "f4"))  # NumPy adds float16 in float32
    counted = reduce("nanmean", x, axis, reducer, reducer.state, keepdims)
    total, count = astype_unsafe(field(counted, "total"), loop), field(counted, "n")
    total = astype_unsafe(total, out.dtype) if is_given(out) else total
    return write_out(warn_where(count == 0, divide_by_count(total, count), "Mean of empty slice"), "nanmean", out)


def _nan_moment(name: str, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
                keepdims: Any = False, *, where: Any = True, mean: Any = None, correction: Any = np._NoValue
                ) -> Any:  # fmt: skip
    plain = var if name == "nanvar" else std
    x = native(a)
    if x.dtype.kind not in "fc":
        return plain(x, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)
    trial(name, x, axis=axis, dtype=dtype, out=out, ddof=ddof, keepdims=keepdims, where=where, mean=mean,
          correction=correction)  # fmt: skip
    ddof = correction if is_given(correction) else ddof
    mask = _not_nan(x, where)
    value = moment(x, axis, dtype, out, ddof, keepdims, mask, mean, root=name == "nanstd", narrow=True)
    return write_out(value, name, out)


offers("nanvar", does="`np.nanvar`: variance without NaN; NaN where at most `ddof` elements remain.")(
    partial(_nan_moment, "nanvar")
)
offers("nanstd", does="`np.nanstd`: the square root of `nanvar`.")(partial(_nan_moment, "nanstd"))


def _not_nan(x: Tensor, where: Any) -> Any:
    """Mask of the elements that are not NaN and selected by `where`; `where` itself for dtypes without NaN."""
    if x.dtype.kind not in "fc":
        return where
    formula = Formula("count")
    there = formula.apply("logical_not", formula.apply("isnan", formula.read(x)))
    if is_mask(where):
        there = formula.apply("logical_and", there, formula.cast(formula.read(False if where is None else where), bool))
    return formula.tensor(there, x.shape, x.chunks)


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
    total = blockwise("average", _check_weights, [total], total.chunks, total.dtype, lines=())
    value = sum_(astype(x, dtype) * astype(w, dtype), axis, keepdims=keepdims) / total
    return (value, total) if returned else value


def _check_weights(total: Array) -> Array:
    if (total == 0).any():
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    return total


def broadcast_weights(weights: Tensor, x: Tensor, axis: Any) -> Tensor:
    """Reshapes weights with the axes `axis` of `x`, so that they broadcast with `x`."""
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
    """`np.allclose`: a bool where small values are computed at once, else a lazy boolean; `bool(...)` computes the
    value.
    """
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


def _arg_without_nan(name: str, a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    function, put = {"nanargmin": (argmin, np.inf), "nanargmax": (argmax, -np.inf)}[name]
    x = native(a)
    trial(name, x, axis=axis, out=out, keepdims=keepdims)
    if x.dtype.kind not in "fc":
        return function(x, axis, out, keepdims=keepdims)
    is_nan = ufunc("isnan")(x)
    if bool(as_tensor(all_(is_nan, axis)).fetch().any()):
        raise ValueError("All-NaN slice encountered")
    return function(where(is_nan, x.dtype.type(put), x), axis, out, keepdims=keepdims)


offers(
    "nanargmin", does="`np.nanargmin`: `argmin` without NaN; computes at once to raise ValueError for all-NaN slices."
)(partial(_arg_without_nan, "nanargmin"))
offers(
    "nanargmax", does="`np.nanargmax`: `argmax` without NaN; computes at once to raise ValueError for all-NaN slices."
)(partial(_arg_without_nan, "nanargmax"))


@offers("array_equiv")
def array_equiv(a1: Any, a2: Any) -> Any:
    """`np.array_equiv`: whether two arrays are equal after broadcasting: a bool or lazy boolean."""
    try:
        x, y = broadcast_arrays(as_tensor(a1), as_tensor(a2))
    except ValueError:
        return False
    return truth(all_(x == y))


def _match_weights(name: str, x: Tensor, weights: Any) -> Tensor:
    """Rechunks weights to the chunks of `x`; raises ValueError if the shapes differ."""
    w = as_tensor(weights)
    if w.shape != x.shape:
        raise ValueError(f"{name}: weights should have the same shape as a, {x.shape}, and have {w.shape}")
    return Tensor(rechunked(w.data, x.chunks))


def _sum_counts(name: str, function: Any, inputs: Sequence[Tensor], cells: int, dtype: Any,
             params: tuple[Any, ...]) -> Tensor:  # fmt: skip
    """Calls `function` for all chunks of the first input and sums the results, arrays of `cells` counts."""
    n = int(np.prod([len(cut) for cut in inputs[0].chunks], dtype=int))
    lines = blockwise(name, function, inputs, ((cells,) * n,), dtype, params, flat=True)
    return Tensor(sum_(lines.reshape((n, cells)), 0, np.dtype(dtype)).data) if cells else Tensor(lines.data)


@offers("bincount")
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Tensor:
    """`np.bincount`: numbers of occurrences of nonnegative integers.

    The largest element decides the length of the result, so the function computes at once.

    Raises
    ------
    ValueError
        If an element is negative, or `x` is not 1-d.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> bincount(arange(6, chunk_size=2) // 2).fetch().tolist()
    [2, 2, 2]
    """
    data = as_tensor(np.zeros(0, int) if isinstance(x, list | tuple) and not len(x) else x)
    if data.ndim != 1:
        raise ValueError("object of too small depth for desired array" if not data.ndim else "object too deep")
    np.bincount(np.zeros(1, data.dtype))  # raises NumPy's errors
    minlength = operator.index(minlength)
    if minlength < 0:
        raise ValueError("'minlength' must not be negative")
    if not data.size:
        return zeros(minlength, np.intp)
    if (
        weights is None and data.dtype.kind in "bu" and data.dtype.itemsize <= 2
    ):  # counts of all values, in a single pass
        cells = 2 ** (8 * data.dtype.itemsize)
        counts = _sum_counts("bincount", _bincount, [native(data)], cells, np.intp, (cells,)).fetch()
        length = max(int(np.flatnonzero(counts)[-1]) + 1, minlength)
        return as_tensor(np.pad(counts[:length], (0, max(0, length - cells))))
    data = astype(data, np.intp)
    low, high = (int(v) for v in stack([min_(data), max_(data)]).fetch())
    if low < 0:
        raise ValueError(f"'list' argument must have no negative elements, and the smallest is {low}")
    cells = max(high + 1, minlength)
    if 8 * cells > chunk_bytes() and len(data.chunks[0]) > 1:  # each chunk would count all cells
        added = as_tensor(1) if weights is None else astype(_match_weights("bincount", data, weights), float)
        found = zeros(cells, np.intp if weights is None else float)
        return scatter_by_tensor(found, data, 0, added if added.ndim else reshape(added, (1,)), "add")
    if weights is None:
        return _sum_counts("bincount", _bincount, [data], cells, np.intp, (cells,))
    return _sum_counts(
        "bincount", _bincount_weighed, [data, _match_weights("bincount", data, weights)], cells, float, (cells,)
    )


def _bincount(block: Array, cells: int) -> Array:
    step = max(COUNTED_AT_ONCE, cells)  # narrow elements are widened
    parts = (block[start : start + step] for start in range(0, len(block), step))
    return sum((np.bincount(part, minlength=cells) for part in parts), np.zeros(cells, np.intp))


def _bincount_weighed(block: Array, weights: Array, cells: int) -> Array:
    return np.bincount(block, weights, minlength=cells)


_Bins = tuple[int, tuple[Any, Any] | None] | None  # equal-width bins: number, range if given; None: explicit edges


def _edges(name: str, x: Tensor, bins: Any, range_: Any) -> tuple[Tensor, _Bins]:
    """Bin edges and, for bins of equal width, their number and range."""
    edges_of = _edges_of_axis if name == "histogramdd" else np.histogram_bin_edges
    if isinstance(bins, str):
        bins = number_of_bins(x, bins, range_)
    if isinstance(bins, Tensor) and not bins.ndim:
        bins = bins.fetch()
    if isinstance(bins, Tensor):
        if bins.ndim != 1:
            raise ValueError("`bins` must be 1d, when an array")
        line = bins.rechunk(-1)
        return blockwise(name, _checked_edges, [line], line.chunks, line.dtype), None
    if np.ndim(bins):
        return as_tensor(np.histogram_bin_edges(np.zeros(0), np.asarray(bins))).rechunk(-1), None
    plain = edges_of(np.zeros(0, x.dtype), bins, range_)  # raises NumPy's errors
    count = len(plain) - 1
    if range_ is not None or not x.size:
        return as_tensor(plain).rechunk(-1), (count, (0.0, 1.0) if range_ is None else tuple(range_))
    ends = stack([min_(x), max_(x)]).rechunk(-1)
    dtype = edges_of(np.zeros(1, x.dtype), count).dtype
    return blockwise(name, edges_of, [ends], ((count + 1,),), dtype, (count,)), (count, None)


def _checked_edges(edges: Array) -> Array:
    """Edges of bins, in ascending order as NumPy wants."""
    return np.histogram_bin_edges(np.zeros(0), edges)


def _edges_of_axis(points: Array, bins: Any, range_: Any = None) -> Array:
    """Edges of `np.histogramdd` along an axis; the range decides the dtype."""
    return np.histogramdd(points[:, None], [bins], [range_])[1][0]


@offers("histogram_bin_edges")
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Tensor:
    """`np.histogram_bin_edges`: the bin edges of `histogram`, lazy."""
    if weights is not None:
        _match_weights("histogram_bin_edges", as_tensor(a), weights)  # raises NumPy's error
        _check_rule(bins)
    return _edges("histogram_bin_edges", _counted(a), bins, range)[0]


def _check_rule(bins: Any) -> None:
    if isinstance(bins, str):
        raise TypeError("Automated estimation of the number of bins is not supported for weighted data")


def _counted(a: Any) -> Tensor:
    """The elements of a histogram: NumPy counts booleans as bytes."""
    x = as_tensor(a)
    return astype(x, np.uint8) if x.dtype == np.dtype(bool) else x


@offers("histogram")
def histogram(a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
              ) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`np.histogram`: counts per bin and bin edges, both lazy.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> counts, edges = histogram(arange(10, chunk_size=4), bins=2)
    >>> counts.fetch().tolist(), edges.fetch().tolist()
    ([5, 5], [0.0, 4.5, 9.0])
    """
    x = _counted(a)
    if weights is not None:
        _check_rule(bins)
    edges, even = _edges("histogram", x, bins, range)
    cells = max(edges.shape[0] - 1, 0)
    if weights is None:
        counts = _sum_counts("histogram", _histogram, [x, edges], cells, np.intp, (even,))
    else:
        w = _match_weights("histogram", x, native(weights))
        counts = _sum_counts("histogram", _histogram_weighed, [x, w, edges], cells, w.dtype, (even,))
        counts = astype(counts, as_tensor(weights).dtype)
    if density:
        counts = counts / astype(diff(edges), float) / sum_(counts)
    return counts, edges


def _histogram(block: Array, edges: Array, even: _Bins) -> Array:
    return _histogram_weighed(block, None, edges, even)


def _histogram_weighed(block: Array, weights: Array | None, edges: Array, even: _Bins) -> Array:
    """Calls `np.histogram`; for equal-width bins NumPy computes the bin of a value without a search."""
    if even is None:
        return np.histogram(block, edges, weights=weights)[0]
    return np.histogram(block, even[0], even[1] or (edges[0], edges[-1]), weights=weights)[0]


@offers("histogramdd")
def histogramdd(sample: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
                ) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
    """`np.histogramdd`: counts of points; `sample` has a row per point, or is a list with an array per axis."""
    is_list = not hasattr(sample, "shape")
    points = as_tensor(sample) if not is_list or not list(sample) else stack(sample)
    if is_list or points.ndim != 2:
        points = FUNCTIONS["atleast_2d"](points).T
    if points.ndim != 2:
        raise ValueError("too many values to unpack (expected 2)")  # NumPy's words
    d = points.shape[1]
    points = Tensor(rechunked(points.data, (points.chunks[0], (d,))))
    if not isinstance(bins, str | list | tuple) and np.ndim(bins) == 0:
        bins = [bins] * d
    if isinstance(bins, str) or any(isinstance(one, str) for one in bins):
        raise TypeError("`bins` of several axes are numbers or edges, no rule as 'auto'")
    if len(bins) != d:
        raise ValueError(f"The dimension of bins must be equal to the dimension of the sample x, {d}")
    range_ = [None] * d if range is None else list(range)
    if len(range_) != d:
        raise ValueError("range argument must have one entry per dimension")
    found = [_edges("histogramdd", Tensor(points[:, i].data), bins[i], range_[i]) for i in np.arange(d)]
    sizes = tuple(edges.shape[0] - 1 for edges, _ in found)
    inputs: list[Tensor] = [points]
    if weights is not None:
        inputs.append(Tensor(_match_weights("histogramdd", Tensor(points[:, 0].data), weights)[:, None].data))
    params = (tuple(even for _, even in found), weights is not None)
    counts = _sum_counts("histogramdd", _histogramdd, [*inputs, *(edges for edges, _ in found)], int(np.prod(sizes)),
                      float, params).reshape(sizes)  # fmt: skip
    edges = [one for one, _ in found]
    if density:
        total = sum_(counts)
        for axis, one in enumerate(edges):
            counts = counts / diff(one).reshape([n if i == axis else 1 for i, n in enumerate(sizes)])
        counts = counts / total
    return counts, edges


def _histogramdd(block: Array, *more: Any) -> Array:
    *arrays, evens, weighed = more
    weights = arrays.pop(0)[:, 0] if weighed else None
    bins = [edges if even is None else even[0] for edges, even in zip(arrays, evens)]
    ends = [(even and even[1]) or (edges[0], edges[-1]) for edges, even in zip(arrays, evens)]
    return np.histogramdd(block, bins, ends, weights=weights)[0].reshape(-1)


@offers("digitize")
def digitize(x: Any, bins: Any, right: bool = False) -> Tensor:
    """`np.digitize`: bin numbers of the elements; all chunks of `x` read `bins`, brought into a single chunk."""
    data, edges = as_tensor(x), as_tensor(bins).rechunk(-1)
    if data.dtype.kind == "c":
        raise TypeError("x may not be complex")
    if edges.ndim != 1:
        raise ValueError("object too deep for desired array")
    if not isinstance(bins, Tensor):
        np.digitize(np.zeros(0), np.asarray(bins), right)  # raises NumPy's errors
    return _search_in("digitize", _digitize, data, edges, (right,))


def _digitize(block: Array, bins: Array, right: bool) -> Array:
    return np.asarray(np.digitize(block, bins, right))


@offers("searchsorted")
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Tensor:
    """`np.searchsorted`: insertion positions of `v` in the sorted `a`, brought into a single chunk unless very long."""
    if side not in ("left", "right"):
        raise ValueError(f"search side must be 'left' or 'right' (got {side!r})")
    data, where = as_tensor(a), as_tensor(v)
    if data.ndim != 1:
        raise ValueError("object too deep for desired array")
    if sorter is not None:
        data = data[as_tensor(sorter)]
    if is_known([data.shape, where.shape]) and data.nbytes > HELD * chunk_bytes() and len(data.chunks[0]) > 1:
        dtype = np.result_type(data.dtype, where.dtype)
        return _search_long(native(astype(data, dtype)), native(astype(where, dtype)), side)
    return _search_in("searchsorted", _searchsorted, where, data.rechunk(-1), (side,))


def _search_long(data: Tensor, where: Tensor, side: str) -> Tensor:
    """Searches in a sorted array of many chunks: few elements chunk by chunk, many by sorting both together."""
    line, n, m = ravel(where), data.size, where.size
    if where.nbytes <= chunk_bytes():
        parts = len(data.chunks[0])
        below = blockwise(
            "searchsorted", _search_chunk, [data, line.rechunk(-1)], ((m,) * parts,), np.intp, (side,), flat=True
        )
        return reshape(sum_(reshape(below, (parts, m)), axis=0), where.shape)
    order = argsort_long_axis([concatenate([line, data] if side == "left" else [data, line])])
    is_data = order >= m if side == "left" else order < n
    found = put_back(cumsum(is_data, dtype=np.intp), order)
    return reshape(found[:m] if side == "left" else found[n:], where.shape).rechunk(where.chunks)


def _search_chunk(block: Array, line: Array, side: Any) -> Array:
    return np.asarray(np.searchsorted(block, line, side))


def _searchsorted(block: Array, line: Array, side: Any) -> Array:
    return np.asarray(np.searchsorted(line, block, side))


def _search_in(name: str, function: Any, x: Tensor, line: Tensor, params: tuple[Any, ...]) -> Tensor:
    """Looks up the elements of `x` in `line`, an array in a single chunk; returns positions."""
    return blockwise(name, function, [x, line], x.chunks, np.intp, params, lines=(), tables=1)


_TOGETHER = 50  # histograms that a job computes for "stone"


def number_of_bins(x: Tensor, rule: str, range_: Any) -> int:
    """Number of equal-width bins that NumPy would choose by a rule.

    Raises
    ------
    ValueError
        If NumPy does not know the rule, or the range of the data is not finite.
    """
    np.histogram_bin_edges(np.zeros(2), rule, range_)  # raises NumPy's errors
    x = call("ravel", x)
    if range_ is not None:
        x = x[call("logical_and", x >= range_[0], x <= range_[1])]
    n = x.size
    if not n:
        return 1
    low, high = (float(one) for one in np.asarray(call("stack", [call("min", x), call("max", x)])))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"autodetected range of [{low}, {high}] is not finite")
    first, last = (low, high) if range_ is None else range_
    if first == last:  # NumPy widens an empty range by 0.5 on each side
        first, last = first - 0.5, last + 0.5
    if rule == "stone":
        width = _stone_width(x, n, high - low, (first, last))
    else:
        width = _width(x, rule, n, high - low)
    if width and x.dtype.kind in "iu":
        width = max(width, 1)
    return math.ceil((last - first) / width) if width else 1


def _width(x: Tensor, rule: str, n: float, spread: float) -> float:
    """Width of a bin by a rule, not yet rounded, for `n` elements."""
    third: float = n ** (1.0 / 3.0)
    if rule == "sqrt":
        return spread / math.sqrt(n)
    if rule == "rice":
        return spread / (2.0 * third)
    if rule == "sturges":
        return spread / (math.log2(n) + 1.0)
    if rule == "scott":
        factor: float = (24.0 * math.pi**0.5 / n) ** (1.0 / 3.0)
        return factor * float(call("std", x).fetch())
    if rule == "doane":
        return _doane_width(x, n, spread)
    quarter, three = np.asarray(call("percentile", x, [25, 75]))
    freedman = 2.0 * float(three - quarter) / third
    if rule == "fd":
        return freedman
    sturges = _width(x, "sturges", n, spread)
    if _is_bounded():
        return min(max(freedman, _width(x, "sqrt", n, spread) / 2), sturges)
    return min(freedman, sturges) if freedman else sturges


def _doane_width(x: Tensor, n: float, spread: float) -> float:
    """Width by the rule of Doane: Sturges's rule with the skewness of the data."""
    sigma = float(call("std", x).fetch()) if n > 2 else 0.0
    if not sigma > 0.0:
        return 0.0
    skewness = float(call("mean", ((x - call("mean", x)) / sigma) ** 3).fetch())
    error = math.sqrt(6.0 * (n - 2) / ((n + 1.0) * (n + 3)))
    return spread / (1.0 + math.log2(n) + math.log2(1.0 + abs(skewness) / error))


def _stone_width(x: Tensor, n: int, spread: float, edges: tuple[float, float]) -> float:
    """Width by the rule of Stone: the number of bins, up to sqrt(n), with the least estimated error."""
    if n <= 1 or not spread:
        return 0.0
    most = max(100, int(math.sqrt(n)))
    best, least = 1, math.inf
    for first in range(1, most + 1, _TOGETHER):
        tried = range(first, min(first + _TOGETHER, most + 1))
        counts = [call("histogram", x, bins, edges)[0] for bins in tried]
        get_engine().execute([one.data for one in counts])
        for bins, one in zip(tried, counts):
            share = one.fetch(copy=False) / n
            error = (2 - (n + 1) * float(share.dot(share))) / (spread / bins)
            best, least = (bins, error) if error < least else (best, least)
    if best == most:
        warn_user("The number of bins estimated may be suboptimal.", RuntimeWarning)
    return spread / best


@cache
def _is_bounded() -> bool:
    """Whether this NumPy version bounds the number of bins of "auto"."""
    return len(np.histogram_bin_edges([0.0] * 98 + [1.0, 2.0], "auto")) > 10
