"""Measurements of labelled elements: `sum_labels`, `mean`, `variance`, `minimum`, `extrema`, `find_objects` and others.

Of each chunk a state with an entry per asked label is computed, and a tree merges the states: counts and sums, means
and squares of distances (Chan, Golub, LeVeque 1979), extremes with the first place that has them, counts of bins,
boxes. Sums of floating point numbers may differ from SciPy's in the last digits, since chunks are added in another
order. Places, boxes, centres and histograms, which SciPy gives as tuples and lists, are computed in the call.
Source: SciPy `ndimage/_measurements.py`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from jmars.config import config
from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.numpy_modules import as_values
from jmars.tensor.operand import Operand, TensorMeta, new_data
from jmars.tensor.ops.chunks import chunk_classes, corners, rechunked
from jmars.tensor.ops.map_blocks import map_blocks
from jmars.tensor.protocols import call, offers
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]
_SUMS = np.dtype([("count", "i8"), ("sum", "f8")])
_SQUARES = np.dtype([("count", "i8"), ("mean", "f8"), ("squares", "f8")])
_POSITIVE = "positive"  # stands for the labels of a group: all above 0
# NaN is the greatest where SciPy sorts, for labels in an index; of one group it is the extreme, as `np.min` says
_EXTREMES = {"least": np.fmin, "lowest": np.minimum, "greatest": np.maximum}


def _states(kind: str, x: Tensor, labels: Any, index: Any, edges: Any = ()) -> Tensor:
    """The states of the labels in `index`; of a single group, one state."""
    groups: Any = None
    inputs = [x]
    if labels is not None:
        given = call("broadcast_to", as_tensor(labels), x.shape)
        inputs.append(Tensor(rechunked(given.data, x.chunks)))
        groups = _POSITIVE if index is None else _groups(np.atleast_1d(index).reshape(-1))
    count = 1 if groups is None or isinstance(groups, str) else len(groups)
    dtype: np.dtype[Any] = np.dtype(np.int64)
    shape: tuple[int, ...] = (count,)
    if kind in _EXTREMES:
        dtype = np.dtype([("value", x.dtype), ("place", "i8")])
    elif kind == "boxes":
        shape = (count, 2 * x.ndim)
    elif kind == "bins":
        shape = (count, len(edges))  # the last counts all elements
    else:
        dtype = _SUMS if kind == "sums" else _SQUARES
    op = LabelReduction(
        kind, groups, tuple(edges), max(2, config.combine_size), inputs=tuple(one.data for one in inputs)
    )
    return Tensor(new_data(op, shape, dtype, tuple((n,) for n in shape)))


def _groups(index: Array) -> range | tuple[Any, ...]:
    """Labels as a range, where they follow each other."""
    if index.dtype.kind in "iu" and index.size and (np.diff(index) == 1).all():
        return range(int(index[0]), int(index[-1]) + 1)
    return tuple(index.tolist())


def _is_single(labels: Any, index: Any) -> bool:
    return labels is None or index is None or np.isscalar(index)


def _given(input: Any, labels: Any, index: Any) -> tuple[Tensor, Any, Any]:
    x = as_tensor(input)
    if x.dtype.kind not in "biuf":
        raise TypeError(f"measurements of labels take real numbers, not {x.dtype}; use SciPy's on x.fetch()")
    labels = None if labels is None else as_tensor(labels)
    if labels is not None:
        shape = np.broadcast_shapes(x.shape, labels.shape)
        x = x if x.shape == shape else call("broadcast_to", x, shape)
    return x, labels, as_values(index)


def _like(index: Any, found: Tensor) -> Tensor:
    return call("reshape", found, np.shape(index)) if np.ndim(index) != 1 else found


def _selected(x: Tensor, labels: Any, index: Any) -> Any:
    return labels > 0 if index is None else labels == index


@offers("ndimage.sum_labels", "ndimage.sum")
def sum_labels(input: Any, labels: Any = None, index: Any = None) -> Tensor:
    """`scipy.ndimage.sum_labels`: sums of the elements with a label.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> sum_labels(arange(6, chunk_size=2), [0, 1, 1, 2, 2, 2], [1, 2]).fetch().tolist()
    [3.0, 12.0]
    """
    x, labels, index = _given(input, labels, index)
    if _is_single(labels, index):
        chosen = x if labels is None else call("where", _selected(x, labels, index), x, np.zeros((), x.dtype))
        total: Tensor = call("sum", chosen)
        return total
    return _like(index, _states("sums", x, labels, index)["sum"])


@offers("ndimage.mean")
def mean(input: Any, labels: Any = None, index: Any = None) -> Tensor:
    """`scipy.ndimage.mean`: means of the elements with a label."""
    x, labels, index = _given(input, labels, index)
    if _is_single(labels, index):
        count = x.size if labels is None else call("count_nonzero", _selected(x, labels, index))
        of_one: Tensor = sum_labels(x, labels, index) / call("asarray", count, dtype=np.float64)
        return of_one
    found = _states("sums", x, labels, index)
    return _like(index, found["sum"] / found["count"].astype(np.float64))


@offers("ndimage.variance")
def variance(input: Any, labels: Any = None, index: Any = None) -> Tensor:
    """`scipy.ndimage.variance`: variances of the elements with a label."""
    x, labels, index = _given(input, labels, index)
    found = _states("squares", x, labels, index)
    found = found["squares"] / found["count"].astype(np.float64)
    return found[0] if _is_single(labels, index) else _like(index, found)


@offers("ndimage.standard_deviation")
def standard_deviation(input: Any, labels: Any = None, index: Any = None) -> Tensor:
    """`scipy.ndimage.standard_deviation`: the square roots of `variance`."""
    found: Tensor = call("sqrt", variance(input, labels, index))
    return found


def _extremes(kind: str, input: Any, labels: Any, index: Any) -> tuple[Tensor, tuple[int, ...], Any]:
    """The states, flat, with the shape of the array and that of the result; None for a single group."""
    x, labels, index = _given(input, labels, index)
    single = _is_single(labels, index)
    found = _states("lowest" if single and kind == "least" else kind, x, labels, index)
    if single:
        some = map_blocks(_not_empty, found, dtype=found.dtype, name="measure", kind=kind)
        return some[0], x.shape, None
    return found, x.shape, np.shape(index)


def _not_empty(states: Array, kind: str) -> Array:
    if states["place"][0] < 0:
        name = "minimum" if kind == "least" else "maximum"
        raise ValueError(f"zero-size array to reduction operation {name} which has no identity")  # NumPy's words
    return states


def _values(found: Tensor, shape: Any) -> Tensor:
    value: Tensor = found["value"]
    return value if shape is None or len(shape) == 1 else call("reshape", value, shape)


@offers("ndimage.minimum")
def minimum(input: Any, labels: Any = None, index: Any = None) -> Tensor:
    """`scipy.ndimage.minimum`: least elements with a label; 0 for a label that does not occur."""
    found, _, shape = _extremes("least", input, labels, index)
    return _values(found, shape)


@offers("ndimage.maximum")
def maximum(input: Any, labels: Any = None, index: Any = None) -> Tensor:
    """`scipy.ndimage.maximum`: greatest elements with a label; 0 for a label that does not occur."""
    found, _, shape = _extremes("greatest", input, labels, index)
    return _values(found, shape)


def _places(found: Array, shape: tuple[int, ...]) -> Any:
    place = np.maximum(found["place"], 0)
    if not place.ndim:
        return tuple(np.unravel_index(place, shape))
    return [tuple(one) for one in np.stack(np.unravel_index(place.reshape(-1), shape), axis=1)]


@offers("ndimage.minimum_position")
def minimum_position(input: Any, labels: Any = None, index: Any = None) -> Any:
    """`scipy.ndimage.minimum_position`: places of the least elements, in C order the first."""
    found, shape, _ = _extremes("least", input, labels, index)
    return _places(np.asarray(found.fetch()), shape)


@offers("ndimage.maximum_position")
def maximum_position(input: Any, labels: Any = None, index: Any = None) -> Any:
    """`scipy.ndimage.maximum_position`: places of the greatest elements, in C order the first."""
    found, shape, _ = _extremes("greatest", input, labels, index)
    return _places(np.asarray(found.fetch()), shape)


@offers("ndimage.extrema")
def extrema(input: Any, labels: Any = None, index: Any = None) -> Any:
    """`scipy.ndimage.extrema`: least and greatest elements with a label, and their places."""
    (low, whole, shape), (high, _, _) = (_extremes(kind, input, labels, index) for kind in ("least", "greatest"))
    places = as_values([low, high])
    values = (_values(low, shape), _values(high, shape))
    return (*values, *(_places(np.asarray(one), whole) for one in places))


@offers("ndimage.center_of_mass")
def center_of_mass(input: Any, labels: Any = None, index: Any = None) -> Any:
    """`scipy.ndimage.center_of_mass`: centres of the elements with a label, weighted by the elements."""
    x, labels, index = _given(input, labels, index)
    grids = [call("arange", n, dtype=np.float64).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
             for axis, n in enumerate(x.shape)]  # fmt: skip
    whole = sum_labels(x, labels, index)
    found = as_values(call("stack", [sum_labels(x * grid, labels, index) / whole for grid in grids]))
    return tuple(found) if found.ndim == 1 else [tuple(one) for one in found.T]


@offers("ndimage.histogram")
def histogram(input: Any, min: float, max: float, bins: int, labels: Any = None, index: Any = None) -> Any:
    """`scipy.ndimage.histogram`: numbers of elements in `bins` between `min` and `max`; of several labels, a list."""
    x, labels, index = _given(input, labels, index)
    edges = np.linspace(min, max, bins + 1).tolist()
    states = as_values(_states("bins", x, labels, index, edges))
    rows = [row[:-1] if index is None or row[-1] else None for row in states]
    if _is_single(labels, index):
        return rows[0]
    many = np.empty(np.shape(index), object)
    for at, row in zip(np.ndindex(many.shape), rows):
        many[at] = row
    return many


@offers("ndimage.find_objects")
def find_objects(input: Any, max_label: int = 0) -> list[Any]:
    """`scipy.ndimage.find_objects`: the smallest box around each label; None for a label that does not occur."""
    x = as_tensor(input)
    ndimage.find_objects(np.zeros((1,) * x.ndim, x.dtype), 1)  # raises SciPy's errors
    count = int(max_label) if max_label >= 1 else int(call("max", x)) if x.size else 0
    if count < 1 or not x.ndim:
        return []
    boxes = as_values(_states("boxes", x, x, np.arange(1, count + 1)))
    return [tuple(slice(low, high) for low, high in row.reshape(-1, 2).tolist()) if row[1] else None for row in boxes]


@dataclass(frozen=True, eq=False)
class LabelReduction(Operand):
    """States of labelled elements, in a single chunk; the inputs are the elements and, cut alike, their labels."""

    kind: str
    groups: Any  # a range or tuple of labels, in the order of the states; "positive"; None: all elements are one group
    edges: tuple[float, ...]  # of bins
    combine_size: int
    name: ClassVar[str] = "measure"

    def token(self) -> Hashable:
        """Identifies the operand by the kind of measurement and the labels."""
        return ("measure", self.kind, self.groups, self.edges, self.combine_size)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk, then a tree that merges the states."""
        x, labels = inputs[0], inputs[-1]
        kinds, which = chunk_classes(x.splits)
        out = ChunkType(output.shape, output.dtype)
        params = (self.kind, tuple(map(sum, x.splits)), self.groups, self.edges)
        reads = (0, 1) if len(inputs) > 1 else (0,)

        def program(shape: tuple[int, ...]) -> Program:
            types = tuple(ChunkType(shape, one.dtype) for one in inputs)
            return single(self.name, types, Call(measure, params, reads, out, True, 48 * math.prod(shape)))

        rows = np.stack([one.ids.reshape(-1) for one in (x, labels)][: len(inputs)], axis=1)
        programs = [program(shape) for shape in kinds]
        ids = builder.add_many(programs, which.reshape(-1), rows, corners(x.splits))
        while len(ids) > 1:
            groups = [ids[k : k + self.combine_size] for k in range(0, len(ids), self.combine_size)]
            ids = np.array([self._merge(builder, group, out) for group in groups], np.int64)
        return ids.reshape(output.grid)

    def _merge(self, builder: ChunkGraphBuilder, group: NDArray[np.int64], out: ChunkType) -> int:
        if len(group) == 1:
            return int(group[0])
        step = Call(merge, (self.kind,), tuple(range(len(group))), out, False, 4 * out.nbytes)
        return builder.add(single(self.name, (out,) * len(group), step), group.tolist())


# -- what executors run


def _codes(labels: Array | None, groups: Any, count: int) -> Array:
    """The group of each element, `count` for those of none; of equal groups, the first."""
    if groups is None or labels is None:
        return np.zeros(count, np.intp)
    flat = labels.reshape(-1)
    if groups == _POSITIVE:
        return np.where(flat > 0, 0, 1)
    if not groups:
        return np.zeros(count, np.intp)
    if isinstance(groups, range):
        flat = flat.astype(np.int64) if flat.dtype.kind in "biu" else flat
        inside = (flat >= groups.start) & (flat < groups.stop)
        codes = np.where(inside, flat, groups.stop).astype(np.intp) - groups.start
        return codes if flat.dtype.kind == "i" else np.where(codes + groups.start == flat, codes, len(groups))
    asked, first = np.unique(np.asarray(groups), return_index=True)
    if flat.dtype.kind in "iu" and asked.dtype.kind in "iu" and asked[0] >= 0 and asked[-1] < 2 * flat.size + 2**16:
        table = np.full(int(asked[-1]) + 2, len(groups), np.intp)
        table[asked] = first
        inside = (flat >= 0) & (flat <= asked[-1])
        return table[np.where(inside, flat, asked[-1] + 1).astype(np.intp)]
    at = np.minimum(np.searchsorted(asked, flat), len(asked) - 1)
    return np.where(asked[at] == flat, first[at], len(groups))


def _repeats(groups: Any) -> Any:
    """Where the state of each group stands: that of equal groups stands at the first."""
    if not isinstance(groups, tuple):
        return slice(None)
    found = np.unique(np.asarray(groups), return_index=True, return_inverse=True)
    return found[1][found[2].reshape(-1)]


def measure(out: Array, inputs: Sequence[Array], params: tuple[Any, ...], arg: tuple[int, ...]) -> None:
    """The states of a chunk that begins at index `arg`."""
    kind, shape, groups, edges = params
    x, count = inputs[0], len(out)
    if kind == "boxes":
        out[:] = 0
        for number, box in enumerate(ndimage.find_objects(x, min(count, max(int(x.max(initial=0)), 1)))):
            if box is not None:
                out[number] = [i + start for one, start in zip(box, arg) for i in (one.start, one.stop)]
        return
    codes = _codes(inputs[1] if len(inputs) > 1 else None, groups, x.size)
    flat = x.reshape(-1)
    with np.errstate(all="ignore"):
        if kind == "bins":
            at: Array = np.searchsorted(edges, flat, "right") - 1
            at[flat == edges[-1]] = len(edges) - 2
            inside = (at >= 0) & (at < len(edges) - 1) & (codes < count)
            bins = np.bincount(codes[inside] * (len(edges) - 1) + at[inside], minlength=count * (len(edges) - 1))
            out[:, :-1] = bins.reshape(count, len(edges) - 1)
            out[:, -1] = np.bincount(codes, minlength=count + 1)[:count]
        elif kind in _EXTREMES:
            _find_extremes(out, kind, flat, codes, x.shape, shape, arg)
        else:
            sizes = np.bincount(codes, minlength=count + 1)
            total = np.bincount(codes, flat, minlength=count + 1)
            out["count"] = sizes[:count]
            if kind == "sums":
                out["sum"] = total[:count]
            else:
                centre = total / np.maximum(sizes, 1)
                out["mean"] = centre[:count]
                out["squares"] = np.bincount(codes, (flat - centre[codes]) ** 2, minlength=count + 1)[:count]
    out[...] = out[_repeats(groups)]


def _find_extremes(out: Array, kind: str, flat: Array, codes: Array, block: Any, shape: Any, corner: Any) -> None:
    count, least = len(out), kind != "greatest"
    if not flat.size:
        out["place"], out["value"] = -1, 0
        return
    if flat.dtype.kind == "f":
        start: Any = {"least": np.nan, "lowest": np.inf, "greatest": -np.inf}[kind]
    elif flat.dtype.kind == "b":
        start = least
    else:
        start = np.iinfo(flat.dtype).max if least else np.iinfo(flat.dtype).min
    found = np.full(count + 1, start, flat.dtype)
    _EXTREMES[kind].at(found, codes, flat)
    mine = found[codes]
    there = np.flatnonzero((flat == mine) | ((flat != flat) & (mine != mine)))
    place = np.full(count + 1, -1, np.int64)
    place[codes[there[::-1]]] = there[::-1]  # the last one written stays
    at = np.unravel_index(np.maximum(place, 0), block)
    whole = np.ravel_multi_index(tuple(i + start for i, start in zip(at, corner)), shape)
    out["place"] = np.where(place < 0, -1, whole)[:count]
    out["value"] = np.where(place < 0, np.zeros((), flat.dtype), found)[:count]


def merge(out: Array, inputs: Sequence[Array], params: tuple[str], arg: Any) -> None:
    """Merges the states of several chunks."""
    (kind,) = params
    out[...] = inputs[0]
    with np.errstate(all="ignore"):
        for other in inputs[1:]:
            if kind == "bins":
                out += other
            elif kind == "boxes":
                _merge_boxes(out, other)
            elif kind == "sums":
                out["count"] += other["count"]
                out["sum"] += other["sum"]
            elif kind == "squares":
                _merge_squares(out, other)
            else:
                _merge_extremes(out, other, kind)


def _merge_boxes(out: Array, other: Array) -> None:
    here, there = out[:, 1] > 0, other[:, 1] > 0
    both = (here & there)[:, None]
    out[:, ::2] = np.where(both, np.minimum(out[:, ::2], other[:, ::2]), out[:, ::2] + other[:, ::2])
    out[:, 1::2] = np.maximum(out[:, 1::2], other[:, 1::2])


def _merge_squares(out: Array, other: Array) -> None:
    count = out["count"] + other["count"]
    apart = other["mean"] - out["mean"]
    share = other["count"] / np.maximum(count, 1)
    out["squares"] += np.where(other["count"] == 0, 0, other["squares"] + apart**2 * out["count"] * share)
    out["mean"] = np.where(other["count"] == 0, out["mean"], out["mean"] + apart * share)
    out["count"] = count


def _merge_extremes(out: Array, other: Array, kind: str) -> None:
    mine, theirs = out["value"], other["value"]
    less, equal = (theirs > mine if kind == "greatest" else theirs < mine), theirs == mine
    if mine.dtype.kind == "f":
        is_nan, are_nan = np.isnan(mine), np.isnan(theirs)
        less |= (is_nan & ~are_nan) if kind == "least" else (are_nan & ~is_nan)
        equal |= is_nan & are_nan
    first = equal & (other["place"] < out["place"])
    taken = (other["place"] >= 0) & ((out["place"] < 0) | less | first)
    out[taken] = other[taken]
