"""A function of chunks that stand at the same place of grids of one shape, whatever the chunks' own shapes.

`map_blocks` wants chunks that broadcast; factorisations read chunks of different shapes. Lengths may be unknown where
all inputs have the output's. Used by factorisation.py, records.py and others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, Splits, TensorMeta, new_data
from jmars.tensor.ops.chunks.tiling import add_by_class, chunk_classes
from jmars.tensor.ops.chunks.unknown_chunks import chunk_type, length_kind
from jmars.tensor.tensor import Tensor
from jmars.tensor.unknown import axis_length

__all__ = ["blockwise"]

Array = np.ndarray[Any, Any]


def blockwise(
    name: str,
    function: Callable[..., Any],
    inputs: Sequence[Tensor],
    chunks: Splits,
    dtype: Any,
    params: tuple[Any, ...] = (),
    flat: bool = False,
    users: bool = False,
    writes: bool = False,
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
    writes
        Whether it is `function(out, *blocks, *params)`, which writes the output's chunk.
    """
    unique = tuple(dict.fromkeys(x.data for x in inputs))
    which = tuple(unique.index(x.data) for x in inputs)
    op = Blockwise(name, function, params, which, flat, users, writes, inputs=unique)
    return Tensor(new_data(op, tuple(map(axis_length, chunks)), np.dtype(dtype), chunks))


@dataclass(frozen=True, eq=False)
class Blockwise(Operand):
    """A function of the chunks at each place."""

    called: str
    function: Callable[..., Any]
    params: tuple[Any, ...]
    which: tuple[int, ...]  # the input that each block is of
    flat: bool
    users: bool
    writes: bool
    name: ClassVar[str] = "blockwise"

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.called

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """One call for each place of the grid."""
        grids = [inputs[i] for i in self.which]
        shape = grids[0].ids.shape if self.flat else output.grid
        cuts = [_spread(g.splits, shape) for g in grids]
        cuts += [] if self.flat else [_spread(output.chunks, shape)]
        kinds, which = chunk_classes([list(zip(*axes)) for axes in zip(*cuts)])

        def program(k: int) -> Program:
            read = [tuple(axis[j] for axis in kinds[k] if axis[j] is not None) for j in range(len(cuts))]
            out = output.chunks[0][:1] if self.flat else read.pop()
            types = [
                chunk_type(one if g.ids.ndim == len(shape) else tuple(map(sum, g.splits)), g.dtype)
                for one, g in zip(read, grids)
            ]
            kind = chunk_type(out, output.dtype)
            work = 2 * (kind.nbytes + sum(one.nbytes for one in types))  # LAPACK works on copies
            params = (self.function, self.params)
            called = write_block if self.writes else call_block
            step = Call(called, params, tuple(range(len(types))), kind, work=work, users=self.users)
            return single(self.called, types, step)

        ids = [g.ids if g.ids.ndim == len(shape) else g.ids.reshape(()) for g in grids]
        rows = np.stack([np.broadcast_to(one, shape).reshape(-1) for one in ids], axis=1)
        return add_by_class(builder, program, which.reshape(-1), rows).reshape(output.grid)


def _spread(splits: Splits, shape: tuple[int, ...]) -> tuple[tuple[Any, ...], ...]:
    """Lengths, or their bounds, of a chunk at each place of a grid of `shape`, None where it has other axes."""
    if len(splits) != len(shape):
        return tuple((None,) * n for n in shape)
    kinds = [tuple(map(length_kind, cut)) for cut in splits]
    return tuple(cut if len(cut) == n else cut * n for cut, n in zip(kinds, shape))


def call_block(out: Array | None, inputs: Sequence[Array], params: tuple[Any, ...], arg: Any) -> Array:
    """Call the function; without `out` its result is as long as it turns out to be."""
    function, more = params
    result = function(*inputs, *more)
    if out is None:
        return np.ascontiguousarray(result)
    np.copyto(out, result)
    return out


def write_block(out: Array, inputs: Sequence[Array], params: tuple[Any, ...], arg: Any) -> None:
    """Call a function that writes."""
    function, more = params
    function(out, *inputs, *more)
