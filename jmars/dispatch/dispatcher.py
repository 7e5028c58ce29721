"""Fills the workers' windows: takes ready operands, has their memory admitted, and sends them in batches.

An executor has at most two batches, a running and a waiting batch, so that the executor never waits for the control
process. No batch waits behind a long batch, so that the first free worker takes the operands; while memory is short a
batch of the same job waits even there, and inputs are loaded meanwhile. Under `dispatch: late` an operand is sent
alone, to a worker that has just said that it runs nothing.
Source: docs/explanation/seeds.md, "Ordering operands".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

from jmars.dispatch.gpu_orders import GpuRefusals, GpuWorkers, device_order, device_request, runs_on_device
from jmars.dispatch.ledger import Estimate
from jmars.dispatch.task_queue import FairShare, TaskQueue
from jmars.dispatch.workers import Batch, OpenJobs, Worker
from jmars.memory import HostMemory
from jmars.memory.admission import Made
from jmars.model.limits import BATCH_OPERANDS, BATCH_SECONDS, GPU_OPERANDS, WAITS_BEHIND, WINDOW
from jmars.model.messages import Failure, JobTable, Refused, Report, Started
from jmars.processes.executor_messages import OFFER, RUN, RUN_ON_DEVICE, OfferWork, RunBatch, RunOnDevice
from jmars.units import format_bytes

LOOSE = 16  # operands with results of unknown size that wait, for each in a batch of a worker
WAITING = 32  # operands of a batch that mostly wait, and at most twice as many as an executor begins at once
BRIEF = 0.0005  # seconds; in a shorter batch of such operands, readers of their results may always wait


class Dispatcher:
    """Chooses the next operands of the workers and sends them.

    Parameters
    ----------
    report
        Sends a report to the scheduler.

    Attributes
    ----------
    building
        The batch that is being filled.
    is_held, is_closed
        Whether no batch is made until the scheduler has answered a report; whether no batch is made for good.
    """

    def __init__(
        self,
        memory: HostMemory,
        jobs: OpenJobs,
        queue: TaskQueue,
        workers: Sequence[Worker],
        estimate: Estimate,
        report: Callable[[Report], None],
        gpus: GpuWorkers,
        on_gpu: Estimate,
        refusals: GpuRefusals,
    ) -> None:
        self.building: Batch | None = None
        self._memory, self._jobs, self._programs, self._queue = memory, jobs, jobs.programs, queue
        self._workers, self._estimate, self._report, self._flags = workers, estimate, report, jobs.flags
        self._gpus, self._on_gpu, self._refusals = gpus, on_gpu, refusals
        self.is_held = self.is_closed = False
        self._fair_share = FairShare()
        self._again = False  # dispatch was requested while held

    # -- when to dispatch
    @property
    def is_short(self) -> bool:
        """Whether memory is short, so that inputs are loaded from disk while other operands run."""
        return bool(self._jobs.tight or self._memory.is_spilling)

    def dispatch(self) -> None:
        """Fill the workers' windows, the emptiest first, until there is no batch to send."""
        self._fill(self._workers)

    def accepted(self, worker: Worker) -> None:
        """A worker answers an offer: it takes an operand, unless other workers took all."""
        worker.offered, worker.accepts = False, True
        self._fill([worker])
        worker.accepts = False

    def ended(self, worker: Worker) -> None:
        """A worker has reported and is about to run what it has, or an offered operand."""
        worker.accepts = True
        self.dispatch()
        worker.accepts = False

    def _fill(self, workers: Sequence[Worker]) -> None:
        if self.is_held or self.is_closed:
            self._again = True
            return
        self.is_held = self._again = True
        queue, jobs, staged = self._queue, self._jobs, self._memory.staged
        waits_for_slot = self._memory.outputs.waits
        try:
            while self._again:
                self._again = False
                self._memory.devices.advance()
                for depth in range(WINDOW):
                    for worker in workers:
                        if worker.state or worker.revoking:
                            continue
                        held = worker.batches
                        if depth and jobs.slow and jobs.is_slow(worker.index):
                            continue  # operands would wait long there
                        if len(held) > depth or (held and held[-1].ends_unsized):
                            continue
                        only = held[0].table.number if depth and held and self._runs_long(worker) else None
                        if only is not None and not self.is_short:
                            continue
                        if depth and waits_for_slot(worker.index):
                            continue  # a result without a slot has no room; more operands would take more
                        if queue or staged:
                            self._send_batch(worker, only)
                workers = self._workers
        finally:
            self.is_held = False

    def _runs_long(self, worker: Worker) -> bool:
        """Whether the running batch of a worker takes long, by prediction or by the time so far."""
        return worker.batches[0].seconds >= WAITS_BEHIND or monotonic() - worker.since >= WAITS_BEHIND

    # -- a batch
    def _staged(self, worker: Worker, ready: bool, only: int | None) -> tuple[JobTable, int, int] | None:
        """The next admitted operand for a worker, of job `only` if given; of a late job if the worker asked for it."""
        staged = self._memory.staged
        for place, (table, operand, slot) in enumerate(staged):
            if self._gpus.living and self._memory.devices.owner(table, operand) not in (-1, worker.index):
                continue  # its slots are on a different GPU
            if only in (None, table.number) and self._gpus.may_run(worker, table, operand) and ready >= table.late:
                del staged[place]
                return table, operand, slot
        return None

    def _send_batch(self, worker: Worker, only: int | None) -> None:
        """Send a batch to a worker, of job `only` if given."""
        memory, staged, jobs, queue = self._memory, self._memory.staged, self._jobs, self._queue
        seconds_of, programs, suspects = self._estimate.seconds, self._programs, jobs.suspects
        inputs_of = memory.inputs
        choice: tuple[bool, tuple[int, int] | None, bool, int | None] | None = None  # None: memory has changed since
        batch: Batch | None = None
        wire: list[tuple[Any, ...]] = []
        seconds = 0.0
        has_gpu, lost, on_device = worker.slots is not None, self._gpus.lost, False
        rows: Sequence[tuple[int, bool, bool, int]] = ()  # of the batch's table, with `alone`
        alone = False  # whether an operand is sent in a batch of its own
        turn, ready = self._turn(), worker.accepts and not worker.batches
        waiting = len(queue) if turn is None else queue.size(turn)
        alike = len(self._gpus.living) if has_gpu else len(self._workers)
        limit = min(BATCH_OPERANDS, 1 + (waiting + len(staged)) // (WINDOW * max(1, alike)))
        least = 0  # operands that are taken even if they take long
        made: dict[int, Made] = {}  # what the batch makes, by operand, where readers may follow
        follower: tuple[JobTable, int, int] | None = None  # a reader that goes along, admitted
        while len(wire) < limit and (seconds < BATCH_SECONDS or len(wire) < least):
            given, follower = follower or (self._staged(worker, ready, only) if staged else None), None
            if given is not None:
                table, operand, slot = given
            else:
                if has_gpu and memory.devices.is_waiting(worker.index):
                    break
                if choice is None:
                    choice = self._choice(worker, turn)
                taken = queue.pop(worker.index, *choice, ready, only)
                if taken is None:
                    break
                number, operand = taken
                table = jobs.by_number[number]
            row = table.program[operand]
            if has_gpu:
                on_device = runs_on_device(table, row)
            is_suspect = bool(suspects) and (table.number, operand) in suspects
            if batch is None:
                rows, alone = programs.rows(table), table.late or table.ephemeral
            elif batch.table is not table or batch.on_device != on_device or is_suspect:
                if given is not None:
                    staged.appendleft(given)
                else:
                    queue.push(worker.index, table.number, table.rank[operand], operand)
                break
            program, loose, users, waits = rows[row]
            users = users and not on_device
            if given is None:
                if on_device:
                    slot = self._admit_on_device(worker, table, operand)
                elif users:
                    slot = memory.admit_function(table, operand, program, loose, waits > 0 and batch is not None)
                elif loose:
                    slot = memory.admit_loose(table, operand, program)
                else:
                    slot = memory.admit(table, operand)
                if slot < 0:
                    choice = None
                    continue
            if (lost or table.device) and (refusal := self._gpus.refusal(table, operand)) is not None:
                self._refuse(table, operand, slot, refusal)
                continue
            if is_new := program not in worker.known:
                try:
                    programs.make_known(worker, program, table, row)
                except Exception as error:  # a user's object may pickle once and not again
                    self._refuse(table, operand, slot, error)
                    continue
            if batch is None:
                batch = self.building = Batch(table, on_device)
                batch.ends_unsized = table.ephemeral
            batch.operands.append(operand)
            batch.outs.append(slot)
            batch.loads = batch.loads or is_new
            if users:
                batch.capped = True
            args = table.args[operand] if table.args is not None else ()
            if on_device:
                seconds += BATCH_SECONDS if is_suspect else self._on_gpu.seconds(program)
                least = 0 if is_suspect else GPU_OPERANDS
                grant = memory.devices.grant(worker.index, table, operand)
                assert grant is not None
                inputs = memory.device_inputs(table, operand, grant)
                wire.append((program, slot, inputs, args, device_order(grant)))
            else:
                seconds += BATCH_SECONDS if is_suspect else seconds_of(program)
                least = 0 if is_suspect else min(WAITING, 2 * waits)
                if not loose:
                    wire.append((program, slot, inputs_of(table, operand), args))
                else:
                    places = memory.loose_inputs(table, operand, made)
                    wire.append((program, (slot, memory.size_of(slot)), places, args))
                    if self._must_ask(table, row, slot):
                        batch.ends_unsized = True
                        break
                    if table.chains and seconds < BATCH_SECONDS and len(wire) < BATCH_OPERANDS:
                        made[operand] = Made(len(wire) - 1, slot)
                        follower = self._follower(worker, table, operand, made)
                        if follower is not None:
                            limit = max(limit, len(wire) + 1)
                            continue
                    if not alone and seconds > BRIEF and len(wire) > waiting // (LOOSE * len(self._workers)):
                        batch.ends_unsized = len(wire) == 1
                        break  # few operands wait: readers of these results, first by rank, do not wait behind them
            if alone:
                break
        self.building = None
        if batch is not None:
            self._send(worker, batch, wire, seconds)
        elif not (worker.batches or worker.offered or worker.accepts) and self._is_offered(worker):
            worker.offered = True
            worker.link.send(OfferWork(OFFER))

    def _follower(
        self, worker: Worker, table: JobTable, operand: int, made: Mapping[int, Made]
    ) -> tuple[JobTable, int, int] | None:
        """The only reader of an operand that was put into a batch, admitted, if the reader is cheap and the batch makes
        all missing inputs: a chain of cheap calls is a single batch.
        """
        readers, jobs = table.readers[operand], self._jobs
        if len(readers) != 1 or jobs.suspects or jobs.slow or self.is_short:
            return None
        (reader,) = readers
        number, loose, _, waits = self._programs.rows(table)[table.program[reader]]
        is_cheap = 0 < self._estimate.known(number) <= BRIEF
        if not (loose and is_cheap) or waits or table.pinned.get(reader, worker.index) != worker.index:
            return None
        if self._memory.next_use.has_finished(table.number, operand):  # it runs again, and its reader may be elsewhere
            return None
        slot = self._memory.admission.admit_at_once(table, reader, number, made)
        return None if slot < 0 else (table, reader, slot)

    def _refuse(self, table: JobTable, operand: int, slot: int, error: Exception) -> None:
        """An admitted operand cannot be sent: others may have its memory."""
        self._memory.give_back(table, operand, slot)
        self._report(Refused(table.job, operand, Failure.of(error)))
        self._again = True

    def _admit_on_device(self, worker: Worker, table: JobTable, operand: int) -> int:
        """Slot of an operand's copy in shared memory, 0 for none; -1 if it waits, or goes to cores."""
        devices, request = self._memory.devices, device_request(self._gpus, table, operand)
        if devices.fits(worker.index, request):
            return devices.admit(worker.index, request)
        needs, has = format_bytes(request.nbytes), format_bytes(worker.gpu_bytes)
        self._refusals.too_large(worker, table, operand, f"it needs {needs} and the GPU has {has} for chunks")
        return -1

    def _is_offered(self, worker: Worker) -> bool:
        """Whether late operands wait that this worker may take."""
        at_hand = any(
            table.late and table.pinned.get(operand, worker.index) == worker.index
            for table, operand, _ in self._memory.staged
        )
        return at_hand or self._queue.is_offered(worker.index)

    def _must_ask(self, table: JobTable, row: int, slot: int) -> bool:
        """Whether a loose operand asks for a slot after computing; one with a slot rarely does."""
        return not slot and not table.programs[row].output.is_sized

    def _send(self, worker: Worker, batch: Batch, wire: list[tuple[Any, ...]], seconds: float) -> None:
        table, jobs = batch.table, self._jobs
        if table.number in jobs.stopping or table.job not in jobs.by_name:  # stopped while the batch was made
            for operand, slot in zip(batch.operands, batch.outs, strict=True):
                self._memory.give_back(table, operand, slot)
            self._again = True
            self._memory.advance()
            return
        if not worker.batches:
            worker.since = monotonic()
        batch.seconds = seconds
        self._fair_share.charge(table.number, seconds)
        worker.batches.append(batch)
        worker.link.post()
        flag = self._flags.index(table.number)
        if batch.on_device:
            worker.link.send(RunOnDevice(RUN_ON_DEVICE, flag, wire))
        else:
            worker.link.send(RunBatch(RUN, flag, wire, self._caps(batch) if batch.capped else None))
        self._report(Started(table.job, list(batch.operands), worker.index))

    def _caps(self, batch: Batch) -> list[tuple[int, bool] | None]:
        """Caps of the operands that call a user's function; None for other operands."""
        table, cap = batch.table, self._memory.cap
        rows, ids, program = self._programs.rows(table), self._programs.numbers(table), table.program
        caps = [cap(table, one, ids[program[one]]) if rows[program[one]][2] else None for one in batch.operands]
        batch.cap = max(found[0] for found in caps if found is not None)
        return caps

    # -- the next operand
    def _turn(self) -> int | None:
        """The job that goes next; None if a single job waits or memory is short: then the earliest job goes first."""
        by_number, waiting = self._jobs.by_number, self._queue.jobs
        if len(waiting) < 2 or self.is_short:
            self._fair_share.rest()
            return None
        return self._fair_share.next(waiting, min(by_number), lambda number: len(by_number[number].program))

    def _choice(self, worker: Worker, turn: int | None) -> tuple[bool, tuple[int, int] | None, bool, int | None]:
        """How the queue chooses the next operands of a worker: the arguments of `TaskQueue.pop` after the worker.

        While many operands wait for memory or for gathered pieces, only more urgent operands join them, so that
        operands which free memory do not stand behind all operands that were ready before.
        """
        jobs = self._jobs
        last: tuple[int, int] | None = None
        waiting = self._memory.waiting_urgencies()
        if waiting and len(waiting) >= WINDOW * len(self._workers):
            last, turn = max(waiting), None
        own = bool(jobs.slow) and jobs.is_slow(worker.index)
        return bool(jobs.tight), last, own, turn
