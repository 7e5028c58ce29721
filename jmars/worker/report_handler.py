"""What executors report, put in the books: chunks that are stored, operands that stopped short.

Whatever ends an operand other than its chunk goes through one place, which gives back all that it held before anybody
is told: the one `catch` at the end of an operand's chain. Used by `execution`.
Source: seed 003, "执行控制" (each step of an execution may fail; one handler at the end gets the error).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

from jmars.dispatch.stragglers import LONG
from jmars.dispatch.worker_state import Batch, Worker
from jmars.model.failure import Failure
from jmars.model.messages import JobTable
from jmars.model.reports import Failed, Finished, Interrupted, Timed
from jmars.processes.executor import INTERRUPTED, KEPT, MEMORY, TAKEN_BACK, UNSIZED
from jmars.worker.dispatcher import Dispatcher
from jmars.worker.open_jobs import WorkerContext
from jmars.worker.retained_memory import RECYCLED, RetainedMemory
from jmars.worker.speculation import DISCARDED, SpeculativeExecution

__all__ = ["ReportHandler"]

LONG_MICROSECONDS = int(1e6 * LONG)


class ReportHandler:
    """Acts on what executors say.

    Parameters
    ----------
    still
        Called with a job none of whose operands a worker holds any more, perhaps.
    """

    def __init__(
        self,
        place: WorkerContext,
        dispatching: Dispatcher,
        rescue: SpeculativeExecution,
        keeping: RetainedMemory,
        still: Callable[[JobTable], None],
    ) -> None:
        self._place, self._dispatching, self._rescue, self._still = place, dispatching, rescue, still
        self._keeping = keeping

    def reported(self, worker: Worker, message: Any) -> None:
        """More operands of a worker's oldest batch are done, or it stopped short, or its result needs a slot."""
        place = self._place
        count, elapsed, fresh, waited, error, shapes, *more = message
        peaks, stored = more or ((), ())
        if error is not None and error[0] == TAKEN_BACK:
            worker.returning = False
            self._dispatching.dispatch()
            return
        if error is not None and error[0] == KEPT:
            self._keeping.told(worker, error[1])
            place.storing.advance()
            return
        batch = worker.batches[0]
        if batch.twin is not None:
            if count or error[0] != INTERRUPTED:
                self._rescue.first(batch)
            else:  # told to stop: so was its twin, which tells what becomes of them
                worker.batches.popleft()
                self._rescue.drop(batch)
                self._dispatching.dispatch()
                return
        table = batch.table
        worker.since = monotonic()
        sizes, done = None, []
        if count:
            done = self._stored(worker, batch, elapsed, fresh)
            place.ledger.waited += waited * 1e-6
            if elapsed[-1] >= LONG_MICROSECONDS:
                self._rescue.stragglers.learn(place.programs.numbers(table)[table.program[done[-1]]], elapsed[-1:])
            sizes = self._sized(table, done, shapes) if shapes else None
            for number, peak in peaks:
                row = table.program[done[number]]
                if place.admission.grants.took(table.number, done[number], place.programs.numbers(table)[row], peak):
                    place.admission.ease(table, row)
        if error is not None and error[0] == UNSIZED:
            if table.number in place.jobs.stopping:
                place.admission.sizing.refuse(worker)
            else:
                place.admission.place(worker, batch, error[1])
            error = None
        elif error is not None or not batch.operands:
            worker.batches.popleft()
            self._keeping.rests(worker)
        self._dispatching.held = True  # the scheduler's answer comes before the next batch is made
        try:
            if count:
                micros = place.admission.states.packed(table.number, done, elapsed, stored)
                place.scheduler.report(Timed(table.job, done, worker.index, micros))
                place.scheduler.report(Finished(table.job, done, worker.index, sizes, elapsed))
            if error is not None:
                self._stopped_short(worker, batch, error)
            if table.job in place.jobs.ending:
                self._still(table)
        finally:
            self._dispatching.held = False
        if place.storing.blocked:
            place.storing.advance()
        self._dispatching.dispatch()

    def _stored(self, worker: Worker, batch: Batch, elapsed: Sequence[int], fresh: float) -> list[int]:
        """The first operands of a batch are done, after so many microseconds each."""
        place, table, jobs = self._place, batch.table, self._place.jobs
        operands, outs = batch.operands, batch.outs
        memory, chunk, program, work = place.chunks.memory, table.chunk, table.program, table.work
        ids, learn, release = jobs.programs.numbers(table), place.ledger.estimate.learn, place.admission.quota.release
        private = place.admission.quota.private
        done = []
        for microseconds in elapsed:
            operand = operands.popleft()
            memory[chunk[operand]] = outs.popleft()
            learn(ids[program[operand]], microseconds * 1e-6, fresh)
            if work[operand] or batch.capped or private:
                release(table.job, operand)
            done.append(operand)
        worker.done += len(done)
        jobs.uses.finished(table.number, done)
        if jobs.suspects:
            jobs.suspects.difference_update((table.number, operand) for operand in done)
        return done

    def _sized(self, table: JobTable, done: Sequence[int], shapes: Sequence[tuple[int, Any]]) -> dict[int, Any]:
        """Operands gave chunks whose size was not known, `shapes` by place in `done`; returns it by operand."""
        place = self._place
        sizes = {done[number]: tuple(shape) for number, shape in shapes}
        for operand, shape in sizes.items():
            chunk, row = table.chunk[operand], table.program[operand]
            size = math.prod(shape) * table.programs[row].output.dtype.itemsize
            place.arena.shrink(place.chunks.memory[chunk], size)
            place.chunks.shapes[chunk] = shape
            place.admission.quota.release(table.job, operand)
            place.admission.sizing.learn(place.programs.numbers(table)[row], size)
        return sizes

    def _stopped_short(self, worker: Worker, batch: Batch, error: tuple[Any, ...]) -> None:
        """The executor dropped the rest of a batch."""
        table, operands = batch.table, list(batch.operands)
        self._place.give_back(table, operands, batch.outs)
        scheduler = self._place.scheduler
        if error[0] == MEMORY and table.number not in self._place.jobs.stopping:
            again, error = self._wants_more(table, operands[0], error)
        else:
            again = error[0] == INTERRUPTED
        if again and error[0] == MEMORY:  # libraries that got no memory while they began are broken for good
            worker.state = RECYCLED
            worker.link.kill(DISCARDED)
        if again:
            scheduler.report(Interrupted(table.job, operands, worker.index))
        else:
            scheduler.report(Failed(table.job, operands[0], worker.index, error[1]))
            if len(operands) > 1:
                scheduler.report(Interrupted(table.job, operands[1:], worker.index))

    def _wants_more(self, table: JobTable, operand: int, error: tuple[Any, ...]) -> tuple[bool, tuple[Any, ...]]:
        """A user's function wanted more memory than it was granted: whether it runs again with all, or the error."""
        jobs, grants = self._place.jobs, self._place.admission.grants
        if grants.wants_all(table.number, operand, jobs.programs.numbers(table)[table.program[operand]]):
            jobs.suspects.add((table.number, operand))  # it runs alone
            return True, error
        kind, failure, peak, cap = error
        what = f"the operand {table.programs[table.program[operand]].name}"
        told = Failure.of(grants.too_much(what, peak, cap, failure.text))
        return False, (kind, replace(told, traceback=failure.traceback, member=failure.member))
