"""Basic indexing: slices, ints and None. Chunks that a slice leaves whole are passed on without a copy.

`axis_slices` divides a slice of an axis among its chunks, for reading here and for writing in setitem.py.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import ChunkType, Program, single
from jmars.tensor.buffers import Buffer
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import Operand, Splits, TensorMeta, new_data
from jmars.tensor.ops.chunks.parts import part_step
from jmars.tensor.ops.chunks.shuffle import Overlap, overlaps
from jmars.tensor.ops.chunks.slivers import assemble_with_slivers
from jmars.tensor.ops.chunks.tiling import add_by_class, chunk_classes
from jmars.tensor.tensor import Tensor

__all__ = ["AxisSlice", "CutSlice", "Slice", "axis_slices", "slice_tensor"]

Array = np.ndarray[Any, Any]
Basic = int | slice | None  # an entry of an index, in bounds


class AxisSlice(NamedTuple):
    """Part of a slice that falls into a single chunk of an axis."""

    chunk: int  # number of the chunk
    start: int  # first element, within the chunk
    taken: int  # number of elements
    length: int  # of the chunk


def axis_slices(lengths: Sequence[int], entry: int | slice) -> list[AxisSlice]:
    """Divides an index entry among the chunks of an axis, in the order of the result.

    Chunks without selected elements are omitted, but at least one `AxisSlice` is returned.

    Examples
    --------
    >>> axis_slices((4, 4), slice(1, 8, 2))
    [AxisSlice(chunk=0, start=1, taken=2, length=4), AxisSlice(chunk=1, start=1, taken=2, length=4)]
    """
    whole = sum(lengths)
    start, stop, step = (entry, entry + 1, 1) if isinstance(entry, int) else entry.indices(whole)
    total = len(range(start, stop, step))
    found: list[AxisSlice] = []
    begin = 0
    for k, length in enumerate(lengths):
        if step > 0:
            first, last = -((start - begin) // step), -((start - begin - length) // step)
        else:
            first, last = -((begin + length - 1 - start) // -step), (start - begin) // -step + 1
        first, last = max(first, 0), min(last, total)
        if last > first:
            found.append(AxisSlice(k, start + first * step - begin, last - first, length))
        begin += length
    if step < 0:
        found.reverse()
    return found or [AxisSlice(0, 0, 0, lengths[0])]


def slice_tensor(x: Tensor, index: Sequence[Basic]) -> Tensor:
    """`x[index]` for an index with an entry per axis; returns a new handle."""
    entries = [entry for entry in index if entry is not None]
    assert len(entries) == x.ndim
    if len(entries) == len(index) and all(map(_is_whole, entries, x.shape)):
        return Tensor.at(Buffer(x.data))
    part = None if x.data.computed else x.data.op.sliced(x.data, entries)
    if part is not None:
        rest = iter(part[1])
        return slice_tensor(Tensor(part[0]), [None if entry is None else next(rest) for entry in index])
    cuts = iter([axis_slices(lengths, entry) for lengths, entry in zip(x.chunks, entries)])
    chunks: list[tuple[int, ...]] = []
    for entry in index:
        if entry is None:
            chunks.append((1,))
            continue
        parts = next(cuts)
        if isinstance(entry, slice):
            chunks.append(tuple(part.taken for part in parts))
    kept = tuple(entry if isinstance(entry, int | None) else (entry.start, entry.stop, entry.step) for entry in index)
    shape = tuple(map(sum, chunks))
    leaf = None
    if isinstance(x.data.op, FromArray):
        leaf = x.data.op.part(tuple(index), math.prod(shape) * x.dtype.itemsize)
    return Tensor(new_data(leaf or Slice(kept, inputs=(x.data,)), shape, x.dtype, tuple(chunks)))


def _is_whole(entry: int | slice, n: int) -> bool:
    """Whether an entry selects all positions of an axis in order."""
    return isinstance(entry, slice) and (entry == slice(None) or entry.indices(n) == (0, n, 1))


@dataclass(frozen=True, eq=False)
class Slice(Operand):
    """Basic indexing; an entry of `index` is an int, (start, stop, step) or None."""

    index: tuple[Any, ...]
    name: ClassVar[str] = "getitem"

    def token(self) -> Hashable:
        """Identifies the operand by its index."""
        return ("getitem", self.index)

    def entries(self) -> tuple[Any, ...]:
        """The index as NumPy takes it."""
        return tuple(slice(*entry) if isinstance(entry, tuple) else entry for entry in self.index)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per partly selected chunk; whole chunks are passed on, the rest is not read."""
        (source,) = inputs
        entries = [slice(*e) if isinstance(e, tuple) else e for e in self.index if e is not None]
        cuts = [axis_slices(lengths, entry) for lengths, entry in zip(source.splits, entries)]
        steps = [1 if isinstance(e, int) or e.step is None else int(e.step) for e in entries]
        ids = source.ids[np.ix_(*([part.chunk for part in parts] for parts in cuts))] if cuts else source.ids
        touched = np.ones(ids.shape, bool)
        if all(isinstance(entry, tuple) for entry in self.index):
            touched = np.zeros((), bool)
            for parts, step in zip(cuts, steps):
                cut = [part.taken != part.length or (step != 1 and part.length > 1) for part in parts]
                touched = touched[..., None] | np.array(cut)
        if not touched.any():
            return ids.reshape(output.grid)
        kinds, which = chunk_classes([[(part.length, part.taken) for part in parts] for parts in cuts])
        is_int = [isinstance(entry, int) for entry in entries]

        def program(k: int) -> Program:
            counts = iter([count for (_, count), scalar in zip(kinds[k], is_int) if not scalar])
            shape = tuple(1 if e is None else next(counts) for e in self.index if not isinstance(e, int))
            params = tuple((count, step) for (_, count), step in zip(kinds[k], steps))
            chunk = ChunkType(tuple(length for length, _ in kinds[k]), source.dtype)
            return single(self.name, (chunk,), part_step(chunk, params, shape))

        begin = [np.array([part.start for part in parts]) for parts in cuts]
        where = np.nonzero(touched) if cuts else ()
        rows = [axis[i].tolist() for axis, i in zip(begin, where)]
        args = [(at,) for at in zip(*rows)] if rows else [((),)]
        flat = touched.reshape(-1)
        made = add_by_class(builder, program, which.reshape(-1)[flat], ids.reshape(-1)[flat, None], args)
        result = ids.reshape(-1).copy()
        result[flat] = made
        return result.reshape(output.grid)


@dataclass(frozen=True, eq=False)
class CutSlice(Operand):
    """A box of an array, cut near the array's own cuts: most elements of a chunk come from one chunk."""

    begin: tuple[int, ...]  # position in the array
    splits: Splits
    name: ClassVar[str] = "getitem"

    def token(self) -> Hashable:
        """Identifies the operand by position and splits."""
        return ("cut slice", self.begin, self.splits)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk, and one for each sliver of a neighbour."""
        (source,) = inputs
        axes = [_overlaps(*axis) for axis in zip(source.splits, self.begin, self.splits)]
        return assemble_with_slivers(self.name, builder, source, axes, output)


def _overlaps(lengths: tuple[int, ...], begin: int, splits: tuple[int, ...]) -> list[Overlap]:
    """Overlap of each chunk of a box with the chunks of the array along an axis.

    Examples
    --------
    >>> _overlaps((50, 50), 2, (49, 49))
    [Overlap(first=0, start=2, lengths=(50, 50), taken=(48, 1)), Overlap(first=1, start=1, lengths=(50,), taken=(49,))]
    """
    rest = sum(lengths) - begin - sum(splits)
    cut = (*([begin] if begin else []), *splits, *([rest] if rest else []))
    return overlaps(lengths, cut)[bool(begin) :][: len(splits)]
