"""Sorting and what follows from it: positions in order, parts, medians, percentiles, along lines in one chunk each.

What NumPy does to the flattened array (`axis=None`) is done to one chunk of all elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jmars.tensor.ops.blockwise.single_chunk import map_along
from jmars.tensor.ops.index.structured import check_sort_order
from jmars.tensor.ops.out_argument import assign_out
from jmars.tensor.ops.shape.axes import expand_dims, moveaxis, normal_axis
from jmars.tensor.ops.shape.reshape import ravel, reshape
from jmars.tensor.ops.sort.quantile_selection import MOST_QUANTILES, QuantileRequest, quantiles
from jmars.tensor.ops.sort.sample_sort import sort_long_axis
from jmars.tensor.ops.sort.weighted_quantiles import reduced_axes_last, weighted_quantiles
from jmars.tensor.protocols import offers
from jmars.tensor.splits import chunk_bytes
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["argpartition", "argsort", "median", "partition", "percentile", "quantile", "sort"]

Array = np.ndarray[Any, Any]
LONG = 2**24  # bytes of a line from which on all workers sort it, chunk by chunk


def _map_lines(name: str, function: Callable[..., Any], a: Any, axis: int | None, **kwargs: Any) -> Tensor:
    """`function(block, axis=..., **kwargs)`, which keeps the shape."""
    x = as_tensor(a)
    if axis is None:
        x, axis = ravel(x), 0
    axis = normal_axis(axis, x.ndim)
    dtype = np.dtype(np.intp) if name.startswith("arg") else x.dtype
    return map_along(name, function, x, [axis], dtype=dtype, axis=axis, **kwargs)


def _is_long(x: Tensor, axis: int | None) -> bool:
    """Whether a line, or all elements as one, should not be brought into one chunk."""
    one = x.ndim == 1 and axis in (None, 0, -1) or axis is None
    return one and x.nbytes > min(LONG, chunk_bytes()) and math.prod(map(len, x.chunks)) > 1


@offers("sort")
def sort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    """`np.sort`: each line along `axis` in order; NaN comes last.

    Examples
    --------
    >>> from jmars.tensor.ops.create.ranges import arange
    >>> sort(-arange(5, chunk_size=2)).fetch().tolist()
    [-4, -3, -2, -1, 0]
    """
    x = as_tensor(a)
    check_sort_order(x, order)
    if _is_long(x, axis) and x.dtype.names is None:
        np.sort(np.zeros(0), kind=kind, stable=stable)  # NumPy says what is wrong with them
        return sort_long_axis(ravel(x))
    return _map_lines("sort", np.sort, x, axis, kind=kind, order=order, stable=stable)


@offers("argsort")
def argsort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    """`np.argsort`: positions that would sort each line along `axis`."""
    check_sort_order(as_tensor(a), order)
    return _map_lines("argsort", np.argsort, a, axis, kind=kind, order=order, stable=stable)


@offers("partition")
def partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Tensor:
    """`np.partition`: element `kth` where sorting would put it, smaller ones before."""
    check_sort_order(as_tensor(a), order)
    return _map_lines("partition", np.partition, a, axis, kth=kth, kind=kind, order=order)


@offers("argpartition")
def argpartition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Tensor:
    """`np.argpartition`: positions of what `partition` gives."""
    check_sort_order(as_tensor(a), order)
    return _map_lines("argpartition", np.argpartition, a, axis, kth=kth, kind=kind, order=order)


@offers("sort_complex")
def sort_complex(a: Any) -> Tensor:
    """`np.sort_complex`: complex numbers by their real, then their imaginary part."""
    x = as_tensor(a)
    kind = np.sort_complex(np.zeros(1, x.dtype)).dtype
    return map_along("sort_complex", np.sort_complex, x, [x.ndim - 1], dtype=kind)


def _reduce_lines(name: str, a: Any, axis: Any, keepdims: bool, out: Any, q: Any = None, **options: Any) -> Any:
    """NumPy's function `name` of whole lines: of the axes `axis`, brought to the end and made one."""
    x = as_tensor(a)
    few = not name.startswith("nan") or np.size(q) <= MOST_QUANTILES  # sorting does not tell how many are no NaN
    if _is_long(x, axis) and options.get("method", "linear") == "linear" and x.dtype.kind in "fiu" and few:
        value = _quantiles_of_all(name, x, q)
        if keepdims:
            value = value.reshape((*value.shape, *(1,) * x.ndim))
        return assign_out(value, out, name)
    lines, rest, axes = reduced_axes_last(x, axis)
    leading = np.shape(q) if q is not None else ()
    q = q.reshape(-1) if isinstance(q, np.ndarray) else q  # a Python number does not widen the dtype
    kind = _apply_to_lines(np.ones(1, x.dtype), None, name, q, options).dtype
    lengths = {len(rest): math.prod(leading)}
    more = {"kind": kind, "called": name, "q": q, "options": options}
    value = map_along(name, _apply_to_lines, lines, [len(rest)], lengths=lengths, dtype=kind, **more)
    value = reshape(moveaxis(value, -1, 0), (*leading, *(x.shape[i] for i in rest)))
    if keepdims:
        value = expand_dims(value, tuple(len(leading) + i for i in sorted(axes)))
    value = Tensor(value.data)
    return assign_out(value, out, name)


def _apply_to_lines(block: Array, kind: Any, called: str, q: Any, options: Any) -> Array:
    """What the function gives for lines along the last axis, along a last axis of one element for each of `q`."""
    function = getattr(np, called)
    if not isinstance(q, np.ndarray):
        value = np.asarray(function(block, *([] if q is None else [q]), axis=-1, keepdims=True, **options))
    else:
        value = np.moveaxis(np.asarray(function(block, q, axis=-1, **options)), 0, -1)
    return value if kind is None else value.astype(kind, copy=False)  # lines of NaN alone may be narrower


def _quantiles_of_all(name: str, x: Tensor, q: Any) -> Tensor:
    """The median or quantiles of all elements, which are too many for one chunk."""
    median = name.endswith("median")
    fractions = np.asarray(0.5 if median else np.true_divide(q, 100) if name.endswith("percentile") else q)
    asked = QuantileRequest(
        tuple(fractions.reshape(-1).tolist()),
        fractions.dtype,
        isinstance(q, int | float),  # a Python number does not widen the dtype
        median,
        name.startswith("nan"),
        getattr(np, name)(np.ones(2, x.dtype), *([] if median else [q])).dtype,
    )
    return Tensor(reshape(quantiles(name, x, asked), fractions.shape).data)


@offers("median")
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """`np.median`: the middle of each line along `axis`, of all elements where it is None."""
    return _reduce_lines("median", a, axis, keepdims, out)


@offers("nanmedian")
def nanmedian(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False) -> Any:
    """`np.nanmedian`: the middle without NaN."""
    return _reduce_lines("nanmedian", a, axis, bool(keepdims) if keepdims is not np._NoValue else False, out)


def _quantiles(name: str, a: Any, q: Any, axis: Any, out: Any, method: str, keepdims: Any, weights: Any) -> Any:
    q = q.fetch() if isinstance(q, Tensor) else q  # a few numbers, and NumPy says what is wrong with them
    q = q if isinstance(q, int | float) else np.asarray(q)
    keepdims = False if keepdims is np._NoValue else bool(keepdims)
    if weights is not None:
        return assign_out(weighted_quantiles(name, a, q, axis, method, keepdims, weights), out, name)
    getattr(np, name)(np.zeros(1), q, method=method)
    return _reduce_lines(name, a, axis, keepdims, out, q, method=method)


@offers("percentile")
def percentile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
               method: str = "linear", keepdims: Any = False, *, weights: Any = None) -> Any:  # fmt: skip
    """`np.percentile`: exact percentiles of each line along `axis`, of all elements where it is None.

    Raises
    ------
    ValueError
        If a `q` lies outside 0 to 100 or there is no such `method`.

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
