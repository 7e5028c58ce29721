"""Chunks of operands: helpers for `tile`, rechunking, shuffles, slivers, chunks of unknown length.

Chunks of equal shape and role form a class and share a program; the differences travel as arguments. A part of a chunk
has a start, a count and a step along every axis. Chunks of unknown length come from boolean masks and `unique`; kernels
read the length from the chunk itself.

Rechunking assembles output chunks from the overlapping input chunks. Where an output chunk would read more input chunks
than memory holds (rows to columns), the elements are shuffled, all to all. First input chunks are copied into 1-d
arrays, ordered by output chunk. Then output chunks gather byte ranges of such arrays, from memory or from spill files,
without loading the rest. So the number of operands is the number of input and output chunks, not of pieces; elements
are spilled at most once, and an operand holds at most two chunks.

Chunks of a shifted slice, or of `np.roll`, lie a few elements beside the chunks of an array. Most elements of such a
chunk are in a single chunk, and slivers in the neighbours. A pass over elements reads all of them in place, and a
separate operand copies a sliver, so that a large neighbour is neither held nor moved whole.
Source: docs/decisions/0029-sorting-by-ranges.md, for any number of axes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.compile import compile_program
from jmars.kernels.program import Call, ChunkType, Elementwise, Program, Reduce, single
from jmars.kernels.reducers import Reducer
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.engine import current_engine
from jmars.tensor.operand import Length, NeedsLengthError, Operand, Splits, TensorData, TensorMeta, Unknown, new_data
from jmars.tensor.parts import Part, PartOf, splits_of
from jmars.tensor.protocols import offers
from jmars.tensor.splits import SLIVER, ChunkSize, chunk_boxes, common_splits, decide_splits
from jmars.tensor.tensor import Tensor, as_tensor

Ints = NDArray[np.int64]


def chunk_classes(axes: Sequence[Sequence[Hashable]]) -> tuple[list[tuple[Any, ...]], Ints]:
    """Groups the chunks of a grid by keys: returns all combinations of keys, and the chunks' combination numbers.

    `axes` holds a key per chunk, usually the length, for all axes.

    Examples
    --------
    >>> found, which = chunk_classes([[3, 3, 1], ["a"]])
    >>> found, which.tolist()
    ([(3, 'a'), (1, 'a')], [[0], [0], [1]])
    """
    different: list[list[Hashable]] = []
    which: Ints = np.zeros((), np.int64)
    for axis in axes:
        number: dict[Hashable, int] = {}
        kind = np.array([number.setdefault(key, len(number)) for key in axis], np.int64)
        which = which[..., None] * len(number) + kind
        different.append(list(number))
    return list(itertools.product(*different)), which


def add_by_class(
    builder: ChunkGraphBuilder,
    program: Callable[[int], Program],
    which: Ints,
    inputs: Ints,
    args: Sequence[tuple[Any, ...]] | None = None,
) -> Ints:
    """Adds an operand per row of `inputs`; makes `program(k)` once per class `k` in `which`, shape (n,)."""
    is_used = np.bincount(which) > 0
    row = np.cumsum(is_used) - 1
    return builder.add_many([program(k) for k in np.flatnonzero(is_used).tolist()], row[which], inputs, args)


def chunk_starts(lengths: Sequence[int]) -> list[int]:
    """Starts of the chunks along an axis, in elements.

    Examples
    --------
    >>> chunk_starts((3, 3, 1))
    [0, 3, 6]
    """
    return list(itertools.accumulate(lengths, initial=0))[:-1]


def corners(splits: Splits) -> list[tuple[Any, ...]]:
    """First indices of the chunks in C order of the grid, as a tuple of operand arguments.

    Examples
    --------
    >>> corners(((3, 1), (2, 2)))
    [((0, 0),), ((0, 2),), ((3, 0),), ((3, 2),)]
    """
    return [(corner,) for corner in itertools.product(*map(chunk_starts, splits))]


def boxes(shape: Sequence[int], start: int, stop: int) -> Iterator[tuple[slice, ...]]:
    """Splits the elements [start, stop), counted in C order, into boxes in that order.

    Examples
    --------
    >>> [tuple((s.start, s.stop) for s in box) for box in boxes((3, 4), 2, 9)]
    [((0, 1), (2, 4)), ((1, 2), (0, 4)), ((2, 3), (0, 1))]
    """
    if len(shape) <= 1:
        yield tuple(slice(start, stop) for _ in shape)
        return
    row = math.prod(shape[1:])
    if start >= stop:
        return
    first, begin = divmod(start, row)
    last, end = divmod(stop, row)
    if begin:
        within = min(row, begin + stop - start)
        yield from ((slice(first, first + 1), *box) for box in boxes(shape[1:], begin, within))
        first += 1
    if first < last:
        yield (slice(first, last), *(slice(0, n) for n in shape[1:]))
    if end and first <= last:
        yield from ((slice(last, last + 1), *box) for box in boxes(shape[1:], 0, end))


Array = np.ndarray[Any, Any]


def part_step(chunk: ChunkType, params: tuple[tuple[int, int], ...], shape: tuple[int, ...]) -> Call:
    """The step that gives a part of a chunk, of any shape; `params` are (count, step) per axis."""
    view = view_slice if has_rows(chunk.shape, params) else None
    return Call(copy_slice, params, (0,), ChunkType(shape, chunk.dtype), True, view=view)


def copy_slice(out: Array, inputs: Sequence[Array], params: tuple[tuple[int, int], ...], arg: tuple[int, ...]) -> None:
    """Copies the part of a chunk that begins at `arg`; `params` are (count, step) per axis."""
    part = view_slice(inputs[0], params, arg)
    assert math.prod(part.shape) == out.size
    np.copyto(out.reshape(part.shape), part)


def has_rows(shape: tuple[int, ...], params: Sequence[tuple[int, int]]) -> bool:
    """Whether a slice of a chunk of `shape` has contiguous rows: NumPy's last bits differ where elements lie apart."""
    inner = next((count for n, (count, _) in zip(reversed(shape), reversed(params)) if n > 1), 2)
    return inner > 1 and all(step == 1 for _, step in params)


def view_slice(chunk: Array, params: tuple[tuple[int, int], ...], arg: tuple[int, ...]) -> Array:
    """The part of a chunk that begins at `arg`, as a view; `params` are (count, step) per axis."""
    index: tuple[Any, ...] = (*(local_slice(at, count, step) for at, (count, step) in zip(arg, params)), ...)
    part: Array = chunk[index]
    return part


def local_slice(start: int, count: int, step: int) -> slice:
    """Slice that selects `count` elements from `start`; `step` may be negative."""
    stop = start + count * step
    return slice(start, stop if stop >= 0 else None, step) if count else slice(0, 0)


def length_kind(length: Length) -> Hashable:
    """Key of a chunk length, for `chunk_classes`: the length itself, or ("most", bound) for an unknown length."""
    return ("most", length.most) if isinstance(length, Unknown) else length


def chunk_type(kinds: Sequence[Any], dtype: np.dtype[Any]) -> ChunkType:
    """Type of a chunk, by the keys of the lengths; -1 stands for an unknown length.

    Examples
    --------
    >>> chunk_type([3, ("most", 10)], np.dtype("f8"))
    ChunkType(shape=(3, -1), dtype=dtype('float64'), most=240, likely=None)
    """
    shape = tuple(-1 if isinstance(one, tuple) else one for one in kinds)
    if -1 not in shape:
        return ChunkType(shape, dtype)
    most = [one[1] if isinstance(one, tuple) else one for one in kinds]
    return ChunkType(shape, dtype, None if None in most else math.prod(most) * dtype.itemsize)


def broadcast_lengths(shapes: Sequence[tuple[Length, ...]]) -> tuple[Length, ...]:
    """`np.broadcast_shapes` for shapes with unknown lengths.

    Raises
    ------
    NeedsLengthError
        If an unknown length meets a length that is not provably equal.
    ValueError
        As NumPy raises it.
    """
    if not any(isinstance(n, Unknown) for shape in shapes for n in shape):
        try:
            return np.broadcast_shapes(*shapes)
        except ValueError:
            words = " ".join(str(shape).replace(" ", "") for shape in shapes)
            raise ValueError(f"operands could not be broadcast together with shapes {words} ") from None
    result: list[Length] = []
    for back in range(1, max(map(len, shapes)) + 1):
        found = list(dict.fromkeys(shape[-back] for shape in shapes if len(shape) >= back))
        long = [n for n in found if n != 1]
        if len(long) > 1:
            raise NeedsLengthError(f"lengths {long} may differ")
        result.append(long[0] if long else 1)
    return tuple(reversed(result))


def run_expression(out: Array | None, inputs: Sequence[Array], params: tuple[Any, ...], arg: Any) -> Array:
    """Computes an elementwise expression; shapes come from the chunks.

    `params` are the expression, and in a fused program how many steps before have an equal expression.
    """
    expression, twin = (*params, 0)[:2]
    shape = np.broadcast_shapes(*(x.shape for x in inputs))
    result = np.empty(shape, expression.dtype) if out is None else out
    types = [ChunkType(x.shape, x.dtype) for x in inputs]
    step = Elementwise(expression, tuple(range(len(types))), ChunkType(shape, expression.dtype), twin)
    compile_program.__wrapped__(single("", types, step))(result, inputs)
    return result


def run_reduction(out: Array, inputs: Sequence[Array], params: tuple[Reducer, tuple[int, ...], bool], arg: Any) -> None:
    """Runs the leaf of a reduction; the shape comes from the chunk.

    `params` are the reducer, the axes, and whether the leaf is the whole reduction.
    """
    reducer, axes, last = params
    (x,) = inputs
    chunk = ChunkType(x.shape, x.dtype)
    step = Reduce(reducer, axes, (0,), ChunkType(out.shape, out.dtype), last)
    compile_program.__wrapped__(single("", (chunk,), step))(out, inputs)


Lengths = tuple[int, ...]


class Overlap(NamedTuple):
    """Overlap of an output chunk with the input chunks along an axis."""

    first: int  # number of the first input chunk
    start: int  # first element within that chunk
    lengths: Lengths  # of the input chunks
    taken: Lengths  # elements that overlap, per input chunk


def overlaps(old: Lengths, new: Lengths) -> list[Overlap]:
    """Overlaps of all output chunks with the input chunks along an axis.

    Examples
    --------
    >>> overlaps((4, 4), (3, 5))
    [Overlap(first=0, start=0, lengths=(4,), taken=(3,)), Overlap(first=0, start=3, lengths=(4, 4), taken=(1, 4))]
    """
    found: list[Overlap] = []
    k = within = 0  # input chunk, and its elements that are taken already
    for length in new:
        while k < len(old) - 1 and within == old[k]:
            k, within = k + 1, 0
        first, start, left = k, within, length
        taken: list[int] = []
        while True:
            n = min(old[k] - within, left)
            taken.append(n)
            within, left = within + n, left - n
            if not left:
                break
            k, within = k + 1, 0
        found.append(Overlap(first, start, old[first : k + 1], tuple(taken)))
    return found


def shuffle(data: TensorData, chunks: Splits) -> TensorData:
    """Rechunks `data` to `chunks` by a shuffle; no length may be 0 or unknown."""
    sizes = tuple(map(math.prod, itertools.product(*data.chunks)))
    lines = new_data(ShuffleSplit(data.chunks, chunks, inputs=(data,)), (sum(sizes),), data.dtype, (sizes,))
    return new_data(ShuffleJoin(data.chunks, chunks, inputs=(lines,)), data.shape, data.dtype, chunks)


def _segments(old: Lengths, new: Lengths) -> list[Lengths]:
    """Lengths of the pieces of the input chunks, as divided by the output chunks along an axis."""
    left = iter(common_splits([old, new]))
    found = []
    for length in old:
        own: list[int] = []
        while sum(own) < length:
            own.append(next(left))
        found.append(tuple(own))
    return found


@dataclass(frozen=True, eq=False)
class ShuffleSplit(Operand):
    """First half of a shuffle: copies a chunk into a 1-d array, piece by piece in C order."""

    old: Splits
    new: Splits
    name: ClassVar[str] = "shuffle"

    def token(self) -> Hashable:
        """Identifies the operand by both splits."""
        return ("shuffle", self.old, self.new)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per input chunk."""
        (x,) = inputs
        kinds, which = chunk_classes([_segments(old, new) for old, new in zip(self.old, self.new)])

        def program(k: int) -> Program:
            chunk = ChunkType(tuple(map(sum, kinds[k])), x.dtype)
            step = Call(split_pieces, kinds[k], (0,), ChunkType((chunk.size,), x.dtype), moves=True)
            return single(self.name, (chunk,), step)

        return add_by_class(builder, program, which.reshape(-1), x.ids.reshape(-1, 1))


def split_pieces(out: Array, inputs: Sequence[Array], params: tuple[Lengths, ...], arg: Any) -> None:
    """Copies a chunk piece by piece into a 1-d array; `params` are the lengths of the pieces along the axes."""
    (x,) = inputs
    at = 0
    for box in chunk_boxes(params):
        piece = x[box]
        out[at : at + piece.size].reshape(piece.shape)[...] = piece
        at += piece.size


@dataclass(frozen=True, eq=False)
class ShuffleJoin(Operand):
    """Second half of a shuffle: gathers an output chunk from the 1-d arrays of `ShuffleSplit`."""

    old: Splits
    new: Splits
    name: ClassVar[str] = "rechunk"

    def token(self) -> Hashable:
        """Identifies the operand by both splits."""
        return ("shuffle join", self.old, self.new)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per output chunk, with the ranges to gather as argument."""
        lines = inputs[0].ids.reshape(tuple(map(len, self.old)))
        axes = [overlaps(old, new) for old, new in zip(self.old, self.new)]
        line = ChunkType((-1,), output.dtype)
        ids = np.empty(output.grid, np.int64)
        for place in np.ndindex(*output.grid):
            own = [axis[i] for axis, i in zip(axes, place)]
            read = lines[tuple(slice(one.first, one.first + len(one.taken)) for one in own)].reshape(-1)
            taken = tuple(one.taken for one in own)
            out = ChunkType(tuple(map(sum, taken)), output.dtype)
            step = Call(
                join_pieces, taken, tuple(range(len(read))), out, True, out.nbytes, alone=True, gathers=True, moves=True
            )
            bounds = np.array(list(_piece_bounds(own)), np.int64).tobytes()
            ids[place] = builder.add(single(self.name, [line] * len(read), step), read.tolist(), ((bounds,),))
        return ids


def _piece_bounds(own: Sequence[Overlap]) -> Iterator[tuple[int, int]]:
    """Ranges of the pieces within the 1-d array of the input chunk, in C order of the input chunks."""
    steps = [
        [(one.start if not i else 0, n, whole) for i, (n, whole) in enumerate(zip(one.taken, one.lengths))]
        for one in own
    ]
    for piece in itertools.product(*steps):
        at = 0
        before, behind = 1, math.prod(whole for _, _, whole in piece)
        for start, n, whole in piece:
            behind //= whole
            at += before * start * behind
            before *= n
        yield at, at + before


def join_pieces(out: Array, inputs: Sequence[Array], params: tuple[Lengths, ...], arg: tuple[bytes]) -> None:
    """Assembles an output chunk; `params` are the lengths of the pieces along the axes.

    The inputs are the 1-d arrays of all input chunks, or the first input holds all pieces, gathered already.
    """
    pairs = np.frombuffer(arg[-1], np.int64).reshape(-1, 2)
    ends = np.cumsum(pairs[:, 1] - pairs[:, 0])
    line = inputs[0]
    if len(line) == ends[-1] and not any(map(len, inputs[1:])):
        pieces = [line[a:b] for a, b in zip([0, *ends[:-1].tolist()], ends.tolist())]
    else:
        pieces = [one[a:b] for one, (a, b) in zip(inputs, pairs.tolist(), strict=True)]
    for box, piece in zip(chunk_boxes(params), pieces, strict=True):
        there = out[box]
        there[...] = piece.reshape(there.shape)


SHARE = 4  # the inputs of a chunk may take 1/4 of a worker's part of the memory limit


@offers("rechunk")
def rechunk(x: Any, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:
    """Rechunks `x` to `chunk_size`; see `jmars.tensor.splits.decide_splits`. Explicit lengths may be 0 here.

    Axes that are not named, or given as None, keep their chunks.
    """
    x = as_tensor(x)
    given = chunks if chunk_size is None else chunk_size
    if isinstance(given, tuple) and len(given) == x.ndim and all(map(_is_splits, given, x.shape)):
        return Tensor(rechunked(x.data, given))
    return Tensor(rechunked(x.data, decide_splits(x.shape, x.dtype, chunk_size, chunks, x.chunks)))


def _is_splits(axis: Any, length: int) -> bool:
    """Whether an entry of `chunks` lists all chunk lengths; after a boolean mask a length may be 0."""
    return (
        isinstance(axis, tuple) and all(type(n) is int and n >= 0 for n in axis) and sum(axis) == length and axis != ()
    )


def rechunked(data: TensorData, chunks: Splits) -> TensorData:
    """Rechunks a node to the splits `chunks`; returns `data` itself if the splits stay."""
    if data.chunks == chunks:
        return data
    if data.has_unknown_lengths:
        Tensor(data)._resolved()
    if _reads_too_much(data, chunks):
        return shuffle(data, chunks)
    return new_data(Rechunk(chunks, inputs=(data,)), data.shape, data.dtype, chunks)


def _reads_too_much(data: TensorData, chunks: Splits) -> bool:
    """Whether an output chunk reads several input chunks, far larger than the output, that fill much of the memory."""
    engine = current_engine()
    if engine is None or not data.shape or any(0 in axis for axis in (*data.chunks, *chunks)):
        return False
    read = made = data.dtype.itemsize
    several = False
    for old, new in zip(data.chunks, chunks):
        own = overlaps(old, new) if old != new else []
        read *= max((sum(cover.lengths) for cover in own), default=max(old))
        made *= max(new)
        several |= any(len(cover.taken) > 1 for cover in own)
    if read <= 2 * made or not several:
        return False
    memory, workers = engine.limits()
    return read > memory // (SHARE * workers)


@dataclass(frozen=True, eq=False)
class Rechunk(Operand):
    """Rechunks the input to `splits`."""

    splits: Splits
    name: ClassVar[str] = "rechunk"

    def token(self) -> Hashable:
        """Identifies the operand by the splits."""
        return ("rechunk", self.splits)

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf:
        """The same part, in the chunks of the part."""
        return PartOf(replace(self, splits=splits_of(kept, output)), [(0, kept)])

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per output chunk; a chunk that does not change is passed on."""
        (source,) = inputs
        axes = [overlaps(old, new) for old, new in zip(source.splits, output.chunks)]
        return assemble_chunks(self.name, builder, source.ids, axes, output)


def assemble_chunks(
    name: str,
    builder: ChunkGraphBuilder,
    source: NDArray[np.int64],
    axes: Sequence[Sequence[Overlap]],
    output: TensorMeta,
    in_place: bool = False,
) -> NDArray[np.int64]:
    """Adds operands that assemble output chunks from overlaps with a grid; an unchanged chunk is passed on.

    Parameters
    ----------
    name
        Label in the view.
    builder
        Receives an operand for each output chunk.
    source
        Ids of the input chunks; an id may occur more than once.
    axes
        For each axis and output chunk along that axis, the overlap with the input chunks.
    output
        Chunks of the result; its dtype is that of the input.
    in_place
        Whether elementwise operands read the parts where they are.

    Returns
    -------
    int64 array, shape `output.grid`
        Ids of the output chunks.
    """
    kinds, which = chunk_classes([[(cover.lengths, cover.taken) for cover in axis] for axis in axes])
    first = [np.array([cover.first for cover in axis], np.int64) for axis in axes]
    start = [np.array([cover.start for cover in axis], np.int64) for axis in axes]
    ids = np.empty(output.grid, np.int64)
    for k, kind in enumerate(kinds):
        where = np.nonzero(which == k)
        if not len(where[0]):
            continue
        corner = [axis[i] for axis, i in zip(first, where)]
        places = list(itertools.product(*(range(len(lengths)) for lengths, _ in kind)))
        read = np.stack([source[tuple(c + step for c, step in zip(corner, place))] for place in places], axis=1)
        if len(places) == 1 and all(lengths == taken for lengths, taken in kind):
            ids[where] = read[:, 0]
            continue
        types = [ChunkType(tuple(n[i] for (n, _), i in zip(kind, place)), output.dtype) for place in places]
        out = ChunkType(tuple(sum(taken) for _, taken in kind), output.dtype)
        params = tuple(taken for _, taken in kind)
        step = Call(copy_overlaps, params, tuple(range(len(places))), out, True, moves=not in_place, joins=in_place)
        if len(places) == 1:
            step = part_step(types[0], tuple((n, 1) for n in out.shape), out.shape)
        starts = [axis[i].tolist() for axis, i in zip(start, where)]
        zeros = np.zeros(len(read), np.int64)
        ids[where] = builder.add_many([single(name, types, step)], zeros, read, [(s,) for s in zip(*starts)])
    return ids


def copy_overlaps(
    out: Array, inputs: Sequence[Array], params: tuple[tuple[int, ...], ...], arg: tuple[int, ...]
) -> None:
    """Copies overlaps into an output chunk; `params` are their lengths per axis, `arg` the start in the first chunk."""
    axes = []
    for taken, start in zip(params, arg):
        ends = list(itertools.accumulate(taken))
        begins = [start] + [0] * (len(taken) - 1)
        axes.append([(slice(end - n, end), slice(low, low + n)) for n, end, low in zip(taken, ends, begins)])
    for x, place in zip(inputs, itertools.product(*axes)):
        out[tuple(there for there, _ in place)] = x[tuple(here for _, here in place)]


WHOLE = 2**17  # bytes of a chunk that is read whole: an operand costs more than they do


class _Part(NamedTuple):
    """Part of an input chunk that an output chunk reads, along an axis."""

    chunk: int
    start: int
    taken: int  # less than `length` of a sliver
    length: int  # of the input chunk


def assemble_with_slivers(
    name: str,
    builder: ChunkGraphBuilder,
    source: ChunkGrid,
    axes: Sequence[Sequence[Overlap]],
    output: TensorMeta,
) -> NDArray[np.int64]:
    """Adds an operand per output chunk, and one for each sliver that it needs and no other operand has cut.

    Arguments and result are those of `assemble_chunks`, but that `source` is a grid, and numbers of chunks begin again
    behind its end. Where the parts of neighbours are no slivers, the chunks are copied.
    """
    small = [_are_slivers(*axis) for axis in zip(axes, source.splits)]
    near = all(one is not None for one in small)
    size = math.prod(max(own) for own in source.splits) * source.dtype.itemsize
    cut = near and size > WHOLE
    parts = [
        _parts(own, len(lengths), cut and bool(is_cut)) for own, lengths, is_cut in zip(axes, source.splits, small)
    ]
    ids = source.ids[np.ix_(*([part.chunk for part in axis] for axis, _ in parts))]
    kinds, which = chunk_classes([[(part.length, part.taken) for part in axis] for axis, _ in parts])
    is_cut = np.array([any(length != taken for length, taken in kind) for kind in kinds])[which]
    if is_cut.any():
        begin = np.ix_(*(np.array([part.start for part in axis]) for axis, _ in parts))
        taken = np.ix_(*(np.array([part.taken for part in axis]) for axis, _ in parts))
        columns = [np.broadcast_to(column, ids.shape)[is_cut] for column in (ids, *begin, *taken)]
        asked = [tuple(row) for row in np.stack(columns, axis=1).tolist()]
        kind = dict(zip(asked, which[is_cut].tolist()))
        new = [key for key in kind if key not in builder.parts]

        def program(k: int) -> Program:
            chunk = ChunkType(tuple(length for length, _ in kinds[k]), source.dtype)
            shape = tuple(n for _, n in kinds[k])
            return single("getitem", (chunk,), part_step(chunk, tuple((n, 1) for n in shape), shape))

        read = np.array([key[:1] for key in new], np.int64).reshape(-1, 1)
        args = [(key[1 : 1 + len(parts)],) for key in new]
        made = add_by_class(builder, program, np.array([kind[key] for key in new], np.int64), read, args)
        builder.parts.update(zip(new, made.tolist()))
        ids[is_cut] = [builder.parts[key] for key in asked]
    return assemble_chunks(name, builder, ids, [covers for _, covers in parts], output, in_place=near)


def _are_slivers(covers: Sequence[Overlap], lengths: Sequence[int]) -> bool | None:
    """Whether parts that are small beside their chunk are to be cut; None where an output chunk has two large parts.

    An axis of one chunk has no neighbours: its ends are in the chunk itself.
    """
    beside = [sorted(own.taken)[-2] for own in covers if len(own.taken) > 1]
    if beside and max(beside) * SLIVER >= max(lengths):
        return None
    return len(lengths) > 1


def _parts(covers: Sequence[Overlap], count: int, cut: bool) -> tuple[list[_Part], list[Overlap]]:
    """What the output chunks read along an axis of `count` chunks: parts of chunks, and how these cover each output.

    Examples
    --------
    >>> parts, covers = _parts([Overlap(0, 2, (50, 50), (48, 1)), Overlap(1, 1, (50,), (49,))], 2, True)
    >>> [tuple(part) for part in parts]
    [(0, 0, 50, 50), (1, 0, 1, 50), (1, 0, 50, 50)]
    >>> covers
    [Overlap(first=0, start=2, lengths=(50, 1), taken=(48, 1)), Overlap(first=2, start=1, lengths=(50,), taken=(49,))]
    """
    parts: list[_Part] = []
    found: list[Overlap] = []
    for own in covers:
        small = [cut and 2 * taken < length for length, taken in zip(own.lengths, own.taken)]
        read = [taken if one else length for length, taken, one in zip(own.lengths, own.taken, small)]
        found.append(Overlap(len(parts), 0 if small[0] else own.start, tuple(read), own.taken))
        for k, length in enumerate(own.lengths):
            start = own.start if small[k] and not k else 0
            parts.append(_Part((own.first + k) % count, start, read[k], length))
    return parts, found
