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

from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.buffers import Buffer
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import Operand, TensorMeta, new_data
from jmars.tensor.ops.chunks.tiling import add_by_class, chunk_classes
from jmars.tensor.tensor import Tensor

__all__ = ["AxisSlice", "Slice", "axis_slices", "has_rows", "local_slice", "slice_tensor", "view_slice"]

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


def local_slice(start: int, count: int, step: int) -> slice:
    """Slice that selects `count` elements from `start`; `step` may be negative."""
    stop = start + count * step
    return slice(start, stop if stop >= 0 else None, step) if count else slice(0, 0)


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
            view = view_slice if has_rows(chunk.shape, params) else None
            step = Call(copy_slice, params, (0,), ChunkType(shape, output.dtype), True, view=view)
            return single(self.name, (chunk,), step)

        begin = [np.array([part.start for part in parts]) for parts in cuts]
        where = np.nonzero(touched) if cuts else ()
        rows = [axis[i].tolist() for axis, i in zip(begin, where)]
        args = [(at,) for at in zip(*rows)] if rows else [((),)]
        flat = touched.reshape(-1)
        made = add_by_class(builder, program, which.reshape(-1)[flat], ids.reshape(-1)[flat, None], args)
        result = ids.reshape(-1).copy()
        result[flat] = made
        return result.reshape(output.grid)


def copy_slice(out: Array, inputs: Sequence[Array], params: tuple[tuple[int, int], ...], arg: tuple[int, ...]) -> None:
    """Copies the part of a chunk that begins at `arg`; `params` are (count, step) for each axis."""
    part = view_slice(inputs[0], params, arg)
    assert math.prod(part.shape) == out.size
    np.copyto(out.reshape(part.shape), part)


def has_rows(shape: tuple[int, ...], params: Sequence[tuple[int, int]]) -> bool:
    """Whether a slice of a chunk of `shape` has contiguous rows: NumPy's last bits differ where elements lie apart."""
    inner = next((count for n, (count, _) in zip(reversed(shape), reversed(params)) if n > 1), 2)
    return inner > 1 and all(step == 1 for _, step in params)


def view_slice(chunk: Array, params: tuple[tuple[int, int], ...], arg: tuple[int, ...]) -> Array:
    """The part of a chunk that begins at `arg`, as a view; `params` are (count, step) for each axis."""
    index: tuple[Any, ...] = (*(local_slice(at, count, step) for at, (count, step) in zip(arg, params)), ...)
    part: Array = chunk[index]
    return part
