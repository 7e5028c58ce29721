"""`Dynamic`: operands that become other operands once a run has told what they must know.

Which branch is taken, how long an array is: what such an operand is made of can only be said when the values or lengths
that it `wants` are there. Then `expand` gives a piece of tensor graph in its place, whose leaves are `Placeholder`s for
its inputs. optimize/stages.py drives them; tensor/ops/control_flow.py and deferring.py hold them.
Source: Mars (`yield` inside `tile`); CAPABILITIES S0.3.
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
    """An operand that is replaced by tensors when what it wants is known.

    Attributes
    ----------
    group
        Equal for the operands of one function's several results: they are replaced together.
    item
        Which of those results this one is.
    """

    dynamic: ClassVar[bool] = True
    name: ClassVar[str] = "dynamic"
    group: str
    item: int = 0

    def wants(self, inputs: Sequence[TensorMeta]) -> tuple[Sequence[int], Sequence[int]]:
        """Numbers of the inputs whose lengths must be known, and of those whose values must be.

        Inputs that are not named are not computed for this operand's sake before it is replaced.
        """
        raise NotImplementedError

    def expand(self, inputs: Sequence[TensorMeta], values: Mapping[int, Array]) -> TensorGraph:
        """What stands in its place: see `fragment`; one result for each item of the group.

        Parameters
        ----------
        inputs
            What is known of the inputs now.
        values
            Of the inputs whose values it wants.
        """
        raise NotImplementedError


@dataclass(frozen=True, eq=False, kw_only=True)
class Placeholder(Operand):
    """Stands for input `number` of the operand whose place a piece of graph takes."""

    name: ClassVar[str] = "input"
    number: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Literal(Operand):
    """A small array that travels in the graph, where no client can upload it."""

    name: ClassVar[str] = "array"
    array: Array

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """One operand for each chunk, with its bytes as a parameter."""
        ids = np.empty(output.grid, np.int64)
        starts = [np.concatenate([[0], np.cumsum(axis)]) for axis in output.chunks]
        for place in np.ndindex(*output.grid):
            box = tuple(slice(int(axis[i]), int(axis[i + 1])) for axis, i in zip(starts, place))
            part = np.ascontiguousarray(self.array[box]).reshape([s.stop - s.start for s in box])
            step = Call(write_bytes, (part.tobytes(),), (), ChunkType(part.shape, part.dtype))
            ids[place] = builder.add(single(self.name, (), step))
        return ids


def write_bytes(out: Array, inputs: Sequence[Array], params: tuple[bytes], arg: Any) -> None:
    """Copy the elements."""
    out[...] = np.frombuffer(params[0], out.dtype).reshape(out.shape)


_groups = itertools.count()


def new_group() -> str:
    """A name that no other group has, of this process or another."""
    return f"{os.urandom(4).hex()}-{next(_groups)}"


def placeholders(inputs: Sequence[TensorMeta | TensorData]) -> list[TensorData]:
    """Leaves that stand for inputs."""
    return [
        TensorData(Placeholder(number=number), one.shape, one.dtype, one.chunks) for number, one in enumerate(inputs)
    ]


def fragment(results: Sequence[TensorData], line: SourceLine | None = None) -> TensorGraph:
    """The piece of graph that leads from placeholders to `results`.

    Arrays from outside travel in it; `line` is the user's whose operand became all this.
    """
    graph = TensorGraph.of(results)
    for number, op in enumerate(graph.operands):
        if isinstance(op, FromArray):
            graph.operands[number] = Literal(array=op.array, line=line or op.line)
        elif line is not None:
            graph.operands[number] = replace(op, inputs=(), line=line)
    return graph
