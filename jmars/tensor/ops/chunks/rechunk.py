"""The same array cut differently: each output chunk is put together from the input chunks that it overlaps.

Where that is more than memory lets an operand hold at once (rows that become columns), see shuffling.py.
Used where inputs of one function are cut differently, and by `Tensor.rechunk`.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.engine import current_engine
from jmars.tensor.operand import Operand, Splits, TensorData, TensorMeta, new_data
from jmars.tensor.ops.chunks.shuffle import Overlap, overlaps, shuffle
from jmars.tensor.ops.chunks.tiling import chunk_classes
from jmars.tensor.protocols import offers
from jmars.tensor.splits import ChunkSize, decide_splits
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["Rechunk", "assemble_chunks", "rechunk", "rechunked"]

SHARE = 4  # of a worker's part of the memory limit, what the inputs of one chunk may take

Array = np.ndarray[Any, Any]


@offers("rechunk")
def rechunk(x: Any, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:
    """`x` cut as `chunk_size` says; see `jmars.tensor.splits.decide_splits`. Explicit lengths may be 0 here.

    Axes that it does not name, or names None, stay cut as they are.
    """
    x = as_tensor(x)
    given = chunks if chunk_size is None else chunk_size
    if isinstance(given, tuple) and len(given) == x.ndim and all(map(_cuts, given, x.shape)):
        return Tensor(rechunked(x.data, given))
    return Tensor(rechunked(x.data, decide_splits(x.shape, x.dtype, chunk_size, chunks, x.chunks)))


def _cuts(axis: Any, length: int) -> bool:
    """Whether an entry of `chunks` says the length of each chunk: those of what a mask took may be empty."""
    return (
        isinstance(axis, tuple) and all(type(n) is int and n >= 0 for n in axis) and sum(axis) == length and axis != ()
    )


def rechunked(data: TensorData, chunks: Splits) -> TensorData:
    """`data` itself where it is cut so already."""
    if data.chunks == chunks:
        return data
    if data.has_unknown_lengths:
        Tensor(data)._settled()
    if _reads_too_much(data, chunks):
        return shuffle(data, chunks)
    return new_data(Rechunk(chunks, inputs=(data,)), data.shape, data.dtype, chunks)


def _reads_too_much(data: TensorData, chunks: Splits) -> bool:
    """Whether the several chunks that a new one is made of take far more than it, and much of the memory limit."""
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
    """Other chunks of the same elements."""

    splits: Splits
    name: ClassVar[str] = "rechunk"
    reads_all: ClassVar[bool] = True

    def token(self) -> Hashable:
        """Equal splits of equal inputs are equal."""
        return ("rechunk", self.splits)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """One operand per output chunk; a chunk that stays whole is passed on as it is."""
        (source,) = inputs
        axes = [overlaps(old, new) for old, new in zip(source.splits, output.chunks)]
        return assemble_chunks(self.name, builder, source.ids, axes, output)


def assemble_chunks(
    name: str,
    builder: ChunkGraphBuilder,
    source: NDArray[np.int64],
    axes: Sequence[Sequence[Overlap]],
    output: TensorMeta,
) -> NDArray[np.int64]:
    """Ids of chunks that are each made of chunks of a grid; one that is a chunk as it lies is that chunk.

    Parameters
    ----------
    name
        What the view shows.
    builder
        Takes the operands, one for each chunk that is made.
    source
        Ids of the chunks that are read; one may stand there more than once.
    axes
        For each axis and each chunk along it, what it is made of.
    output
        Of the same dtype as what is read.
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
        step = Call(copy_overlaps, params, tuple(range(len(places))), out, True)
        starts = [axis[i].tolist() for axis, i in zip(start, where)]
        zeros = np.zeros(len(read), np.int64)
        ids[where] = builder.add_many([single(name, types, step)], zeros, read, [(s,) for s in zip(*starts)])
    return ids


def copy_overlaps(
    out: Array, inputs: Sequence[Array], params: tuple[tuple[int, ...], ...], arg: tuple[int, ...]
) -> None:
    """Put a chunk together: `params` are the lengths taken along each axis, `arg` where the first one begins."""
    axes = []
    for taken, start in zip(params, arg):
        ends = list(itertools.accumulate(taken))
        begins = [start] + [0] * (len(taken) - 1)
        axes.append([(slice(end - n, end), slice(low, low + n)) for n, end, low in zip(taken, ends, begins)])
    for x, place in zip(inputs, itertools.product(*axes)):
        out[tuple(there for there, _ in place)] = x[tuple(here for _, here in place)]
