"""Medians, percentiles and quantiles: `median`, `percentile`, `quantile` and their NaN-aware versions.

The reduced axes are brought into a single chunk; quantiles of a long flattened array are selected without a sort
(quantile_selection.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.ops.blockwise.single_chunk import map_along
from jmars.tensor.ops.elementwise.ufuncs import native
from jmars.tensor.ops.out_argument import write_out
from jmars.tensor.ops.reduce.derived_reductions import nanmean
from jmars.tensor.ops.reduce.reduction import all_, warn_of_few
from jmars.tensor.ops.reduce.trial import trial
from jmars.tensor.ops.reduce.where_argument import warn_where
from jmars.tensor.ops.shape.axes import expand_dims, moveaxis
from jmars.tensor.ops.shape.reshape import reshape
from jmars.tensor.ops.sort.quantile_selection import MOST_QUANTILES, QuantileRequest, quantiles
from jmars.tensor.ops.sort.sort import exceeds_chunk
from jmars.tensor.ops.sort.weighted_quantiles import reduced_axes_last, weighted_quantiles
from jmars.tensor.protocols import call, offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

Array = np.ndarray[Any, Any]


def _warned(name: str, x: Tensor, axis: Any, keepdims: bool, value: Tensor) -> Tensor:
    """Warns of all-NaN slices in the functions that leave NaN out."""
    if not name.startswith("nan") or x.dtype.kind not in "fc":
        return value
    axes = None if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    return warn_where(all_(call("isnan", x), axes, keepdims=keepdims), value, "All-NaN slice encountered")


def _reduce_lines(name: str, a: Any, axis: Any, keepdims: Any, out: Any, q: Any = None, **options: Any) -> Any:
    """Applies NumPy's function `name` to the axes `axis`, which are merged and brought into a single chunk."""
    x = as_tensor(a)
    trial(name, x, *([] if q is None else [q]), axis=axis, out=out, keepdims=keepdims, **options)
    if name.startswith("nan") and 0 in x.data.shape:
        return nanmean(x, axis, None, out, keepdims)  # NumPy's result, without the axes of `q`
    keepdims = bool(keepdims) and keepdims is not np._NoValue
    if q is None:
        warn_of_few(x, axis, 0, "Mean of empty slice")
    few = not name.startswith("nan") or np.size(q) <= MOST_QUANTILES  # sorting does not count the elements beside NaN
    if exceeds_chunk(x, axis) and options.get("method", "linear") == "linear" and x.dtype.kind in "fiu" and few:
        value = _quantiles_of_all(name, native(x), q)
        if keepdims:
            value = value.reshape((*value.shape, *(1,) * x.ndim))
        return write_out(_warned(name, x, axis, keepdims, value), name, out)
    lines, rest, axes = reduced_axes_last(x, axis)
    leading = np.shape(q) if q is not None else ()
    q = q.reshape(-1) if isinstance(q, np.ndarray) else q  # a Python number does not widen the dtype
    kind = _apply_to_lines(np.ones((1,) * min(lines.ndim, 2), x.dtype), None, name, q, options).dtype
    lengths = {len(rest): math.prod(leading)}
    more = {"kind": kind, "called": name, "q": q, "options": options}
    value = map_along(name, _apply_to_lines, lines, [len(rest)], lengths=lengths, dtype=kind, **more)
    value = reshape(moveaxis(value, -1, 0), (*leading, *(x.shape[i] for i in rest)))
    if keepdims:
        value = expand_dims(value, tuple(len(leading) + i for i in sorted(axes)))
    return write_out(_warned(name, x, axis, keepdims, Tensor(value.data)), name, out)


def _apply_to_lines(block: Array, kind: Any, called: str, q: Any, options: Any) -> Array:
    """Calls NumPy's function along the last axis of a block; the results for all `q` form the new last axis."""
    function = getattr(np, called)
    empty = np.zeros(block.shape[:-1], bool)
    if called.startswith("nan") and block.dtype.kind in "fc":
        empty = np.asarray(np.isnan(block).all(axis=-1))  # NumPy would warn of these lines, here, where no user sees it
        if empty.any() and kind is not None:
            block = np.where(empty[..., None], block.dtype.type(0), block)
    if not isinstance(q, np.ndarray):
        value = np.asarray(function(block, *([] if q is None else [q]), axis=-1, keepdims=True, **options))
    else:
        value = np.moveaxis(np.asarray(function(block, q, axis=-1, **options)), 0, -1)
    if kind is None:
        return value
    value = value.astype(kind, copy=False)
    if empty.any():
        value[empty] = np.nan
    return value


def _quantiles_of_all(name: str, x: Tensor, q: Any) -> Tensor:
    """Median or quantiles of the flattened array, for arrays too large for one chunk."""
    median = name.endswith("median")
    fractions = np.asarray(0.5 if median else np.true_divide(q, 100) if name.endswith("percentile") else q)
    request = QuantileRequest(
        tuple(fractions.reshape(-1).tolist()),
        fractions.dtype,
        isinstance(q, int | float),  # a Python number does not widen the dtype
        median,
        name.startswith("nan"),
        getattr(np, name)(np.ones(2, x.dtype), *([] if median else [q])).dtype,
    )
    return Tensor(reshape(quantiles(name, x, request), fractions.shape).data)


@offers("median")
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """`np.median`: median along axes, or of the flattened array."""
    return _reduce_lines("median", a, axis, keepdims, out)


@offers("nanmedian")
def nanmedian(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False) -> Any:
    """`np.nanmedian`: median without NaN."""
    return _reduce_lines("nanmedian", a, axis, keepdims, out)


def _quantiles(name: str, a: Any, q: Any, axis: Any, out: Any, method: str, keepdims: Any, weights: Any) -> Any:
    q = q.fetch() if isinstance(q, Tensor) else q  # a few numbers, which NumPy checks
    q = q if isinstance(q, int | float) else np.asarray(q)
    if weights is not None:
        keepdims = bool(keepdims) and keepdims is not np._NoValue
        return write_out(weighted_quantiles(name, a, q, axis, method, keepdims, weights), name, out)
    x = as_tensor(a)
    if x.dtype.kind in "SUV":
        raise UnsupportedError(f"np.{name} of text and records is not in jmars; sort them, np.sort(x), and index")
    probe = np.zeros(0 if name.startswith("nan") and 0 in x.data.shape else 1, x.dtype)
    getattr(np, name)(probe, q, method=method)  # raises NumPy's errors
    return _reduce_lines(name, a, axis, keepdims, out, q, method=method)


@offers("percentile")
def percentile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
               method: str = "linear", keepdims: Any = False, *, weights: Any = None) -> Any:  # fmt: skip
    """`np.percentile`: exact percentiles along axes, or of the flattened array.

    Raises
    ------
    ValueError
        If a `q` lies outside 0 to 100 or `method` is unknown.

    Examples
    --------
    >>> from jmars.tensor.ops.create.ranges import arange
    >>> percentile(arange(11, chunk_size=4), [0, 25, 100]).fetch().tolist()
    [0.0, 2.5, 10.0]
    """
    return _quantiles("percentile", a, q, axis, out, method, keepdims, weights)


@offers("quantile")
def quantile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
             method: str = "linear", keepdims: Any = False, *, weights: Any = None) -> Any:  # fmt: skip
    """`np.quantile`: as `percentile`, with `q` from 0 to 1."""
    return _quantiles("quantile", a, q, axis, out, method, keepdims, weights)


@offers("nanpercentile")
def nanpercentile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
                  method: str = "linear", keepdims: Any = False, *, weights: Any = None) -> Any:  # fmt: skip
    """`np.nanpercentile`: percentiles without NaN."""
    return _quantiles("nanpercentile", a, q, axis, out, method, keepdims, weights)


@offers("nanquantile")
def nanquantile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
                method: str = "linear", keepdims: Any = False, *, weights: Any = None) -> Any:  # fmt: skip
    """`np.nanquantile`: quantiles without NaN."""
    return _quantiles("nanquantile", a, q, axis, out, method, keepdims, weights)
