"""A dataflow engine; this file holds its dependency counting, `Counters`, on which the scheduler runs.

The engine itself, with `GraphBuilder`, processors and channels, stands in jmars/annex/flow and loads on first use.

`Counters` is the state of a run of a `FlowGraph`: missing inputs and remaining readers of each operand.

A single thread (a scheduler shard) owns a `Counters`; other threads send messages to the owner. The counters are plain
ints in lists, about 0.5 µs an operand. Counters only fall as operands finish, so reports may arrive in any order, in
any batches, and twice.

An unconditional dependency counts +1 when activated and -1 when ready and fires at 0. Here all operands of a run are
activated before the first operand finishes, so the sum over an operand's dependencies is a single count, `waiting`,
that fires as it falls to 0.

A `FlowGraph` is the frozen part of a graph that all of its runs share, built once; each run has a `Counters`, a copy of
four lists, as the scheduler's operand rows have. An operand is the document's compute node with its single output data
node; an edge is an unconditional dependency.
Source: docs/explanation/seeds.md, "Dependency counting", "GraphBuilder and Graph", "Execution lifecycle".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError
from jmars.graph import Dag, gather_rows

if TYPE_CHECKING:
    from jmars.annex.flow import (
        AsyncioExecutor,
        Channel,
        Closure,
        DependencyBuilder,
        Executor,
        Graph,
        GraphBuilder,
        GraphData,
        GraphDependency,
        GraphPool,
        GraphProcessor,
        GraphVertex,
        InlineExecutor,
        ThreadPoolExecutor,
        VertexBuilder,
    )

__all__ = [
    "AsyncioExecutor",
    "Channel",
    "Closure",
    "Counters",
    "DependencyBuilder",
    "Executor",
    "FlowGraph",
    "Graph",
    "GraphBuilder",
    "GraphData",
    "GraphDependency",
    "GraphPool",
    "GraphProcessor",
    "GraphVertex",
    "InlineExecutor",
    "ThreadPoolExecutor",
    "VertexBuilder",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("jmars.annex.flow"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class Counters:
    """A run of a graph: missing inputs and remaining readers of each operand.

    Attributes
    ----------
    waiting
        Missing inputs of each operand; an unfinished operand at 0 can run.
    consumers
        Unfinished readers of each operand's chunk, plus 1 for a kept chunk; a chunk at 0 is not needed.
    finished
        1 for finished operands.
    held
        1 for operands that are kept and not dropped yet.
    done
        Number of finished operands, given operands not counted.

    The attributes may be read freely; only the methods change them.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> run = Counters(FlowGraph(Dag.from_edges(3, [0, 1], [2, 2]), kept=[2]))
    >>> run.finish([0]), run.finish([1]), run.finish([2]), run.is_done
    (([], []), ([2], []), ([], [0, 1]), True)
    """

    __slots__ = ("consumers", "done", "finished", "graph", "held", "waiting")

    def __init__(self, graph: FlowGraph) -> None:
        self.graph = graph
        self.waiting = list(graph.waiting)
        self.consumers = list(graph.consumers)
        self.finished = bytearray(graph.finished)
        self.held = bytearray(graph.held)
        self.done = 0

    @property
    def is_done(self) -> bool:
        """Whether every operand is finished."""
        return self.done == self.graph.to_run

    def finish(self, ids: Iterable[int]) -> tuple[list[int], list[int]]:
        """Marks operands as finished.

        Finished operands are skipped, so a repeated report changes nothing.

        Parameters
        ----------
        ids
            The operands, in any order.

        Returns
        -------
        ready
            Operands that can run from now on, each returned once.
        released
            Operands whose chunk is not needed from now on, each returned once; an operand without readers that is not
            kept is released as it finishes.
        """
        waiting, consumers, finished = self.waiting, self.consumers, self.finished
        preds, succs = self.graph.preds, self.graph.succs
        ready: list[int] = []
        released: list[int] = []
        done = self.done
        for operand in ids:
            if finished[operand]:
                continue
            finished[operand] = 1
            done += 1
            for user in succs[operand]:
                missing = waiting[user] - 1
                waiting[user] = missing
                if not missing and not finished[user]:  # finished before: ran on an input that was lost afterwards
                    ready.append(user)
            for source in preds[operand]:
                left = consumers[source] - 1
                consumers[source] = left
                if not left and finished[source]:  # not finished: recomputed for this reader alone
                    released.append(source)
            if not consumers[operand]:
                released.append(operand)
        self.done = done
        return ready, released

    def lost(self, ids: Iterable[int]) -> tuple[list[int], list[int], list[int], list[int]]:
        """Marks the chunks of finished operands as lost; chunks that are still needed must be computed again.

        Inputs of a lost operand that were released are computed again too, and so on towards the sources. Chunks that
        are not needed are not computed again. Running operands go on: the caller decides about running operands among
        the withdrawn operands.

        Parameters
        ----------
        ids
            The operands, in any order; unfinished operands are skipped.

        Returns
        -------
        again
            Operands to run again, `ids` first; they are unfinished now.
        ready
            Operands of `again` that can run at once.
        withdrawn
            Operands that could run and now miss an input.
        given
            Given operands that were released and are read again: the caller must give their chunks again.

        Raises
        ------
        GraphError
            If a given chunk is lost, which no operand of this graph can compute; no counter has changed then.
        """
        waiting, consumers, finished = self.waiting, self.consumers, self.finished
        preds, succs = self.graph.preds, self.graph.succs
        outside = self.graph.finished
        again = [operand for operand in dict.fromkeys(ids) if finished[operand] and consumers[operand]]
        for operand in again:
            if outside[operand]:
                raise GraphError(
                    f"the chunk of operand {operand} came from outside this graph and is lost; "
                    "compute the tensor that it belongs to again"
                )
        redone = set(again)
        given: list[int] = []
        for operand in again:  # grows during the loop
            for source in preds[operand]:
                if not consumers[source] and finished[source] and source not in redone:  # released long ago
                    redone.add(source)
                    (given if outside[source] else again).append(source)
        for operand in again:
            finished[operand] = 0
            for source in preds[operand]:
                consumers[source] += 1
        withdrawn: list[int] = []
        for operand in again:
            for user in succs[operand]:
                if not waiting[user] and not finished[user] and user not in redone:
                    withdrawn.append(user)
                waiting[user] += 1
        self.done -= len(again)
        ready = [operand for operand in again if not waiting[operand]]
        return again, ready, withdrawn, given

    def drop(self, ids: Iterable[int]) -> list[int]:
        """Ends the retention of kept chunks; returns the chunks that are not needed from now on.

        Raises
        ------
        GraphError
            If an operand is not kept, or was dropped before.
        """
        released: list[int] = []
        for operand in ids:
            if not self.held[operand]:
                raise GraphError(f"operand {operand} is not kept; drop only a result, and only once")
            self.held[operand] = 0
            self.consumers[operand] -= 1
            if not self.consumers[operand] and self.finished[operand]:
                released.append(operand)
        return released

    def hold(self, ids: Iterable[int]) -> None:
        """Retains chunks beyond their readers, until `drop`.

        Raises
        ------
        GraphError
            If an operand is kept already.
        """
        for operand in ids:
            if self.held[operand]:
                raise GraphError(f"operand {operand} is kept already; hold it once")
            self.held[operand] = 1
            self.consumers[operand] += 1

    def reset(self) -> None:
        """Resets all counters in place. No report of the last run may still be under way."""
        graph = self.graph
        self.waiting[:] = graph.waiting
        self.consumers[:] = graph.consumers
        self.finished[:] = graph.finished
        self.held[:] = graph.held
        self.done = 0


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
        self.to_run = dag.n - len(self.given)  # operands of a run

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
