"""Fills the workers' windows: takes what comes first, has its memory admitted, and sends it in batches.

An executor holds at most two batches: one that runs, one that waits beside it, so that it never waits for us. Behind
one that runs long nothing waits, so that whoever is free first has it, unless memory is short: then what waits has its
inputs read meanwhile. Used by `execution`.
Source: seed 003, "Operand 的排序" (the allocation runs when operands arrive and when one ends).
"""

from __future__ import annotations

from time import monotonic
from typing import Any

from jmars.dispatch.fair_share import FairShare
from jmars.dispatch.stragglers import WAITS_BEHIND
from jmars.dispatch.worker_state import Batch, Worker
from jmars.memory.gathering import pieces_of
from jmars.model.failure import Failure
from jmars.model.limits import BATCH_OPERANDS, BATCH_SECONDS, WINDOW
from jmars.model.messages import JobTable
from jmars.model.reports import Refused, Started
from jmars.worker.open_jobs import WorkerContext

__all__ = ["Dispatcher"]


class Dispatcher:
    """Who gets what next."""

    def __init__(self) -> None:
        self.place: WorkerContext
        self.held = False  # a report is being acted on: what it makes ready comes before the next batch is made
        self.closed = False
        self._turns = FairShare()
        self._again = False  # something came up during a dispatch that only another one serves

    def dispatch(self) -> None:
        """Fill the workers' windows, the emptiest first, until there is nothing to send."""
        if self.held or self.closed:
            self._again = True
            return
        self.held = self._again = True
        place = self.place
        queue, slow, workers = place.queue, place.jobs.slow, place.workers
        try:
            while self._again:
                self._again = False
                for depth in range(WINDOW):
                    for worker in workers:
                        if worker.state or worker.returning:
                            continue  # its process does not run, or has not seen what was taken back from it
                        held = worker.batches
                        if depth and slow and place.jobs.is_slow(worker.index):
                            continue  # what waits there would wait long
                        if len(held) > depth or (held and held[-1].ends_unsized):
                            continue
                        if depth and held and self._runs_long(worker) and not place.is_short:
                            continue
                        if queue or place.admission.staged:
                            self._send_batch(worker)
        finally:
            self.held = False

    def _runs_long(self, worker: Worker) -> bool:
        """Whether what a worker runs takes long, by what is known of its like or by what it has taken by now."""
        return worker.batches[0].seconds >= WAITS_BEHIND or monotonic() - worker.since >= WAITS_BEHIND

    def _send_batch(self, worker: Worker) -> None:
        """Fill one batch, and send it."""
        place = self.place
        admission, staged, jobs = place.admission, place.admission.staged, place.jobs
        seconds_of, programs, suspects = place.ledger.estimate.seconds, jobs.programs, jobs.suspects
        batch: Batch | None = None
        wire: list[tuple[Any, ...]] = []
        seconds = 0.0
        turn = self._turn()
        waiting = len(place.queue) if turn is None else place.queue.size(turn)
        limit = min(BATCH_OPERANDS, 1 + (waiting + len(staged)) // (WINDOW * len(place.workers)))
        while len(wire) < limit and seconds < BATCH_SECONDS:
            if staged:
                table, operand, slot = staged.popleft()
                if batch is not None and (batch.table is not table or (table.number, operand) in suspects):
                    staged.appendleft((table, operand, slot))
                    break
                row = table.program[operand]
                program, loose, users = programs.rows(table)[row]
            else:
                taken = self._take(worker, turn)
                if taken is None:
                    break
                number, operand = taken
                table = jobs.by_number[number]
                if batch is not None and (batch.table is not table or (table.number, operand) in suspects):
                    place.queue.push(worker.index, number, table.rank[operand], operand)
                    break
                row = table.program[operand]
                program, loose, users = programs.rows(table)[row]
                if users:
                    slot = admission.admit_users(table, operand, program, loose)
                elif loose:
                    slot = admission.admit_loose(table, operand, program)
                else:
                    slot = admission.admit(table, operand)
                if slot < 0:
                    continue
            try:
                programs.make_known(worker, program, table, row)
            except Exception as error:  # a user's object may pickle once and not again
                admission.give_back(table, operand, slot)
                place.scheduler.report(Refused(table.job, operand, Failure.of(error)))
                continue
            if batch is None:
                batch = admission.building = Batch(table)
            batch.operands.append(operand)
            batch.outs.append(slot)
            batch.capped |= users
            seconds += BATCH_SECONDS if (table.number, operand) in suspects else seconds_of(program)
            wire.append(self._order(table, operand, slot, program, loose))
            if loose and self._may_ask(table, row, slot):
                batch.ends_unsized = True
                break
        admission.building = None
        if batch is not None:
            self._send(worker, batch, wire, seconds)

    def _order(self, table: JobTable, operand: int, slot: int, program: int, loose: bool) -> tuple[Any, ...]:
        """One operand as an executor is told of it."""
        memory, chunk, private = self.place.chunks.memory, table.chunk, self.place.admission.quota.private
        if private and (own := private.get((table.job, operand))):
            memory = {**{chunk[i]: memory.get(chunk[i], 0) for i in table.inputs[operand]}, **own}
        args = table.args[operand] if table.args is not None else ()
        if not loose:
            return (program, slot, [memory[chunk[i]] for i in table.inputs[operand]], args)
        out = (slot, self.place.arena.size_of(slot) if slot else 0)
        if table.programs[table.program[operand]].gathers:
            pieces = pieces_of(table, operand)
            itemsize = table.programs[table.program[operand]].inputs[0].dtype.itemsize
            length = sum(stop - start for _, start, stop in pieces) // itemsize
            return (program, out, [(self.place.admission.quota.slot(table.job, operand), (length,))], args)
        shapes = self.place.chunks.shapes
        known = [(memory[chunk[i]], shapes.get(chunk[i])) for i in table.inputs[operand]]
        return (program, out, known, args)

    def _may_ask(self, table: JobTable, row: int, slot: int) -> bool:
        """Whether a loose operand may ask for a slot when it is computed."""
        output = table.programs[row].output
        return not output.is_sized and (not slot or output.most is None)

    def _send(self, worker: Worker, batch: Batch, wire: list[tuple[Any, ...]], seconds: float) -> None:
        place, table = self.place, batch.table
        if table.number in place.jobs.stopping or table.job not in place.jobs.by_name:
            place.give_back(table, batch.operands, batch.outs)  # stopped while the batch was made
            self._again = True
            place.storing.advance()
            return
        if not worker.batches:
            worker.since = monotonic()
        batch.seconds = seconds
        self._turns.gave(table.number, seconds)
        worker.batches.append(batch)
        worker.link.offer()
        caps = self._caps(batch) if batch.capped else None
        worker.link.send(("run", place.jobs.flags.word(table.number), wire, caps))
        place.scheduler.report(Started(table.job, list(batch.operands), worker.index))

    def _caps(self, batch: Batch) -> list[tuple[int, bool] | None]:
        """What each operand that calls a function of the user's may take; None for the others."""
        table, cap = batch.table, self.place.admission.cap
        rows, ids, program = self.place.programs.rows(table), self.place.programs.numbers(table), table.program
        caps = [cap(table, one, ids[program[one]]) if rows[program[one]][2] else None for one in batch.operands]
        batch.cap = max(one[0] for one in caps if one is not None)
        return caps

    def _turn(self) -> int | None:
        """The job whose turn it is; None where there is no choice, or memory is short: the earliest goes first then."""
        place, by_number = self.place, self.place.jobs.by_number
        waiting = place.queue.jobs
        if len(waiting) < 2 or place.is_short:
            self._turns.rest()
            return None
        return self._turns.next(waiting, min(by_number), lambda number: len(by_number[number].program))

    def _take(self, worker: Worker, turn: int | None) -> tuple[int, int] | None:
        """(job number, operand) that a worker should run next.

        Where many wait for memory, or for what is gathered for them, only what is more urgent joins them, so that those
        that become ready, and free what the others need, do not stand behind all that was ready before.
        """
        place, jobs = self.place, self.place.jobs
        last: tuple[int, int] | None = None
        if place.storing.line or place.storing.gathers:
            waiting = [request.urgency for request in place.storing.line if request.rank >= 0]
            waiting += place.storing.gathers.urgencies
            waiting += [(table.number, table.rank[operand]) for table, operand, _ in place.admission.staged]
            if len(waiting) >= WINDOW * len(place.workers):
                last, turn = max(waiting), None
        own = bool(jobs.slow) and jobs.is_slow(worker.index)
        return place.queue.pop(worker.index, bool(jobs.tight), last, own, turn)
