"""The running half of an execution: which inputs are missing, which readers are left.

A `Counters` is one instance of a `FlowGraph`. It is owned by one thread (a scheduler shard); everybody else sends that
thread messages. Its counters are plain ints in plain lists: the fastest thing Python has, about 0.5 µs an operand.
They only go down as operands finish, so reports may come in any order, in any batches, and twice.

An unconditional dependency of seed 002 counts +1 when activated and -1 when ready and fires at 0. Here all of a run is
activated before its first operand finishes, so the sum over an operand's dependencies is one count, `waiting`, that
fires as it falls to 0. Conditional dependencies (+2; -1 or -2) will fire by the same crossing from above 0.
Source: seed 002, "Dependency Counting"; PLANNING 6.1 and 6.3.
"""

from __future__ import annotations

from collections.abc import Iterable

from jmars.errors import GraphError
from jmars.flow.flow_graph import FlowGraph

__all__ = ["Counters"]


class Counters:
    """One run of a graph: what each operand waits for and who still needs its chunk.

    Attributes
    ----------
    waiting
        Inputs that each operand misses; an unfinished operand at 0 is able to run.
    consumers
        Unfinished readers of each operand's chunk, one more if it is kept; at 0 nobody needs it.
    finished
        1 for each operand that is finished.
    held
        1 for each operand that is kept and not dropped yet.
    done
        Operands finished by now, those that were given not counted.

    Read them freely; change them through the methods.

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
        self.lent = True  # False while it lies in a pool

    @property
    def is_done(self) -> bool:
        """Whether every operand is finished."""
        return self.done == self.graph.to_run

    def finish(self, ids: Iterable[int]) -> tuple[list[int], list[int]]:
        """Operands have finished.

        An operand that is finished already is passed over, so a report that comes twice changes nothing.

        Parameters
        ----------
        ids
            The operands, in any order.

        Returns
        -------
        ready
            Operands that can run from now on, each told once.
        released
            Operands whose chunk nobody needs from now on, each told once; one without readers that is not kept
            is released as it finishes.
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
                if not missing and not finished[user]:  # finished before: it ran on an input that was then lost
                    ready.append(user)
            for source in preds[operand]:
                left = consumers[source] - 1
                consumers[source] = left
                if not left and finished[source]:  # not finished: it was being redone for this reader alone
                    released.append(source)
            if not consumers[operand]:
                released.append(operand)
        self.done = done
        return ready, released

    def lost(self, ids: Iterable[int]) -> tuple[list[int], list[int], list[int], list[int]]:
        """Chunks of finished operands are gone; what somebody still needs must be computed again.

        What a lost operand reads may have been released long ago; then that goes back too, and so on towards the
        sources. A chunk that nobody needs any more is not computed again. What runs now goes on: the caller decides
        about running operands among those withdrawn.

        Parameters
        ----------
        ids
            The operands, in any order; those not finished are passed over.

        Returns
        -------
        again
            Operands to run again, `ids` first; they are unfinished now.
        ready
            Those of `again` that can run at once.
        withdrawn
            Operands that were able to run and now miss an input.
        given
            Operands that were given and released, and are read again: whoever gave them must give them once more.

        Raises
        ------
        GraphError
            If a chunk that was given is lost: no operand of this graph can compute it; nothing has changed then.
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
        """Kept chunks need not outlive their readers any more; returns those that nobody needs from now on.

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
        """Chunks must outlive their readers from now on: what `drop` takes back.

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
        """Back to the start of a run, without building anything. No report of the last run may still be under way."""
        graph = self.graph
        self.waiting[:] = graph.waiting
        self.consumers[:] = graph.consumers
        self.finished[:] = graph.finished
        self.held[:] = graph.held
        self.done = 0


def _not_lent() -> GraphError:
    """Somebody kept an instance that went back to its pool."""
    return GraphError("this instance went back to its pool and may be another run's by now; acquire one for each run")
