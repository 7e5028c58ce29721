"""Directed acyclic graphs as flat arrays.

`Dag`: a directed acyclic graph as flat arrays, without meaning of its vertices.

`Dag` numbers its vertices 0 to n-1 and stores both directions as compressed sparse rows, so passes over 10⁶ vertices
are NumPy calls.

Levels, topological order and ancestors of a graph's vertices.

Wide graphs are swept level by level with NumPy; a long and narrow graph (a chain of 10⁵ operands) is finished vertex by
vertex over plain lists, which is faster there. Both take about 0.5 µs a vertex or less.
Source: Kahn 1962.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Dag:
    """Vertices 0..n-1 and their edges, frozen.

    Parameters
    ----------
    n
        Number of vertices.
    pred_ptr, pred_idx
        Predecessors of v are ``pred_idx[pred_ptr[v]:pred_ptr[v + 1]]``, in the order in which v wants its inputs.
    succ_ptr, succ_idx
        Successors of v likewise, ascending.

    The arrays are read-only. Build one with `from_edges` or `from_inputs`, which check it.

    Examples
    --------
    >>> dag = Dag.from_edges(3, [0, 1], [2, 2])
    >>> dag.preds(2).tolist(), dag.succs(0).tolist(), dag.sources().tolist(), dag.sinks().tolist()
    ([0, 1], [2], [0, 1], [2])
    """

    n: int
    pred_ptr: Ints
    pred_idx: Ints
    succ_ptr: Ints
    succ_idx: Ints

    def __post_init__(self) -> None:
        for array in (self.pred_ptr, self.pred_idx, self.succ_ptr, self.succ_idx):
            array.flags.writeable = False

    @classmethod
    def from_edges(cls, n: int, src: ArrayLike, dst: ArrayLike) -> Dag:
        """Makes a graph with an edge ``src[k] -> dst[k]`` for every k; repeated edges count once.

        Raises
        ------
        GraphError
            If an edge names no vertex, or is a loop. `order.levels` finds longer cycles.
        """
        sources, targets = np.asarray(src, np.int64).ravel(), np.asarray(dst, np.int64).ravel()
        if len(sources) != len(targets):
            raise GraphError(f"{len(sources)} edge starts and {len(targets)} edge ends; give one end for each start")
        _check(n, sources)
        _check(n, targets)
        edges = np.unique(targets * n + sources)
        return cls.from_inputs(_pointers(edges // n, n) if n else np.zeros(1, np.int64), edges % n if n else edges)

    @classmethod
    def from_inputs(cls, input_ptr: Ints, input_idx: Ints) -> Dag:
        """Makes a graph in which vertex v has predecessors ``input_idx[input_ptr[v]:input_ptr[v + 1]]``, all different.

        Raises
        ------
        GraphError
            If a predecessor is no vertex, or the vertex itself.
        """
        n = len(input_ptr) - 1
        ptr, idx = np.array(input_ptr, np.int64), np.array(input_idx, np.int64)
        _check(n, idx)
        users = np.repeat(np.arange(n), np.diff(ptr))
        if np.any(itself := users == idx):
            raise GraphError(f"vertex {users[itself][0]} depends on itself, so it can never run; remove that edge")
        succ_ptr, succ_idx = group_by(idx, users, n)
        return cls(n, ptr, idx, succ_ptr, succ_idx)

    @property
    def m(self) -> int:
        """Number of edges."""
        return len(self.pred_idx)

    @property
    def in_degree(self) -> Ints:
        """Number of predecessors of every vertex, shape (n,)."""
        return np.diff(self.pred_ptr)

    @property
    def out_degree(self) -> Ints:
        """Number of successors of every vertex, shape (n,)."""
        return np.diff(self.succ_ptr)

    @property
    def reversed(self) -> Dag:
        """The graph with every edge reversed; shares the arrays."""
        return Dag(self.n, self.succ_ptr, self.succ_idx, self.pred_ptr, self.pred_idx)

    def preds(self, vertex: int) -> Ints:
        """Predecessors of a vertex, in input order."""
        return self.pred_idx[self.pred_ptr[vertex] : self.pred_ptr[vertex + 1]]

    def succs(self, vertex: int) -> Ints:
        """Successors of a vertex, ascending."""
        return self.succ_idx[self.succ_ptr[vertex] : self.succ_ptr[vertex + 1]]

    def sources(self) -> Ints:
        """Vertices without predecessors, ascending: initial operands."""
        return np.flatnonzero(self.in_degree == 0)

    def sinks(self) -> Ints:
        """Vertices without successors, ascending: terminal operands."""
        return np.flatnonzero(self.out_degree == 0)

    def edges(self) -> tuple[Ints, Ints]:
        """All edges as (starts, ends), each of shape (m,), ordered by start."""
        return np.repeat(np.arange(self.n), self.out_degree), self.succ_idx


def gather_rows(ptr: Ints, idx: Ints, rows: Ints) -> Ints:
    """Concatenated neighbours of many vertices: ``concatenate([idx[ptr[r]:ptr[r + 1]] for r in rows])``."""
    starts = ptr[rows]
    counts = ptr[rows + 1] - starts
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return idx[np.repeat(starts - ends + counts, counts) + np.arange(total)]


def group_by(keys: Ints, values: Ints, n: int) -> tuple[Ints, Ints]:
    """Rows (ptr, idx) of the values that share a key in 0..n-1; values keep their order within a row."""
    # a stable sort of 16 bits at a time is a radix sort in NumPy, and linear
    low = np.argsort((keys & 0xFFFF).astype(np.uint16), kind="stable")
    order = low if n <= 1 << 16 else low[np.argsort((keys[low] >> 16).astype(np.uint16), kind="stable")]
    return _pointers(keys, n), values[order]


def _pointers(keys: Ints, n: int) -> Ints:
    """Start of each key's row, shape (n + 1,)."""
    ptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=n), out=ptr[1:])
    return ptr


def _check(n: int, vertices: Ints) -> None:
    """Raises if an entry is not a vertex."""
    if len(vertices) and (vertices.min() < 0 or vertices.max() >= n):
        wrong = vertices[(vertices < 0) | (vertices >= n)][0]
        raise GraphError(f"an edge names vertex {wrong} and the graph has 0 to {n - 1}; add it or drop the edge")


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
