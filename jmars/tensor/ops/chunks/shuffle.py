"""All-to-all shuffle: rechunks an array where an output chunk would read more input chunks than memory holds.

First each input chunk is copied into a 1-d array, ordered by output chunk. Then each output chunk gathers byte ranges
of such arrays, from memory or from spill files, without loading the rest. So the number of operands is the number of
input and output chunks, not of pieces; elements are spilled at most once, and an operand holds at most two chunks.
Source: docs/decisions/0029-sorting-by-ranges.md, for any number of axes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, Splits, TensorData, TensorMeta, new_data
from jmars.tensor.ops.chunks.tiling import add_by_class, chunk_classes
from jmars.tensor.splits import common_splits

__all__ = ["Overlap", "overlaps", "shuffle"]

Array = np.ndarray[Any, Any]
Lengths = tuple[int, ...]


class Overlap(NamedTuple):
    """Overlap of an output chunk with the input chunks along one axis."""

    first: int  # number of the first input chunk
    start: int  # first element within that chunk
    lengths: Lengths  # of the input chunks
    taken: Lengths  # elements that overlap, per input chunk


def overlaps(old: Lengths, new: Lengths) -> list[Overlap]:
    """Overlap of each output chunk with the input chunks along an axis.

    Examples
    --------
    >>> overlaps((4, 4), (3, 5))
    [Overlap(first=0, start=0, lengths=(4,), taken=(3,)), Overlap(first=0, start=3, lengths=(4, 4), taken=(1, 4))]
    """
    found: list[Overlap] = []
    k = within = 0  # input chunk, and elements of it that are taken already
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
    """Lengths of the pieces of each input chunk, as divided by the output chunks along an axis."""
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
    """First half of a shuffle: copies each chunk into a 1-d array, piece by piece in C order."""

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
    """Copies a chunk piece by piece into a 1-d array; `params` are the lengths of the pieces along each axis."""
    (x,) = inputs
    at = 0
    axes = [[slice(end - n, end) for n, end in zip(own, itertools.accumulate(own))] for own in params]
    for box in itertools.product(*axes):
        piece = x[box]
        out[at : at + piece.size].reshape(piece.shape)[...] = piece
        at += piece.size


@dataclass(frozen=True, eq=False)
class ShuffleJoin(Operand):
    """Second half of a shuffle: gathers each output chunk from the 1-d arrays of `ShuffleSplit`."""

    old: Splits
    new: Splits
    name: ClassVar[str] = "rechunk"

    def token(self) -> Hashable:
        """Identifies the operand by both splits."""
        return ("shuffle join", self.old, self.new)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per output chunk, with the ranges to gather as its argument."""
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
    """Range of each piece within the 1-d array of the input chunk, in C order of the input chunks."""
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
    """Assembles an output chunk; `params` are the lengths of the pieces along each axis.

    The inputs are the 1-d arrays of all input chunks, or the first input holds all pieces, gathered already.
    """
    pairs = np.frombuffer(arg[-1], np.int64).reshape(-1, 2)
    ends = np.cumsum(pairs[:, 1] - pairs[:, 0])
    line = inputs[0]
    if len(line) == ends[-1] and not any(map(len, inputs[1:])):
        pieces = [line[a:b] for a, b in zip([0, *ends[:-1].tolist()], ends.tolist())]
    else:
        pieces = [one[a:b] for one, (a, b) in zip(inputs, pairs.tolist(), strict=True)]
    axes = [[slice(end - n, end) for n, end in zip(own, itertools.accumulate(own))] for own in params]
    for box, piece in zip(itertools.product(*axes), pieces, strict=True):
        there = out[box]
        there[...] = piece.reshape(there.shape)
