"""Has operands run elsewhere: batches are taken back from workers that are busy, copies made of what is late.

`stragglers` decides, here it is done. A copy has a slot and scratch of its own; when one of the two is first with an
operand, the other's process is ended at once, since there is no other way to have its slot back, and another takes its
place in some milliseconds. The scheduler hears of the operands that were taken back as interrupted, and of copies only
who finished. Time counts only while somebody looks, as in `health`: who slept with the machine is not late.
Used by `care` and `reporting`. Source: seed 003, "Operand 状态"; RELIABILITY 1 (Spark's speculation).
"""

from __future__ import annotations

from time import monotonic

from jmars.dispatch.stragglers import Stragglers, WorkerLoad
from jmars.dispatch.worker_state import Batch, Worker
from jmars.model.reports import Interrupted
from jmars.processes.health import LOOK_SECONDS
from jmars.worker.open_jobs import WorkerContext

__all__ = ["DISCARDED", "SpeculativeExecution"]

DISCARDED = "discarded"  # how a process ended whose twin was first
MOST_PASSED = 2 * LOOK_SECONDS  # between two looks, else nobody looked for a while


class SpeculativeExecution:
    """What runs elsewhere than it was sent first."""

    def __init__(self, place: WorkerContext) -> None:
        self.stragglers = Stragglers()
        self.taken = self.copied = 0  # batches so far
        self._place = place
        self._looked = 0.0
        self._ran: dict[int, tuple[float, float]] = {}  # by worker: its `since`, and seconds seen to pass from then on

    def look(self) -> bool:
        """Do what is to be done now; returns whether batches were taken back, so that there is something to send."""
        place = self._place
        if not any(worker.batches for worker in place.workers):
            return False
        now = monotonic()
        passed, self._looked = min(now - self._looked, MOST_PASSED), now
        stands = [self._stand(worker, self._seconds(worker, now, passed)) for worker in place.workers]
        take, copies = self.stragglers.choose(stands, tight=place.is_short)
        found = [self.take_back(place.workers[index]) for index in take]
        for late, idle in copies:
            self._copy(place.workers[late], place.workers[idle])
        return any(found)

    def _seconds(self, worker: Worker, now: float, passed: float) -> float:
        """For how long a worker was seen to run what it runs; `passed` seconds were since the last look."""
        since, seconds = self._ran.get(worker.index, (-1.0, 0.0))
        seconds = seconds + passed if since == worker.since else min(now - worker.since, MOST_PASSED)
        self._ran[worker.index] = worker.since, seconds
        return seconds

    def _stand(self, worker: Worker, seconds: float) -> WorkerLoad:
        place, jobs = self._place, self._place.jobs
        barred = bool(worker.state) or worker.returning or not worker.link.pid
        if not worker.batches:
            return WorkerLoad(idle=not (barred or place.queue or place.admission.staged))
        batch = worker.batches[0]
        table = batch.table
        number = -1
        if batch.operands and batch.asking is None and table.number not in jobs.stopping:
            number = jobs.programs.numbers(table)[table.program[batch.operands[0]]]
        return WorkerLoad(
            seconds=seconds,
            program=number,
            usual=place.ledger.estimate.known(number) if number >= 0 else 0.0,
            repeatable=batch.twin is None and all(_repeatable(batch, operand) for operand in batch.operands),
            waits=len(worker.batches) > 1 and not worker.returning and worker.batches[-1].twin is None,
            stuck=bool(worker.state),
        )

    def take_back(self, worker: Worker) -> bool:
        """Take the batch back that a worker was sent last and has not begun; whether that was in time."""
        if not worker.link.take_back():
            return False
        self.taken += 1
        worker.returning = True
        batch = worker.batches.pop()
        table, operands = batch.table, list(batch.operands)
        self._place.give_back(table, operands, batch.outs)
        self._place.scheduler.report(Interrupted(table.job, operands, worker.index))
        return True

    def _copy(self, late: Worker, idle: Worker) -> None:
        """Run what a worker runs on another one too, if there is memory for it."""
        place, batch = self._place, late.batches[0]
        table, copy = batch.table, Batch(batch.table)
        copy.is_copy, wire = True, []
        for operand in batch.operands:
            chunks = [table.chunk[i] for i in table.inputs[operand]]
            if any(one not in place.chunks.memory or one in place.chunks.moving for one in chunks):
                break  # it reads a copy of its own
            slot = place.arena.allocate(table.nbytes[operand])
            work = table.work[operand]
            if slot is not None and work and not place.admission.quota.request(_copies(table.job), operand, work):
                place.arena.free(slot)
                slot = None
            if slot is None:
                break
            row = table.program[operand]
            number = place.programs.numbers(table)[row]
            place.programs.make_known(idle, number, table, row)
            copy.operands.append(operand)
            copy.outs.append(slot)
            args = table.args[operand] if table.args is not None else ()
            inputs = [place.chunks.memory[table.chunk[i]] for i in table.inputs[operand]]
            wire.append((number, slot, inputs, args))
        if len(wire) < len(batch.operands):
            self.drop(copy)
            return
        self.copied += 1
        copy.twin, batch.twin = batch, copy
        idle.since = monotonic()
        idle.batches.append(copy)
        idle.link.offer()
        idle.link.send(("run", place.jobs.flags.word(table.number), wire, None))

    def first(self, batch: Batch) -> None:
        """A batch is the first of two to have done something: the other one does not count any more."""
        twin = batch.twin
        if twin is None:
            return
        loser = next(worker for worker in self._place.workers if twin in worker.batches)
        loser.batches.remove(twin)
        loser.debris += twin.outs
        self._release(twin)
        self._stay(batch)
        loser.state = DISCARDED  # it is sent nothing more
        loser.link.silence()
        loser.link.kill(DISCARDED)

    def drop(self, batch: Batch) -> None:
        """A batch that has a twin, or was to be one, ends without a result: the other one tells what becomes of it."""
        for slot in batch.outs:
            if slot:
                self._place.arena.free(slot)
        self._release(batch)
        if batch.twin is not None:
            self._stay(batch.twin)

    def _stay(self, batch: Batch) -> None:
        """Of two batches this one is left."""
        batch.twin = None
        if batch.is_copy:
            batch.is_copy = False
            for operand in batch.operands:
                self._place.admission.quota.hand_over(_copies(batch.table.job), operand, batch.table.job)

    def _release(self, batch: Batch) -> None:
        """Give back the scratch that a batch was promised."""
        name = _copies(batch.table.job) if batch.is_copy else batch.table.job
        for operand in batch.operands:
            self._place.admission.quota.release(name, operand)


def _repeatable(batch: Batch, operand: int) -> bool:
    program = batch.table.programs[batch.table.program[operand]]
    return not (program.has_unsized or program.runs_user_code or program.gathers)


def _copies(job: str) -> str:
    """Under what name the promises of copies stand, beside those of the first ones."""
    return f"{job} (copy)"
