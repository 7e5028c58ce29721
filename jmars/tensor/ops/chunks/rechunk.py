"""Rechunking: assembles output chunks from the overlapping input chunks.

Where an output chunk would read too much memory at once (rows to columns), shuffle.py rechunks in two steps.
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
from jmars.tensor.ops.chunks.parts import part_step
from jmars.tensor.ops.chunks.shuffle import Overlap, overlaps, shuffle
from jmars.tensor.ops.chunks.tiling import chunk_classes
from jmars.tensor.protocols import offers
from jmars.tensor.splits import ChunkSize, decide_splits
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["Rechunk", "assemble_chunks", "rechunk", "rechunked"]

SHARE = 4  # the inputs of one chunk may take 1/4 of a worker's part of the memory limit

Array = np.ndarray[Any, Any]


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
    """Rechunks a node to the splits `chunks`; returns `data` itself where nothing changes."""
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
    """Rechunks its input to `splits`."""

    splits: Splits
    name: ClassVar[str] = "rechunk"
    reads_all: ClassVar[bool] = True

    def token(self) -> Hashable:
        """Identifies the operand by its splits."""
        return ("rechunk", self.splits)

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
