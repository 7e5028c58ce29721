"""Acts on the reports of executors: stored chunks, operands that failed or stopped.

An operand that ends without a chunk goes through `_stopped`, the error handler at the end of an operand's steps, which
frees all memory before the scheduler hears of the end.
Source: docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from msgspec.structs import replace

from jmars.dispatch.dispatcher import Dispatcher
from jmars.dispatch.gpu_orders import GpuRefusals
from jmars.dispatch.ledger import Ledger, StateTimes
from jmars.dispatch.speculation import LONG, SpeculativeExecution, WorkerRecycling
from jmars.dispatch.workers import Batch, OpenJobs, Worker
from jmars.memory import HostMemory
from jmars.model.messages import Failed, Failure, Finished, Interrupted, JobTable, Report, Timed, Warned
from jmars.processes.executor_messages import (
    ACCEPTED,
    COPIED_DOWN,
    DEVICE,
    INTERRUPTED,
    MEMORY,
    REFUSED_BY_GPU,
    RETAINED,
    REVOKED,
    UNSIZED,
    DeviceReady,
    ExecutorReport,
    MemoryExceeded,
)

log = logging.getLogger("jmars.dispatch")

LONG_MICROSECONDS = int(1e6 * LONG)


class ReportHandler:
    """Handles the reports of executors.

    Parameters
    ----------
    close_if_still
        Called with a job of which a worker may have run the last operand.
    report
        Sends a report to the scheduler.
    warm
        Called when the GPU of a worker is warm.
    """

    def __init__(
        self,
        memory: HostMemory,
        jobs: OpenJobs,
        ledger: Ledger,
        times: StateTimes,
        dispatcher: Dispatcher,
        speculation: SpeculativeExecution,
        recycling: WorkerRecycling,
        close_if_still: Callable[[JobTable], None],
        report: Callable[[Report], None],
        warm: Callable[[Worker, DeviceReady], None],
        refusals: GpuRefusals,
    ) -> None:
        self._memory, self._jobs, self._programs, self._ledger, self._times = memory, jobs, jobs.programs, ledger, times
        self._dispatcher, self._speculation, self._recycling = dispatcher, speculation, recycling
        self._close_if_still, self._report, self._warm, self._refusals = close_if_still, report, warm, refusals
        self._revived: set[int] = set()  # operands of this report whose chunk was still here

    def handle(self, worker: Worker, message: Any) -> None:
        """Operands of a worker's oldest batch are done, or the executor stopped, or a result needs a slot."""
        told = ExecutorReport(*message)
        count, elapsed, fresh, waited, stop, shapes, peaks, stored, backends, moved, copies, warned = told
        self._programs.compiled(backends)
        if stop is not None and stop[0] == ACCEPTED:
            self._dispatcher.accepted(worker)
            return
        if stop is not None and stop[0] == REVOKED:
            worker.revoking = False
            self._dispatcher.dispatch()
            return
        if stop is not None and stop[0] == DEVICE:
            self._warm(worker, DeviceReady(*stop))
            return
        if stop is not None and stop[0] == COPIED_DOWN:
            self._memory.devices.copied_down(worker.index, stop[1], stop[2])
            self._dispatcher.dispatch()
            return
        if stop is not None and stop[0] == RETAINED:
            self._recycling.retained(worker, *stop[1:])
            self._memory.advance()
            return
        if not worker.batches:
            log.info("%s reports on a batch that it does not have any more", worker.name)
            return
        batch = worker.batches[0]
        if batch.duplicate is not None:
            if count or stop[0] != INTERRUPTED:
                self._speculation.won(batch)
            else:  # stopped like its duplicate, reported there
                worker.batches.popleft()
                self._speculation.drop(batch)
                self._recycling.batch_ended(worker, batch)
                self._dispatcher.dispatch()
                return
        table = batch.table
        worker.since = monotonic()
        sizes, done = None, []
        if count:
            done = self._stored(worker, batch, elapsed, fresh, moved)
            batch.loads = False
            self._ledger.copied(*copies)
            self._ledger.waited += waited * 1e-6
            if elapsed[-1] >= LONG_MICROSECONDS:
                self._speculation.stragglers.learn(self._programs.number_of(table, done[-1]), elapsed[-1:])
            sizes = self._sized(table, done, shapes) if shapes else None
            for number, peak in peaks:
                operand = done[number]
                self._memory.function_took(table, operand, self._programs.number_of(table, operand), peak)
        if warned:
            operands = [*done, *batch.operands]
            errors = [(step, node, bit) for _, step, node, bit in warned]
            self._report(Warned(table.job, [operands[place] for place, *_ in warned], errors))
        if stop is not None and stop[0] == UNSIZED:
            self._needs_slot(worker, batch, stop[1])
            stop = None
        elif stop is not None or not batch.operands:
            worker.batches.popleft()
            self._recycling.batch_ended(worker, batch)
        self._dispatcher.is_held = True
        try:
            if count:
                micros = self._times.packed(table.number, done, elapsed, stored)
                self._report(Timed(table.job, done, worker.index, micros, self._programs.backends(table, done)))
                self._report(Finished(table.job, done, worker.index, sizes, elapsed))
            if stop is not None:
                self._stopped(worker, batch, stop)
            if table.job in self._jobs.ending:
                self._close_if_still(table)
        finally:
            self._dispatcher.is_held = False
        if self._memory.is_blocked:
            self._memory.advance()
        self._dispatcher.ended(worker)

    def _stored(
        self, worker: Worker, batch: Batch, elapsed: Sequence[int], fresh: float, moved: Sequence[int]
    ) -> list[int]:
        """The first operands of a batch are done, after `elapsed` microseconds each; returns them."""
        memory, table, jobs = self._memory, batch.table, self._jobs
        operands, outs = batch.operands, batch.outs
        slots, chunk, program, work = memory.chunks.memory, table.chunk, table.program, table.work
        ids, learn, release = self._programs.numbers(table), self._ledger.estimate.learn, memory.release
        learn_gpu = self._ledger.on_gpu.learn
        private, doomed = memory.quota.private, memory.chunks.doomed
        done: list[int] = []
        self._revived.clear()
        on_device, releases = batch.on_device, batch.capped or bool(private)
        for microseconds in elapsed:
            operand = operands.popleft()
            slot = outs.popleft()
            if doomed and memory.chunks.revive(chunk[operand]):
                if slot:
                    memory.free_slot(slot)
                self._revived.add(operand)
                memory.devices.release(table, operand)
            elif not on_device:
                slots[chunk[operand]] = slot
            else:
                if slot:
                    slots[chunk[operand]] = slot
                memory.devices.done(worker.index, table, operand)
            if not on_device:
                learn(ids[program[operand]], microseconds * 1e-6, fresh)
            else:
                learn_gpu(ids[program[operand]], microseconds * 1e-6, moved[len(done)])
            if releases or work[operand]:
                release(table.job, operand)
            done.append(operand)
        worker.done += len(done)
        memory.next_use.finished(table.number, done)
        if jobs.suspects:
            jobs.suspects.difference_update((table.number, operand) for operand in done)
        return done

    def _sized(self, table: JobTable, done: Sequence[int], shapes: Sequence[tuple[int, Any]]) -> dict[int, Any]:
        """Operands stored chunks of unknown size, with `shapes` by place in `done`; returns the shapes by operand."""
        found = {done[number]: tuple(shape) for number, shape in shapes}
        for operand in found.keys() & self._revived:
            found[operand] = self._memory.chunks.shapes[table.chunk[operand]]
            self._memory.release(table.job, operand)
        for operand, shape in [one for one in found.items() if one[0] not in self._revived]:
            self._memory.store_loose(table, operand, self._programs.number_of(table, operand), shape)
        return found

    def _needs_slot(self, worker: Worker, batch: Batch, nbytes: int) -> None:
        """The next operand is computed and needs a slot of `nbytes`."""
        table = batch.table
        if table.number in self._jobs.stopping:
            self._memory.outputs.refuse(worker.index)
            return
        slot, batch.outs[0] = batch.outs[0], 0  # a slot that was taken ahead belongs to jmars/memory again
        self._memory.admission.place(worker.index, table, batch.operands[0], slot, nbytes)

    def _stopped(self, worker: Worker, batch: Batch, stop: Sequence[Any]) -> None:
        """The executor dropped the rest of a batch."""
        table, operands = batch.table, list(batch.operands)
        for operand, slot in zip(operands, batch.outs, strict=True):
            self._memory.give_back(table, operand, slot)
        failure: Failure | None = stop[1] if len(stop) > 1 else None
        if stop[0] == REFUSED_BY_GPU and failure is not None and table.number not in self._jobs.stopping:
            self._refusals.refused(worker, table, operands, str(failure))
            return
        if stop[0] == MEMORY and table.number not in self._jobs.stopping:
            failure = self._memory_exceeded(table, operands[0], MemoryExceeded(*stop))
            if failure is None:
                self._recycling.at_once(worker)
        elif stop[0] in (INTERRUPTED, REFUSED_BY_GPU):
            failure = None
        if failure is None:
            self._report(Interrupted(table.job, operands, worker.index))
        else:
            rest = operands[1:]
            if table.chains and (early := _readers_among(table, operands)):  # first, or they would be hopeless
                self._report(Interrupted(table.job, early, worker.index))
                rest = [one for one in rest if one not in early]
            self._report(Failed(table.job, operands[0], worker.index, failure))
            if rest:
                self._report(Interrupted(table.job, rest, worker.index))

    def _memory_exceeded(self, table: JobTable, operand: int, stop: MemoryExceeded) -> Failure | None:
        """A function exceeded the cap: None if the operand runs again alone with all memory, else the failure."""
        program = self._programs.number_of(table, operand)
        if self._memory.function_wants_all(table, operand, program):
            self._jobs.suspects.add((table.number, operand))
            return None
        if not stop.certain:
            return stop.failure
        what = f"the operand {table.programs[table.program[operand]].name}"
        failure = Failure.of(self._memory.functions.too_much(what, stop.peak, stop.cap, stop.failure.text))
        return replace(failure, traceback=stop.failure.traceback, member=stop.failure.member)


def _readers_among(table: JobTable, operands: Sequence[int]) -> list[int]:
    """Operands that read outputs of operands in the same list."""
    among = set(operands)
    return [one for one in operands if not among.isdisjoint(table.inputs[one])]
