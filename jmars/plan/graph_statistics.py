"""Statistics of operands that Mars 0.1 scheduled by: depth, number of readers, number of descendants.

`bfs_v1` starts at the source with most descendants. A descendant counts once for each path to the descendant, so
`descendant_size` is exact for trees and an overestimate for other graphs. It is a float, since the number of paths
grows exponentially.
Source: docs/explanation/seeds.md, "Initial worker assignment"; Mars v0.1 `scheduler/graph.py`, `scan_node`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from jmars.graph.dag import Dag
from jmars.graph.order import levels

__all__ = ["GraphStatistics", "neighbours", "statistics"]


@dataclass(frozen=True, eq=False)
class GraphStatistics:
    """Depth (operands on the longest path from a source), readers, and descendants with the operand itself, of each
    operand; shape (n,).
    """

    depth: NDArray[np.int64]
    successor_size: NDArray[np.int64]
    descendant_size: NDArray[np.float64]


def statistics(dag: Dag) -> GraphStatistics:
    """Depths, successors and descendants of operands.

    An operand that reads the same chunk twice counts as one reader.

    Raises
    ------
    GraphError
        If the graph has a cycle.

    Examples
    --------
    >>> found = statistics(Dag.from_edges(4, [0, 1, 2], [2, 2, 3]))
    >>> found.depth.tolist(), found.successor_size.tolist(), found.descendant_size.tolist()
    ([0, 0, 1, 2], [1, 1, 1, 0], [3.0, 3.0, 2.0, 1.0])
    """
    depth = levels(dag)
    src, dst = dag.edges()
    src, dst = np.divmod(np.unique(src * dag.n + dst), dag.n) if dag.n else (src, dst)
    size = np.ones(dag.n)
    order = np.argsort(-depth[src], kind="stable")  # readers are deeper, so they are complete before they are added
    ends = np.flatnonzero(np.diff(depth[src[order]], append=-1)) + 1
    with np.errstate(over="ignore"):  # more paths than a float can count
        for a, b in pairwise([0, *ends.tolist()]):
            edges = order[a:b]
            np.add.at(size, src[edges], size[dst[edges]])
    return GraphStatistics(depth, np.bincount(src, minlength=dag.n), size)


def neighbours(dag: Dag) -> list[tuple[int, ...]]:
    """Neighbours of all operands: predecessors in input order, then successors ascending."""
    found = []
    preds, succs = tuple(dag.pred_idx.tolist()), tuple(dag.succ_idx.tolist())
    for (a, b), (c, d) in zip(pairwise(dag.pred_ptr.tolist()), pairwise(dag.succ_ptr.tolist()), strict=True):
        found.append(preds[a:b] + succs[c:d])
    return found
