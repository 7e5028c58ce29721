"""OperandActor: the operands of one job as rows of lists.

One actor holds many operands; an actor or coroutine each would cost 12 to 24 times as much per step. Its rows are the
counters of a `flow` instance, a state byte, and the worker that made the chunk. It decides; GraphActor acts on what it
returns. Source: seed 003, "Operand 状态" and "执行控制".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jmars.flow.counters import Counters
from jmars.model.states import OperandState as S
from jmars.scheduler.assigner import choose_worker
from jmars.scheduler.blame import Blame
from jmars.scheduler.lifecycle import LEGAL

__all__ = ["MOST_LOSSES", "OperandActor", "Recovery"]

MOST_LOSSES = 5  # how often the chunk of an operand may be lost

_UNSCHEDULED, _READY, _RUNNING = int(S.UNSCHEDULED), int(S.READY), int(S.RUNNING)
_FINISHED, _FREED, _CANCELLING = int(S.FINISHED), int(S.FREED), int(S.CANCELLING)


class Recovery(NamedTuple):
    """What follows from the loss of chunks."""

    again: list[int]  # operands that run again, those lost first
    ready: list[int]  # of them: that can run at once
    workers: list[int]  # and where
    given: list[int]  # stand for chunks from outside that were released, and are read again
    worst: int  # an operand whose chunk was lost too often, or -1


class OperandActor:
    """All operands of a job.

    Parameters
    ----------
    counters
        A fresh instance of the job's graph.
    nbytes
        Bytes of each operand's chunk; its own, for it corrects those that are known only when the chunk is there.
    assign
        Worker planned for each first operand, -1 for the others.
    workers
        How many workers there are.
    """

    def __init__(self, counters: Counters, nbytes: list[int], assign: Sequence[int], workers: int) -> None:
        graph = counters.graph
        self.counters = counters
        self.nbytes = nbytes
        self.assign = assign
        self.owner = [-1] * graph.n
        self.load = [0] * workers
        self.held = [0] * workers  # bytes of finished chunks, not freed yet, by the worker that made them
        self.state = bytearray(graph.n)
        self.chosen: dict[int, int] = {}  # ready or running operand: worker whose load counts it
        self.sizes: dict[int, tuple[int, ...]] = {}  # shapes of chunks whose size was not known, by operand
        self.running = 0  # operands in RUNNING and CANCELLING
        self.odd: list[int] = []  # of the last report: operands that were not running, so that it changed nothing
        self.blame = Blame()
        self.losses: dict[int, int] = {}  # operand: how often its chunk was lost
        self._withdrawn: set[int] = set()  # operands that a worker has, and whose inputs were lost since
        for given in graph.given.tolist():
            self.state[given] = _FINISHED

    def start(self) -> tuple[list[int], list[int]]:
        """First operands and the worker of each."""
        ready = self.counters.graph.initial
        return ready, self._make_ready(ready)

    def started(self, operands: Iterable[int], worker: int) -> list[int]:
        """A worker took operands; returns those for which that is news."""
        state, taken = self.state, []
        for operand in operands:
            if state[operand] == _READY:
                state[operand] = _RUNNING
                taken.append(operand)
                planned = self.chosen[operand]
                if planned != worker:
                    self.load[planned] -= 1
                    self.load[worker] += 1
                    self.chosen[operand] = worker
        self.running += len(taken)
        return taken

    def finished(self, operands: Sequence[int], worker: int) -> tuple[list[int], list[int], list[int]]:
        """Chunks are stored: (operands ready by that, the worker of each, operands whose chunk nobody needs now).

        Operands that do not run, because the report comes a second time or too late, are passed over and left in `odd`.
        """
        state, owner, chosen, load = self.state, self.owner, self.chosen, self.load
        nbytes, held = self.nbytes, self.held
        for operand in operands:
            if state[operand] != _RUNNING and state[operand] != _CANCELLING:
                self.odd.append(operand)
                continue
            state[operand] = _FINISHED
            owner[operand] = worker
            held[worker] += nbytes[operand]
            load[chosen.pop(operand)] -= 1
        self.running -= len(operands)
        if self.odd:
            self.running += len(self.odd)
            operands = [operand for operand in operands if operand not in self.odd]
        ready, released = self.counters.finish(operands)
        freed = []
        for operand in released:
            if _FREED in LEGAL[state[operand]]:
                state[operand] = _FREED
                freed.append(operand)
                held[owner[operand]] -= nbytes[operand] if owner[operand] >= 0 else 0
        if self._withdrawn:
            self._withdrawn.difference_update(operands)
            there, ready = ready, [operand for operand in ready if operand not in self._withdrawn]
            self._withdrawn.difference_update(there)  # the worker that has them finds their inputs again
        return ready, self._make_ready(ready), freed

    def sized(self, operand: int, shape: tuple[int, ...], size: int) -> None:
        """The chunk of an operand that is about to finish has this shape and so many bytes."""
        self.sizes[operand] = shape
        self.nbytes[operand] = size

    def replanned(self, assign: Sequence[int]) -> None:
        """Operands that do not run yet have these workers from now on, -1 for those that are over."""
        state, load = self.state, self.load
        self.assign = assign
        for operand, before in self.chosen.items():
            planned = assign[operand]
            if state[operand] == _READY and planned >= 0:
                load[before] -= 1
                load[planned] += 1
                self.chosen[operand] = planned

    def died(self, operands: Sequence[int], how: str) -> int | None:
        """The worker that held these is dead; returns the one that is the cause, where that is plain by now."""
        return self.blame.died([operand for operand in operands if self.state[operand] == _RUNNING], how)

    def again(self, operands: Iterable[int]) -> tuple[list[int], list[int], list[int]]:
        """What did not end, because its worker is dead or dropped it, runs again.

        Returns those that wait for inputs, those that are ready, and the worker of each of these.
        """
        return self._take_back([operand for operand in operands if self.state[operand] == _RUNNING])

    def missing(self, operands: Iterable[int]) -> tuple[list[int], list[int], list[int]]:
        """A worker has not all inputs of these; returns what `again` does."""
        return self._take_back([operand for operand in operands if self.state[operand] in (_READY, _RUNNING)])

    def lost(self, operands: Sequence[int]) -> Recovery | None:
        """Chunks of operands are gone: what is still needed of them runs again, with what was freed before it.

        Those that a worker has and that read them stay there, until it says that it misses their inputs, or that they
        have ended. None where nothing was lost that matters.
        """
        state, owner, held = self.state, self.owner, self.held
        again, ready, withdrawn, given = self.counters.lost([one for one in operands if state[one] == _FINISHED])
        if not again:
            return None
        for operand in again:
            if state[operand] == _FINISHED:
                held[owner[operand]] -= self.nbytes[operand]
            state[operand], owner[operand] = _UNSCHEDULED, -1
        for operand in given:
            state[operand] = _FINISHED
        self._withdrawn.update(withdrawn)
        gone = set(operands).intersection(again)
        for operand in gone:
            self.losses[operand] = self.losses.get(operand, 0) + 1
        worst = max(gone, key=self.losses.__getitem__)
        too_often = self.losses[worst] > MOST_LOSSES
        return Recovery(again, ready, [] if too_often else self._make_ready(ready), given, worst if too_often else -1)

    def move(self, operands: Iterable[int], after: S) -> list[int]:
        """Put operands into `after` where that is legal; returns those that moved."""
        moved = []
        for operand in operands:
            before = self.state[operand]
            if after in LEGAL[before]:
                self.state[operand] = after
                moved.append(operand)
                if before in (_RUNNING, _CANCELLING) and after != _CANCELLING:
                    self.running -= 1
                if after in (S.CANCELLED, S.FATAL, S.UNSCHEDULED) and operand in self.chosen:
                    self.load[self.chosen.pop(operand)] -= 1
        return moved

    def fatal(self, operand: int) -> list[int]:
        """An operand cannot be computed: it and all that depends on it and does not run is FATAL; returns these."""
        after = [one for one in self.descendants(operand) if self.state[one] != _RUNNING]
        return self.move([operand, *after], S.FATAL)

    def descendants(self, operand: int) -> list[int]:
        """All that read the operand's chunk, directly or not."""
        seen, stack = set(), [operand]
        while stack:
            for user in self.counters.graph.succs[stack.pop()]:
                if user not in seen:
                    seen.add(user)
                    stack.append(user)
        return sorted(seen)

    def those_in(self, *states: S) -> list[int]:
        """Operands in one of these states, ascending."""
        wanted = set(states)
        return [operand for operand, state in enumerate(self.state) if state in wanted]

    @property
    def is_done(self) -> bool:
        """Whether every operand is finished."""
        return self.counters.is_done

    def _take_back(self, operands: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
        waiting, ready = [], []
        for operand in operands:
            self.load[self.chosen.pop(operand)] -= 1
            self.running -= self.state[operand] == _RUNNING
            if self.counters.waiting[operand]:
                self.state[operand] = _UNSCHEDULED
                waiting.append(operand)
            else:
                ready.append(operand)
        self._withdrawn.difference_update(operands)
        return waiting, ready, self._make_ready(ready)

    def _make_ready(self, operands: Iterable[int]) -> list[int]:
        state, owner, nbytes, load = self.state, self.owner, self.nbytes, self.load
        preds, assign, chosen = self.counters.graph.preds, self.assign, self.chosen
        workers = []
        for operand in operands:
            state[operand] = _READY
            worker = assign[operand]
            if worker < 0:
                inputs = preds[operand]
                worker = choose_worker(inputs, owner, nbytes, load) if inputs else load.index(min(load))
            chosen[operand] = worker
            load[worker] += 1
            workers.append(worker)
        return workers
