"""Calls a function with the chunks at the same grid position of several tensors, whatever the shapes of the chunks.

`map_blocks` needs chunks that broadcast; here, as in matrix decompositions, chunks may have different shapes. Lengths
may be unknown where all inputs have the lengths of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, Splits, TensorMeta, axis_length, new_data
from jmars.tensor.ops.chunks import add_by_class, chunk_classes, chunk_type, length_kind
from jmars.tensor.parts import Part, PartOf, along, whole
from jmars.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]
Scratch = Callable[[ChunkType, Sequence[ChunkType]], int]  # bytes, of the types of the output chunk and the blocks


def blockwise(
    name: str,
    function: Callable[..., Any],
    inputs: Sequence[Tensor],
    chunks: Splits,
    dtype: Any,
    params: tuple[Any, ...] = (),
    flat: bool = False,
    runs_user_code: bool = False,
    writes: bool = False,
    scratch: Scratch | None = None,
    lines: tuple[int, ...] | None = None,
    tables: int = 0,
) -> Tensor:
    """Makes a tensor of chunks `function(*blocks, *params)`, a call per grid position.

    Parameters
    ----------
    name
        Label in the view.
    function
        A module-level function, pickled by name. Returns the output chunk.
    inputs
        Tensors with as many chunks along each axis as the output, or with one chunk, which goes to all positions; a
        tensor with another number of axes must be a single chunk.
    chunks, dtype
        Splits and dtype of the output.
    params
        Further arguments of the function; they must be hashable.
    flat
        Whether the output is 1-d, its chunks in C order of the grid of the first input.
    runs_user_code
        Whether the function calls user code.
    writes
        Whether the function is `function(out, *blocks, *params)` and writes into the output chunk.
    scratch
        Bytes that a call allocates, from the types of the output chunk and of the blocks; by default two copies of
        all of them, as LAPACK makes.
    lines
        Axes of lines that the function computes independently of other lines; () for single elements. None: the
        function needs whole chunks.
    tables
        Number of inputs, the last, that each line needs whole; all others have the axes of the output.
    """
    unique = tuple(dict.fromkeys(x.data for x in inputs))
    which = tuple(unique.index(x.data) for x in inputs)
    op = Blockwise(name, function, params, which, flat, runs_user_code, writes, scratch, lines, tables, inputs=unique)
    return Tensor(new_data(op, tuple(map(axis_length, chunks)), np.dtype(dtype), chunks))


def two_copies(out: ChunkType, blocks: Sequence[ChunkType]) -> int:
    """Scratch of LAPACK's functions for working copies."""
    return 2 * (out.nbytes + sum(one.nbytes for one in blocks))


def no_scratch(out: ChunkType, blocks: Sequence[ChunkType]) -> int:
    """Scratch of functions without memory beside the result."""
    return 0


@dataclass(frozen=True, eq=False)
class Blockwise(Operand):
    """Calls a function with the chunks of a grid position."""

    called: str
    function: Callable[..., Any]
    params: tuple[Any, ...]
    which: tuple[int, ...]  # index into `inputs` for each argument
    flat: bool
    runs_user_code: bool
    writes: bool
    scratch: Scratch | None
    lines: tuple[int, ...] | None
    tables: int
    name: ClassVar[str] = "blockwise"

    def stamp(self) -> Hashable | None:
        """None for a user's function."""
        return None if self.runs_user_code else ()

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.called

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf | None:
        """Some of the lines, where the function computes them one by one."""
        if self.lines is None or any(len(kept[axis]) < output.shape[axis] for axis in self.lines):
            return None
        read = [inputs[k] for k in self.which]
        own = [along(kept, [i for i, n in enumerate(x.shape) if i in self.lines or n == 1], x)
               for x in read[: len(read) - self.tables]]  # fmt: skip
        parts = [*own, *map(whole, read[len(own) :])]
        made = replace(self, which=tuple(range(len(read))))
        return PartOf(made, list(zip(self.which, parts)))

    def hull(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> Part:
        """The lines whole."""
        return whole(output) if self.lines is None else along(kept, self.lines, output)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per grid position."""
        grids = [inputs[i] for i in self.which]
        shape = grids[0].ids.shape if self.flat else output.grid
        cuts = [_length_keys(g.splits, shape) for g in grids]
        cuts += [] if self.flat else [_length_keys(output.chunks, shape)]
        kinds, which = chunk_classes([list(zip(*axes)) for axes in zip(*cuts)])

        def program(k: int) -> Program:
            read = [tuple(axis[j] for axis in kinds[k] if axis[j] is not None) for j in range(len(cuts))]
            out = output.chunks[0][:1] if self.flat else read.pop()
            types = [
                chunk_type(
                    one if g.ids.ndim == len(shape) else [length_kind(axis_length(a)) for a in g.splits], g.dtype
                )
                for one, g in zip(read, grids)
            ]
            kind = chunk_type(out, output.dtype)
            work = (self.scratch or two_copies)(kind, types)
            params = (self.function, self.params)
            called = write_block if self.writes else call_block
            step = Call(called, params, tuple(range(len(types))), kind, work=work, runs_user_code=self.runs_user_code)
            return single(self.called, types, step)

        ids = [g.ids if g.ids.ndim == len(shape) else g.ids.reshape(()) for g in grids]
        rows = np.stack([np.broadcast_to(one, shape).reshape(-1) for one in ids], axis=1)
        return add_by_class(builder, program, which.reshape(-1), rows).reshape(output.grid)


def _length_keys(splits: Splits, shape: tuple[int, ...]) -> tuple[tuple[Any, ...], ...]:
    """Length keys of the chunks along all axes of a grid of `shape`; None for a tensor with other axes."""
    if len(splits) != len(shape):
        return tuple((None,) * n for n in shape)
    kinds = [tuple(map(length_kind, cut)) for cut in splits]
    return tuple(cut if len(cut) == n else cut * n for cut, n in zip(kinds, shape))


def call_block(out: Array | None, inputs: Sequence[Array], params: tuple[Any, ...], arg: Any) -> Array:
    """Calls a function that returns the output chunk; without `out` any size is accepted."""
    function, more = params
    result = function(*inputs, *more)
    if out is None:
        return np.ascontiguousarray(result)
    np.copyto(out, result)
    return out


def write_block(out: Array, inputs: Sequence[Array], params: tuple[Any, ...], arg: Any) -> None:
    """Calls a function that writes into `out`."""
    function, more = params
    function(out, *inputs, *more)
