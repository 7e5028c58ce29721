"""`TensorGraph`: the tensor graph as flat lists, as a client submits it; `LinkedGraph`: the same before copying.

Flat lists pickle without recursion, so a chain of 100,000 operands is no problem.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.model.collector import without_collections
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import Operand, Splits, TensorData, TensorMeta
from jmars.tensor.outputs import FunctionOutput, choose_candidates

__all__ = ["LinkedGraph", "Stored", "TensorGraph"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Stored(Operand):
    """A leaf of the graph: a tensor whose chunks the cluster holds."""

    name: ClassVar[str] = "stored"

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Add the stored chunks to the chunk graph."""
        sizes = np.ones((), np.int64) * output.dtype.itemsize
        for axis in output.chunks:
            sizes = sizes[..., None] * np.asarray(axis, np.int64)
        return builder.stored(output.key, output.grid, sizes)


@dataclass
class LinkedGraph:
    """A tensor graph that still refers to the user's nodes; found by a walk along their inputs, without copies.

    `operands` are the nodes' operands, or `Stored` where the cluster holds the value. `inputs` and `results` as in
    TensorGraph.
    """

    nodes: list[TensorData] = field(default_factory=list)
    operands: list[Operand] = field(default_factory=list)
    inputs: list[tuple[int, ...]] = field(default_factory=list)
    results: list[int] = field(default_factory=list)

    @classmethod
    @without_collections()
    def of(cls, data: Sequence[TensorData], held: Container[str] = ()) -> LinkedGraph:
        """Collect the graph that computes `data`; nodes with a key in `held` become leaves. Functions with several
        outputs compute the outputs that the graph reads (outputs.py).
        """
        found = cls()
        number: dict[str, int] = {}  # by key: a node and its lineage copy are one value
        arrays: dict[tuple[int, Splits], int] = {}  # a NumPy array that occurs twice becomes one leaf
        stack = list(reversed(data))
        asked = {node.key for node in data}  # keys of results, which are not merged with other leaves
        nodes, operands, inputs = found.nodes, found.operands, found.inputs
        has_outputs = False
        while stack:
            node = stack[-1]
            operand: Operand
            links: tuple[int, ...]
            key = node.key
            if key in number:
                stack.pop()
                continue
            op = node.op
            reads = op.inputs
            if key in held:
                operand, links = Stored(line=op.line), ()
            elif reads:
                waiting = [i for i in reads if i.key not in number]
                if waiting:
                    stack += waiting[::-1]
                    continue
                operand, links = op, tuple([number[i.key] for i in reads])
                has_outputs = has_outputs or type(op) is FunctionOutput
            else:
                operand, links = op, ()
                if isinstance(op, FromArray) and key not in asked:
                    known = arrays.setdefault((id(op.array), node.chunks), len(nodes))
                    if known < len(nodes):
                        number[key] = known
                        stack.pop()
                        continue
            stack.pop()
            if node.has_unknown_lengths:
                node.resolve_lengths()
            number[key] = len(nodes)
            nodes.append(node)
            operands.append(operand)
            inputs.append(links)
        found.results = [number[node.key] for node in data]
        return found._without_unread_outputs() if has_outputs else found

    def _without_unread_outputs(self) -> LinkedGraph:
        """The graph with the chosen candidate of each function; an output stays as a node where it is a result."""
        chosen, asked = choose_candidates(self.operands, self.inputs, self.results), set(self.results)
        stands_for = {k: one for k, one in chosen.items() if k not in asked}
        for k in sorted(stands_for):
            stands_for[k] = stands_for.get(stands_for[k], stands_for[k])
        links = [
            (stands_for.get(chosen[k], chosen[k]),) if k in chosen else tuple([stands_for.get(i, i) for i in read])
            for k, read in enumerate(self.inputs)
        ]
        needed = set(self.results)
        for k in range(len(links) - 1, -1, -1):
            if k in needed:
                needed.update(links[k])
        kept = sorted(needed)
        number = {k: row for row, k in enumerate(kept)}
        return LinkedGraph(
            [self.nodes[k] for k in kept],
            [op.chosen if isinstance(op := self.operands[k], FunctionOutput) else op for k in kept],
            [tuple([number[i] for i in links[k]]) for k in kept],
            [number[k] for k in self.results],
        )

    @property
    def unfolds(self) -> bool:
        """See `TensorGraph.unfolds`."""
        return any(op.dynamic for op in self.operands) or any(self.nodes[k].has_unknown_lengths for k in self.results)


@dataclass
class TensorGraph:
    """Operands in topological order; their inputs are numbers of other operands, not references.

    Examples
    --------
    >>> from jmars.tensor.ops.create.constants import ones
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
        """Make the graph that computes `data`; nodes whose key is in `held` become leaves."""
        return cls.from_linked(LinkedGraph.of(data, held))

    @classmethod
    def from_linked(cls, linked: LinkedGraph, stored: Sequence[str] | None = None) -> TensorGraph:
        """Copy a linked graph; with `stored`, its tensors get these keys and its NumPy arrays become stored leaves."""
        operands = [op if isinstance(op, Stored) else op.unlinked() for op in linked.operands]
        keys = [node.key for node in linked.nodes] if stored is None else stored
        metas = [TensorMeta(key, x.shape, x.dtype, x.chunks) for key, x in zip(keys, linked.nodes, strict=True)]
        if stored is not None:
            operands = [Stored(line=op.line) if isinstance(op, FromArray) else op for op in operands]
        return cls(operands, linked.inputs, metas, linked.results)

    @property
    def unfolds(self) -> bool:
        """Whether parts of the graph are known only during the run: the job has stages (optimize/unfolding.py)."""
        return any(op.dynamic for op in self.operands) or any(self.metas[k].has_unknown_lengths for k in self.results)

    def arrays(self) -> list[tuple[int, np.ndarray[Any, Any], Splits]]:
        """List the NumPy arrays: (number of the operand, array, chunks)."""
        return [
            (i, op.array, meta.chunks)
            for i, (op, meta) in enumerate(zip(self.operands, self.metas))
            if isinstance(op, FromArray)
        ]

    def replace_by_stored(self, index: int, key: str) -> None:
        """Replace operand `index` by a leaf whose chunks are stored under `key`."""
        self.operands[index] = Stored(line=self.operands[index].line)
        self.inputs[index] = ()
        self.metas[index] = self.metas[index].renamed(key)
