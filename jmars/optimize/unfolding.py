"""Unfolds a tensor graph with dynamic operands during the run: computes the next stage, a graph known at once.

Most graphs run as submitted. A graph with dynamic operands (tensor/dynamic.py) runs in stages: a stage computes the
lengths and values that the next dynamic operands depend on, and all results that depend on no dynamic operand.
`Unfolding` needs only lengths and a few values of a run and knows no worker; scheduler/stages.py drives it.
Source: docs/decisions/0014-stages.md; Mars (`yield` inside `tile`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmars.optimize.unfolding_nodes import UnfoldingNodes, reported_splits
from jmars.tensor.operand import Operand, Splits
from jmars.tensor.tensor_graph import Stored, TensorGraph

__all__ = ["Stage", "Unfolding", "reported_splits"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Stage:
    """A part of a job whose graph is known at once. Nodes are numbered by the `Unfolding`.

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


class Unfolding(UnfoldingNodes):
    """A submitted graph and its progress through its stages.

    Examples
    --------
    An ordinary graph has a single stage:

    >>> from jmars.tensor.ops.create.constants import ones
    >>> run = Unfolding(TensorGraph.of([(ones(4) + 1).data]))
    >>> stage = run.next()
    >>> [op.label for op in stage.graph.operands], list(stage.kept)
    (['ones', 'add'], ['r0'])
    >>> run.ran({}, {})
    >>> run.next() is None
    True
    """

    def __init__(self, graph: TensorGraph) -> None:
        super().__init__(graph)
        self._unsettled = {graph.metas[k].key for k in graph.results if graph.metas[k].has_unknown_lengths}
        self._stage: Stage | None = None
        self._number = 0

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
            number[node] = len(graph.operands)
            graph.operands.append(op)
            graph.inputs.append(inputs)
            graph.metas.append(self.meta(node).renamed(key))

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
