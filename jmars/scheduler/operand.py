"""OperandActor: the operands of one job as rows of lists.

One actor holds many operands; an actor or coroutine each would cost 12 to 24 times as much per step. Its rows are the
counters of a `flow` instance, a state byte, and the worker that made the chunk. It decides; GraphActor acts on what it
returns. Source: seed 003, "Operand 状态" and "执行控制".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jmars.flow.counters import Counters
from jmars.model.states import OperandState as S
from jmars.scheduler.assigner import choose_worker
from jmars.scheduler.lifecycle import LEGAL, check

__all__ = ["ATTEMPTS", "OperandActor"]

ATTEMPTS = 3  # workers that an operand may end before it is held to be the cause

_READY, _RUNNING, _FINISHED, _FREED = int(S.READY), int(S.RUNNING), int(S.FINISHED), int(S.FREED)


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
        self.attempts: dict[int, int] = {}  # operand: workers that died while it ran
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
        return taken

    def finished(self, operands: Sequence[int], worker: int) -> tuple[list[int], list[int], list[int]]:
        """Chunks are stored: (operands ready by that, the worker of each, operands whose chunk nobody needs now)."""
        state, owner, chosen, load = self.state, self.owner, self.chosen, self.load
        nbytes, held = self.nbytes, self.held
        for operand in operands:
            if state[operand] != _RUNNING:
                check(state[operand], _FINISHED)
            state[operand] = _FINISHED
            owner[operand] = worker
            held[worker] += nbytes[operand]
            load[chosen.pop(operand)] -= 1
        ready, released = self.counters.finish(operands)
        freed = []
        for operand in released:
            if _FREED in LEGAL[state[operand]]:
                state[operand] = _FREED
                freed.append(operand)
                held[owner[operand]] -= nbytes[operand] if owner[operand] >= 0 else 0
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

    def again(self, operands: Sequence[int], suspect: int | None) -> tuple[list[int], int | None]:
        """Operands whose worker died go back to READY: (the worker of each, the suspect if it has died too often)."""
        if suspect is not None:
            self.attempts[suspect] = self.attempts.get(suspect, 0) + 1
            if self.attempts[suspect] >= ATTEMPTS:
                return [], suspect
        for operand in operands:
            check(self.state[operand], S.READY)
            self.load[self.chosen.pop(operand)] -= 1
        return self._make_ready(operands), None

    def move(self, operands: Iterable[int], after: S) -> list[int]:
        """Put operands into `after` where that is legal; returns those that moved."""
        moved = []
        for operand in operands:
            if after in LEGAL[self.state[operand]]:
                self.state[operand] = after
                moved.append(operand)
                if after in (S.CANCELLED, S.FATAL, S.UNSCHEDULED) and operand in self.chosen:
                    self.load[self.chosen.pop(operand)] -= 1
        return moved

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
