"""Repeats elements along an axis, by a common count or a count for each element: `repeat`; repeats an array: `tile`.

A result chunk has elements of one input chunk. Counts are rechunked to the input's chunks; their sums, the lengths of
the result's chunks, are computed at once.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, TensorMeta, new_data
from jmars.tensor.ops.blockwise.blockwise import blockwise
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.chunks.tiling import add_by_class, chunk_classes, chunk_starts
from jmars.tensor.ops.index.getitem import is_many
from jmars.tensor.ops.index.take import as_positions
from jmars.tensor.ops.shape.axes import broadcast_to, expand_dims, names_no_axis, normal_axis
from jmars.tensor.ops.shape.concatenate import join, slice_axis
from jmars.tensor.ops.shape.reshape import merge_axes, ravel
from jmars.tensor.protocols import offers
from jmars.tensor.splits import chunk_bytes, split_axis
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["Repeat", "repeat", "tile"]

Array = np.ndarray[Any, Any]


@offers("repeat")
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Tensor:
    """`np.repeat`: repeats elements, by a common count or a count per element."""
    x = as_tensor(a)
    if axis is None or names_no_axis(axis, x.ndim):
        x, axis = ravel(x), 0
    axis = normal_axis(axis, x.ndim)
    counts: Any = as_positions(repeats)
    counts = counts if is_many(counts) else np.asarray(counts)
    if counts.ndim < 2 and counts.size == 1:
        return _repeated(x, int(counts.reshape(())), axis)
    if counts.ndim > 1:
        raise ValueError("object too deep for desired array")
    n = x.shape[axis]
    if counts.shape != (n,):
        raise ValueError(f"operands could not be broadcast together with shape {(n,)} {counts.shape}")
    return _repeated_by_counts(x, counts, axis)


def _repeated_by_counts(x: Tensor, counts: Any, axis: int) -> Tensor:
    cut = (x.chunks[axis],)
    if isinstance(counts, Tensor):
        counts = Tensor(rechunked(counts.data, cut))
        totals = blockwise("repeat", _total, [counts], ((1,) * len(cut[0]),), np.int64, flat=True).fetch().tolist()
    else:
        starts = chunk_starts(cut[0])
        totals = [int(_total(counts[start : start + n])[0]) for start, n in zip(starts, cut[0])]
    across = math.prod(max(own) for i, own in enumerate(x.chunks) if i != axis) * x.dtype.itemsize
    most = max(*x.chunks[axis], chunk_bytes() // max(across, 1), 1)
    parts = []
    for k, total in enumerate(totals):
        ends = np.cumsum(split_axis(total, most)).tolist() if total else []
        parts += [(k, begin, end) for begin, end in zip([0, *ends], ends)]
    if not parts:
        return Tensor(slice_axis(x, axis, slice(0, 0)).data)
    chunks = (*x.chunks[:axis], tuple(end - begin for _, begin, end in parts), *x.chunks[axis + 1 :])
    op = Repeat(axis, tuple(parts), inputs=(x.data, as_tensor(counts, chunks=cut).data))
    return Tensor(new_data(op, tuple(map(sum, chunks)), x.dtype, chunks))


def _total(counts: Array) -> Array:
    """Sum of the counts of a chunk."""
    if counts.size and counts.dtype.kind == "i" and counts.min() < 0:
        raise ValueError("repeats may not contain negative values.")
    return np.array([counts.sum(dtype=np.int64)])


@dataclass(frozen=True, eq=False)
class Repeat(Operand):
    """Repeats elements of the first input along an axis, by the counts in the second."""

    axis: int
    parts: tuple[tuple[int, int, int], ...]  # for each chunk of the result: chunk, and elements of it repeated
    name: ClassVar[str] = "repeat"
    reads_all: ClassVar[bool] = True

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk of the result."""
        x, counts = inputs
        axis, lengths = self.axis, x.splits[self.axis]
        kinds, which = chunk_classes([cut for i, cut in enumerate(x.splits) if i != axis])
        columns = np.moveaxis(x.ids, axis, 0)
        made = []
        for k, begin, end in self.parts:

            def program(c: int, n: int = lengths[k], taken: int = end - begin) -> Program:
                given, out = (ChunkType((*kinds[c][:axis], m, *kinds[c][axis:]), x.dtype) for m in (n, taken))
                step = Call(copy_repeated, (axis,), (0, 1), out, True, out.nbytes + 24 * n)
                return single(self.name, (given, ChunkType((n,), counts.dtype)), step)

            ids = columns[k].reshape(-1)
            read = np.stack([ids, np.full_like(ids, counts.ids[k])], axis=1)
            added = add_by_class(builder, program, which.reshape(-1), read, [((begin, end),)] * len(ids))
            made.append(added.reshape(columns[k].shape))
        return np.moveaxis(np.stack(made), 0, axis)


def copy_repeated(out: Array, inputs: Sequence[Array], params: tuple[int], arg: tuple[int, int]) -> None:
    """Copies the elements [begin, end) of a repeated chunk."""
    x, counts = inputs
    (axis,), (begin, end) = params, arg
    ends = np.cumsum(counts, dtype=np.int64)
    first, last = np.searchsorted(ends, [begin, end - 1], "right").tolist()
    some = counts[first : last + 1].astype(np.int64)
    some[0] -= begin - (ends[first] - counts[first])
    some[-1] -= ends[last] - end
    out[...] = np.repeat(x[(slice(None),) * axis + (slice(first, last + 1),)], some, axis)


def _repeated(x: Tensor, count: int, axis: int) -> Tensor:
    """Repeats each element `count` times along an axis, chunk by chunk: a new axis behind `axis`, merged with it."""
    if count < 0 and (x.size or x.shape[axis]):
        raise ValueError("repeats may not contain negative values.")
    if count <= 0 or not x.shape[axis]:
        return Tensor(slice_axis(x, axis, slice(0, 0)).data)
    across = math.prod(max(cut) for i, cut in enumerate(x.chunks) if i != axis) * x.dtype.itemsize
    most = max(*x.chunks[axis], chunk_bytes() // max(across, 1))  # elements of an output chunk along the axis
    pieces = tuple(n for length in x.chunks[axis] for n in split_axis(length, max(most // count, 1)) if n)
    cut = (*x.chunks[:axis], pieces, *x.chunks[axis + 1 :])
    spread = expand_dims(Tensor(rechunked(x.data, cut)), axis + 1)
    shape = (*x.shape[: axis + 1], count, *x.shape[axis + 1 :])
    chunks = (*cut[: axis + 1], split_axis(count, most), *cut[axis + 1 :])
    return Tensor(merge_axes(broadcast_to(spread, shape, chunks=chunks), axis, 2).data)


@offers("tile")
def tile(A: Any, reps: Any) -> Tensor:
    """`np.tile`: repeats an array, without copies of large chunks."""
    x = as_tensor(A)
    counts = [operator.index(n) for n in reps] if np.iterable(reps) else [operator.index(reps)]
    if len(counts) > x.ndim:
        x = expand_dims(x, tuple(range(len(counts) - x.ndim)))
    counts = [1] * (x.ndim - len(counts)) + counts
    if any(n * count < 0 for n, count in zip(x.shape, counts)):
        raise ValueError("negative dimensions are not allowed")
    for axis, count in enumerate(counts):
        x = _tiled(x, count, axis) if count > 0 else slice_axis(x, axis, slice(0, 0))
    return Tensor(x.data)


def _tiled(x: Tensor, count: int, axis: int) -> Tensor:
    """Repeats the whole axis `count` times: small repetitions share chunks of the default size."""
    length = x.shape[axis]
    across = math.prod(max(cut, default=0) for i, cut in enumerate(x.chunks) if i != axis) * x.dtype.itemsize
    most = chunk_bytes() // max(across, 1) // max(length, 1)  # repetitions in a chunk
    if count == 1 or most < 2 or not x.size:
        return join([x] * count, axis)
    whole = Tensor(rechunked(x.data, (*x.chunks[:axis], (length,), *x.chunks[axis + 1 :])))
    shape = (*x.shape[:axis], count, *x.shape[axis:])
    chunks = (*whole.chunks[:axis], split_axis(count, most), *whole.chunks[axis:])
    return Tensor(merge_axes(broadcast_to(expand_dims(whole, axis), shape, chunks=chunks), axis, 2).data)
