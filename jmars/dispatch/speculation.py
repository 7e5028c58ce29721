"""Speculative execution: revokes batches of busy workers and starts duplicates of late operands.

`stragglers` decides, this module acts. A copy has a separate slot and scratch. When the first of the two runs
finishes an operand, the process of the second is killed at once, since the slot is free only then, and is replaced in
some milliseconds. The scheduler hears of revoked operands as interrupted, and of copies only the results. Time counts
only while this host looks, so that a machine that slept finds no stragglers.
Source: docs/explanation/seeds.md, "Operand states"; Spark `TaskSetManager.scala` (speculation).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from jmars.dispatch.estimate import Estimate
from jmars.dispatch.open_jobs import OpenJobs
from jmars.dispatch.stragglers import Stragglers, WorkerLoad
from jmars.dispatch.task_queue import TaskQueue
from jmars.dispatch.workers import DISCARDED, Batch, Worker
from jmars.memory import HostMemory
from jmars.model.reports import Interrupted, Report
from jmars.processes.executor_messages import RUN, RunBatch
from jmars.processes.health import LOOK_SECONDS

__all__ = ["SpeculativeExecution"]

MOST_PASSED = 2 * LOOK_SECONDS  # seconds between two looks; the machine slept if more passed


class SpeculativeExecution:
    """Revoked batches and duplicates.

    Parameters
    ----------
    is_short
        Tells whether memory is short.
    report
        Sends a report to the scheduler.

    Attributes
    ----------
    revoked, copied
        Number of batches since the start.
    """

    def __init__(
        self,
        memory: HostMemory,
        jobs: OpenJobs,
        queue: TaskQueue,
        workers: Sequence[Worker],
        estimate: Estimate,
        is_short: Callable[[], bool],
        report: Callable[[Report], None],
    ) -> None:
        self.stragglers = Stragglers()
        self.revoked = self.copied = 0
        self._memory, self._jobs, self._programs, self._queue = memory, jobs, jobs.programs, queue
        self._workers, self._estimate, self._is_short, self._report = workers, estimate, is_short, report
        self._looked = 0.0
        self._ran: dict[int, tuple[float, float]] = {}  # by worker: its `since`, and seconds seen to pass since then

    def look(self) -> bool:
        """Revoke and copy batches as needed; returns whether batches were revoked, so that there are some to send."""
        if not any(worker.batches for worker in self._workers):
            return False
        now = monotonic()
        passed, self._looked = min(now - self._looked, MOST_PASSED), now
        loads = [self._load(worker, self._seconds(worker, now, passed)) for worker in self._workers]
        take, copies = self.stragglers.choose(loads, tight=self._is_short())
        found = [self.revoke(self._workers[index]) for index in take]
        for late, idle in copies:
            self._copy(self._workers[late], self._workers[idle])
        return any(found)

    def _seconds(self, worker: Worker, now: float, passed: float) -> float:
        """Seconds for which a worker was seen to run the same batch; `passed` since the last look."""
        since, seconds = self._ran.get(worker.index, (-1.0, 0.0))
        seconds = seconds + passed if since == worker.since else min(now - worker.since, MOST_PASSED)
        self._ran[worker.index] = worker.since, seconds
        return seconds

    def _load(self, worker: Worker, seconds: float) -> WorkerLoad:
        jobs = self._jobs
        if worker.has_gpu:
            return WorkerLoad()  # its operands run on other terms, and it takes none of other workers
        barred = bool(worker.state) or worker.revoking or not worker.link.pid
        if not worker.batches:
            return WorkerLoad(idle=not (barred or self._queue or self._memory.staged))
        batch = worker.batches[0]
        table = batch.table
        number = -1
        if batch.operands and not self._memory.waits_for_slot(worker.index) and table.number not in jobs.stopping:
            number = self._programs.number_of(table, batch.operands[0])
        return WorkerLoad(
            seconds=seconds,
            program=number,
            usual=self._estimate.known(number) if number >= 0 else 0.0,
            repeatable=batch.duplicate is None and all(_repeatable(batch, operand) for operand in batch.operands),
            waits=len(worker.batches) > 1 and not worker.revoking and worker.batches[-1].duplicate is None,
            stuck=bool(worker.state),
        )

    def revoke(self, worker: Worker) -> bool:
        """Revoke the last batch of a worker; returns False if the executor has begun."""
        if not worker.link.revoke():
            return False
        self.revoked += 1
        worker.revoking = True
        batch = worker.batches.pop()
        table, operands = batch.table, list(batch.operands)
        for operand, slot in zip(operands, batch.outs, strict=True):
            self._memory.give_back(table, operand, slot)
        self._report(Interrupted(table.job, operands, worker.index))
        return True

    def _copy(self, late: Worker, idle: Worker) -> None:
        """Run the batch of a worker on an idle worker too, if there is memory."""
        memory, batch = self._memory, late.batches[0]
        table, copy = batch.table, Batch(batch.table)
        copy.is_copy, wire = True, []
        for operand in batch.operands:
            slot = memory.reserve_copy(table, operand)
            if slot is None:
                break
            row = table.program[operand]
            number = self._programs.numbers(table)[row]
            self._programs.make_known(idle, number, table, row)
            copy.operands.append(operand)
            copy.outs.append(slot)
            args = table.args[operand] if table.args is not None else ()
            inputs = [memory.chunks.memory[table.chunk[i]] for i in table.inputs[operand]]
            wire.append((number, slot, inputs, args))
        if len(wire) < len(batch.operands):
            self.drop(copy)
            return
        self.copied += 1
        copy.duplicate, batch.duplicate = batch, copy
        idle.since = monotonic()
        idle.batches.append(copy)
        idle.link.post()
        idle.link.send(RunBatch(RUN, self._jobs.flags.index(table.number), wire, None))

    def won(self, batch: Batch) -> None:
        """A batch finished an operand before the duplicate, and the duplicate is discarded."""
        duplicate = batch.duplicate
        if duplicate is None:
            return
        loser = next(worker for worker in self._workers if duplicate in worker.batches)
        loser.batches.remove(duplicate)
        loser.quarantined += duplicate.outs
        self._release(duplicate)
        self._stay(batch)
        loser.state = DISCARDED
        loser.link.silence()
        loser.link.kill(DISCARDED)

    def drop(self, batch: Batch) -> None:
        """A duplicate, or a copy that was never sent, ends without a result: the other run goes on."""
        for slot in batch.outs:
            if slot:
                self._memory.free_slot(slot)
        self._release(batch)
        if batch.duplicate is not None:
            self._stay(batch.duplicate)

    def _stay(self, batch: Batch) -> None:
        """A batch is the only run left."""
        batch.duplicate = None
        if batch.is_copy:
            batch.is_copy = False
            for operand in batch.operands:
                self._memory.promote_copy(batch.table.job, operand)

    def _release(self, batch: Batch) -> None:
        """Free the scratch of a batch."""
        for operand in batch.operands:
            self._memory.release_scratch(batch.table.job, operand, batch.is_copy)


def _repeatable(batch: Batch, operand: int) -> bool:
    program = batch.table.programs[batch.table.program[operand]]
    once = batch.table.late or operand in batch.table.pinned
    return not (once or program.has_unsized or program.runs_user_code or program.gathers)
