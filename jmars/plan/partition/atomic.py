"""Subgraphs that can run as one process each: parts split where two of them would wait for each other.

Seed 004 runs a subgraph as one process that reads all its inputs first, so its parts must not form a cycle. `merge`
grows only such parts; those of `depth_first`, or of any partition, are split here, as late as possible.
Source: PLANNING 1.1, C10: "the quotient is cyclic → deadlock; need convexity or non-atomic execution".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError
from jmars.plan.order.ranks import rank_depth_first
from jmars.plan.partition.parts import Part, as_labels
from jmars.plan.plan_graph import PlanGraph

__all__ = ["atomic_labels", "atomic_parts"]

_LARGEST = 30_000  # operands; sets of all ancestors may take n² / 8 bytes


def atomic_labels(graph: PlanGraph, label: ArrayLike) -> NDArray[np.int64]:
    """A group of each operand, from 0 on without a gap: `label`'s groups, split so that none waits for itself.

    Operands come depth first. One joins what there is of its group, unless something that it reads waits for that; then
    a new group begins. Two groups of the result that belong to one of `label` are in that order.

    Parameters
    ----------
    graph
        The operands.
    label
        Group of each operand, any whole numbers, shape (n,).

    Raises
    ------
    GraphError
        If the graph is too large for sets of ancestors.

    Examples
    --------
    0 -> 1 -> 2 with 0 and 2 in one group: they would wait for 1, which waits for them.

    >>> from jmars.graph import Dag
    >>> line = PlanGraph.build(Dag.from_edges(3, [0, 1], [1, 2]), cost=1.0, nbytes=8)
    >>> atomic_labels(line, [7, 5, 7]).tolist()
    [0, 1, 2]
    """
    if graph.n > _LARGEST:
        raise GraphError(
            f"{graph.n} operands need {graph.n**2 // 8_000_000} MB to know which groups wait for others; contract first"
        )
    wanted = np.asarray(label).tolist()
    found = [-1] * graph.n
    current: dict[int, int] = {}  # of each wanted group, the one that still grows
    before: list[int] = []  # sets as bits: the groups that each waits for
    for v in np.argsort(rank_depth_first(graph)).tolist():
        inputs = {found[p] for p in graph.dag.preds(v).tolist()}
        here = current.get(wanted[v], -1)
        if here < 0 or any(before[g] >> here & 1 for g in inputs if g != here):
            here = len(before)
            before.append(0)
            current[wanted[v]] = here
        found[v] = here
        more = 0
        for g in inputs - {here}:
            more |= before[g] | 1 << g
        if more & ~before[here]:
            more |= before[here]
            before[here] = more
            for g, waits in enumerate(before):
                if waits >> here & 1:
                    before[g] = waits | more
    return np.array(found, np.int64)


def atomic_parts(graph: PlanGraph, parts: Sequence[Part]) -> list[Part]:
    """The parts, split so that they can run as one process each."""
    label = atomic_labels(graph, as_labels(parts, graph.n))
    worker = {v: part.worker for part in parts for v in part.operands}
    rate = {v: part.seconds / cost for part in parts for v in part.operands if (cost := _cost(graph, part))}
    members: dict[int, list[int]] = {}
    for v in np.argsort(rank_depth_first(graph)).tolist():
        members.setdefault(int(label[v]), []).append(v)
    return [
        Part(
            worker[group[0]],
            tuple(group),
            int(graph.nbytes[group].sum()),
            float(graph.cost[group].sum()) * rate.get(group[0], 0.0),
        )
        for group in members.values()
    ]


def _cost(graph: PlanGraph, part: Part) -> float:
    return float(graph.cost[list(part.operands)].sum())
