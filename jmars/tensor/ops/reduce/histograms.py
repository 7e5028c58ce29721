"""Histograms and bin lookup: `bincount`, `histogram`, `histogramdd`, `digitize`, `searchsorted`.

NumPy's function counts each chunk with common edges; a tree sums the counts. Edges that depend on the data, on
minimum and maximum, are computed in the same graph.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.tensor.operand import is_known
from jmars.tensor.ops.blockwise.blockwise import blockwise
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.create.constants import zeros
from jmars.tensor.ops.elementwise.ufuncs import astype, native
from jmars.tensor.ops.index.exchange import HELD, scatter_by_tensor
from jmars.tensor.ops.reduce.bin_rules import number_of_bins
from jmars.tensor.ops.reduce.cumulative import cumsum, diff
from jmars.tensor.ops.reduce.reduction import max_, min_, sum_
from jmars.tensor.ops.shape.concatenate import concatenate, stack
from jmars.tensor.ops.shape.reshape import ravel, reshape
from jmars.tensor.ops.sort.sample_sort import argsort_long_axis, put_back
from jmars.tensor.protocols import FUNCTIONS, offers
from jmars.tensor.splits import chunk_bytes
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["bincount", "digitize", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd", "searchsorted"]

Array = np.ndarray[Any, Any]


def _match_weights(name: str, x: Tensor, weights: Any) -> Tensor:
    """Rechunks weights to the chunks of `x`; raises ValueError if the shapes differ."""
    w = as_tensor(weights)
    if w.shape != x.shape:
        raise ValueError(f"{name}: weights should have the same shape as a, {x.shape}, and have {w.shape}")
    return Tensor(rechunked(w.data, x.chunks))


def _sum_counts(name: str, function: Any, inputs: Sequence[Tensor], cells: int, dtype: Any,
             params: tuple[Any, ...]) -> Tensor:  # fmt: skip
    """Calls `function` for each chunk of the first input and sums the results, arrays of `cells` counts."""
    n = int(np.prod([len(cut) for cut in inputs[0].chunks], dtype=int))
    lines = blockwise(name, function, inputs, ((cells,) * n,), dtype, params, flat=True)
    return Tensor(sum_(lines.reshape((n, cells)), 0, np.dtype(dtype)).data) if cells else Tensor(lines.data)


@offers("bincount")
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Tensor:
    """`np.bincount`: number of occurrences of each nonnegative integer.

    The largest element decides the length of the result, so the function computes at once.

    Raises
    ------
    ValueError
        If an element is negative, or `x` is not 1-d.

    Examples
    --------
    >>> from jmars.tensor.ops.create.ranges import arange
    >>> bincount(arange(6, chunk_size=2) // 2).fetch().tolist()
    [2, 2, 2]
    """
    data = as_tensor(np.zeros(0, int) if isinstance(x, list | tuple) and not len(x) else x)
    if data.ndim != 1:
        raise ValueError("object of too small depth for desired array" if not data.ndim else "object too deep")
    np.bincount(np.zeros(1, data.dtype))  # raises NumPy's errors
    data = astype(data, np.intp)
    minlength = operator.index(minlength)
    if minlength < 0:
        raise ValueError("'minlength' must not be negative")
    if not data.size:
        return zeros(minlength, np.intp)
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
    return np.bincount(block, minlength=cells)


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
    """Edges of bins, which NumPy wants in ascending order."""
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
    >>> from jmars.tensor.ops.create.ranges import arange
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


@offers("histogram2d")
def histogram2d(x: Any, y: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
                ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`np.histogram2d`: counts of points in a plane."""
    if np.shape(x)[:1] != np.shape(y)[:1]:
        raise ValueError("x and y must have the same length.")  # NumPy's words
    several = isinstance(bins, list | tuple) or np.ndim(bins) > 0  # a list may hold edges beside a number
    if not several or len(bins) not in (1, 2):
        bins = [bins, bins]
    counts, (first, second) = histogramdd([x, y], bins, range, density, weights)
    return counts, first, second


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
    """`np.searchsorted`: insertion positions of `v` in the sorted `a`, which is brought into a single chunk unless it
    is very long.
    """
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
    """Searches in a sorted array of many chunks: few elements in each chunk, many by sorting both together."""
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
    return blockwise(name, function, [x, line], x.chunks, np.intp, params)
