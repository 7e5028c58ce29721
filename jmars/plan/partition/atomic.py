"""Splits parts into atomic parts: parts without cyclic waits, so that each part can run as a single process.

A process reads all inputs of its subgraph before it starts, so parts that wait for each other would deadlock. `merge`
grows only atomic parts; parts of `depth_first` or any other partition are split here, as late as possible.
Source: docs/explanation/seeds.md, "Basic design", "Graphs".
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
    """Splits the groups of `label` so that no cycle of groups remains; returns groups numbered 0..k-1.

    Operands are visited depth first. An operand joins the current group of its label, unless an input waits for that
    group; then a new group begins. Groups of the same label are numbered in order of execution.

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
    0 -> 1 -> 2 with 0 and 2 in the same group: the group would wait for 1, and 1 for the group.

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
    current: dict[int, int] = {}  # per label: the group that still grows
    before: list[int] = []  # sets as bits: the groups that a group waits for
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
    """Splits parts so that each part can run as a single process."""
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
