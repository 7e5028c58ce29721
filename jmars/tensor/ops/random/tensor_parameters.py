"""Draws with tensors as parameters, elementwise.

Cells (cells.py) are drawn as a whole, so the parameters are rechunked along cell borders, and the draws are rechunked
to the requested chunks afterwards.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, Splits, TensorMeta, new_data
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.chunks.tiling import add_by_class, chunk_classes, corners
from jmars.tensor.ops.random.cells import Cells, align_splits
from jmars.tensor.ops.random.draws import box_index, cell_generators
from jmars.tensor.ops.random.streams import Stream, sample
from jmars.tensor.ops.shape.reshape import reshape
from jmars.tensor.tensor import Tensor

__all__ = ["draw_by_tensors"]

Array = np.ndarray[Any, Any]


def draw_by_tensors(
    function: str, stream: Stream, parameters: Sequence[Tensor], shape: tuple[int, ...], dtype: Any, splits: Splits
) -> Tensor:
    """Makes a tensor of draws, with `shape` and `splits`; the parameters broadcast to `shape`."""
    cells = Cells.of(shape)
    cut = tuple(align_splits(lengths, side) for lengths, side in zip(splits, cells.sides))
    fitting = []
    for x in parameters:
        x = reshape(x, (1,) * (len(shape) - x.ndim) + x.shape)
        wanted = tuple((1,) if n == 1 else lengths for n, lengths in zip(x.shape, cut))
        fitting.append(rechunked(x.data, wanted))
    unique = tuple(dict.fromkeys(fitting))
    op = TensorParameterDraws(function, stream, tuple(unique.index(one) for one in fitting), inputs=unique)
    return Tensor(rechunked(new_data(op, shape, dtype, cut), splits))


@dataclass(frozen=True, eq=False)
class TensorParameterDraws(Operand):
    """Draws with parameters from its inputs."""

    method: str  # of numpy.random.Generator
    stream: Stream
    which: tuple[int, ...]  # index into `inputs` for each parameter
    name: ClassVar[str] = "random"
    binds: ClassVar[str] = "stream"

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.method

    def token(self) -> Hashable:
        """Identifies the operand by stream and method."""
        return ("given draws", self.stream, self.method, self.which)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk, with the stream and its first index as the argument."""
        cells = Cells.of(output.shape)
        kinds, which = chunk_classes(output.chunks)

        def program(k: int) -> Program:
            made = ChunkType(kinds[k], output.dtype)
            types = [
                ChunkType(tuple(1 if cut == (1,) else n for n, cut in zip(kinds[k], one.splits)), one.dtype)
                for one in inputs
            ]
            params = (self.method, self.which, cells)
            return single(self.method, types, Call(draw_cells, params, tuple(range(len(types))), made, True))

        rows = [np.broadcast_to(one.ids, which.shape).reshape(-1) for one in inputs]
        args = [((self.stream, corner),) for (corner,) in corners(output.chunks)]
        return add_by_class(builder, program, which.reshape(-1), np.stack(rows, axis=1), args).reshape(which.shape)


def draw_cells(
    out: Array, inputs: Sequence[Array], params: tuple[Any, ...], arg: tuple[Stream, tuple[int, ...]]
) -> None:
    """Draws the cells of a chunk, each with its part of the parameters."""
    method, which, cells = params
    stream, corner = arg
    drawer_of = cell_generators(stream, cells)
    for cell in cells.over(tuple((c, c + n) for c, n in zip(corner, out.shape))):
        part = box_index(tuple((a, a + n) for a, n in zip(cell.begin, cell.shape)), corner)
        given = [inputs[i][tuple(slice(None) if n == 1 else s for n, s in zip(inputs[i].shape, part))] for i in which]
        out[part] = sample(drawer_of(cell.number), method, tuple(given), cell.shape, out.dtype)
