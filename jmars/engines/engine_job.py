"""EngineJob: the operands and groups of one job on an engine.

Groups run ahead of the scheduler, which orders and counts operand by operand: the end of an operand is kept back
until the scheduler has ordered it. Operands of a group that broke run as tasks of their own when they are ready, and
inputs without a copy are reported as missing. Source: docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jmars.dispatch.ledger import pack_numbers
from jmars.engines.engine import GroupTask, Kept, Result
from jmars.engines.group_task import make_spec
from jmars.engines.groups import Group, single_group
from jmars.kernels.group_run import GroupReport
from jmars.model.messages import (
    ChunksLost,
    Failed,
    Failure,
    Finished,
    InputsMissing,
    Interrupted,
    JobClosed,
    JobTable,
    Refused,
    Started,
    Timed,
    Warned,
    WorkerLost,
)

if TYPE_CHECKING:
    from jmars.engines.port import EngineWorkers

_NONE = np.empty(0, np.int64)


class EngineJob:
    """A job on an engine.

    Parameters
    ----------
    table
        Its operands.
    groups
        Ordered so that a group reads only chunks of earlier groups.
    port
        The workers of all jobs.
    """

    def __init__(self, table: JobTable, groups: Iterable[Group], port: EngineWorkers) -> None:
        n = len(table.program)
        self.table = table
        self.stopping = self.closing = self.closed = False
        self.running: dict[str, RunningGroup] = {}  # task: group submitted to the engine
        self.done = 0  # operands reported as finished
        self._port, self._results = port, port.results
        self._told = np.zeros(n, np.uint8)
        self._group: list[RunningGroup | None] = [None] * n
        self._micros = np.full(n, -1, np.int64)  # of operands that ended and are not reported yet
        self._ran_on = np.zeros(n, np.int64)  # workers of operands that ended
        self._broke: dict[int, Broke] = {}  # not reported yet
        self._shapes: dict[int, tuple[int, ...]] = {}  # shapes of chunks of unknown size, measured in the run
        self._hint: dict[int, int] = {}  # worker that the scheduler chose
        self._due: dict[int, None] = {}  # operands that may have news to report
        self._ended: dict[str, RunningGroup] = {}  # task: ended group whose results may be lost
        self._ahead: deque[RunningGroup] = deque()
        self._ran: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []  # operands that ended, and microseconds
        self._began, self._peak, self._moved = perf_counter(), self._results.used, 0
        self._others = self._results.used - sum(
            kept.nbytes for kept in map(self._kept, table.stored) if kept is not None
        )
        for plan in groups:
            group = RunningGroup(plan)
            self._ahead.append(group)
            for operand in plan.operands:
                self._group[operand] = group
        for group in self._ahead:
            for source in {self._group[operand] for operand in group.plan.inputs}:
                if source is not None:
                    source.readers.append(group)

    # -- orders
    def submit_ahead(self, room: int) -> int:
        """Submit groups until the engine has `room` more tasks; returns how many it has more."""
        submitted = 0
        while self._ahead and submitted < room:
            group = self._ahead.popleft()
            if not group.broken:
                submitted += self._submit(group)
        return submitted

    @property
    def is_ahead(self) -> bool:
        """Whether all groups are submitted."""
        return not self._ahead

    def enqueue(self, operands: Sequence[int], workers: Sequence[int]) -> None:
        """Operands are ready."""
        self._told[list(operands)] = Told.READY
        self._hint.update(zip(operands, workers, strict=True))
        self._due.update(dict.fromkeys(operands))
        self._port.wake(self)

    def stop(self) -> list[str]:
        """Stop reports of operands without a reported start; returns the tasks to be stopped."""
        self.stopping = True
        self._ahead.clear()
        self._due.update(dict.fromkeys(np.flatnonzero(self._told == Told.STARTED).tolist()))
        self._told[self._told == Told.READY] = Told.UNKNOWN
        self._port.wake(self)
        return list(self.running)

    def close(self) -> None:
        """Report JobClosed once nothing runs."""
        self.closing = True
        self._ahead.clear()
        if not self.stopping:  # all operands are done: running tasks are of no use
            for group in list(self.running.values()):
                self._break(group)
        self._port.wake(self)

    # -- events of the engine
    def started(self, task: str, worker: int) -> None:
        """A task runs."""
        group = self.running.get(task)
        if group is not None and group.worker < 0:
            group.worker, group.since = worker, monotonic()
            self._look_at(group.plan.operands)

    def ended(self, task: str, report: GroupReport, worker: int) -> None:
        """A task returned."""
        group = self.running.pop(task, None)
        if group is None:
            return
        group.ended = True
        group.worker = worker
        plan, n = group.plan, len(report.microseconds)
        self._ended[task] = group
        if report.warned:
            self._port.report(warned_by(self.table.job, plan, report))
        done, micros = np.array(plan.operands[:n], np.int64), np.array(report.microseconds, np.int64)
        self._micros[done], self._ran_on[done] = micros, worker
        self._shapes.update((plan.operands[place], shape) for place, shape in report.shapes.items())
        self._ran.append((done, micros))
        for operand in plan.inputs:
            source = self._kept(operand)
            if source is not None and 0 <= source.worker != worker:
                self._moved += source.nbytes
        missing, dropped = set(plan.operands[n:]), []
        for number, operand in enumerate(plan.outputs):
            if operand in missing:
                dropped.append(Result(task, number))
            else:
                kept = Kept(Result(task, number), self._bytes(operand), worker, report.values.get(number))
                self._results.add(self.table.chunk[operand], kept)
        self._peak = max(self._peak, self._results.used)
        if dropped:
            self._port.engine.release(dropped)
        if missing:
            self._leave(plan.operands[n:], group)
            if report.failure is not None:
                self._broke[plan.operands[n]] = Broke(worker, report.failure)
            for reader in group.readers:
                if not missing.isdisjoint(reader.plan.inputs):
                    self._break(reader)
        self._look_at(plan.operands)

    def failed(self, task: str, failure: Failure) -> None:
        """The engine could not run a task; an operand alone raises the failure, others run alone."""
        group = self.running.get(task)
        if group is None:
            return
        if len(group.plan.operands) == 1:
            self._broke[group.plan.operands[0]] = Broke(max(0, group.worker), failure)
        self._break(group)

    def lost(self, tasks: Sequence[str], why: str, how: str, deaths: int = 1) -> None:
        """Results of tasks are gone, or tasks cannot run: workers died under them, or their inputs are gone too."""
        ended = [self._ended.pop(task) for task in tasks if task in self._ended]
        gone = [chunk for group in ended for chunk in self._lose(group)]
        if gone:
            self._port.report(ChunksLost(gone, why))
        counted = deaths_of([self.running[task] for task in tasks if task in self.running], self.table, deaths)
        for task, count in counted.items():
            group = self.running.get(task)
            if group is not None:
                self._blame(group, why, how, count)

    def has_ended(self, task: str) -> bool:
        """Whether a task of this job has ended, and is not lost."""
        return task in self._ended

    def give_up(self) -> None:
        """Running tasks do not stop: late answers of theirs have no effect."""
        for group in list(self.running.values()):
            self._break(group)

    # -- reports
    def settle(self) -> None:
        """Report until no report is due; a report may bring new orders."""
        while self._due:
            due, self._due = self._due, {}
            self._settle(due)
        if self.closing and not self.closed and not self.running:
            self._close()

    def _settle(self, due: Collection[int]) -> None:
        told, job, report, shapes = self._told, self.table.job, self._port.report, self._shapes
        at = np.fromiter(due, np.int64, len(due))
        states, micros, workers = told[at], self._micros[at], self._ran_on[at]
        is_due = (states == Told.READY) | (states == Told.STARTED)
        has_ended = is_due & (micros >= 0)
        told[at[has_ended]], self._micros[at[has_ended]] = Told.DONE, -1
        started, broken = defaultdict[int, list[int]](list), list[tuple[int, Broke]]()
        given_back, alone = list[int](), list[int]()
        for worker in (ran := list(dict.fromkeys(workers[has_ended].tolist()))):
            started[worker] = at[has_ended & (states == Told.READY) & (workers == worker)].tolist()
        for operand in at[is_due & ~has_ended].tolist():
            state, broke, group = int(told[operand]), self._broke.pop(operand, None), self._group[operand]
            if broke is not None:
                told[operand] = Told.UNKNOWN
                broken.append((operand, broke))
                if state == Told.READY:
                    started[broke.worker].append(operand)
            elif group is None or group.ended:  # an ended group has told all: the operand runs again
                self._group[operand] = None
                told[operand] = Told.UNKNOWN if state == Told.STARTED else state
                (given_back if state == Told.STARTED else alone).append(operand)
            elif state == Told.READY and group.worker >= 0:
                told[operand] = Told.STARTED
                started[group.worker].append(operand)
        for worker, operands in started.items():
            if operands:
                report(Started(job, operands, worker))
        for worker in ran:
            here = has_ended & (workers == worker)
            operands, spent = at[here].tolist(), micros[here].tolist()
            known = {one: shapes[one] for one in operands if one in shapes} if shapes else None
            self.done += len(operands)
            report(Timed(job, operands, worker, (b"", b"", pack_numbers(spent), b"")))  # of the state CALCULATING
            report(Finished(job, operands, worker, known or None, spent))
        for operand, broke in broken:
            failure = broke.failure
            report(Refused(job, operand, failure) if broke.refused else Failed(job, operand, broke.worker, failure))
        if given_back:
            report(Interrupted(job, given_back, -1))
        self._run_alone([operand for operand in alone if told[operand] == Told.READY])

    def _close(self) -> None:
        self.closed = True
        told, chunk = self._told, self.table.chunk
        untold = (one for group in self._ended.values() for one in group.plan.outputs if told[one] != Told.DONE)
        self._results.free([chunk[one] for one in untold])
        makespan, peak = perf_counter() - self._began, max(0, self._peak - self._others)
        measured = {"makespan": makespan, "peak": peak, "spilled": 0, "moved": self._moved}
        self._port.report(JobClosed(self.table.job, measured))

    # -- for the view, and for costs
    def learnt(self) -> dict[int, tuple[int, float]]:
        """By row of a program: operands that ended, and their seconds together."""
        operands, micros = (np.concatenate(some) for some in zip(*self._ran, (_NONE, _NONE)))
        rows = np.asarray(self.table.program, np.int64)[operands]
        count, spent = np.bincount(rows), np.bincount(rows, micros)
        return {row: (int(count[row]), float(spent[row]) * 1e-6) for row in np.flatnonzero(count).tolist()}

    def waiting(self) -> int:
        """Ready operands that no worker runs."""
        return int(np.count_nonzero(self._told == Told.READY))

    def operand_of(self, group: RunningGroup) -> int:
        """The operand that a running group is at, as far as that is known."""
        started = (one for one in group.plan.operands if self._told[one] == Told.STARTED)
        return next(started, group.plan.operands[0])

    # -- own
    def _look_at(self, operands: Iterable[int]) -> None:
        at = np.fromiter(operands, np.int64)
        told = self._told[at]
        self._due.update(dict.fromkeys(at[(told == Told.READY) | (told == Told.STARTED)].tolist()))
        self._port.wake(self)

    def _kept(self, operand: int) -> Kept | None:
        return self._results.kept.get(self.table.chunk[operand])

    def _bytes(self, operand: int) -> int:
        shape = self._shapes.get(operand)
        return self.table.nbytes[operand] if shape is None else self.table.bytes_of(operand, shape)

    def _source(self, operand: int) -> Result | None:
        """Result that is, or will be, an operand's chunk."""
        kept = self._kept(operand)
        if kept is not None:
            return kept.result
        group = self._group[operand]
        if group is None or not group.runs:
            return None
        return Result(group.task, group.plan.outputs.index(operand))

    def _submit(self, group: RunningGroup) -> bool:
        """Submit a group; returns whether the engine has it."""
        sources = [self._source(operand) for operand in group.plan.inputs]
        inputs = [source for source in sources if source is not None]
        if len(inputs) < len(sources):  # lost: a chunk stored before the job, or the output of a broken group
            self._break(group)
            return False
        table, plan = self.table, group.plan
        name, outputs, worker = self._port.name_task(table.number), len(plan.outputs), self._port.key_of(plan.worker)
        group.task, self.running[name] = name, group
        try:
            spec = make_spec(table, plan)
            task = (name, table.number, spec, inputs, outputs, worker, plan.memory, plan.rank, plan.bundles)
            self._port.submit(self, GroupTask(*task))
        except Exception as error:  # a user's object cannot be pickled, or the engine accepts no tasks
            group.task = ""
            del self.running[name]
            if len(plan.operands) == 1:
                self._broke[plan.operands[0]] = Broke(0, Failure.of(error), refused=True)
            self._break(group)
            return False
        return True

    def _run_alone(self, operands: Sequence[int]) -> None:
        """Run ready operands without a group as single tasks; operands without inputs are reported."""
        table = self.table
        missing: dict[int, list[int]] = {}
        for operand in operands:
            if self.stopping or self._group[operand] is not None:
                continue
            lacks = [table.chunk[one] for one in table.inputs[operand] if self._kept(one) is None]
            if lacks:
                missing[operand] = lacks
                self._told[operand] = Told.UNKNOWN
                continue
            group = RunningGroup(single_group(table, operand, self._hint.get(operand, -1)))
            self._group[operand] = group
            self._submit(group)
        if missing:
            chunks = sorted(set(itertools.chain.from_iterable(missing.values())))
            self._port.report(InputsMissing(table.job, list(missing), chunks, "the task that had them is gone"))

    def _leave(self, operands: Iterable[int], group: RunningGroup) -> None:
        """Operands are a group's no more."""
        for operand in operands:
            if self._group[operand] is group:
                self._group[operand] = None

    def _break(self, group: RunningGroup) -> None:
        """A group will not end: its operands run alone; groups that read its chunks break too."""
        stack = [group]
        while stack:
            one = stack.pop()
            if one.ended or one.broken:
                continue
            one.broken = True
            if one.task:
                self.running.pop(one.task, None)
                self._port.engine.release([Result(one.task, number) for number in range(len(one.plan.outputs))])
            self._leave(one.plan.operands, one)
            self._look_at(one.plan.operands)
            stack += one.readers

    def _lose(self, group: RunningGroup) -> list[int]:
        """Results of an ended group are gone; returns chunks of operands that were reported as finished."""
        chunk, gone = self.table.chunk, []
        kept = {one: self._kept(one) for one in group.plan.outputs}
        lost = [one for one, found in kept.items() if found is not None and found.result.task == group.task]
        for operand in lost:
            if self._told[operand] == Told.DONE:
                gone.append(chunk[operand])
            else:
                self._micros[operand] = -1
        self._results.free([chunk[one] for one in lost])
        self._leave(group.plan.operands, group)
        for reader in group.readers:
            if not set(lost).isdisjoint(reader.plan.inputs):
                self._break(reader)
        self._look_at(group.plan.operands)
        return gone

    def _blame(self, group: RunningGroup, why: str, how: str, deaths: int) -> None:
        """Workers died under a task: its ready operands are reported as lost with a worker."""
        told, runs = self._told, all(self._source(one) is not None for one in group.plan.inputs)
        held = [one for one in group.plan.operands if told[one] in (Told.READY, Told.STARTED)]
        fresh = [one for one in held if told[one] == Told.READY]
        worker = max(0, group.worker)
        self._break(group)
        if not held or self.stopping or not runs:  # without its inputs it did not run, and is not to blame
            return
        for operand in held:
            told[operand] = Told.UNKNOWN
        if fresh:
            self._port.report(Started(self.table.job, fresh, worker))
        self._port.report(WorkerLost(self.table.job, held, worker, why, how, deaths))


class Told(IntEnum):
    """Facts about an operand that the scheduler and this job share."""

    UNKNOWN = 0  # not ordered, or given back
    READY = 1  # ordered
    STARTED = 2  # reported as started
    DONE = 3  # reported as finished


class Broke(NamedTuple):
    """An operand that raised, or (`refused`) can never run."""

    worker: int
    failure: Failure
    refused: bool = False


@dataclass(eq=False)
class RunningGroup:
    """A group that is submitted, or about to be.

    Attributes
    ----------
    task
        Name of the engine's task; "" before the submission.
    worker
        Number of the worker; -1 while unknown.
    ended
        Whether the task returned.
    """

    plan: Group
    task: str = ""
    worker: int = -1
    since: float = 0.0
    ended: bool = False
    broken: bool = False
    readers: list[RunningGroup] = field(default_factory=list)

    @property
    def runs(self) -> bool:
        """Whether the engine runs the task."""
        return bool(self.task) and not self.ended and not self.broken


def deaths_of(groups: Sequence[RunningGroup], table: JobTable, deaths: int) -> dict[str, int]:
    """By task of groups that were lost together: the workers that died under the group.

    An engine counts a dead worker for all tasks of the worker, also for tasks that waited there. A group that was lost
    alone has all deaths. Where a single program among the groups runs a user's function, its groups have all deaths,
    so that no further workers die for the search; any other group has one.
    """
    programs = {group.task: {table.program[one] for one in group.plan.operands} for group in groups}
    suspects = {row for rows in programs.values() for row in rows if table.programs[row].runs_user_code}
    found = suspects if len(suspects) == 1 else set()
    return {task: deaths if len(groups) == 1 or rows & found else 1 for task, rows in programs.items()}


def warned_by(job: str, plan: Group, report: GroupReport) -> Warned:
    """The floating point errors of a group's operands."""
    operands = [plan.operands[place] for place, *_ in report.warned]
    return Warned(job, operands, [(step, node, bit) for _, step, node, bit in report.warned])
