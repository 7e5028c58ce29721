"""OperandActor: the operands of a job as rows of lists.

The actor holds many operands; an actor or coroutine per operand would cost 12 to 24 times as much per step. The rows
are the counters of a `flow` instance, a state byte, and the worker that made the chunk. `lifecycle` decides the moves,
for most batches by tables; StageRun acts on the returned values.
Source: docs/explanation/seeds.md, "Operand states" and "Execution control".

Chooses the worker of an operand whose inputs are stored: the worker that made most bytes of the inputs.

Among equals the worker with the least load wins. First operands follow the plan.
Source: docs/explanation/seeds.md, "Choosing workers".

Finds the operands that end workers: an operand is to blame only if a worker died while the operand ran alone.

When a worker dies, any operand of the batch may be the cause, or none (the system killed the worker). All of them run
again, each alone on a worker; if workers die under an operand again and again, that operand is the cause. Dask counts
three deaths whatever ran beside an operand, and so blames bystanders too.

Counts losses of operands' chunks; a chunk lost again and again means a broken disk.

A disk that cannot be read for a moment may lose the same chunk many times meanwhile, since computing the chunk again is
fast; losses in quick succession count once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jmars.flow import Counters
from jmars.model.status import OperandState as S
from jmars.scheduler.lifecycle import Happened, step, taken_in

_TAKES, _ENDS, _FREES = taken_in(Happened.TAKEN), taken_in(Happened.STORED), taken_in(Happened.UNNEEDED)
_UNSCHEDULED, _READY, _RUNNING = int(S.UNSCHEDULED), int(S.READY), int(S.RUNNING)
_FINISHED, _FREED = int(S.FINISHED), int(S.FREED)
_THERE_BEFORE = (S.FINISHED, S.RUNNING)  # states of an input that is there before a reader begins
_AT_WORK = (S.RUNNING, S.CANCELLING)


class Moved(NamedTuple):
    """State changes of operands that were reported or stopped."""

    states: dict[S, list[int]]  # operands by new state, without those in `ready`
    ready: list[int]  # operands to submit
    workers: list[int]  # worker of each operand in `ready`


class Recovery(NamedTuple):
    """Consequences of a loss of chunks."""

    again: list[int]  # operands that run again, those lost first
    ready: list[int]  # those of `again` that can run at once
    workers: list[int]  # worker of each operand in `ready`
    given: list[int]  # operands for chunks from outside that were released and are read again
    worst: int  # an operand whose chunk was lost too often, or -1


class Rows:
    """Questions about a job's operands, answered by an actor or by several shards."""

    counters: Counters
    state: bytearray

    def close(self) -> None:
        """The rows are not needed any more."""

    def descendants(self, operands: Iterable[int]) -> list[int]:
        """Operands that read the chunks of `operands`, directly or not, ascending."""
        seen: set[int] = set()
        stack = list(operands)
        while stack:
            for user in self.counters.graph.succs[stack.pop()]:
                if user not in seen:
                    seen.add(user)
                    stack.append(user)
        return sorted(seen)

    def those_in(self, *states: S) -> list[int]:
        """Operands in one of several states, ascending."""
        wanted = set(states)
        return [operand for operand, state in enumerate(self.state) if state in wanted]


class OperandActor(Rows):
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
        self.chosen: dict[int, int] = {}  # worker whose load counts a ready or running operand, by operand
        self.sizes: dict[int, tuple[int, ...]] = {}  # shapes of chunks of unknown size, by operand
        self.running = 0  # operands in RUNNING and CANCELLING
        self.stale: list[int] = []  # operands of the last report that were not running, so that it changed nothing
        self.blame = Blame()
        self.losses = Losses()
        self.tries: dict[int, int] = {}  # number of exceptions by operand
        self._withdrawn: set[int] = set()  # operands on a worker whose inputs were lost since, or are made there first
        self._stopped = False
        for given in graph.given.tolist():
            self.state[given] = _FINISHED

    def start(self) -> tuple[list[int], list[int]]:
        """First operands and the worker of each."""
        ready = self.counters.graph.initial
        return ready, self._make_ready(ready)

    # -- the way that all go
    def started(self, operands: Iterable[int], worker: int) -> list[int]:
        """A worker took operands; returns the operands whose state changed.

        A reader may go along with operands that run earlier in the batch: until their end the reader is withdrawn.
        """
        state, preds, taken = self.state, self.counters.graph.preds, []
        for operand in operands:
            if state[operand] == _UNSCHEDULED and all(state[i] in _THERE_BEFORE for i in preds[operand]):
                state[operand] = _RUNNING
                taken.append(operand)
                self.load[worker] += 1
                self.chosen[operand] = worker
                self._withdrawn.add(operand)
            elif _TAKES[state[operand]]:
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
        """Chunks are stored: (operands that became ready, their workers, operands with a chunk that no operand
        needs now).

        Operands that do not run, because the report comes twice or too late, are passed over and left in `stale`.
        """
        state, owner, chosen, load = self.state, self.owner, self.chosen, self.load
        nbytes, held, ends = self.nbytes, self.held, _ENDS
        for operand in operands:
            if not ends[state[operand]]:
                self.stale.append(operand)
                continue
            state[operand] = _FINISHED
            owner[operand] = worker
            held[worker] += nbytes[operand]
            load[chosen.pop(operand)] -= 1
        self.running -= len(operands)
        if self.stale:
            self.running += len(self.stale)
            operands = [operand for operand in operands if operand not in self.stale]
        ready, released = self.counters.finish(operands)
        freed = []
        for operand in released:
            if _FREES[state[operand]]:
                state[operand] = _FREED
                freed.append(operand)
                held[owner[operand]] -= nbytes[operand] if owner[operand] >= 0 else 0
        if self._withdrawn or self._stopped:
            ready = self._to_submit(ready, operands)
        return ready, self._make_ready(ready), freed

    def sized(self, operand: int, shape: tuple[int, ...], size: int) -> None:
        """The chunk of an operand that is about to finish has this shape and so many bytes."""
        self.sizes[operand] = shape
        self.nbytes[operand] = size

    def replanned(self, assign: Sequence[int]) -> None:
        """Give operands that do not run yet new workers; -1 for ended operands."""
        state, load = self.state, self.load
        self.assign = assign
        for operand, before in self.chosen.items():
            planned = assign[operand]
            if state[operand] == _READY and planned >= 0:
                load[before] -= 1
                load[planned] += 1
                self.chosen[operand] = planned

    def grow(self, workers: int) -> None:
        """There are so many workers now."""
        more = [0] * (workers - len(self.held))
        self.load += more
        self.held += more

    def kept(self, operands: Iterable[int], worker: int) -> None:
        """Chunks of operands moved to the host of `worker`, as if `worker` had made the chunks."""
        for operand in operands:
            before = self.owner[operand]
            if self.state[operand] == _FINISHED and before >= 0:
                self.held[before] -= self.nbytes[operand]
                self.held[worker] += self.nbytes[operand]
                self.owner[operand] = worker

    # -- when something goes wrong
    def died(self, operands: Sequence[int], how: str, deaths: int = 1) -> list[int]:
        """The worker that held operands is dead; returns the operands that are known to be the cause."""
        return self.blame.died([operand for operand in operands if self.state[operand] == _RUNNING], how, deaths)

    def dropped(self, operands: Iterable[int]) -> Moved:
        """A worker stopped or dropped operands, or died: they run again, or are cancelled where that was ordered."""
        return self._meet(operands, Happened.DROPPED)

    def missing(self, operands: Iterable[int]) -> Moved:
        """A worker has not all inputs of operands: they wait for the inputs."""
        return self._meet(operands, Happened.MISSING)

    def raised(self, operand: int, most: int) -> Moved:
        """Retry an operand that raised, `most` times; then make the operand and all descendants FATAL."""
        if self.state[operand] == _RUNNING:
            self.tries[operand] = self.tries.get(operand, 0) + 1
        return self._meet([operand], Happened.RAISED, tries_left=max(0, most + 1 - self.tries.get(operand, 0)))

    def refused(self, operand: int) -> Moved:
        """An operand can never run on that worker."""
        return self._meet([operand], Happened.REFUSED)

    def hopeless(self, operand: int) -> Moved:
        """Give up an operand in any state, because workers die under the operand or its chunk is always lost."""
        return self._meet([operand], Happened.RAISED if self.state[operand] == _RUNNING else Happened.HOPELESS)

    def stop(self) -> Moved:
        """Cancel waiting operands, mark running operands to be stopped; no operand becomes ready after that."""
        self._stopped = True
        return self._meet(range(len(self.state)), Happened.STOP)

    def free(self) -> list[int]:
        """Free all stored chunks; returns their operands."""
        return self._meet(self.those_in(S.FINISHED), Happened.UNNEEDED).states.get(S.FREED, [])

    def lost(self, operands: Sequence[int], now: float) -> Recovery | None:
        """Chunks of operands are gone: needed operands run again, with freed operands before them.

        Readers that a worker has stay there until the worker reports that they miss inputs, or ended. None where no
        needed chunk was lost.
        """
        state, owner = self.state, self.owner
        again, ready, withdrawn, given = self.counters.lost([one for one in operands if state[one] == _FINISHED])
        if not again:
            return None
        for operand in again:
            if state[operand] == _FINISHED:
                self.held[owner[operand]] -= self.nbytes[operand]
            what = Happened.CHUNK_LOST if state[operand] == _FINISHED else Happened.NEEDED_AGAIN
            state[operand], owner[operand] = step(S(state[operand]), what), -1
        self._meet(given, Happened.GIVEN_AGAIN)
        self._withdrawn.update(withdrawn)
        worst = self.losses.worst(set(operands).intersection(again), now)
        return Recovery(again, ready, [] if worst >= 0 else self._make_ready(ready), given, worst)

    # -- what others ask
    @property
    def is_done(self) -> bool:
        """Whether every operand is finished."""
        return self.counters.is_done

    # -- own
    def _meet(self, operands: Iterable[int], what: Happened, tries_left: int = 0, spread: bool = True) -> Moved:
        """Move each operand as `lifecycle` says, and (`spread`) all descendants of operands that became FATAL."""
        state, waiting = self.state, self.counters.waiting
        known: dict[tuple[int, bool], S] = {}
        moved: dict[S, list[int]] = {}
        ready: list[int] = []
        for operand in operands:
            there = not waiting[operand]
            before = state[operand]
            after = known.get((before, there))
            if after is None:
                after = known[before, there] = step(S(before), what, inputs_there=there, tries_left=tries_left)
            if after == before and (after != S.READY or what != Happened.MISSING):
                continue
            if after == S.READY:
                ready.append(operand)
            else:
                moved.setdefault(after, []).append(operand)
            self._leave(operand, after)
        if spread and S.FATAL in moved:
            others = self._meet(self.descendants(moved[S.FATAL]), Happened.HOPELESS, spread=False)
            for one, those in others.states.items():
                moved.setdefault(one, []).extend(those)
        return Moved(moved, ready, self._make_ready(ready))

    def _leave(self, operand: int, after: S) -> None:
        """Move an operand out of its state outside the usual way."""
        if self.state[operand] in _AT_WORK and after not in _AT_WORK:
            self.running -= 1
        if after not in _AT_WORK and operand in self.chosen:
            self.load[self.chosen.pop(operand)] -= 1
        if self._withdrawn:
            self._withdrawn.discard(operand)
        self.state[operand] = after

    def _to_submit(self, ready: list[int], finished: Sequence[int]) -> list[int]:
        """Operands to submit after the last input arrived: none that a worker has, and none once all is
        stopped.
        """
        left = [] if self._stopped else [operand for operand in ready if operand not in self._withdrawn]
        self._withdrawn.difference_update(finished, ready)  # the workers of `ready` find the inputs again
        return left

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


def choose_worker(inputs: Sequence[int], owner: Sequence[int], nbytes: Sequence[int], load: Sequence[int]) -> int:
    """Worker for an operand.

    Parameters
    ----------
    inputs
        Operands that it reads, at least one.
    owner, nbytes
        Worker that made each operand's chunk (-1 for none) and the chunk's bytes, by operand.
    load
        Operands that wait or run, by worker.

    Examples
    --------
    >>> choose_worker([0, 1], owner=[0, 1], nbytes=[10, 90], load=[0, 5])
    1
    >>> choose_worker([0, 1], owner=[0, 1], nbytes=[50, 50], load=[7, 5])
    1
    """
    if len(inputs) == 1:
        only = owner[inputs[0]]
        return only if only >= 0 else load.index(min(load))
    bytes_of: dict[int, int] = {}
    for one in inputs:
        worker = owner[one]
        bytes_of[worker] = bytes_of.get(worker, 0) + nbytes[one]
    bytes_of.pop(-1, None)
    if not bytes_of:
        return load.index(min(load))
    if len(bytes_of) == 1:
        return next(iter(bytes_of))
    most = max(bytes_of.values())
    return min((load[worker], worker) for worker, size in bytes_of.items() if size == most)[1]


TOTAL = 3  # deaths of workers with an operand, from which on the operand may be the cause
ALONE = 2  # deaths among them, at least, with the operand alone on the worker
MOST_STOPPED = 5  # unresponsive workers with an operand alone, from which on the operand is the cause


@dataclass
class Deaths:
    """Workers that died while they held an operand."""

    total: int = 0
    alone: int = 0  # deaths with no other operand on the worker
    by_memory: int = 0  # deaths of the total by lack of memory
    stopped: int = 0  # unresponsive workers, not in the total: seldom caused by an operand


class Blame:
    """Counts of worker deaths by operand of one job.

    Examples
    --------
    >>> blame = Blame()
    >>> blame.died([7, 8], "signal"), blame.died([7], "signal"), blame.died([8], "signal"), blame.died([7], "signal")
    ([], [], [], [7])
    """

    def __init__(self) -> None:
        self.deaths: dict[int, Deaths] = {}  # by operand

    def died(self, operands: Sequence[int], how: str, deaths: int = 1) -> list[int]:
        """Note that workers died with operands; returns the operands that are known to be the cause."""
        alone, causes = len(operands) == 1, list[int]()
        if how == "gpu":  # whatever ran: a GPU that loses its context again and again is given up
            return causes
        for operand in operands:
            known = self.deaths.setdefault(operand, Deaths())
            if how == "stopped":
                known.stopped += alone
            else:
                known.total += deaths
                known.alone += deaths * alone
                known.by_memory += deaths * (how == "memory")
            if known.stopped >= MOST_STOPPED or (known.total >= TOTAL and known.alone >= ALONE):
                causes.append(operand)
        return causes


MOST_LOSSES = 5  # losses of an operand's chunk before the job fails
ONE_TROUBLE = 1.0  # seconds within which losses of a chunk count once


class Losses:
    """Counts by operand.

    Examples
    --------
    >>> losses = Losses()
    >>> [losses.worst([3], now) for now in (0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 4.9, 5.0)]
    [-1, -1, -1, -1, -1, -1, -1, 3]
    >>> losses.of(3)
    6
    """

    def __init__(self) -> None:
        self._counts: dict[int, tuple[int, float]] = {}  # (losses, time of the last counted loss) by operand

    def worst(self, operands: Collection[int], now: float) -> int:
        """Count losses of operands' chunks at a time in seconds; returns an operand with too many losses, or -1."""
        for operand in operands:
            count, last = self._counts.get(operand, (0, now - ONE_TROUBLE))
            if now - last >= ONE_TROUBLE:
                self._counts[operand] = count + 1, now
        found = max(operands, key=self.of)
        return found if self.of(found) > MOST_LOSSES else -1

    def of(self, operand: int) -> int:
        """Number of losses of an operand's chunk."""
        return self._counts.get(operand, (0, 0.0))[0]
