"""Counters of a run: missing inputs and remaining readers of every operand.

A `Counters` is an instance of a `FlowGraph`. A single thread (a scheduler shard) owns it; other threads send that
thread messages. Counters are plain ints in plain lists, the fastest structure in Python: about 0.5 µs an operand. They
only fall as operands finish, so reports may come in any order, in any batches, and twice.

An unconditional dependency counts +1 when activated and -1 when ready and fires at 0. Here a whole run is activated
before its first operand finishes, so the sum over an operand's dependencies is a single count, `waiting`, that fires as
it falls to 0.
Source: docs/explanation/seeds.md, "Dependency counting".
"""

from __future__ import annotations

from collections.abc import Iterable

from jmars.errors import GraphError
from jmars.flow.flow_graph import FlowGraph

__all__ = ["Counters"]


class Counters:
    """Counters of a run: the inputs each operand waits for, and the readers each chunk still has.

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
        """Mark operands as finished.

        Operands that are finished already are skipped, so a report that comes twice changes nothing.

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
        """Withdraw finished operands whose chunks are gone, if a reader still needs them.

        Inputs of a withdrawn operand may have been released long ago; then their operands are withdrawn too, and so on
        towards the sources. A chunk without remaining readers is not computed again. Running operands go on: the caller
        decides about running operands among the withdrawn operands.

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
        """Let kept chunks end with their readers; returns the chunks without remaining readers.

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
        """Keep chunks beyond their readers, until `drop`.

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
        """Go back to the start of a run, building nothing. No report of the last run may still be under way."""
        graph = self.graph
        self.waiting[:] = graph.waiting
        self.consumers[:] = graph.consumers
        self.finished[:] = graph.finished
        self.held[:] = graph.held
        self.done = 0


def _not_lent() -> GraphError:
    """Raise: a caller kept an instance that went back to its pool."""
    return GraphError("this instance went back to its pool and may be another run's by now; acquire one for each run")
