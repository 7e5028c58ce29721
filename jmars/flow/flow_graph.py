"""`FlowGraph`: the frozen part of a graph that all of its runs share.

A `FlowGraph` is built once; `counters.Counters` are its running instances and `pool.Pool` lends instances to runs. The
scheduler's operand rows are an instance. An operand is the document's compute node with its single output data node; an
edge is an unconditional dependency.
Source: docs/explanation/seeds.md, "GraphBuilder and Graph".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError
from jmars.graph.dag import Dag, gather_rows

__all__ = ["FlowGraph"]

Rows = list[tuple[int, ...]]


class FlowGraph:
    """A graph ready to run: neighbours as plain tuples, and the initial counters of a run.

    Parameters
    ----------
    dag
        The operands; an edge leads from an operand to a reader of its chunk.
    given
        Operands whose chunk is stored before the run. A given chunk that outlives the run is in `kept` as well.
    kept
        Operands whose chunk outlives its readers (results): it counts an additional reader, until `Counters.drop`.

    Raises
    ------
    GraphError
        If `given` or `kept` names no operand, or an operand is given that reads others.

    Examples
    --------
    >>> graph = FlowGraph(Dag.from_edges(3, [0, 1], [2, 2]), kept=[2])
    >>> graph.initial, graph.preds[2], graph.waiting, graph.consumers
    ([0, 1], (0, 1), [0, 0, 2], [1, 1, 1])
    """

    def __init__(self, dag: Dag, given: ArrayLike = (), kept: ArrayLike = ()) -> None:
        self.dag = dag
        self.given = _operands(given, dag.n, "given")
        self.kept = _operands(kept, dag.n, "kept")
        if np.any(dag.in_degree[self.given]):
            raise GraphError("an operand whose chunk is given must read no other; prune what leads to it first")
        self.n = dag.n
        self.to_run = dag.n - len(self.given)  # operands of one run

    @cached_property
    def preds(self) -> Rows:
        """Operands that each operand reads, in input order."""
        return _rows(self.dag.pred_ptr, self.dag.pred_idx)

    @cached_property
    def succs(self) -> Rows:
        """Operands that read each operand, ascending."""
        return _rows(self.dag.succ_ptr, self.dag.succ_idx)

    @cached_property
    def waiting(self) -> Sequence[int]:
        """Inputs that each operand misses when a run starts."""
        missing = self.dag.in_degree
        fed = gather_rows(self.dag.succ_ptr, self.dag.succ_idx, self.given)
        counts: list[int] = (missing - np.bincount(fed, minlength=self.n)).tolist()
        return counts

    @cached_property
    def consumers(self) -> Sequence[int]:
        """Readers of each chunk when a run starts; plus 1 for kept chunks."""
        readers = self.dag.out_degree
        readers[self.kept] += 1
        counts: list[int] = readers.tolist()
        return counts

    @cached_property
    def finished(self) -> bytes:
        """1 for given operands, else 0."""
        return _flags(self.given, self.n)

    @cached_property
    def held(self) -> bytes:
        """1 for kept operands, else 0."""
        return _flags(self.kept, self.n)

    @cached_property
    def initial(self) -> list[int]:
        """Operands that can run at once, ascending."""
        able = np.asarray(self.waiting, np.int64) == 0
        able[self.given] = False
        return np.flatnonzero(able).tolist()


def _rows(ptr: NDArray[np.int64], idx: NDArray[np.int64]) -> Rows:
    """Rows as tuples: a slice of a tuple is a tuple, and tuples of ints leave the garbage collector's lists."""
    values = tuple(idx.tolist())
    return [values[start:stop] for start, stop in pairwise(ptr.tolist())]


def _flags(ids: NDArray[np.int64], n: int) -> bytes:
    """A byte for each operand, 1 for the operands `ids`."""
    flags = np.zeros(n, np.uint8)
    flags[ids] = 1
    return flags.tobytes()


def _operands(ids: ArrayLike, n: int, what: str) -> NDArray[np.int64]:
    """Distinct operands, ascending."""
    operands = np.unique(np.asarray(ids, np.int64))
    if len(operands) and (operands[0] < 0 or operands[-1] >= n):
        raise GraphError(f"{what} names operands {operands[0]} to {operands[-1]} and the graph has 0 to {n - 1}")
    return operands
