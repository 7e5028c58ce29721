"""`OnChunks`: the operand behind all functions of duck arrays; calls a function on chosen chunks.

The chunks of a duck array are pickled (spawn/packing.py) and stand along a single axis, in C order of the array's grid.
Their sizes in bytes are unknown until they are computed. A `ChunkCall` holds the arguments of a call: chunks and
values.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jmars.kernels import Pieces
from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.chunk_types.array_libraries import dense, dtype_of, plain_zero
from jmars.tensor.operand import Operand, Origin, Splits, TensorData, TensorMeta, Unknown, new_data
from jmars.tensor.ops.blockwise.map_blocks import pickled, unpickled
from jmars.tensor.spawn.packing import packed, unpacked
from jmars.tensor.spawn.spawn_operand import BYTES
from jmars.tensor.tensor import Tensor

__all__ = ["ChunkCall", "arrays", "on_chunks"]

Array = np.ndarray[Any, Any]
_numbers = count()


class ChunkCall(NamedTuple):
    """Arguments of a function call that computes an output chunk."""

    reads: tuple[tuple[int, int], ...]  # (number of the input, number of its chunk in C order)
    args: tuple[Any, ...] | None = ()  # arguments after the chunks; None: pass the only chunk on without a call
    shape: tuple[int, ...] | None = None  # of the result; None if the result is not an array


def on_chunks(
    name: str, function: Callable[..., Any], inputs: Sequence[tuple[TensorData, bool]], calls: Sequence[ChunkCall]
) -> TensorData:
    """Make a node whose chunks are the results of `function(*chunks, *args)`, pickled.

    Parameters
    ----------
    name
        Label in the view.
    inputs
        Nodes, with True where the chunks are pickled objects, False where they are NumPy arrays.
    """
    op = _operand(name, function, inputs, calls, True)
    origin = Origin.of(f"chunks-{next(_numbers)}-{os.urandom(4).hex()}")
    return new_data(op, (origin.whole,), BYTES, (origin.axis([None] * len(calls)),))


def arrays(
    name: str,
    function: Callable[..., Any],
    inputs: Sequence[tuple[TensorData, bool]],
    calls: Sequence[ChunkCall],
    chunks: Splits,
    dtype: np.dtype[Any],
) -> Tensor:
    """Make a tensor of the calls' results, which are arrays and are converted to NumPy's."""
    op = _operand(name, function, inputs, calls, False)
    return Tensor(new_data(op, tuple(map(sum, chunks)), dtype, chunks))


def _operand(name: str, function: Any, inputs: Sequence[tuple[TensorData, bool]], calls: Sequence[ChunkCall],
             packs: bool) -> OnChunks:  # fmt: skip
    """Make the operand; a repeated input is read once."""
    unique = list(dict.fromkeys(data for data, _ in inputs))
    number = [unique.index(data) for data, _ in inputs]
    is_packed = dict(inputs)
    if number != list(range(len(number))):
        calls = [one._replace(reads=tuple((number[i], chunk) for i, chunk in one.reads)) for one in calls]
    return OnChunks(
        called=name,
        blob=pickled(function),
        objects=tuple(is_packed[data] for data in unique),
        calls=tuple(calls),
        packs=packs,
        inputs=tuple(unique),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class OnChunks(Operand):
    """Calls a function once per output chunk."""

    called: str
    blob: bytes
    objects: tuple[bool, ...]  # for each input whether its chunks are pickled
    calls: tuple[ChunkCall, ...]
    packs: bool  # whether the results are pickled
    name: ClassVar[str] = "on_chunks"

    @property
    def label(self) -> str:
        """Name of the function."""
        return self.called

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Add an operand per call; chunks without a call are passed on."""
        flat = [grid.ids.reshape(-1) for grid in inputs]
        programs: dict[Any, Program] = {}
        ids = np.empty(len(self.calls), np.int64)
        for number, place in enumerate(self.calls):
            read = [int(flat[i][chunk]) for i, chunk in place.reads]
            if place.args is None:
                (ids[number],) = read
                continue
            types = tuple(_type(inputs[i], chunk, self.objects[i]) for i, chunk in place.reads)
            objects = tuple(self.objects[i] for i, _ in place.reads)
            made = ChunkType((-1,), BYTES) if self.packs else ChunkType(place.shape or (), output.dtype)
            program = programs.get((types, objects, made))
            if program is None:
                work = made.nbytes + sum(one.nbytes for one in types)
                step = Call(
                    call_on_chunks, (self.called, self.blob, objects), tuple(range(len(types))), made, True, work,
                    runs_user_code=True,
                )  # fmt: skip
                program = programs[types, objects, made] = single(self.called, types, step)
            ids[number] = builder.add(program, read, ((place.shape, place.args),))
        return ids.reshape(output.grid)


def _type(grid: ChunkGrid, chunk: int, is_packed: bool) -> ChunkType:
    """Return the type of an input's chunk."""
    place = np.unravel_index(chunk, grid.ids.shape)
    shape = tuple(axis[i] for axis, i in zip(grid.splits, place))
    if is_packed and isinstance(shape[0], Unknown):
        return ChunkType((-1,), BYTES)
    return ChunkType(tuple(map(int, shape)), grid.dtype)


def call_on_chunks(out: Array | None, inputs: Sequence[Array], params: tuple[Any, ...], arg: Any) -> Pieces | None:
    """Call the function, check its result, and write it to `out`; if `out` is None, return it pickled."""
    name, blob, objects = params
    shape, args = arg
    blocks = [unpacked(x, 0) if holds else x for x, holds in zip(inputs, objects, strict=True)]
    value = plain_zero(unpickled(blob)(*blocks, *args))
    if shape is not None and tuple(value.shape) != shape:
        raise ValueError(
            f"{name} returned an array of shape {tuple(value.shape)} where shape {shape} was expected; "
            "return the expected shape"
        )
    if out is None:
        return packed([value])
    if dtype_of(value) != out.dtype:
        raise TypeError(f"{name} returned dtype {dtype_of(value)} where {out.dtype} was expected; cast the result")
    np.copyto(out, dense(value))
    return None


def grid_indices(chunks: Splits) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Return the grid indices and the shapes of all chunks, in C order."""
    counts = tuple(map(len, chunks))
    assert math.prod(counts), chunks
    where = list(np.ndindex(*counts))
    return where, [tuple(axis[i] for axis, i in zip(chunks, place)) for place in where]
