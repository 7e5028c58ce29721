"""Joins and splits arrays: `concatenate`, `stack`, `block`, `split`.

Concatenation copies no data: the result has the chunks of the parts. Only very small chunks are merged with their
neighbours, and slices of an array that are joined again get the splits of that array.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import (
    Operand,
    Splits,
    TensorData,
    TensorMeta,
    cast_dtype,
    is_known,
    kind_of,
    new_data,
    result_type,
)
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.elementwise.ufuncs import astype
from jmars.tensor.ops.index.basic_indexing import Slice, slice_tensor
from jmars.tensor.ops.out_argument import write_out
from jmars.tensor.ops.shape.axes import atleast_1d, atleast_2d, atleast_3d, expand_dims, normal_axis
from jmars.tensor.ops.shape.reshape import ravel
from jmars.tensor.protocols import offers
from jmars.tensor.splits import chunk_bytes, common_splits, evenly, without_slivers
from jmars.tensor.steps import share
from jmars.tensor.tensor import Tensor, as_tensor, index_step

__all__ = ["array_split", "concatenate", "join", "slice_axis", "stack"]

SMALL = 2**16  # bytes of a stack of single chunks that becomes a single chunk, too


@dataclass(frozen=True, eq=False)
class Concatenate(Operand):
    """Concatenates its inputs along `axis`."""

    axis: int
    name: ClassVar[str] = "concatenate"
    reads_all: ClassVar[bool] = True

    def token(self) -> Hashable:
        """Identifies the operand by its axis."""
        return ("concatenate", self.axis)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Passes all chunks on; adds no operand."""
        return np.concatenate([grid.ids for grid in inputs], axis=self.axis)


@offers("concatenate", "concat")
def concatenate(arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None,
                casting: Any = "same_kind") -> Tensor:  # fmt: skip
    """`np.concatenate`: joins arrays along an axis, or flattened arrays if `axis` is None.

    Examples
    --------
    >>> from jmars.tensor.ops.create.constants import ones
    >>> concatenate([ones(4, chunk_size=3), ones(2)]).chunks
    ((3, 1, 2),)
    """
    axis = None if axis is None else operator.index(axis)  # first, as NumPy: `concatenate(x, y)` is about the axis
    if out is not None and dtype is not None:
        raise TypeError("concatenate() only takes `out` or `dtype` as an argument, but both were provided.")
    np.can_cast(bool, bool, casting)  # raises NumPy's errors
    arrays = list(arrays)
    parts = [as_tensor(a) for a in arrays]
    if not parts:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        parts, axis = [ravel(x) for x in parts], 0
    if not parts[0].ndim:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    axis = normal_axis(axis, parts[0].ndim)
    for i, x in enumerate(parts):
        if x.ndim != parts[0].ndim:
            raise ValueError(
                "all the input arrays must have same number of dimensions, but the array at index 0 has "
                f"{parts[0].ndim} dimension(s) and the array at index {i} has {x.ndim} dimension(s)"
            )
        for other in range(x.ndim):
            if other != axis and x.shape[other] != parts[0].shape[other]:
                raise ValueError(
                    "all the input array dimensions except for the concatenation axis must match exactly, but along "
                    f"dimension {other}, the array at index 0 has size {parts[0].shape[other]} and the array at index "
                    f"{i} has size {x.shape[other]}"
                )
    kinds = {kind_of(x) if dtype is None else cast_dtype(y.dtype, dtype, casting) for x, y in zip(arrays, parts)}
    kind = next(iter(kinds)) if len(kinds) == 1 and dtype is not None else result_type(*kinds)
    rules = ["unsafe" if isinstance(a, int | float | complex) else casting for a in arrays]  # Python's numbers wrap
    parts = [x if x.dtype == kind else astype(x, kind, casting=rule) for x, rule in zip(parts, rules)]
    parts = [x for x in parts if x.shape[axis]] or parts[:1]
    result = join(parts, axis)
    return write_out(result, "concatenate", out, casting)  # type: ignore[no-any-return]


def join(parts: list[Tensor], axis: int) -> Tensor:
    """Joins parts of equal dtype and equal lengths along the other axes."""
    if len(parts) == 1:
        return Tensor(parts[0].data)
    cut = [common_splits([x.chunks[i] for x in parts]) for i in range(parts[0].ndim) if i != axis]
    inputs = [rechunked(x.data, (*cut[:axis], x.chunks[axis], *cut[axis:])) for x in parts]
    along = tuple(n for data in inputs for n in data.chunks[axis])
    chunks = (*cut[:axis], along, *cut[axis:])
    op = Concatenate(axis, inputs=tuple(inputs))
    data = new_data(op, tuple(map(sum, chunks)), parts[0].dtype, chunks)
    return Tensor(rechunked(data, (*chunks[:axis], _concatenated_splits(parts, axis, chunks), *chunks[axis + 1 :])))


def _concatenated_splits(parts: list[Tensor], axis: int, chunks: Splits) -> tuple[int, ...]:
    """Splits of a joined axis, chosen so that repeated concatenation does not produce ever more chunks.

    If the parts are slices of arrays, the splits of these arrays are used where that gives fewer chunks.
    """
    row = math.prod(max(cut) for i, cut in enumerate(chunks) if i != axis) * parts[0].dtype.itemsize
    most = chunk_bytes() // max(row, 1)
    sources: dict[Any, tuple[int, ...]] = {}
    for i, x in enumerate(parts):  # a whole array counts at each occurrence, all slices of an array count once
        source = _source(x.data)
        sources[i if source is x.data else source] = source.chunks[axis]
    whole = without_slivers(tuple(itertools.chain.from_iterable(sources.values())), most)
    if sum(whole) == sum(chunks[axis]) and len(whole) < len(chunks[axis]):
        return whole
    along = without_slivers(chunks[axis], most)
    return along if len(along) <= len(whole) else min(along, evenly(sum(along), max(whole)), key=len)


def _source(data: TensorData) -> TensorData:
    """Base array of a slice; `data` itself for other operands."""
    op = data.op
    if isinstance(op, Slice) and all(isinstance(entry, tuple) for entry in op.index):
        return data if op.inputs[0].has_unknown_lengths else op.inputs[0]
    return data


@offers("stack")
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind") -> Tensor:
    """`np.stack`: joins arrays along a new axis; small arrays of a chunk each to a single chunk.

    Examples
    --------
    >>> from jmars.tensor.ops.create.constants import ones
    >>> stack([ones(2), ones(2), ones(2)]).chunks
    ((3,), (2,))
    """
    if out is not None and dtype is not None:
        raise TypeError("stack() only takes `out` or `dtype` as an argument, but both were provided.")
    parts = [as_tensor(a) for a in _sequence(arrays)]
    if not parts:
        raise ValueError("need at least one array to stack")
    if len({x.shape for x in parts}) > 1:
        raise ValueError("all input arrays must have the same shape")
    axis = normal_axis(axis, parts[0].ndim + 1)
    joined = concatenate([expand_dims(x, axis) for x in parts], axis, dtype=dtype, casting=casting)
    single = all(len(cut) == 1 for x in parts for cut in x.chunks)
    if single and is_known(joined.chunks) and joined.nbytes <= SMALL:
        joined = Tensor(rechunked(joined.data, tuple((n,) for n in joined.shape)))
    return write_out(joined, "stack", out, casting)  # type: ignore[no-any-return]


def _sequence(arrays: Any) -> Any:
    """The arrays to stack; raises TypeError for a generator, as NumPy."""
    if not hasattr(arrays, "__getitem__"):
        raise TypeError('arrays to stack must be passed as a "sequence" type such as list or tuple.')
    return arrays


@offers("hstack")
def hstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Tensor:
    """`np.hstack`."""
    parts = [atleast_1d(a) for a in _sequence(tup)]
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@offers("vstack")
def vstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Tensor:
    """`np.vstack`."""
    return concatenate([atleast_2d(a) for a in _sequence(tup)], 0, dtype=dtype, casting=casting)


@offers("dstack")
def dstack(tup: Any) -> Tensor:
    """`np.dstack`."""
    return concatenate([atleast_3d(a) for a in _sequence(tup)], 2)


@offers("column_stack")
def column_stack(tup: Any) -> Tensor:
    """`np.column_stack`."""
    parts = [as_tensor(a) for a in _sequence(tup)]
    return concatenate([x if x.ndim > 1 else expand_dims(atleast_1d(x), 1) for x in parts], 1)


@offers("append")
def append(arr: Any, values: Any, axis: int | None = None) -> Tensor:
    """`np.append`."""
    if axis is None:  # NumPy's ravel: a number has a dtype of its own
        return concatenate([ravel(as_tensor(arr)), ravel(as_tensor(values))], 0)
    return concatenate([arr, values], axis)


@offers("block")
def block(arrays: Any) -> Tensor:
    """`np.block`: joins nested lists of arrays, the innermost along the last axis."""

    def least(entry: Any) -> int:
        return max(map(least, entry)) if isinstance(entry, list) and entry else as_tensor(entry).ndim

    levels, empty = _depth(arrays, "arrays")
    if empty:
        raise ValueError(f"List at {empty} cannot be empty")
    ndim = max(levels, least(arrays))

    def joined(entry: Any, level: int) -> Tensor:
        if level < levels:
            return concatenate([joined(part, level + 1) for part in entry], level - levels)
        x = as_tensor(entry)
        return expand_dims(x, tuple(range(ndim - x.ndim))) if x.ndim < ndim else x

    return Tensor(joined(arrays, 0).data)


def _depth(entry: Any, path: str) -> tuple[int, str]:
    """Depth of nested lists, and where an innermost list is empty; raises as `np.block`."""
    if isinstance(entry, tuple):
        raise TypeError(
            f"{path} is a tuple. Only lists can be used to arrange blocks, and np.block does not allow implicit "
            "conversion from tuple to ndarray."
        )
    if not isinstance(entry, list):
        return 0, ""
    if not entry:
        return 1, path
    found = [_depth(part, f"{path}[{i}]") for i, part in enumerate(entry)]
    level, first = path.count("[") + 1, found[0][0]
    for i, (depth, _) in enumerate(found):
        if depth != first:
            raise ValueError(
                f"List depths are mismatched. First element was at depth {level + first}, but there is an element at "
                f"depth {level + depth} ({path}[{i}])"
            )
    return 1 + first, next((at for _, at in found if at), "")


@offers("unstack")
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """`np.unstack`: splits an array along an axis into arrays without that axis."""
    whole = as_tensor(x)
    if not x.ndim:  # which a list has not, in NumPy too
        raise ValueError("Input array must be at least 1-d.")
    (axis,) = np.lib.array_utils.normalize_axis_tuple(axis, whole.ndim)
    return tuple(whole[(slice(None),) * axis + (i,)] for i in range(whole.shape[axis]))


def slice_axis(x: Tensor, axis: int, part: slice) -> Tensor:
    """Slices `x` along one axis."""
    return slice_tensor(x, [part if i == axis else slice(None) for i in range(x.ndim)])


@offers("array_split")
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """`np.array_split`: divides an array into parts of nearly equal length, or at given indices."""
    x = as_tensor(ary)
    length = x.shape[normal_axis(axis, x.ndim)]
    if np.iterable(indices_or_sections):
        ends = [0, *(operator.index(i) for i in indices_or_sections), length]
    else:
        sections = int(indices_or_sections)
        if sections <= 0:
            raise ValueError("number sections must be larger than 0.")
        each, longer = divmod(length, sections)
        ends = [i * each + min(i, longer) for i in range(sections + 1)]
    axis = normal_axis(axis, x.ndim)
    cuts = [(*(slice(None),) * axis, slice(low, high)) for low, high in zip(ends, ends[1:])]
    return [share(slice_axis(x, axis, cut[-1]), ary, index_step(cut)) for cut in cuts]


@offers("split")
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """`np.split`: divides an array into parts of equal length, or at given indices."""
    if not np.iterable(indices_or_sections) and ary.shape[normal_axis(axis, ary.ndim)] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, axis)


@offers("hsplit")
def hsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    """`np.hsplit`."""
    if np.ndim(ary) == 0:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return split(ary, indices_or_sections, 1 if ary.ndim > 1 else 0)


@offers("vsplit")
def vsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    """`np.vsplit`."""
    if np.ndim(ary) < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(ary, indices_or_sections, 0)


@offers("dsplit")
def dsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    """`np.dsplit`."""
    if np.ndim(ary) < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(ary, indices_or_sections, 2)
