"""`Dag`: a directed acyclic graph as flat arrays, without meaning of its vertices.

`Dag` numbers its vertices 0 to n-1 and stores both directions as compressed sparse rows, so passes over 10⁶ vertices
are NumPy calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError

__all__ = ["Dag", "gather_rows", "group_by"]

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
