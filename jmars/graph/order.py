"""Levels, topological order and ancestors of a graph's vertices.

Wide graphs are swept level by level with NumPy; a long and narrow graph (a chain of 10⁵ operands) is finished vertex by
vertex over plain lists, which is faster there. Both take about 0.5 µs a vertex or less.
Source: Kahn 1962.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError
from jmars.graph.dag import Dag, gather_rows

__all__ = ["ancestors", "levels", "topological"]

_NARROW = 96  # vertices; below this a NumPy sweep of one level costs more than a loop over lists
_PATIENCE = 32  # narrow levels swept before giving up on NumPy


def levels(dag: Dag) -> NDArray[np.int64]:
    """Level of every vertex: its longest distance from a source, in edges, shape (n,) (Mars: depth).

    Raises
    ------
    GraphError
        If the graph has a cycle.

    Examples
    --------
    >>> levels(Dag.from_edges(4, [0, 1, 0], [1, 2, 2])).tolist()
    [0, 1, 2, 0]
    """
    level = np.zeros(dag.n, np.int64)
    waiting = dag.in_degree
    front = np.flatnonzero(waiting == 0)
    seen, depth, narrow = 0, 0, 0
    while len(front) and narrow < _PATIENCE:
        level[front] = depth
        seen += len(front)
        narrow += len(front) < _NARROW
        depth += 1
        met, times = _count(gather_rows(dag.succ_ptr, dag.succ_idx, front), dag.n)
        left = waiting[met] - times
        waiting[met] = left
        front = met[left == 0]
    if len(front):
        seen += _finish_levels(dag, level, waiting, front, depth)
    if seen != dag.n:
        raise GraphError(
            f"{dag.n - seen} of {dag.n} vertices wait for each other in a cycle or behind one, so they can never run; "
            "an operand must not depend on its own output"
        )
    return level


def topological(dag: Dag) -> NDArray[np.int64]:
    """Vertices in topological order, by level and then by index, shape (n,)."""
    return np.argsort(levels(dag), kind="stable")


def ancestors(dag: Dag, targets: ArrayLike) -> NDArray[np.bool_]:
    """Whether each vertex is a target or leads to a target, shape (n,)."""
    reached = np.zeros(dag.n, np.bool_)
    front = np.unique(np.asarray(targets, np.int64))
    reached[front] = True
    narrow = 0
    while len(front) and narrow < _PATIENCE:
        narrow += len(front) < _NARROW
        found = gather_rows(dag.pred_ptr, dag.pred_idx, front)
        front, _ = _count(found[~reached[found]], dag.n)
        reached[front] = True
    if len(front):
        _finish_ancestors(dag, reached, front)
    return reached


def _count(vertices: NDArray[np.int64], n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct vertices, ascending, and their counts."""
    if len(vertices) * 8 > n:  # counting all is cheaper than sorting some
        times = np.bincount(vertices, minlength=n)
        met = np.flatnonzero(times)
        return met, times[met]
    met, counts = np.unique(vertices, return_counts=True)
    return met, counts


def _finish_levels(
    dag: Dag, level: NDArray[np.int64], waiting: NDArray[np.int64], front: NDArray[np.int64], depth: int
) -> int:
    """Computes levels from `front` on, over lists; writes `level` and returns the number of vertices reached."""
    ptr, idx, left, result = dag.succ_ptr.tolist(), dag.succ_idx.tolist(), waiting.tolist(), level.tolist()
    now, seen = front.tolist(), 0
    while now:
        later: list[int] = []
        for vertex in now:
            result[vertex] = depth
            for user in idx[ptr[vertex] : ptr[vertex + 1]]:
                missing = left[user] - 1
                left[user] = missing
                if not missing:
                    later.append(user)
        seen += len(now)
        depth += 1
        now = later
    level[:] = result
    return seen


def _finish_ancestors(dag: Dag, reached: NDArray[np.bool_], front: NDArray[np.int64]) -> None:
    """Computes ancestors from `front` on, over lists; writes `reached`."""
    ptr, idx, flags = dag.pred_ptr.tolist(), dag.pred_idx.tolist(), bytearray(reached.tobytes())
    stack = front.tolist()
    while stack:
        vertex = stack.pop()
        for before in idx[ptr[vertex] : ptr[vertex + 1]]:
            if not flags[before]:
                flags[before] = 1
                stack.append(before)
    reached[:] = np.frombuffer(flags, np.bool_)
