"""`TensorGraph`: the tensor graph as flat lists, as a client submits it; `LinkedGraph`: the same before copying.

Flat lists pickle without recursion, so a chain of 100,000 operands is no problem.

A `Dynamic` operand is replaced by a graph during the run. Examples are branches (tensor/ops/control_flow.py) and
functions of arrays of unknown length (deferring.py). When the values and lengths that `wants` names are known,
optimize/unfolding.py calls `expand` and puts the resulting tensor graph, whose leaves are `Placeholder`s for the
operand's inputs, in the operand's place.
Source: Mars (`yield` inside `tile`).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, single
from jmars.model.collector import without_collections
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid, FunctionOutput, choose_candidates
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import Operand, SourceLine, Splits, TensorData, TensorMeta


@dataclass(frozen=True, eq=False, kw_only=True)
class Stored(Operand):
    """A leaf of the graph: a tensor with chunks that the cluster holds."""

    name: ClassVar[str] = "stored"

    def stamp(self) -> Hashable | None:
        """None: another client's value."""
        return None

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
        outputs compute the outputs that the graph reads (chunk.py).
        """
        found = cls()
        number: dict[str, int] = {}  # by key: a node and its lineage copy are the same value
        arrays: dict[tuple[int, Splits], int] = {}  # a NumPy array that occurs twice becomes a single leaf
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
        """The graph with the functions' chosen candidates; an output that is a result stays as a node."""
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
    >>> from jmars.tensor.ops.constants import ones
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
        """Make the graph that computes `data`; nodes with a key in `held` become leaves."""
        return cls.from_linked(LinkedGraph.of(data, held))

    @classmethod
    def from_linked(cls, linked: LinkedGraph, stored: Sequence[str] | None = None) -> TensorGraph:
        """Copy a linked graph; with `stored`, tensors get the given keys and NumPy arrays become stored leaves."""
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

    def add(self, operand: Operand, inputs: tuple[int, ...], meta: TensorMeta) -> int:
        """Add an operand that reads the operands with these numbers; returns its number."""
        self.operands.append(operand)
        self.inputs.append(inputs)
        self.metas.append(meta)
        return len(self.operands) - 1

    def arrays(self) -> list[tuple[int, np.ndarray[Any, Any], Splits]]:
        """List the NumPy arrays: (number of the operand, array, chunks)."""
        return [
            (i, op.value, meta.chunks)
            for i, (op, meta) in enumerate(zip(self.operands, self.metas))
            if isinstance(op, FromArray)
        ]

    def replace_by_stored(self, index: int, key: str) -> None:
        """Replace operand `index` by a leaf with chunks stored under `key`."""
        self.operands[index] = Stored(line=self.operands[index].line)
        self.inputs[index] = ()
        self.metas[index] = self.metas[index].renamed(key)


Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Dynamic(Operand):
    """An operand that is replaced by a tensor graph when the wanted values and lengths are known.

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
        """Return the numbers of the inputs with lengths that must be known, and of the inputs with such values.

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
    """A small array that travels in the graph, since the cluster cannot ask a client for an upload."""

    name: ClassVar[str] = "array"
    array: Array

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Add an operand per chunk, with the chunk's bytes as a parameter."""
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
    """Make a placeholder node per input."""
    return [
        TensorData(Placeholder(number=number), one.shape, one.dtype, one.chunks) for number, one in enumerate(inputs)
    ]


def fragment(results: Sequence[TensorData], line: SourceLine | None = None) -> TensorGraph:
    """Make the graph from placeholders to `results`; NumPy arrays inside become `Literal`s.

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
