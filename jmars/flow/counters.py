"""`Counters`: the state of a run of a `FlowGraph`, missing inputs and remaining readers of each operand.

A single thread (a scheduler shard) owns a `Counters`; other threads send messages to the owner. The counters are plain
ints in lists, about 0.5 µs an operand. Counters only fall as operands finish, so reports may arrive in any order, in
any batches, and twice.

An unconditional dependency counts +1 when activated and -1 when ready and fires at 0. Here all operands of a run are
activated before the first operand finishes, so the sum over an operand's dependencies is a single count, `waiting`,
that fires as it falls to 0.
Source: docs/explanation/seeds.md, "Dependency counting".
"""

from __future__ import annotations

from collections.abc import Iterable

from jmars.errors import GraphError
from jmars.flow.flow_graph import FlowGraph

__all__ = ["Counters"]


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
    >>> from jmars.graph.dag import Dag
    >>> run = Counters(FlowGraph(Dag.from_edges(3, [0, 1], [2, 2]), kept=[2]))
    >>> run.finish([0]), run.finish([1]), run.finish([2]), run.is_done
    (([], []), ([2], []), ([], [0, 1]), True)
    """

    __slots__ = ("consumers", "done", "finished", "graph", "held", "lent", "waiting")

    def __init__(self, graph: FlowGraph) -> None:
        self.graph = graph
        self.waiting = list(graph.waiting)
        self.consumers = list(graph.consumers)
        self.finished = bytearray(graph.finished)
        self.held = bytearray(graph.held)
        self.done = 0
        self.lent = True  # False while in a pool

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
        if not self.lent:
            raise _not_lent()
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
                if not left and finished[source]:  # not finished: it was recomputed for this reader alone
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
        if not self.lent:
            raise _not_lent()
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
        for operand in again:  # grows while it is walked
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
        if not self.lent:
            raise _not_lent()
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
        if not self.lent:
            raise _not_lent()
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


def _not_lent() -> GraphError:
    """The error for use of an instance that went back to its pool."""
    return GraphError("this instance went back to its pool and may be another run's by now; acquire one for each run")
