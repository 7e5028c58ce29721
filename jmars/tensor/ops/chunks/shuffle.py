"""All to all: the same array cut quite differently, where a new chunk reads more old ones than memory lets it hold.

Each old chunk is written once more, its pieces for the new chunks one behind the other. Each new chunk *gathers* its
pieces: ranges of these lines, read from memory or from the files, wherever they lie, and nothing else of them. So
there are as many operands as old and new chunks, not as many as pieces; each element goes to disk once, and an operand
holds two chunks at most. Used by rechunk.py.
Source: docs/decisions/0029 (sorting by ranges), for any number of axes.
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
    """The old chunks of an axis that a new one is made of."""

    first: int
    start: int  # of what is taken, within the first one
    lengths: Lengths  # of the old chunks
    taken: Lengths  # elements of each


def overlaps(old: Lengths, new: Lengths) -> list[Overlap]:
    """For each new chunk of an axis what it is made of.

    Examples
    --------
    >>> overlaps((4, 4), (3, 5))
    [Overlap(first=0, start=0, lengths=(4,), taken=(3,)), Overlap(first=0, start=3, lengths=(4, 4), taken=(1, 4))]
    """
    found: list[Overlap] = []
    k = within = 0  # old chunk, and what of it is taken already
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
    """`data` cut as `chunks`; no length is 0 or unknown."""
    sizes = tuple(map(math.prod, itertools.product(*data.chunks)))
    lines = new_data(ShuffleSplit(data.chunks, chunks, inputs=(data,)), (sum(sizes),), data.dtype, (sizes,))
    return new_data(ShuffleJoin(data.chunks, chunks, inputs=(lines,)), data.shape, data.dtype, chunks)


def _segments(old: Lengths, new: Lengths) -> list[Lengths]:
    """Into which lengths each old chunk of an axis is cut by the new ones."""
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
    """Each chunk as a line of its pieces, in C order; one line of all chunks."""

    old: Splits
    new: Splits
    name: ClassVar[str] = "shuffle"

    def token(self) -> Hashable:
        """Equal cuts of equal inputs are equal."""
        return ("shuffle", self.old, self.new)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """One operand for each chunk."""
        (x,) = inputs
        kinds, which = chunk_classes([_segments(old, new) for old, new in zip(self.old, self.new)])

        def program(k: int) -> Program:
            chunk = ChunkType(tuple(map(sum, kinds[k])), x.dtype)
            return single(self.name, (chunk,), Call(split_pieces, kinds[k], (0,), ChunkType((chunk.size,), x.dtype)))

        return add_by_class(builder, program, which.reshape(-1), x.ids.reshape(-1, 1))


def split_pieces(out: Array, inputs: Sequence[Array], params: tuple[Lengths, ...], arg: Any) -> None:
    """Copy the pieces that `params`, lengths along each axis, cut a chunk into."""
    (x,) = inputs
    at = 0
    axes = [[slice(end - n, end) for n, end in zip(own, itertools.accumulate(own))] for own in params]
    for box in itertools.product(*axes):
        piece = x[box]
        out[at : at + piece.size].reshape(piece.shape)[...] = piece
        at += piece.size


@dataclass(frozen=True, eq=False)
class ShuffleJoin(Operand):
    """New chunks from the pieces of all old ones, which are lines."""

    old: Splits
    new: Splits
    name: ClassVar[str] = "rechunk"

    def token(self) -> Hashable:
        """Equal cuts of equal inputs are equal."""
        return ("shuffle join", self.old, self.new)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """One operand for each new chunk."""
        lines = inputs[0].ids.reshape(tuple(map(len, self.old)))
        axes = [overlaps(old, new) for old, new in zip(self.old, self.new)]
        line = ChunkType((-1,), output.dtype)
        ids = np.empty(output.grid, np.int64)
        for place in np.ndindex(*output.grid):
            own = [axis[i] for axis, i in zip(axes, place)]
            read = lines[tuple(slice(one.first, one.first + len(one.taken)) for one in own)].reshape(-1)
            taken = tuple(one.taken for one in own)
            out = ChunkType(tuple(map(sum, taken)), output.dtype)
            step = Call(join_pieces, taken, tuple(range(len(read))), out, True, out.nbytes, alone=True, gathers=True)
            bounds = np.array(list(_piece_bounds(own)), np.int64).tobytes()
            ids[place] = builder.add(single(self.name, [line] * len(read), step), read.tolist(), ((bounds,),))
        return ids


def _piece_bounds(own: Sequence[Overlap]) -> Iterator[tuple[int, int]]:
    """Where each piece lies in the line of its old chunk, in C order of the old chunks."""
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
    """Put a chunk together: pieces of lines, or one line of all pieces; `params` are their lengths along each axis."""
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
