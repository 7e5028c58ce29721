"""A function of chunks that stand at the same place of grids of one shape, whatever the chunks' own shapes.

`map_blocks` wants chunks that broadcast; factorisations read chunks of different shapes. Used by factorisation.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, Splits, TensorMeta, new_data
from jmars.tensor.ops.tiling import add_classes, classes
from jmars.tensor.tensor import Tensor

__all__ = ["blockwise"]

Array = np.ndarray[Any, Any]


def blockwise(
    name: str,
    function: Callable[..., Array],
    inputs: Sequence[Tensor],
    chunks: Splits,
    dtype: Any,
    params: tuple[Any, ...] = (),
    flat: bool = False,
    users: bool = False,
) -> Tensor:
    """`function(*blocks, *params)` for each place of a grid.

    Parameters
    ----------
    name
        What the view shows.
    function
        Of a module: it travels by its name. Gives the output's chunk.
    inputs
        Cut in as many chunks as the output on each axis, or in one, which then goes to all places; what has other
        axes is one chunk.
    chunks, dtype
        Of the output.
    params
        Handed on; they must be hashable.
    flat
        Whether the outputs' chunks form one axis, in C order of the grid of the first input.
    users
        Whether the function calls the user's code.
    """
    unique = tuple(dict.fromkeys(x.data for x in inputs))
    which = tuple(unique.index(x.data) for x in inputs)
    op = Blockwise(name, function, params, which, flat, users, inputs=unique)
    return Tensor(new_data(op, tuple(map(sum, chunks)), np.dtype(dtype), chunks))


@dataclass(frozen=True, eq=False)
class Blockwise(Operand):
    """A function of the chunks at each place."""

    called: str
    function: Callable[..., Array]
    params: tuple[Any, ...]
    which: tuple[int, ...]  # the input that each block is of
    flat: bool
    users: bool
    name: ClassVar[str] = "blockwise"

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.called

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """One call for each place of the grid."""
        grids = [inputs[i] for i in self.which]
        shape = grids[0].ids.shape if self.flat else output.grid
        cuts = [_spread(g.splits, shape) for g in grids] + [output.chunks] * (not self.flat)
        kinds, which = classes([list(zip(*axes)) for axes in zip(*cuts)])

        def program(k: int) -> Program:
            read = [tuple(axis[j] for axis in kinds[k] if axis[j] is not None) for j in range(len(cuts))]
            out = output.chunks[0][:1] if self.flat else read.pop()
            types = [
                ChunkType(one if g.ids.ndim == len(shape) else tuple(map(sum, g.splits)), g.dtype)
                for one, g in zip(read, grids)
            ]
            kind = ChunkType(out, output.dtype)
            work = 2 * (kind.nbytes + sum(one.nbytes for one in types))  # LAPACK works on copies
            params = (self.function, self.params)
            step = Call(call_block, params, tuple(range(len(types))), kind, work=work, users=self.users)
            return single(self.called, types, step)

        ids = [g.ids if g.ids.ndim == len(shape) else g.ids.reshape(()) for g in grids]
        rows = np.stack([np.broadcast_to(one, shape).reshape(-1) for one in ids], axis=1)
        return add_classes(builder, program, which.reshape(-1), rows).reshape(output.grid)


def _spread(splits: Splits, shape: tuple[int, ...]) -> tuple[tuple[int | None, ...], ...]:
    """Lengths of an input's chunk at each place of a grid of `shape`, None where it has other axes."""
    if len(splits) != len(shape):
        return tuple((None,) * n for n in shape)
    return tuple(cut if len(cut) == n else cut * n for cut, n in zip(splits, shape))


def call_block(out: Array, inputs: Sequence[Array], params: tuple[Any, ...], arg: Any) -> None:
    """Call the function."""
    function, more = params
    np.copyto(out, function(*inputs, *more))
