"""Operands that read parts of an array: slices, elements at positions along an axis, positions of a tensor.

Chunks that a slice leaves whole are passed on without a copy. `axis_slices` divides a slice of an axis among the
chunks, for reading here and for writing in setitem.py. Few positions are known when the graph is built, so an output
chunk reads only the input chunks that hold the elements. Many positions, and positions all over an array, are a tensor.

Then `x[positions]` of a few chunks reads the chunks whole, and `x[positions] = value` in a single chunk writes a chunk
of positions after the other. Else elements are exchanged out of memory. First the positions in every chunk of `x` are
counted. A result chunk with elements of few chunks of `x` reads the few chunks whole. Otherwise chunks of positions are
sorted by chunk of `x`; an operand per chunk of `x` gathers the positions and copies the elements, in that order, into a
line of bytes; a result chunk gathers parts of the lines. A write gathers positions and values for every chunk of `x`.
Elements travel once; an operand holds a few chunks.
Source: docs/decisions/0029-sorting-by-ranges.md, whose gathering operands read ranges of chunks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.buffers import Buffer, SmallValues
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.engine import has_value
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import Operand, Splits, TensorData, TensorMeta, new_data
from jmars.tensor.ops.blockwise import blockwise
from jmars.tensor.ops.chunks import (
    Overlap,
    add_by_class,
    assemble_with_slivers,
    chunk_classes,
    overlaps,
    part_step,
    rechunked,
)
from jmars.tensor.parts import Part, PartOf, before_slice, positions, splits_of, tidy
from jmars.tensor.small_parts import constant_of
from jmars.tensor.splits import chunk_bytes, split_axis
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.tensor.tensor_graph import Dynamic, TensorGraph, fragment, new_group, placeholders

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

    Chunks without selected elements are omitted, but at least an `AxisSlice` is returned.

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
    part = None if has_value(x.data) else x.data.op.sliced(x.data, entries)
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
    leaf, nbytes = None, math.prod(shape) * x.dtype.itemsize
    if isinstance(x.data.op, FromArray):
        leaf = x.data.op.copied_part(tuple(index), nbytes)
    if leaf is None and nbytes <= SmallValues.chosen and x.data.op.annotation is None:
        leaf = _known_part(x.data, index, shape)
    return Tensor(new_data(leaf or Slice(kept, inputs=(x.data,)), shape, x.dtype, tuple(chunks)))


def _known_part(node: TensorData, index: Sequence[Basic], shape: tuple[int, ...]) -> FromArray | None:
    """In a cell, a small part of an array of this process without other writers, or of constants."""
    if isinstance(op := node.op, FromArray):
        has_elements = op.checksum is None and op.array.shape == node.shape and op.array.dtype == node.dtype
        return FromArray(array=np.array(op.array[tuple(index)], order="C")) if has_elements else None
    value = constant_of(node)
    return None if value is None else FromArray(array=np.full(shape, value, node.dtype))


def _is_whole(entry: int | slice, n: int) -> bool:
    """Whether an entry selects all positions of an axis in order."""
    return isinstance(entry, slice) and (entry == slice(None) or entry.indices(n) == (0, n, 1))


@dataclass(frozen=True, eq=False)
class Slice(Operand):
    """Basic indexing; an entry of `index` is an int, (start, stop, step) or None."""

    index: tuple[Any, ...]
    name: ClassVar[str] = "getitem"

    def token(self) -> Hashable:
        """Identifies the operand by the index."""
        return ("getitem", self.index)

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf:
        """The positions of the input, in ascending order; numbers, new axes and the order stay to be applied."""
        own, index = before_slice(kept, self.index, inputs[0].shape)
        vanishes = all(entry == (None, None, None) for entry in index)
        return PartOf(None if vanishes else replace(self, index=index), [(0, own)])

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
    """A box of an array, cut near the array's own cuts: most elements of a chunk come from a single chunk."""

    begin: tuple[int, ...]  # position in the array
    splits: Splits
    name: ClassVar[str] = "getitem"

    def token(self) -> Hashable:
        """Identifies the operand by position and splits."""
        return ("cut slice", self.begin, self.splits)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk, and per sliver of a neighbour."""
        (source,) = inputs
        axes = [_overlaps(*axis) for axis in zip(source.splits, self.begin, self.splits)]
        return assemble_with_slivers(self.name, builder, source, axes, output)


def _overlaps(lengths: tuple[int, ...], begin: int, splits: tuple[int, ...]) -> list[Overlap]:
    """Overlaps of the chunks of a box with the chunks of the array along an axis.

    Examples
    --------
    >>> _overlaps((50, 50), 2, (49, 49))
    [Overlap(first=0, start=2, lengths=(50, 50), taken=(48, 1)), Overlap(first=1, start=1, lengths=(50,), taken=(49,))]
    """
    rest = sum(lengths) - begin - sum(splits)
    cut = (*([begin] if begin else []), *splits, *([rest] if rest else []))
    return overlaps(lengths, cut)[bool(begin) :][: len(splits)]


MANY = 2**17  # positions that are a tensor on the cluster; fewer travel in the graph

Ints = NDArray[np.int64]


def in_bounds(positions: Any, length: int, axis: int) -> Ints:
    """Normalises positions along an axis to 0 .. length - 1; raises IndexError as NumPy does."""
    found = np.asarray(positions)
    if found.dtype.kind not in "iu" and found.size:
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    found = found.astype(np.int64)
    wrong = found[(found < -length) | (found >= length)]
    if wrong.size:
        raise IndexError(f"index {wrong.flat[0]} is out of bounds for axis {axis} with size {length}")
    return np.where(found < 0, found + length, found)


def as_positions(value: Any) -> Any:
    """Positions, or counts, as int64; lists and numbers are converted, arrays are cast safely.

    Raises
    ------
    TypeError
        If the dtype of an array has no safe cast.
    """
    is_array = value._place.is_array if isinstance(value, Tensor) else isinstance(value, np.ndarray)
    if is_array and not np.can_cast(value.dtype, np.intp):
        raise TypeError(f"Cannot cast array data from {value.dtype!r} to dtype('int64') according to the rule 'safe'")
    return value.astype(np.intp) if isinstance(value, Tensor) else np.asarray(value).astype(np.intp)


def take_positions(x: Tensor, positions: Ints, axis: int) -> Tensor:
    """Selects elements at `positions` (1-d, in bounds) along an axis.

    Many positions in a short axis make as many chunks as that axis has, of `chunk_bytes` at most.
    """
    if len(positions) and not has_value(x.data):
        low, high = int(positions.min()), int(positions.max()) + 1
        part = x.data.op.sliced(x.data, [slice(low, high) if i == axis else slice(None) for i in range(x.ndim)])
        if part is not None and high - low <= x.shape[axis] // 2:
            return take_positions(slice_tensor(Tensor(part[0]), part[1]), positions - low, axis)
    most = max(x.chunks[axis])
    is_leaf = isinstance(x.data.op, FromArray)
    if len(positions) > MANY and not is_leaf:
        return take_by_tensor(x, as_tensor(positions), axis)
    ends = np.cumsum(x.chunks[axis])
    counts = np.bincount(np.searchsorted(ends, positions, "right"), minlength=len(ends)).tolist()
    across = math.prod(max(cut) for i, cut in enumerate(x.chunks) if i != axis) * x.dtype.itemsize
    ascending = bool((np.diff(positions) >= 0).all())
    if ascending and max(counts) <= max(most, 1):  # an output chunk per input chunk
        splits = tuple(n for n in counts if n) or (0,)
    else:
        like_source = -(-len(positions) // len(ends))
        splits = split_axis(len(positions), max(most, min(like_source, chunk_bytes() // max(across, 1)), 1))
        if not is_leaf and sum(n for n, count in zip(x.chunks[axis], counts) if count) * across > HELD * chunk_bytes():
            return take_by_tensor(x, as_tensor(positions), axis)
    chunks = (*x.chunks[:axis], splits, *x.chunks[axis + 1 :])
    shape = tuple(map(sum, chunks))
    leaf = None
    if isinstance(x.data.op, FromArray):
        leaf = x.data.op.copied_part((*[slice(None)] * axis, positions), math.prod(shape) * x.dtype.itemsize)
    return Tensor(new_data(leaf or Take(positions, axis, inputs=(x.data,)), shape, x.dtype, chunks))


def positions_in_chunks(positions: Ints, lengths: Sequence[int]) -> list[tuple[int, bytes, bytes]]:
    """Groups positions by chunk: (chunk, indices into `positions`, positions within the chunk), as bytes of int64."""
    ends = np.cumsum(lengths)
    chunk = np.searchsorted(ends, positions, "right")
    found = []
    for k in np.unique(chunk).tolist():
        there = np.flatnonzero(chunk == k)
        here = positions[there] - (ends[k] - lengths[k])
        found.append((k, there.astype(np.int64).tobytes(), here.astype(np.int64).tobytes()))
    return found


@dataclass(frozen=True, eq=False)
class Take(Operand):
    """Selects elements along an axis, in any order and possibly repeated."""

    positions: Ints
    axis: int
    name: ClassVar[str] = "take"

    def token(self) -> Hashable:
        """Identifies the operand by axis and positions."""
        return ("take", self.axis, self.positions.tobytes())

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf:
        """The distinct positions in ascending order; their order and chunks stay to be applied."""
        axis, (meta,) = self.axis, inputs
        wanted = self.positions[positions(kept[axis])]
        found, places = np.unique(wanted, return_inverse=True)
        own = (*kept[:axis], tidy(found), *kept[axis + 1 :])
        alike = len(found) == len(wanted) and bool((np.diff(wanted) > 0).all())
        alike = alike and splits_of(own, meta)[axis] == splits_of(kept, output)[axis]
        return PartOf(None if alike else replace(self, positions=places.astype(np.int64)), [(0, own)])

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per output chunk, reading the input chunks that hold its elements."""
        (source,) = inputs
        axis = self.axis
        lengths = source.splits[axis]
        ids = np.empty(output.grid, np.int64)
        others = [s for i, s in enumerate(source.splits) if i != axis]
        kinds, which = chunk_classes(others)
        rows = np.moveaxis(source.ids, axis, 0).reshape(len(lengths), -1)
        begin = 0
        for at, count in enumerate(output.chunks[axis]):
            found = positions_in_chunks(self.positions[begin : begin + count], lengths) or [(0, b"", b"")]
            begin += count
            read = [lengths[k] for k, _, _ in found]

            def program(k: int, read: list[int] = read, count: int = count) -> Program:
                shapes = [(*kinds[k][:axis], n, *kinds[k][axis:]) for n in (*read, count)]
                types = [ChunkType(shape, source.dtype) for shape in shapes]
                work = types[-1].nbytes  # NumPy gathers all elements before assignment
                step = Call(gather, (axis,), tuple(range(len(read))), types[-1], True, work)
                return single(self.name, types[:-1], step)

            arg = (tuple((there, here) for _, there, here in found),)
            taken_from = rows[[k for k, _, _ in found]].T
            made = add_by_class(builder, program, which.reshape(-1), taken_from, [arg] * len(taken_from))
            np.moveaxis(ids, axis, 0)[at] = made.reshape(which.shape)
        return ids


def gather(out: Array, inputs: Sequence[Array], params: tuple[int], arg: tuple[tuple[bytes, bytes], ...]) -> None:
    """Copies the elements `here` of the inputs to the positions `there` of the output."""
    target = np.moveaxis(out, params[0], 0)
    for x, (there, here) in zip(inputs, arg):
        source = np.moveaxis(x, params[0], 0)
        target[np.frombuffer(there, np.int64)] = source[np.frombuffer(here, np.int64)]


BYTES = np.dtype(np.uint8)
HELD = 3  # default chunks of `x` that a result chunk reads whole
BLOCK = 2**16  # positions, or elements, that are copied at once
SCRATCH = 64 * BLOCK  # bytes that a block takes at most


def take_by_tensor(x: Tensor, positions: Tensor, axis: int) -> Tensor:
    """Selects elements at `positions`, a 1-d tensor of integers, along an axis.

    A position out of bounds raises an IndexError in the computation.
    """
    n, length = len(positions), x.shape[axis]
    rows = _rows(x, axis)
    at = _positions_in_chunks(positions, rows)
    across = math.prod(max(cut) for i, cut in enumerate(x.chunks) if i != axis) * x.dtype.itemsize
    bound = HELD * max(chunk_bytes(), max(x.chunks[axis]) * across)
    chunks = (*x.chunks[:axis], at.chunks[0], *x.chunks[axis + 1 :])
    assert length or not n
    op: Operand
    if length * across <= bound:
        op = TakeFew(axis, (tuple(range(len(x.chunks[axis]))),) * len(at.chunks[0]), inputs=(x.data, at.data))
    else:
        inputs = (x.data, at.data, _counts(at, x.chunks[axis], axis).data)
        op = TakeByTensor(group=new_group(), axis=axis, rows=rows, bound=bound, inputs=inputs)
    return Tensor(new_data(op, tuple(map(sum, chunks)), x.dtype, chunks))


def scatter_by_tensor(
    x: Tensor, positions: Tensor, axis: int, value: Tensor | None, function: str | None = None
) -> Tensor:
    """Writes `value`, with the axes of `x`, at positions along an axis, or applies a ufunc there.

    The last value of a repeated position wins; a ufunc is applied at every occurrence.
    """
    rows = _rows(x, axis)
    at = _positions_in_chunks(positions, rows)
    given = []
    if value is not None:
        cut = [own if value.shape[i] != 1 else (1,) for i, own in enumerate(x.chunks)]
        cut[axis] = at.chunks[0] if value.shape[axis] != 1 else (1,)
        given.append(rechunked(value.data, tuple(cut)))
    op: Operand
    if len(x.chunks[axis]) == 1:
        op = WriteInOrder(axis, function, inputs=(x.data, at.data, *given))
    else:
        inputs = (x.data, at.data, _counts(at, x.chunks[axis], axis).data, *given)
        op = ScatterByTensor(group=new_group(), axis=axis, rows=rows, function=function, inputs=inputs)
    return Tensor(new_data(op, x.shape, x.dtype, x.chunks))


def _rows(x: Tensor, axis: int) -> int:
    """Positions in a chunk: enough for a chunk of `x`, but a default chunk at most."""
    across = math.prod(max(cut) for i, cut in enumerate(x.chunks) if i != axis) * x.dtype.itemsize
    most = max(*x.chunks[axis], chunk_bytes() // max(across, 1))
    return int(max(1, min(most, chunk_bytes() // 8)))


def checked_positions(positions: Tensor, length: int, axis: int) -> Tensor:
    """Normalises positions to 0 .. length - 1; a position out of bounds raises an IndexError in the computation."""
    return blockwise("index", _checked, [positions], positions.chunks, np.int64, (length, axis))


def _checked(block: Array, length: int, axis: int) -> Ints:
    least = block.min() if block.size else 0
    if block.size and (least < -length or block.max() >= length):
        wrong = block[(block < -length) | (block >= length)]
        raise IndexError(f"index {wrong.flat[0]} is out of bounds for axis {axis} with size {length}")
    found = block.astype(np.int64)
    if least < 0:
        found[found < 0] += length
    return found


def _positions_in_chunks(positions: Tensor, rows: int) -> Tensor:
    """Rechunks positions to chunks of at most `rows`, unless the chunks fit already."""
    own = tuple(n for n in positions.chunks[0] if n) or (0,)
    cut = split_axis(len(positions), rows)
    return Tensor(rechunked(positions.data, (own if max(own) <= rows and len(own) <= 2 * len(cut) else cut,)))


def _counts(at: Tensor, lengths: Sequence[int], axis: int) -> Tensor:
    """Counts positions per chunk of positions and chunk of the axis; flat, in a single chunk."""
    params = (tuple(lengths), axis)
    cut = ((len(lengths),) * len(at.chunks[0]),)
    counts = blockwise("take", _count, [at], cut, np.int64, params, flat=True, scratch=_of_positions)
    return Tensor(rechunked(counts.data, ((sum(cut[0]),),)))


def _of_positions(out: ChunkType, blocks: Sequence[ChunkType]) -> int:
    return 64 * min(blocks[0].size, BLOCK)


def _blocks(n: int, row: int = 1) -> Iterator[slice]:
    """Slices of n rows: blocks of elements."""
    step = max(1, BLOCK // max(row, 1))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def _sources(block: Array, lengths: Sequence[int], axis: int) -> tuple[Array, Array, Ints]:
    """Chunks of the positions, normalised positions, starts of the chunks."""
    ends = np.cumsum(lengths)
    found = _checked(block, int(ends[-1]), axis)
    even = len(set(lengths[:-1])) < 2 and lengths[-1] <= lengths[0]
    chunk = found // lengths[0] if even else np.searchsorted(ends, found, "right")
    small = np.uint16 if len(lengths) < 2**16 else np.int64  # sorted by radix
    return chunk.astype(small), found, ends - np.array(lengths, np.int64)


def _count(block: Array, lengths: Sequence[int], axis: int) -> Ints:
    counts = np.zeros(len(lengths), np.int64)
    for part in _blocks(len(block)):
        counts += np.bincount(_sources(block[part], lengths, axis)[0], minlength=len(lengths))
    return counts


def _packed_type(lengths: Sequence[int], at: Sequence[int]) -> str:
    return "u4" if max(*lengths, *at) < 2**32 else "i8"


def _packed(at: Tensor, lengths: Sequence[int], axis: int, kind: str) -> Tensor:
    """Packs chunks of positions as bytes: positions within chunks of the axis, sorted by chunk, then the order.

    Two zeros follow, so that any range of numbers can be extended to an even length.
    """
    size = np.dtype(kind).itemsize
    cut = (tuple((2 * n + 2) * size for n in at.chunks[0]),)
    params = (tuple(lengths), axis, kind)
    return blockwise("take", _pack, [at], cut, BYTES, params, writes=True, scratch=_of_positions)


def _pack(out: Array, block: Array, lengths: Sequence[int], axis: int, kind: str) -> None:
    """Sorts positions by chunk of the axis, block by block for little scratch; the sort is stable."""
    packed, n = out.view(kind), len(block)
    packed[-2:] = 0
    counts = _count(block, lengths, axis)
    place = np.cumsum(counts) - counts  # of the next position in each chunk
    for part in _blocks(n):
        chunk, found, starts = _sources(block[part], lengths, axis)
        order = np.argsort(chunk, kind="stable")
        own = np.bincount(chunk, minlength=len(lengths))
        chunk = chunk[order]
        there = np.arange(len(order)) + (place - np.cumsum(own) + own)[chunk]
        packed[there] = found[order] - starts[chunk]
        packed[n + there] = order + part.start
        place += own


@dataclass(frozen=True, eq=False, kw_only=True)
class TakeByTensor(Dynamic):
    """Selects elements along an axis. The inputs are the array, the positions and their counts."""

    axis: int
    rows: int  # elements along the axis that a line holds
    bound: int  # bytes of chunks that a result chunk may read whole
    name: ClassVar[str] = "take"

    def wants(self, inputs: Sequence[TensorMeta]) -> tuple[Sequence[int], Sequence[int]]:
        """Wants the counts."""
        return (), (2,)

    def expand(self, inputs: Sequence[TensorMeta], values: Mapping[int, Array]) -> TensorGraph:
        """Becomes operands that read chunks of the array, or the exchange."""
        x, at, _ = placeholders(inputs)
        lengths, n = x.chunks[self.axis], at.chunks[0]
        counts = np.asarray(values[2], np.int64).reshape(len(n), len(lengths))
        chunks = (*x.chunks[: self.axis], n, *x.chunks[self.axis + 1 :])
        shape = tuple(map(sum, chunks))
        across = math.prod(max(cut) for i, cut in enumerate(x.chunks) if i != self.axis) * x.dtype.itemsize
        if int(((counts > 0) @ np.array(lengths)).max()) * across <= self.bound:
            read = tuple(tuple(np.flatnonzero(row).tolist()) or (0,) for row in counts)
            return fragment([new_data(TakeFew(self.axis, read, inputs=(x, at)), shape, x.dtype, chunks)], self.line)
        kind = _packed_type(lengths, n)
        packed = _packed(Tensor(at), lengths, self.axis, kind).data
        groups = tuple(_groups(counts, 2 * self.rows))
        others = [math.prod(one) for one in itertools.product(*_other(x.chunks, self.axis))]
        count = [int(counts[first:last, k].sum()) for k, first, last in groups]
        sizes = (tuple(c * one * x.dtype.itemsize for c in count for one in others),)
        lines = new_data(
            CopyLines(self.axis, kind, groups, counts.tobytes(), inputs=(packed, x)), (sum(sizes[0]),), BYTES, sizes
        )
        join = JoinLines(self.axis, kind, groups, counts.tobytes(), inputs=(packed, lines))
        return fragment([new_data(join, shape, x.dtype, chunks)], self.line)


def _groups(counts: Ints, most: int) -> Iterator[tuple[int, int, int]]:
    """Groups of requests: a chunk of the array, and chunks of positions [first, last)."""
    for k, column in enumerate(counts.T):
        first, total = 0, 0
        for j, count in enumerate(column.tolist()):
            if total and total + count > most:
                yield k, first, j
                first, total = j, 0
            total += count
        if total:
            yield k, first, len(column)


def _other(chunks: Sequence[Sequence[int]], axis: int) -> list[Sequence[int]]:
    return [cut for i, cut in enumerate(chunks) if i != axis]


def _columns(x: ChunkGrid, axis: int) -> tuple[NDArray[np.int64], list[tuple[int, ...]]]:
    """Chunk numbers in rows along the axis, and the lengths of the columns along the other axes."""
    ids = np.moveaxis(x.ids, axis, 0)
    return ids.reshape(len(ids), -1), list(itertools.product(*_other(x.splits, axis)))


def _with(lengths: tuple[int, ...], axis: int, n: int) -> tuple[int, ...]:
    return (*lengths[:axis], n, *lengths[axis:])


def _bounds(pieces: Sequence[tuple[int, int]]) -> bytes:
    return np.array(pieces, np.int64).tobytes()


class _Requests:
    """Byte ranges of packed positions for groups of requests."""

    def __init__(self, counts: Ints, kind: str) -> None:
        self.counts, self.size = counts, np.dtype(kind).itemsize
        self._starts = np.cumsum(counts, axis=1) - counts

    def of(self, k: int, first: int, last: int) -> tuple[list[int], list[tuple[int, int]], int]:
        """Chunks, byte ranges and number of positions of a group; the last range is extended to an even number."""
        chunks = [first + j for j in np.flatnonzero(self.counts[first:last, k]).tolist()]
        begin, count = self._starts[chunks, k], self.counts[chunks, k]
        pieces = (np.column_stack([begin, begin + count]) * self.size).tolist()
        total = int(count.sum())
        pieces[-1][1] += total % 2 * self.size
        return chunks, pieces, total


@dataclass(frozen=True, eq=False)
class TakeFew(Operand):
    """Selects elements by positions, the second input; a result chunk reads whole chunks of `x`."""

    axis: int
    read: tuple[tuple[int, ...], ...]  # chunks along the axis, for each chunk of positions
    name: ClassVar[str] = "take"

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk of the result."""
        x, at = inputs
        lengths = x.splits[self.axis]
        ends = np.cumsum(lengths).tolist()
        rows, columns = _columns(x, self.axis)
        ids = np.empty((len(self.read), len(columns)), np.int64)
        for j, (n, read) in enumerate(zip(at.splits[0], self.read)):
            for c, other in enumerate(columns):
                types = [ChunkType(_with(other, self.axis, lengths[k]), x.dtype) for k in read]
                out = ChunkType(_with(other, self.axis, n), x.dtype)
                step = Call(copy_few, (self.axis, ends[-1]), tuple(range(1 + len(read))), out, True, _work(out, n))
                program = single(self.name, [ChunkType((n,), at.dtype), *types], step)
                starts = tuple(ends[k] - lengths[k] for k in read)
                ids[j, c] = builder.add(program, [int(at.ids[j]), *rows[list(read), c].tolist()], (starts,))
        return np.moveaxis(ids.reshape(len(ids), *(len(cut) for cut in _other(x.splits, self.axis))), 0, self.axis)


def copy_few(out: Array, inputs: Sequence[Array], params: tuple[int, int], arg: tuple[int, ...]) -> None:
    """Copies elements at positions of chunks that start at `arg`."""
    axis, length = params
    at, *chunks = inputs
    target = np.moveaxis(out, axis, 0)
    sources = [np.moveaxis(chunk, axis, 0) for chunk in chunks]
    for part in _blocks(len(at), _row(target)):
        found = _checked(at[part], length, axis)
        if len(sources) == 1:
            found -= arg[0]
            if target.flags.c_contiguous:  # a mode other than "raise" needs no buffer
                sources[0].take(found, axis=0, out=target[part], mode="clip")
            else:
                target[part] = sources[0][found]
            continue
        for source, start in zip(sources, arg, strict=True):
            there = np.flatnonzero((found >= start) & (found < start + len(source)))
            target[part.start + there] = source[found[there] - start]


def _row(target: Array) -> int:
    """Elements of a row."""
    return math.prod(target.shape[1:])


def _work(chunk: ChunkType, n: int) -> int:
    """Scratch of copying n rows of a chunk, block by block."""
    row = chunk.nbytes // max(n, 1)
    return min(chunk.nbytes + 64 * n, SCRATCH + max(row, BLOCK * chunk.dtype.itemsize))


@dataclass(frozen=True, eq=False)
class CopyLines(Operand):
    """First half of the exchange: copies elements of a chunk of `x` into lines, a line per group of requests."""

    axis: int
    kind: str  # dtype of packed positions
    groups: tuple[tuple[int, int, int], ...]
    counts: bytes
    name: ClassVar[str] = "take"

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per group of requests and column of chunks."""
        packed, x = inputs
        lengths = x.splits[self.axis]
        requests = _Requests(np.frombuffer(self.counts, np.int64).reshape(-1, len(lengths)), self.kind)
        rows, columns = _columns(x, self.axis)
        line, ids = ChunkType((-1,), BYTES), []
        for k, first, last in self.groups:
            chunks, pieces, n = requests.of(k, first, last)
            for c, other in enumerate(columns):
                source = ChunkType(_with(other, self.axis, lengths[k]), x.dtype)
                out = ChunkType((n * math.prod(other) * x.dtype.itemsize,), BYTES)
                gathered = source.nbytes + pieces[-1][1] - pieces[-1][0] + n * requests.size
                params = (self.axis, self.kind, source.shape, x.dtype, n)
                copied = ChunkType(_with(other, self.axis, n), x.dtype)
                step = Call(copy_line, params, tuple(range(len(chunks) + 1)), out, True,
                            gathered + _work(copied, n), alone=True, gathers=True)  # fmt: skip
                program = single(self.name, [line] * len(chunks) + [source], step)
                read = [*packed.ids[chunks].tolist(), int(rows[k, c])]
                ids.append(builder.add(program, read, ((_bounds([*pieces, (0, source.nbytes)]),),)))
        return np.array(ids, np.int64)


def _gathered(inputs: Sequence[Array], bounds: bytes) -> Array:
    """Concatenates the bytes of all pieces, unless the mover has done so."""
    line = inputs[0]
    pairs = np.frombuffer(bounds, np.int64).reshape(-1, 2).tolist()
    if not any(one.size for one in inputs[1:]) and len(line) == sum(stop - start for start, stop in pairs):
        return line
    lines = [np.ascontiguousarray(one).reshape(-1).view(BYTES) for one in inputs]
    return np.concatenate([one[start:stop] for one, (start, stop) in zip(lines, pairs, strict=True)])


def copy_line(out: Array, inputs: Sequence[Array], params: tuple[Any, ...], arg: tuple[bytes]) -> None:
    """Copies the elements of a chunk at the positions into a line."""
    axis, kind, shape, dtype, n = params
    line = _gathered(inputs, arg[-1])
    at = line[: n * np.dtype(kind).itemsize].view(kind)
    source = np.moveaxis(line[len(line) - math.prod(shape) * dtype.itemsize :].view(dtype).reshape(shape), axis, 0)
    target = out.view(dtype).reshape(n, *source.shape[1:])
    for part in _blocks(n, _row(target)):
        target[part] = source[at[part]]


@dataclass(frozen=True, eq=False)
class JoinLines(Operand):
    """Second half of the exchange: result chunks gather parts of the lines."""

    axis: int
    kind: str
    groups: tuple[tuple[int, int, int], ...]
    counts: bytes
    name: ClassVar[str] = "take"

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk of the result."""
        packed, lines = inputs
        n = output.chunks[self.axis]
        counts = np.frombuffer(self.counts, np.int64).reshape(len(n), -1)
        columns = list(itertools.product(*_other(output.chunks, self.axis)))
        rows = lines.ids.reshape(len(self.groups), len(columns))
        asked: list[list[tuple[int, int, int]]] = [[] for _ in n]  # for each chunk: line, and elements in the line
        for g, (k, first, last) in enumerate(self.groups):
            ends = np.cumsum(counts[first:last, k]).tolist()
            for j, (begin, end) in enumerate(itertools.pairwise([0, *ends]), first):
                if begin < end:
                    asked[j].append((g, begin, end))
        line, size = ChunkType((-1,), BYTES), np.dtype(self.kind).itemsize
        ids = np.empty((len(n), len(columns)), np.int64)
        for j, (count, parts) in enumerate(zip(n, asked)):
            even = count + count % 2
            for c, other in enumerate(columns):
                row = math.prod(other) * output.dtype.itemsize
                out = ChunkType(_with(other, self.axis, count), output.dtype)
                bounds = [(count * size, (count + even) * size), *((a * row, b * row) for _, a, b in parts)]
                work = even * size + out.nbytes + _work(out, count)
                step = Call(join_lines, (self.axis, self.kind), tuple(range(1 + len(parts))), out, True, work,
                            alone=True, gathers=True)  # fmt: skip
                read = [int(packed.ids[j]), *(int(rows[g, c]) for g, _, _ in parts)]
                ids[j, c] = builder.add(single(self.name, [line] * len(read), step), read, ((_bounds(bounds),),))
        return np.moveaxis(ids.reshape(len(n), *(len(cut) for cut in _other(output.chunks, self.axis))), 0, self.axis)


def join_lines(out: Array, inputs: Sequence[Array], params: tuple[int, str], arg: tuple[bytes]) -> None:
    """Copies gathered elements to their places."""
    axis, kind = params
    line, target = _gathered(inputs, arg[-1]), np.moveaxis(out, axis, 0)
    count = len(target)
    order = line[: count * np.dtype(kind).itemsize].view(kind)
    rows = line[len(line) - out.nbytes :].view(out.dtype).reshape(target.shape)
    for part in _blocks(count, _row(target)):
        target[order[part]] = rows[part]


@dataclass(frozen=True, eq=False, kw_only=True)
class ScatterByTensor(Dynamic):
    """Writes at positions along an axis. The inputs are the array, the positions, their counts and the values."""

    axis: int
    rows: int  # positions that an operand gathers
    function: str | None
    name: ClassVar[str] = "setitem"

    @property
    def label(self) -> str:
        """The function that the user called."""
        return f"{self.function}.at" if self.function else self.name

    def wants(self, inputs: Sequence[TensorMeta]) -> tuple[Sequence[int], Sequence[int]]:
        """Wants the counts."""
        return (), (2,)

    def expand(self, inputs: Sequence[TensorMeta], values: Mapping[int, Array]) -> TensorGraph:
        """Becomes the exchange."""
        x, at, _, *given = placeholders(inputs)
        lengths, n = x.chunks[self.axis], at.chunks[0]
        counts = np.asarray(values[2], np.int64).reshape(len(n), len(lengths))
        kind = _packed_type(lengths, n)
        packed = _packed(Tensor(at), lengths, self.axis, kind).data
        single_row = bool(given) and given[0].chunks[self.axis] == (1,) and given[0].shape[self.axis] != sum(n)
        if given and not single_row:
            given = [self._ordered(given[0], packed, kind, n)]
        groups = tuple(_groups(counts, 2 * self.rows))
        op = WriteLines(self.axis, kind, groups, counts.tobytes(), self.function, self.label,
                        _value_splits(inputs[3].chunks, self.axis) if given else (), inputs[3].dtype if given else None,
                        single_row, inputs=(packed, x, *given))  # fmt: skip
        return fragment([new_data(op, x.shape, x.dtype, x.chunks)], self.line)

    def _ordered(self, value: TensorData, packed: TensorData, kind: str, n: Sequence[int]) -> TensorData:
        others = [math.prod(one) for one in itertools.product(*_other(value.chunks, self.axis))]
        sizes = (tuple(count * one * value.dtype.itemsize for count in n for one in others),)
        op = OrderValues(self.axis, kind, inputs=(packed, value))
        return new_data(op, (sum(sizes[0]),), BYTES, sizes)


@dataclass(frozen=True, eq=False)
class WriteInOrder(Operand):
    """Writes at positions in the only chunk along an axis, or applies a ufunc there: a chunk of positions after the
    other.

    The inputs are the array, the positions and the values.
    """

    axis: int
    function: str | None
    name: ClassVar[str] = "setitem"

    @property
    def label(self) -> str:
        """The function that the user called."""
        return f"{self.function}.at" if self.function else self.name

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk of positions and column of chunks, a reader of the output before."""
        x, at, *given = inputs
        rows, columns = _columns(x, self.axis)
        own = [np.moveaxis(value.ids, self.axis, 0) for value in given]
        grid = [len(cut) for cut in _other(x.splits, self.axis)]
        values = [np.broadcast_to(ids, (len(at.ids), *grid)).reshape(len(at.ids), -1) for ids in own]
        params = (self.axis, self.function, output.shape[self.axis])
        ids: NDArray[np.int64] = rows[0].copy()
        for c, other in enumerate(columns):
            chunk = ChunkType(_with(other, self.axis, output.shape[self.axis]), x.dtype)
            for j, n in enumerate(at.splits[0]):
                read = [ChunkType((n,), at.dtype)]
                for value in given:
                    rest = [1 if cut == (1,) else m for m, cut in zip(other, _other(value.splits, self.axis))]
                    count = 1 if value.splits[self.axis] == (1,) else n
                    read.append(ChunkType(_with(tuple(rest), self.axis, count), value.dtype))
                work = 64 * min(n, BLOCK) + sum(min(one.nbytes, SCRATCH) for one in read[1:])
                step = Call(write_in_order, params, tuple(range(1 + len(read))), chunk, False, work)
                program = single(self.label, [chunk, *read], step)
                ids[c] = builder.add(program, [int(ids[c]), int(at.ids[j]), *(int(one[j, c]) for one in values)])
        return ids.reshape(output.grid)


def write_in_order(out: Array, inputs: Sequence[Array], params: tuple[int, str | None, int], arg: Any) -> None:
    """Copies a chunk and writes values at positions, or applies a ufunc there."""
    axis, function, length = params
    x, at, *given = inputs
    np.copyto(out, x)
    target, values = np.moveaxis(out, axis, 0), [np.moveaxis(one, axis, 0) for one in given]
    for part in _blocks(len(at), _row(target)):
        here = _checked(at[part], length, axis)
        now = [one if len(one) == 1 else one[part] for one in values]
        if function is None:
            target[here] = now[0]
        else:
            getattr(np, function).at(target, here, *now)


def _value_splits(chunks: Sequence[Sequence[int]], axis: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(cut) for cut in _other(chunks, axis))


@dataclass(frozen=True, eq=False)
class OrderValues(Operand):
    """Copies values into lines, sorted as the packed positions."""

    axis: int
    kind: str
    name: ClassVar[str] = "setitem"

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk of values."""
        packed, value = inputs
        rows, columns = _columns(value, self.axis)
        ids = []
        for j, (count, size) in enumerate(zip(value.splits[self.axis], packed.splits[0])):
            for c, other in enumerate(columns):
                chunk = ChunkType(_with(other, self.axis, count), value.dtype)
                out = ChunkType((chunk.nbytes,), BYTES)
                step = Call(order_values, (self.axis, self.kind), (0, 1), out, False, _work(chunk, count))
                program = single(self.name, [ChunkType((size,), BYTES), chunk], step)
                ids.append(builder.add(program, [int(packed.ids[j]), int(rows[j, c])]))
        return np.array(ids, np.int64)


def order_values(out: Array, inputs: Sequence[Array], params: tuple[int, str], arg: Any) -> None:
    """Copies rows of values in the order of positions."""
    axis, kind = params
    packed, value = inputs
    rows = np.moveaxis(value, axis, 0)
    order = packed.view(kind)[len(rows) : 2 * len(rows)]
    target = out.view(value.dtype).reshape(rows.shape)
    for part in _blocks(len(rows), _row(rows)):
        target[part] = rows[order[part]]


@dataclass(frozen=True, eq=False)
class WriteLines(Operand):
    """Writes gathered values at gathered positions into the chunks, or applies a ufunc there."""

    axis: int
    kind: str
    groups: tuple[tuple[int, int, int], ...]
    counts: bytes
    function: str | None
    called: str
    value_splits: tuple[tuple[int, ...], ...]  # along the other axes
    value_dtype: np.dtype[Any] | None
    single_row: bool
    name: ClassVar[str] = "setitem"

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.called

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per group and column; groups of a chunk are written one after the other."""
        packed, x, *given = inputs
        lengths = x.splits[self.axis]
        requests = _Requests(np.frombuffer(self.counts, np.int64).reshape(-1, len(lengths)), self.kind)
        rows, columns = _columns(x, self.axis)
        ids = rows.copy()
        grid = [len(cut) for cut in _other(x.splits, self.axis)]
        own = [len(cut) for cut in self.value_splits]
        value_column = np.broadcast_to(np.arange(math.prod(own)).reshape(own or [1] * len(grid)), grid).reshape(-1)
        value_shapes = list(itertools.product(*self.value_splits))
        values = given[0].ids.reshape(-1, len(value_shapes)) if given else None
        line = ChunkType((-1,), BYTES)
        for k, first, last in self.groups:
            chunks, pieces, n = requests.of(k, first, last)
            begin = np.cumsum(requests.counts[chunks, : k + 1], axis=1)[:, -1] - requests.counts[chunks, k]
            for c, other in enumerate(columns):
                chunk = ChunkType(_with(other, self.axis, lengths[k]), x.dtype)
                types, read, bounds = [line] * len(chunks), packed.ids[chunks].tolist(), list(pieces)
                shape: tuple[int, ...] | None = None
                if values is not None and self.value_dtype is not None:
                    column = int(value_column[c])
                    rest = value_shapes[column]
                    row = math.prod(rest) * self.value_dtype.itemsize
                    shape = (1 if self.single_row else n, *rest)
                    if self.single_row:
                        types.append(ChunkType(_with(rest, self.axis, 1), self.value_dtype))
                        read.append(int(values[0, column]))
                        bounds.append((0, row))
                    else:
                        types += [line] * len(chunks)
                        read += values[chunks, column].tolist()
                        ends = begin + requests.counts[chunks, k]
                        bounds += (np.column_stack([begin, ends]) * row).tolist()
                types.append(chunk)
                read.append(int(ids[k, c]))
                bounds.append((0, chunk.nbytes))
                gathered = sum(stop - start for start, stop in bounds)
                params = (self.axis, self.kind, n, self.function, shape, self.value_dtype)
                step = Call(write_lines, params, tuple(range(len(read))), chunk, True,
                            gathered + _work(chunk, lengths[k]), alone=True, gathers=True)  # fmt: skip
                ids[k, c] = builder.add(single(self.label, types, step), read, ((_bounds(bounds),),))
        return np.moveaxis(ids.reshape(len(lengths), *grid), 0, self.axis)


def write_lines(out: Array, inputs: Sequence[Array], params: tuple[Any, ...], arg: tuple[bytes]) -> None:
    """Copies a chunk and writes values at positions, or applies a ufunc there."""
    axis, kind, n, function, shape, dtype = params
    line = _gathered(inputs, arg[-1])
    at = line[: n * np.dtype(kind).itemsize].view(kind)
    out[...] = line[len(line) - out.nbytes :].view(out.dtype).reshape(out.shape)
    target, some = np.moveaxis(out, axis, 0), []
    if shape is not None:
        size = math.prod(shape) * dtype.itemsize
        end = len(line) - out.nbytes
        some.append(line[end - size : end].view(dtype).reshape(shape))
    for part in _blocks(n, _row(target)):
        now = [value if len(value) == 1 else value[part] for value in some]
        if function is None:
            target[at[part]] = now[0]
        else:
            getattr(np, function).at(target, at[part], *now)
