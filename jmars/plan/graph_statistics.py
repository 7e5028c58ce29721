"""Numbers of a graph that the old Mars scheduler looked at: depth, readers, and how much hangs on an operand.

`bfs_v1` starts at the source on which most hangs. A descendant counts once for each path that leads to it, so on
anything but a tree `descendant_size` is an estimate; and it grows like the number of paths, so it is a float.
Source: seed 001; Mars v0.1 `scheduler/graph.py`, `scan_node`.
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
    """Of each operand, shape (n,): longest way from a source in operands, operands that read it, and itself with all
    that follows.
    """

    depth: NDArray[np.int64]
    successor_size: NDArray[np.int64]
    descendant_size: NDArray[np.float64]


def statistics(dag: Dag) -> GraphStatistics:
    """Depth, successors and descendants of each operand.

    An operand that reads a chunk twice counts once.

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
    """Neighbours of each operand: predecessors in input order, then successors ascending."""
    found = []
    preds, succs = tuple(dag.pred_idx.tolist()), tuple(dag.succ_idx.tolist())
    for (a, b), (c, d) in zip(pairwise(dag.pred_ptr.tolist()), pairwise(dag.succ_ptr.tolist()), strict=True):
        found.append(preds[a:b] + succs[c:d])
    return found
