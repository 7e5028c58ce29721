"""`TensorGraph`: tensors and operands as flat lists, what a client submits.

Made by client/session.py from tensors, read by optimize. No recursion: a chain of 100,000 operands pickles.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import Operand, Splits, TensorData, TensorMeta

__all__ = ["Stored", "TensorGraph"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Stored(Operand):
    """A leaf whose chunks the cluster holds."""

    name: ClassVar[str] = "stored"

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Name the chunks that are there."""
        sizes = np.ones((), np.int64) * output.dtype.itemsize
        for axis in output.chunks:
            sizes = sizes[..., None] * np.asarray(axis, np.int64)
        return builder.stored(output.key, output.grid, sizes)


@dataclass
class TensorGraph:
    """Operands in topological order, without links: inputs are numbers.

    Examples
    --------
    >>> from jmars.tensor.ops.creation import ones
    >>> graph = TensorGraph.of([(ones(4) + 1).data])
    >>> [op.label for op in graph.operands], graph.inputs, graph.results
    (['ones', 'add'], [(), (0,)], [1])
    """

    operands: list[Operand] = field(default_factory=list)
    inputs: list[tuple[int, ...]] = field(default_factory=list)
    metas: list[TensorMeta] = field(default_factory=list)
    results: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, data: Sequence[TensorData], held: Container[str] = ()) -> TensorGraph:
        """The graph that leads to `data`; nodes whose key is in `held` become leaves."""
        graph = cls()
        number: dict[int, int] = {}  # id of a node: its number
        arrays: dict[tuple[int, Splits], int] = {}  # an outside array that comes twice is one leaf
        stack = list(reversed(data))
        asked = {id(node) for node in data}  # a result keeps a key of its own
        while stack:
            node = stack[-1]
            if id(node) in number:
                stack.pop()
                continue
            leaf = node.key in held
            waiting = [] if leaf else [i for i in node.op.inputs if id(i) not in number]
            if waiting:
                stack += reversed(waiting)
                continue
            stack.pop()
            if node.unsettled:
                node.settle()
            op: Operand = Stored(line=node.op.line) if leaf else node.op.unlinked()
            if isinstance(op, FromArray) and id(node) not in asked:
                known = arrays.setdefault((id(op.array), node.chunks), len(graph.operands))
                if known < len(graph.operands):
                    number[id(node)] = known
                    continue
            number[id(node)] = len(graph.operands)
            graph.operands.append(op)
            graph.inputs.append(() if leaf else tuple(number[id(i)] for i in node.op.inputs))
            graph.metas.append(node.meta)
        graph.results = [number[id(node)] for node in data]
        return graph

    @property
    def unfolds(self) -> bool:
        """Whether some of it is known only while it runs: see optimize/stages.py."""
        return any(op.dynamic for op in self.operands) or any(self.metas[k].unsettled for k in self.results)

    def arrays(self) -> list[tuple[int, np.ndarray[Any, Any], Splits]]:
        """NumPy arrays from outside: (number, array, chunks)."""
        return [
            (i, op.array, meta.chunks)
            for i, (op, meta) in enumerate(zip(self.operands, self.metas))
            if isinstance(op, FromArray)
        ]

    def check_array(self, index: int) -> None:
        """Raise ArrayChangedError when outside array number `index` is not what it was."""
        op = self.operands[index]
        assert isinstance(op, FromArray)
        op.check()

    def replace_by_stored(self, index: int, key: str) -> None:
        """Make number `index` a leaf whose chunks are held under `key`."""
        self.operands[index] = Stored(line=self.operands[index].line)
        self.inputs[index] = ()
        self.metas[index] = replace(self.metas[index], key=key)
