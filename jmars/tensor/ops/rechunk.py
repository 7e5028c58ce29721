"""The same array cut differently: each output chunk is put together from the input chunks that it overlaps.

Where that is more than memory lets an operand hold at once (rows that become columns), the array is cut to pieces
first, each of one input chunk, and the output chunks are put together from those.
Used where inputs of one function are cut differently, and by `Tensor.rechunk`.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.engine import current_engine
from jmars.tensor.operand import Operand, Splits, TensorData, TensorMeta, new_data
from jmars.tensor.ops.tiling import classes
from jmars.tensor.protocols import offers
from jmars.tensor.splits import ChunkSize, common_splits, decide_splits
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["Rechunk", "rechunk", "rechunked"]

SHARE = 4  # of a worker's part of the memory limit, what the inputs of one chunk may take

Array = np.ndarray[Any, Any]


@offers("rechunk")
def rechunk(x: Any, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:
    """`x` cut as `chunk_size` says; see `jmars.tensor.splits.decide_splits`. Explicit lengths may be 0 here."""
    x = as_tensor(x)
    given = chunks if chunk_size is None else chunk_size
    if isinstance(given, tuple) and len(given) == x.ndim and all(map(_cuts, given, x.shape)):
        return Tensor(rechunked(x.data, given))
    return Tensor(rechunked(x.data, decide_splits(x.shape, x.dtype, chunk_size, chunks)))


def _cuts(axis: Any, length: int) -> bool:
    """Whether an entry of `chunks` says the length of each chunk: those of what a mask took may be empty."""
    return (
        isinstance(axis, tuple) and all(type(n) is int and n >= 0 for n in axis) and sum(axis) == length and axis != ()
    )


def rechunked(data: TensorData, chunks: Splits) -> TensorData:
    """`data` itself where it is cut so already."""
    if data.chunks == chunks:
        return data
    if data.unsettled:
        Tensor(data)._settled()
    if _reads_too_much(data, chunks):
        pieces = tuple(map(common_splits, zip(data.chunks, chunks)))
        data = new_data(Rechunk(pieces, True, inputs=(data,)), data.shape, data.dtype, pieces)
    return new_data(Rechunk(chunks, inputs=(data,)), data.shape, data.dtype, chunks)


def _reads_too_much(data: TensorData, chunks: Splits) -> bool:
    """Whether what a new chunk is made of takes far more than the chunk, and much of the memory limit."""
    engine = current_engine()
    if engine is None or not data.shape or 0 in data.shape:
        return False
    read = made = data.dtype.itemsize
    for old, new in zip(data.chunks, chunks):
        read *= max(sum(cover.lengths) for cover in _covers(old, new)) if old != new else max(old)
        made *= max(new)
    if read <= 2 * made:
        return False
    memory, workers = engine.limits()
    return read > memory // (SHARE * workers)


@dataclass(frozen=True, eq=False)
class Rechunk(Operand):
    """Other chunks of the same elements."""

    splits: Splits
    apart: bool = False  # each chunk is a piece of one chunk, and is made apart from what reads it
    name: ClassVar[str] = "rechunk"

    def token(self) -> Hashable:
        """Equal splits of equal inputs are equal."""
        return ("rechunk", self.splits, self.apart)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """One operand per output chunk; a chunk that stays whole is passed on as it is."""
        (source,) = inputs
        axes = [_covers(old, new) for old, new in zip(source.splits, output.chunks)]
        kinds, which = classes([[(cover.lengths, cover.taken) for cover in axis] for axis in axes])
        first = [np.array([cover.first for cover in axis], np.int64) for axis in axes]
        start = [np.array([cover.start for cover in axis], np.int64) for axis in axes]
        ids = np.empty(output.grid, np.int64)
        for k, kind in enumerate(kinds):
            where = np.nonzero(which == k)
            if not len(where[0]):
                continue
            corner = [axis[i] for axis, i in zip(first, where)]
            places = list(itertools.product(*(range(len(lengths)) for lengths, _ in kind)))
            read = np.stack([source.ids[tuple(c + step for c, step in zip(corner, place))] for place in places], axis=1)
            if len(places) == 1 and all(lengths == taken for lengths, taken in kind):
                ids[where] = read[:, 0]
                continue
            types = [ChunkType(tuple(n[i] for (n, _), i in zip(kind, place)), source.dtype) for place in places]
            out = ChunkType(tuple(sum(taken) for _, taken in kind), output.dtype)
            params = tuple(taken for _, taken in kind)
            step = Call(assemble, params, tuple(range(len(places))), out, True, alone=self.apart)
            starts = [axis[i].tolist() for axis, i in zip(start, where)]
            zeros = np.zeros(len(read), np.int64)
            ids[where] = builder.add_many([single(self.name, types, step)], zeros, read, [(s,) for s in zip(*starts)])
        return ids


def assemble(out: Array, inputs: Sequence[Array], params: tuple[tuple[int, ...], ...], arg: tuple[int, ...]) -> None:
    """Put a chunk together: `params` are the lengths taken along each axis, `arg` where the first one begins."""
    axes = []
    for taken, start in zip(params, arg):
        ends = list(itertools.accumulate(taken))
        begins = [start] + [0] * (len(taken) - 1)
        axes.append([(slice(end - n, end), slice(low, low + n)) for n, end, low in zip(taken, ends, begins)])
    for x, place in zip(inputs, itertools.product(*axes)):
        out[tuple(there for there, _ in place)] = x[tuple(here for _, here in place)]


class _Cover(NamedTuple):
    """The old chunks of an axis that a new one is made of."""

    first: int
    start: int  # of what is taken, within the first one
    lengths: tuple[int, ...]  # of the old chunks
    taken: tuple[int, ...]  # elements of each


def _covers(old: tuple[int, ...], new: tuple[int, ...]) -> list[_Cover]:
    """For each new chunk of an axis what it is made of.

    Examples
    --------
    >>> _covers((4, 4), (3, 5))
    [_Cover(first=0, start=0, lengths=(4,), taken=(3,)), _Cover(first=0, start=3, lengths=(4, 4), taken=(1, 4))]
    """
    found: list[_Cover] = []
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
        found.append(_Cover(first, start, old[first : k + 1], tuple(taken)))
    return found
