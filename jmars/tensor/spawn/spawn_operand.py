"""Operands of spawned functions: `Spawn` calls a function, `FromSpawned` makes a tensor of a returned array.

Calls of the same function share a program. A call's arguments travel as a pickle, in which results of other calls and
tensors are references to the operand's inputs.
"""

from __future__ import annotations

import io
import itertools
import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels import Pieces
from jmars.kernels.program import Call, ChunkType, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, TensorMeta, Unknown
from jmars.tensor.ops.blockwise.map_blocks import unpickled
from jmars.tensor.spawn.packing import all_unpacked, packed, unpacked

__all__ = ["BYTES", "FromSpawned", "Spawn"]

Array = np.ndarray[Any, Any]
BYTES = np.dtype(np.uint8)
_UNSIZED = ChunkType((-1,), BYTES)


@dataclass(frozen=True, eq=False, kw_only=True)
class Spawn(Operand):
    """Calls a function with pickled arguments.

    Attributes
    ----------
    function
        Label in the view.
    blob
        The function, pickled.
    call
        `(args, kwargs)`, pickled; persistent ids are (number of the input, output number or names of all outputs).
    objects
        For each input, True if it holds outputs of another call, False if it is an array.
    outputs
        Names of the outputs; None for a single result.
    environment
        Environment variables that are set during the call.
    cost
        Expected seconds; 0 if the user gave none.
    memory
        Bytes needed beside inputs and result.
    retries
        Number of calls after the first one raised; -1 if the user gave none.
    """

    function: str
    blob: bytes
    call: bytes
    objects: tuple[bool, ...]
    outputs: tuple[str, ...] | None = None
    environment: tuple[tuple[str, str], ...] = ()
    cost: float = 0.0
    memory: int = 0
    retries: int = -1
    name: ClassVar[str] = "spawn"
    alone: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """Label in the view."""
        return self.function

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Add one chunk-level operand."""
        types = tuple(
            [
                _bytes(grid) if is_object else ChunkType(tuple(axis[0] for axis in grid.splits), grid.dtype)
                for grid, is_object in zip(inputs, self.objects, strict=True)
            ]
        )
        params = (self.function, self.blob, self.objects, self.outputs, self.environment)
        key = params, types, self.memory, self.cost, self.retries
        program = builder.made.get(key)
        if program is None:
            step = Call(
                call_spawned,
                params,
                tuple(range(len(types))),
                _UNSIZED,
                True,
                self.memory,
                self.cost,
                alone=True,
                runs_user_code=True,
                retries=self.retries,
            )
            program = builder.made[key] = single(self.function, types, step)
        ids = [grid.ids.item(0) for grid in inputs]
        return np.array([builder.add(program, ids, (self.call,))], np.int64)


def _bytes(grid: ChunkGrid) -> ChunkType:
    """Return the type of a chunk of objects; the size is known if an earlier job computed the chunk."""
    length = grid.splits[0][0]
    return _UNSIZED if isinstance(length, Unknown) else ChunkType((length,), BYTES)


def call_spawned(out: None, inputs: Sequence[Array], params: tuple[Any, ...], arg: bytes) -> Pieces:
    """Call the function and return its outputs, pickled as a chunk."""
    name, blob, objects, outputs, environment = params
    function = unpickled(blob)
    args, kwargs = _Opener(arg, inputs, objects).load()
    with _variables(environment):
        result = function(*args, **kwargs)
    values = [result] if outputs is None else _by_name(name, result, outputs)
    try:
        return packed(values)
    except Exception as error:
        raise TypeError(
            f"the result of {name} cannot be pickled ({type(error).__name__}: {error}), so no other process can read "
            "it; return plain data, arrays or objects that pickle"
        ) from error


class _Opener(pickle.Unpickler):
    """Unpickles the arguments of a call; references become values of inputs."""

    def __init__(self, blob: bytes, inputs: Sequence[Array], objects: Sequence[bool]) -> None:
        super().__init__(io.BytesIO(blob))
        self._inputs, self._objects = inputs, objects
        self._known: dict[tuple[int, int | tuple[str, ...]], Any] = {}  # repeated references give the same object

    def persistent_load(self, reference: tuple[int, int | tuple[str, ...]]) -> Any:
        """Return the value of a referenced input."""
        if reference not in self._known:
            number, which = reference
            chunk = self._inputs[number]
            if not self._objects[number]:
                self._known[reference] = chunk if chunk.ndim else chunk[()]
            elif isinstance(which, int):
                self._known[reference] = unpacked(chunk, which)
            else:
                self._known[reference] = all_unpacked(chunk, which)
        return self._known[reference]


def _by_name(name: str, result: Any, outputs: Sequence[str]) -> list[Any]:
    """List the outputs in order, from a dict by name or from a sequence."""
    if isinstance(result, dict):
        missing = [one for one in outputs if one not in result]
        if missing:
            raise ValueError(
                f"{name} returned a dict without {missing[0]!r}: it has {list(result)}, expected were {list(outputs)}"
            )
        return [result[one] for one in outputs]
    if not isinstance(result, list | tuple) or len(result) != len(outputs):
        given = f"{len(result)} values" if isinstance(result, list | tuple) else f"one {type(result).__name__}"
        raise ValueError(
            f"{name} returned {given}, and {len(outputs)} outputs were expected: {list(outputs)}; return a tuple of "
            "as many, or a dict by name"
        )
    return list(result)


@contextmanager
def _variables(given: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Set environment variables within a block."""
    before = {name: os.environ.get(name) for name, _ in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@dataclass(frozen=True, eq=False, kw_only=True)
class FromSpawned(Operand):
    """Cuts output `output` of a call, an array of known shape and dtype, into chunks."""

    output: int
    name: ClassVar[str] = "to_tensor"

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Add an operand per chunk, which copies the chunk from the array."""
        (source,) = inputs
        read = int(source.ids.reshape(-1)[0])
        ids = np.empty(output.grid, np.int64)
        stops = [list(itertools.accumulate(axis)) for axis in output.chunks]
        for place in np.ndindex(*output.grid):
            shape = tuple(axis[i] for axis, i in zip(output.chunks, place))
            start = tuple(axis[i] - n for axis, i, n in zip(stops, place, shape))
            step = Call(copy_part, (self.output, output.shape), (0,), ChunkType(shape, output.dtype), True)
            ids[place] = builder.add(single(self.name, [_bytes(source)], step), [read], (start,))
        return ids


def copy_part(out: Array, inputs: Sequence[Array], params: tuple[int, tuple[int, ...]], arg: Any) -> None:
    """Copy the part of the array that begins at `arg`."""
    output, shape = params
    array = np.asarray(unpacked(inputs[0], output))
    if array.shape != shape or array.dtype != out.dtype:
        raise ValueError(
            f"the function returned an array of shape {array.shape} and dtype {array.dtype}, but to_tensor was called "
            f"with {shape} and {out.dtype}; call to_tensor with the returned shape and dtype"
        )
    box = tuple(slice(start, start + length) for start, length in zip(arg, out.shape))
    index: Any = (*box, ...)
    np.copyto(out, array[index])
