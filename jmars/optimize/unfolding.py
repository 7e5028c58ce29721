"""Unfolds a tensor graph with dynamic operands during the run: computes the next stage, a graph known at once.

Most graphs run as submitted. A graph with dynamic operands (tensor_graph.py) runs in stages: a stage computes the
lengths and values that the next dynamic operands depend on, and all results that depend on no dynamic operand.
`Unfolding` needs only lengths and a few values of a run and knows no worker; scheduler/stages.py drives it. It has a
table of nodes with inputs, known lengths and values, and expanded operands; nodes without readers are dropped.
Source: docs/decisions/0014-stages.md; Mars (`yield` inside `tile`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jmars.errors import GraphError
from jmars.tensor.operand import Operand, Origin, Splits, TensorMeta, Unknown, annotated, axis_length, resolved
from jmars.tensor.tensor_graph import Dynamic, Placeholder, Stored, TensorGraph

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Stage:
    """A part of a job, with a graph of known lengths. Nodes have the numbers of the `Unfolding`.

    The keys in `graph` are made of positions in the graph, so stages that compute the same from different nodes are
    equal and share a prepared plan.

    Attributes
    ----------
    number
        1 for the first.
    graph
        The graph to compile and run; its results are the keys of `kept`.
    given
        Nodes by the keys of stored leaves in `graph`; leaves with other keys were stored before the job.
    kept
        Nodes by the keys of results: their chunks outlive the stage.
    wanted
        Nodes whose values must be reported after the stage.
    dropped
        Nodes kept earlier that no later stage reads.
    """

    number: int
    graph: TensorGraph
    given: dict[str, int]
    kept: dict[str, int]
    wanted: list[int]
    dropped: list[int]


class Unfolding:
    """A submitted graph and its progress through its stages.

    Examples
    --------
    An ordinary graph has a single stage:

    >>> from jmars.tensor.ops.constants import ones
    >>> run = Unfolding(TensorGraph.of([(ones(4) + 1).data]))
    >>> stage = run.next()
    >>> [op.label for op in stage.graph.operands], list(stage.kept)
    (['ones', 'add'], ['r0'])
    >>> run.ran({}, {})
    >>> run.next() is None
    True
    """

    def __init__(self, graph: TensorGraph) -> None:
        self.operands: dict[int, Operand] = dict(enumerate(graph.operands))  # of nodes with readers
        self.metas: dict[int, TensorMeta] = dict(enumerate(graph.metas))
        self._inputs: dict[int, tuple[int, ...]] = dict(enumerate(graph.inputs))
        self._results = [(graph.metas[k].key, k) for k in graph.results]
        self._made_so_far = len(graph.operands)
        self._instead: dict[int, int] = {}  # expanded dynamic operand: the node in its place
        self._known: dict[str, tuple[Any, ...]] = {}  # origin of an axis: its chunks
        self._values: dict[int, Array] = {}
        self._stored: set[int] = set()  # computed and kept
        self._groups: dict[str, list[int]] = {}
        self._spliced = 0
        self._note_groups(self.operands)
        self._unsettled = {graph.metas[k].key for k in graph.results if graph.metas[k].has_unknown_lengths}
        self._stage: Stage | None = None
        self._number = 0

    # -- metadata and values
    def meta(self, node: int) -> TensorMeta:
        """Shape, chunks and dtype of a node, with the lengths known so far."""
        meta = self.metas[node]
        if not meta.has_unknown_lengths or not any(_origin(axis) in self._known for axis in meta.chunks):
            return meta
        chunks = resolved(meta.chunks, self._known)
        meta = self.metas[node] = TensorMeta(meta.key, tuple(map(axis_length, chunks)), meta.dtype, chunks)
        return meta

    def learn(self, chunks: Mapping[int, Splits]) -> None:
        """Stores the reported chunks of nodes."""
        for node, splits in chunks.items():
            self._learn(self.meta(node).chunks, splits)

    def results(self) -> list[tuple[str, int]]:
        """Pairs (key, node) of the submitted results, after the last stage."""
        return [(key, self._now(node)) for key, node in self._results]

    def stored_before(self, node: int) -> str | None:
        """The key of a node that was stored before the job, None for other nodes."""
        return self.metas[node].key if isinstance(self.operands[node], Stored) else None

    # -- walking
    def _now(self, node: int) -> int:
        while node in self._instead:
            node = self._instead[node]
        return node

    def _reads(self, node: int) -> list[int]:
        return [] if node in self._stored else [self._now(one) for one in self._inputs[node]]

    def _is_there(self, node: int) -> bool:
        return node in self._stored or isinstance(self.operands[node], Stored)

    def _pending(self, node: int) -> bool:
        return self.operands[node].dynamic and node not in self._stored

    def _walk(self, roots: Iterable[int], reads: Callable[[int], Sequence[int]]) -> list[int]:
        """All nodes that `roots` depend on, inputs before readers. No recursion: chains are long."""
        seen: set[int] = set()
        order: list[int] = []
        stack = [(node, False) for node in reversed(list(roots))]
        while stack:
            node, done = stack.pop()
            if done:
                order.append(node)
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                stack += [(one, False) for one in reversed(reads(node)) if one not in seen]
        return order

    def _lacks(self, node: int) -> tuple[list[int], list[int]]:
        """Inputs of a dynamic operand whose lengths, and inputs whose values, are needed and unknown."""
        op = self.operands[node]
        assert isinstance(op, Dynamic)
        inputs = [self._now(one) for one in self._inputs[node]]
        lengths, values = op.wants([self.meta(one) for one in inputs])
        return (
            [inputs[i] for i in lengths if self.meta(inputs[i]).has_unknown_lengths],
            [inputs[i] for i in values if inputs[i] not in self._values],
        )

    def _expand(self, node: int) -> None:
        """Expands a dynamic operand and the other operands of its group."""
        op = self.operands[node]
        assert isinstance(op, Dynamic)
        inputs = [self._now(one) for one in self._inputs[node]]
        values = {i: self._values[one] for i, one in enumerate(inputs) if one in self._values}
        try:
            with annotated(op.annotation):
                piece = op.expand([self.meta(one) for one in inputs], values)
        except Exception as error:
            if op.line is not None:
                error.add_note(f"in operand {op.label} of line {op.line.lineno} ({op.line.text.strip()})")
            raise
        self._spliced += 1
        own: dict[str, tuple[Any, ...]] = {}  # origin of an unknown axis inside the piece: its chunks outside
        for one, meta in zip(piece.operands, piece.metas, strict=True):
            if isinstance(one, Placeholder):
                for axis, now in zip(meta.chunks, self.meta(inputs[one.number]).chunks, strict=True):
                    own |= {cut[0].origin.key: now for cut in (axis, now) if cut and isinstance(cut[0], Unknown)}
        number: list[int] = []
        added: dict[int, Operand] = {}
        for one, reads, meta in zip(piece.operands, piece.inputs, piece.metas, strict=True):
            if isinstance(one, Placeholder):
                number.append(inputs[one.number])
                continue
            node = self._made_so_far
            self._made_so_far += 1
            number.append(node)
            if isinstance(one, Dynamic):
                one = replace(one, group=f"{one.group.partition('@')[0]}@{self._spliced}")
            added[node] = one
            self._inputs[node] = tuple(number[k] for k in reads)
            self.metas[node] = self._placed(meta, own) if meta.has_unknown_lengths else meta
        self.operands |= added
        self._note_groups(added)
        for member in self._groups[op.group]:
            other = self.operands[member]
            assert isinstance(other, Dynamic)
            result = number[piece.results[other.item]]
            before, after = self.metas[member], self.meta(self._now(result))
            if before.dtype != after.dtype or len(before.shape) != len(after.shape):
                raise GraphError(
                    f"{other.label} was to give {len(before.shape)} axes of {before.dtype} and gives "
                    f"{len(after.shape)} of {after.dtype} with the lengths that it has now"
                )
            self._learn(before.chunks, after.chunks)
            self._instead[member] = result

    def _placed(self, meta: TensorMeta, own: Mapping[str, tuple[Any, ...]]) -> TensorMeta:
        """Meta data of a node of an expansion; every expansion of the same graph has its own unknown lengths."""

        def placed(axis: tuple[Any, ...]) -> tuple[Any, ...]:
            if not axis or not isinstance(axis[0], Unknown):
                return axis
            key = axis[0].origin.key
            if key in own:
                return own[key]
            fresh = Origin.of(f"{key}@{self._spliced}")
            return tuple(Unknown(fresh, n.number, n.most) for n in axis)

        chunks = tuple(map(placed, meta.chunks))
        return TensorMeta(meta.key, tuple(map(axis_length, chunks)), meta.dtype, chunks)

    def _learn(self, before: Splits, after: Splits) -> None:
        """Stores the chunks `after` of axes of `before` with unknown lengths."""
        for axis, lengths in zip(before, after, strict=True):
            first = axis[0] if axis else 0
            if isinstance(first, Unknown) and axis != lengths:
                self._known.setdefault(first.origin.key, tuple(lengths))

    def _note_groups(self, added: Mapping[int, Operand]) -> None:
        for node, op in added.items():
            if isinstance(op, Dynamic):
                self._groups.setdefault(op.group, []).append(node)

    def _forget(self) -> None:
        """Drops nodes without readers, so that a loop takes bounded memory."""
        self._results = self.results()
        kept = self._walk([node for _, node in self._results], self._reads)
        self._inputs = {node: tuple(map(self._now, self._inputs[node])) for node in kept}
        self._instead = {}
        self.metas = {node: self.meta(node) for node in kept}
        self.operands = {node: self.operands[node] for node in kept}
        self._values = {node: value for node, value in self._values.items() if node in self.operands}
        self._known = {key: axis for key, axis in self._known.items() if "@" not in key}  # all reports are stored
        self._groups = {}
        self._note_groups(self.operands)

    # -- stages
    def next(self) -> Stage | None:
        """The next stage; None when all results are computed.

        Raises
        ------
        Exception
            Errors of dynamic operands that cannot be computed, such as a `reshape` to a wrong shape.
        """
        wants = self._expand_what_can_be()
        blocked: set[int] = set()
        for node in wants:
            if self._pending(node) or any(one in blocked for one in self._reads(node)):
                blocked.add(node)
        wanted = [one for node, (_, values) in wants.items() for one in values if one not in blocked]
        asked = [self._now(node) for _, node in self._results]
        asked += [one for lengths, values in wants.values() for one in (*lengths, *values)]
        goals = [node for node in dict.fromkeys(asked) if node not in blocked and not self._is_there(node)]
        if not goals and not wanted:
            assert not blocked, "an operand waits for a node that no operand computes"
            return None
        computed = [node for node in self._walk(goals, self._reads) if not self._is_there(node)]
        kept, used = self._used_later(goals, set(computed))
        self._number += 1
        self._stage = self._made(computed, kept, list(dict.fromkeys(wanted)), sorted(self._stored - used))
        self._stored -= set(self._stage.dropped)
        return self._stage

    def ran(self, chunks: Mapping[int, Splits], values: Mapping[int, Array]) -> None:
        """Reports the end of the stage.

        Parameters
        ----------
        chunks
            Chunk lengths of kept nodes with unknown lengths.
        values
            Values of the wanted nodes.
        """
        assert self._stage is not None
        self.learn(chunks)
        self._stored.update(self._stage.kept.values())
        self._values.update(values)

    @property
    def unfolds(self) -> bool:
        """Whether a dynamic operand is still to be expanded, so that more stages may follow."""
        return any(op.dynamic and node not in self._instead for node, op in self.operands.items())

    def outside(self) -> list[str]:
        """Keys of tensors that were stored before the job and may be read."""
        return [self.metas[node].key for node, op in self.operands.items() if isinstance(op, Stored)]

    def settled(self) -> dict[str, Splits]:
        """Chunks of the results whose lengths were unknown at submission."""
        return {key: self.meta(self._now(node)).chunks for key, node in self._results if key in self._unsettled}

    # -- expanding
    def _expand_what_can_be(self) -> dict[int, tuple[list[int], list[int]]]:
        """Expands dynamic operands while possible; returns the needed nodes in order, with their missing inputs.

        Without dynamic operands no input is missing, and no node is returned.
        """
        if not any(op.dynamic for op in self.operands.values()):
            return {}
        while True:
            lacks: dict[int, tuple[list[int], list[int]]] = {}
            nothing: tuple[list[int], list[int]] = ([], [])

            def reads(node: int) -> Sequence[int]:
                if not self._pending(node):
                    return self._reads(node)
                lengths, values = self._lacks(node)
                return [*lengths, *values]

            expanded = False
            for node in self._walk([self._now(node) for _, node in self._results], reads):
                if node in self._instead:
                    continue
                lacks[node] = self._lacks(node) if self._pending(node) else nothing
                if self._pending(node) and not any(lacks[node]):
                    self._expand(node)
                    expanded = True
            if not expanded:
                self._forget()
                return lacks

    # -- the stage
    def _used_later(self, goals: Sequence[int], computed: set[int]) -> tuple[list[int], set[int]]:
        """Computed nodes that later stages need, and all nodes read after this stage."""
        ends = [self._now(node) for _, node in self._results]
        used = set(ends)
        for node in self._walk(ends, lambda one: [] if one in computed else self._reads(one)):
            if node not in computed:
                used.update(self._reads(node))
        kept = set(goals)
        for node in used & computed:
            if self._inputs[node] or self.operands[node].token() is None:  # constants are computed again, not kept
                kept.add(node)
        return sorted(kept), used

    def _made(self, computed: Sequence[int], kept: Sequence[int], wanted: list[int], dropped: list[int]) -> Stage:
        graph = TensorGraph()
        number: dict[int, int] = {}
        given: dict[str, int] = {}

        def add(node: int, op: Operand, inputs: tuple[int, ...], key: str) -> None:
            number[node] = graph.add(op, inputs, self.meta(node).renamed(key))

        for node in computed:
            for one in self._reads(node):
                if one not in number:
                    before = self.stored_before(one)
                    key = f"g{len(given)}" if before is None else before
                    add(one, Stored(line=self.operands[one].line), (), key)
                    if before is None:
                        given[key] = one
            add(node, self.operands[node], tuple(number[one] for one in self._reads(node)), f"n{len(number)}")
        results: dict[str, int] = {}
        for node in kept:
            key = f"r{len(results)}"
            graph.metas[number[node]] = graph.metas[number[node]].renamed(key)
            graph.results.append(number[node])
            results[key] = node
        return Stage(self._number, graph, given, results, wanted, dropped)


def _origin(axis: tuple[Any, ...]) -> str | None:
    """Key of the origin of an axis of unknown length."""
    return axis[0].origin.key if axis and axis[0].__class__ is Unknown else None


def reported_splits(chunks: Splits, shapes: Sequence[Sequence[int] | None]) -> Splits:
    """Chunks of a tensor after a run has reported the shapes of its chunks.

    Parameters
    ----------
    chunks
        Chunks known before.
    shapes
        Reported shape of each chunk in C order of the grid; None for chunks of known shape, also of stored chunks that
        a result passes on: their length is the upper bound.

    Examples
    --------
    >>> reported_splits((Origin.of("example").axis([5, 5]), (3,)), [(4, 3), (0, 3)])
    ((4, 0), (3,))
    """
    cut: list[tuple[int, ...]] = []
    if len(shapes) == 1 and shapes[0] is not None:  # a spawned function's result; there may be thousands
        return tuple(
            (int(told),) if lengths and isinstance(lengths[0], Unknown) else lengths
            for lengths, told in zip(chunks, shapes[0], strict=True)
        )
    number = np.arange(len(shapes)).reshape([len(axis) for axis in chunks])
    for axis, lengths in enumerate(chunks):
        if not (lengths and isinstance(lengths[0], Unknown)):
            cut.append(lengths)
            continue
        along = np.moveaxis(number, axis, 0).reshape(len(lengths), -1)[:, 0]
        each = zip(lengths, (shapes[k] for k in along.tolist()), strict=True)
        told: list[Any] = [getattr(one, "most", None) if shape is None else int(shape[axis]) for one, shape in each]
        assert None not in told, "a chunk of unknown size was not reported"
        cut.append(tuple(told))
    return tuple(cut)
