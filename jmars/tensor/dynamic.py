"""`Dynamic`: operands that are replaced by a graph during the run, when values or lengths they depend on are known.

Examples are branches (tensor/ops/control_flow.py) and functions of arrays of unknown length (deferring.py). When the
values and lengths that `wants` names are known, optimize/unfolding.py calls `expand` and puts the resulting tensor
graph, whose leaves are `Placeholder`s for the operand's inputs, in the operand's place.
Source: Mars (`yield` inside `tile`).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import Operand, TensorData, TensorMeta
from jmars.tensor.source_line import SourceLine
from jmars.tensor.tensor_graph import TensorGraph

__all__ = ["Dynamic", "Literal", "Placeholder", "fragment", "new_group", "placeholders"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Dynamic(Operand):
    """An operand that is replaced by a tensor graph when the values and lengths it wants are known.

    Attributes
    ----------
    group
        Equal for the operands of a function's several results, which are replaced together.
    item
        Number of this operand's result in the group.
    """

    dynamic: ClassVar[bool] = True
    name: ClassVar[str] = "dynamic"
    group: str
    item: int = 0

    def wants(self, inputs: Sequence[TensorMeta]) -> tuple[Sequence[int], Sequence[int]]:
        """Return the numbers of the inputs whose lengths must be known, and of the inputs whose values must be known.

        Other inputs are not computed before the operand is replaced, unless other operands need them.
        """
        raise NotImplementedError

    def expand(self, inputs: Sequence[TensorMeta], values: Mapping[int, Array]) -> TensorGraph:
        """Return the graph that replaces the operands of the group, with a result per item; see `fragment`.

        Parameters
        ----------
        inputs
            Metadata of the inputs, as known now.
        values
            Values of the inputs whose values the operand wants, by input number.
        """
        raise NotImplementedError


@dataclass(frozen=True, eq=False, kw_only=True)
class Placeholder(Operand):
    """Stands for input `number` of a dynamic operand in the graph that replaces the operand."""

    name: ClassVar[str] = "input"
    number: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Literal(Operand):
    """A small array that travels in the graph, since the cluster cannot ask a client to upload it."""

    name: ClassVar[str] = "array"
    array: Array

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Add an operand for each chunk, with the chunk's bytes as a parameter."""
        ids = np.empty(output.grid, np.int64)
        starts = [np.concatenate([[0], np.cumsum(axis)]) for axis in output.chunks]
        for place in np.ndindex(*output.grid):
            box = [slice(int(axis[i]), int(axis[i + 1])) for axis, i in zip(starts, place)]
            index: Any = (*box, ...)  # an array without axes stays an array, of its dtype
            part = np.ascontiguousarray(self.array[index]).reshape([s.stop - s.start for s in box])
            step = Call(write_bytes, (part.tobytes(),), (), ChunkType(part.shape, part.dtype))
            ids[place] = builder.add(single(self.name, (), step))
        return ids


def write_bytes(out: Array, inputs: Sequence[Array], params: tuple[bytes], arg: Any) -> None:
    """Copy the elements to `out`."""
    out[...] = np.frombuffer(params[0], out.dtype).reshape(out.shape)


_groups = itertools.count()


def new_group() -> str:
    """Return a name for a group, unique among all processes."""
    return f"{os.urandom(4).hex()}-{next(_groups)}"


def placeholders(inputs: Sequence[TensorMeta | TensorData]) -> list[TensorData]:
    """Make a placeholder node for each input."""
    return [
        TensorData(Placeholder(number=number), one.shape, one.dtype, one.chunks) for number, one in enumerate(inputs)
    ]


def fragment(results: Sequence[TensorData], line: SourceLine | None = None) -> TensorGraph:
    """Make the graph from placeholders to `results`; NumPy arrays in it become `Literal`s.

    Parameters
    ----------
    results
        Nodes that replace the operand's results.
    line
        Source line of the replaced operand, which the new operands get; None: they keep their own.
    """
    graph = TensorGraph.of(results)
    for number, op in enumerate(graph.operands):
        if isinstance(op, FromArray):
            graph.operands[number] = Literal(array=op.array, line=line or op.line)
        elif line is not None:
            graph.operands[number] = replace(op, inputs=(), line=line)
    return graph
