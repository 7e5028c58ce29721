"""The same array cut differently: each output chunk is put together from the input chunks that it overlaps.

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
from jmars.tensor.operand import Operand, Splits, TensorData, TensorMeta, new_data
from jmars.tensor.protocols import offers
from jmars.tensor.splits import ChunkSize, decide_splits
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["Rechunk", "rechunk", "rechunked"]

Array = np.ndarray[Any, Any]
Range = tuple[int, int]
Piece = tuple[tuple[Range, ...], tuple[Range, ...]]  # (where in the output chunk, where in the input chunk)


@offers("rechunk")
def rechunk(x: Any, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:
    """`x` cut as `chunk_size` says; see `jmars.tensor.splits.decide_splits`."""
    x = as_tensor(x)
    return Tensor(rechunked(x.data, decide_splits(x.shape, x.dtype, chunk_size, chunks)))


def rechunked(data: TensorData, chunks: Splits) -> TensorData:
    """`data` itself where it is cut so already."""
    return data if data.chunks == chunks else new_data(Rechunk(chunks, inputs=(data,)), data.shape, data.dtype, chunks)


@dataclass(frozen=True, eq=False)
class Rechunk(Operand):
    """Other chunks of the same elements."""

    splits: Splits
    name: ClassVar[str] = "rechunk"

    def token(self) -> Hashable:
        """Equal splits of equal inputs are equal."""
        return ("rechunk", self.splits)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """One operand per output chunk; a chunk that stays whole is passed on as it is."""
        (source,) = inputs
        overlaps = [_overlaps(old, new) for old, new in zip(source.splits, output.chunks)]
        ids = np.empty(output.grid, np.int64)
        for at in np.ndindex(output.grid):
            shape = tuple(axis[i] for axis, i in zip(output.chunks, at))
            pieces: list[Piece] = []
            types: list[ChunkType] = []
            read: list[int] = []
            for part in itertools.product(*(axis[i] for axis, i in zip(overlaps, at))):
                number = tuple(p[0] for p in part)
                pieces.append((tuple(p[1] for p in part), tuple(p[2] for p in part)))
                types.append(ChunkType(tuple(s[i] for s, i in zip(source.splits, number)), source.dtype))
                read.append(int(source.ids[number]))
            if len(read) == 1 and types[0].shape == shape:
                ids[at] = read[0]
                continue
            step = Call(assemble, tuple(pieces), tuple(range(len(read))), ChunkType(shape, output.dtype))
            ids[at] = builder.add(single(self.name, types, step), read)
        return ids


def assemble(out: Array, inputs: Sequence[Array], pieces: tuple[Piece, ...], arg: Any) -> None:
    """Copy each piece of an input to its place."""
    for x, (there, here) in zip(inputs, pieces):
        out[tuple(slice(*r) for r in there)] = x[tuple(slice(*r) for r in here)]


def _overlaps(old: tuple[int, ...], new: tuple[int, ...]) -> list[list[tuple[int, Range, Range]]]:
    """For each new chunk of an axis: (old chunk, range in the new, range in the old) of what it covers."""
    found: list[list[tuple[int, Range, Range]]] = []
    k, begin_old, begin_new = 0, 0, 0
    for length in new:
        end_new = begin_new + length
        here: list[tuple[int, Range, Range]] = []
        while length and k < len(old):
            low, high = max(begin_old, begin_new), min(begin_old + old[k], end_new)
            if high > low:
                here.append((k, (low - begin_new, high - begin_new), (low - begin_old, high - begin_old)))
            if begin_old + old[k] > end_new:
                break
            begin_old += old[k]
            k += 1
        found.append(here or [(min(k, len(old) - 1), (0, 0), (0, 0))])
        begin_new = end_new
    return found
