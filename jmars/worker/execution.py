"""ExecutionActor: coordinates every operand on a host; it computes and moves nothing itself.

An operand waits in the queue by rank; when a worker has less than two batches it is taken, gets the slot of its
output, its inputs in memory and its scratch promised, joins a batch and is sent. What an executor reports goes
to the scheduler, whose answer (more ready operands, chunks to free) arrives before the next batch is made.
Source: seed 003, "执行控制" (ExecutionActor) and "Worker 中的执行细节"; the states ALLOCATING, PREPARING_INPUTS,
CALCULATING and STORING are the line of `storing`, its reads, a batch, and `chunks.memory`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from jmars.model.messages import JobTable, SchedulerPort
from jmars.plan import signature
from jmars.storage.arena import Arena
from jmars.storage.chunks import Chunks
from jmars.worker.admission import Admission
from jmars.worker.crew import Batch, Flags, Programs, Worker
from jmars.worker.estimate import BATCH_OPERANDS, BATCH_SECONDS, Estimate
from jmars.worker.executor import INTERRUPTED, UNSIZED
from jmars.worker.ledger import Ledger
from jmars.worker.links import ChildLink, Children
from jmars.worker.queue import TaskQueue
from jmars.worker.storing import Storing
from jmars.worker.uses import Uses

__all__ = ["ExecutionActor"]

WINDOW = 2  # batches that an executor holds: one that runs, one that waits beside it
GRACE_SECONDS = 0.5  # for which a running operand may ignore that it was told to stop


class ExecutionActor:
    """The workers of this host: a `WorkerPort` for the scheduler.

    Parameters
    ----------
    arena
        Shared memory of the host.
    children
        Starts processes.
    workers
        Executor processes, each with `threads` threads.
    spill_folder
        Where chunks go when the arena is full; called when the first one must go.
    """

    def __init__(
        self,
        arena: Arena,
        children: Children,
        workers: int,
        threads: int,
        spill_folder: Callable[[], str],
        disk_room: Callable[[], int],
    ) -> None:
        self.scheduler: SchedulerPort
        self._uses = Uses()
        self.chunks = Chunks(arena, self._uses.next_use)
        self.queue = TaskQueue(workers)
        self.workers = [Worker(index) for index in range(workers)]
        self.admission = ready = Admission(arena, self.chunks, self.workers, self.queue, self.dispatch, self._refused)
        self.storing = Storing(arena, self.chunks, self._start_mover, ready.in_use, ready.idle, self._moved, disk_room)
        ready.storing = ready.sizing.storing = self.storing
        self._arena, self._children, self._threads, self._spill_folder = arena, children, threads, spill_folder
        self._flags = Flags(memoryview(arena.memory))
        self.ledger = Ledger(arena, self.chunks, self.storing, workers)
        self._jobs: dict[int, JobTable] = {}  # by number
        self._names: dict[str, JobTable] = {}
        self._slow: dict[int, frozenset[int]] = {}  # job number: workers that take only what is planned for them
        self._tight: set[int] = set()  # jobs whose chunks may not fit in memory together
        self._stopping: set[int] = set()
        self._suspects: set[tuple[int, int]] = set()  # (job number, operand): one of them ended a worker
        self._programs = Programs()
        self.jobs, self.programs = self._jobs, self._programs  # for standing.py, which only reads
        self._closing = False
        self._dispatching = False
        self._again = False  # something came up during a dispatch that only another one serves

    # -- orders of the scheduler
    def open_job(self, table: JobTable) -> None:
        """Take the operands of a job; nothing runs yet. Who raises has done nothing: ClusterError for too many jobs."""
        self._flags.check()
        self.storing.refuse_results(table.kept)
        self._programs.open_job(table)
        self._flags.open_job(table.number)
        self.ledger.open_job(table)
        self._jobs[table.number] = self._names[table.job] = table
        self._uses.open_job(table)
        if table.tight:
            self._tight.add(table.number)

    def enqueue_graph(self, job: str, operands: Sequence[int], workers: Sequence[int]) -> None:
        """Run these ready operands, each on the worker chosen for it."""
        table = self._names[job]
        push, rank, number = self.queue.push, table.rank, table.number
        for operand, worker in zip(operands, workers, strict=True):
            push(worker, number, rank[operand], operand)
        if not self._dispatching:
            self.dispatch()

    def replan(self, job: str, rank: Sequence[int], workers: Sequence[int], slow: Sequence[int]) -> None:
        """From now on operands have these ranks, and those that wait these workers; the slow take only their own."""
        table = self._names[job]
        table.rank[:] = rank
        self.queue.replan(table.number, rank, workers)
        self._slow[table.number] = frozenset(slow)
        self.dispatch()

    def stop_execution(self, job: str) -> None:
        """Drop what is queued of a job, tell what runs to stop, and replace an executor that does not."""
        table = self._names[job]
        self._flags.stop(table.number)
        self._stopping.add(table.number)
        dropped = self.queue.drop(table.number)
        dropped += self.admission.drop(table)
        if dropped:
            self.scheduler.interrupted(job, dropped, -1)
        for worker in self.workers:
            if worker.batches and worker.batches[0].table is table and worker.batches[0].asking is not None:
                self.admission.sizing.withdraw(worker.batches[0])
                self.admission.sizing.refuse(worker)
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._replace_stuck, table)
        self.dispatch()

    def close_job(self, job: str) -> dict[str, Any]:
        """Forget a job that has no running operand; returns what it took."""
        table = self._names.pop(job)
        measured = self.ledger.close_job(table, self._programs.known)
        del self._jobs[table.number]
        self._uses.close_job(table.number)
        self._tight.discard(table.number)
        self._slow.pop(table.number, None)
        self._stopping.discard(table.number)
        self._suspects = {suspect for suspect in self._suspects if suspect[0] != table.number}
        self._flags.close_job(table.number)
        self.admission.sizing.close_job(table.number)
        if self._programs.close_job(table):
            self.ledger.estimate = Estimate()
            self.admission.sizing.forget()
            signature.cache_clear()
            for worker in self.workers:
                worker.known.clear()
                worker.link.send(("forget",))
        return measured

    def free_chunks(self, chunks: Sequence[int]) -> None:
        """Give the memory or file of these chunks back."""
        free = self.chunks.free
        for chunk in chunks:
            place = free(chunk)
            if place is not None:
                self.storing.delete(place)
        if self.storing.blocked:
            self.storing.advance()

    # -- processes
    def start(self) -> None:
        """Fork the executors."""
        for worker in self.workers:
            self._start_worker(worker)

    def _start_worker(self, worker: Worker) -> None:
        worker.known = set()
        worker.link = ChildLink(
            worker.name,
            lambda _, message: self._reported(worker, message),
            lambda _, why: self._worker_gone(worker, why),
        )
        self._children.start(worker.link, "executor", self._threads)

    def _start_mover(self, storing: Storing) -> ChildLink:
        link = ChildLink("mover", storing.heard, storing.mover_gone)
        self._children.start(link, "mover", self._spill_folder())
        return link

    def _worker_gone(self, worker: Worker, why: str) -> None:
        if self._closing:
            return
        worker.restarts += 1
        lost = list(worker.batches)
        worker.batches.clear()
        pid = worker.link.pid
        self._start_worker(worker)
        self.scheduler.worker_moved(worker.index, worker.name, pid, "replaced")
        for batch in lost:
            self.admission.sizing.withdraw(batch)
        for batch in lost:
            table, operands = batch.table, list(batch.operands)
            for operand, slot in zip(operands, batch.outs, strict=True):
                self.admission.give_back(table, operand, slot)
            if batch is not lost[0] or table.number in self._stopping:  # a batch that waits is not to blame
                self.scheduler.interrupted(table.job, operands, worker.index)
            else:
                self._suspects.update((table.number, operand) for operand in operands)
                self.scheduler.lost(table.job, operands, worker.index, why)
        self.storing.advance()
        self.dispatch()

    def _replace_stuck(self, table: JobTable) -> None:
        """End executors that still run an operand of a job that was stopped."""
        for worker in self.workers:
            if table.number in self._stopping and worker.batches and worker.batches[0].table is table:
                worker.link.kill()

    def close(self) -> None:
        """Nothing that ends from now on is replaced."""
        self._closing = True
        self._flags.close()

    # -- what executors report
    def _reported(self, worker: Worker, message: Any) -> None:
        count, elapsed, fresh, waited, error, shapes = message
        batch = worker.batches[0]
        table = batch.table
        worker.since = monotonic()
        if count:
            done = []
            operands, outs = batch.operands, batch.outs
            memory, chunk, program = self.chunks.memory, table.chunk, table.program
            ids, learn, work = self._programs.numbers(table), self.ledger.estimate.learn, table.work
            release = self.admission.quota.release
            self.ledger.waited += waited * 1e-6
            for microseconds in elapsed:
                operand = operands.popleft()
                memory[chunk[operand]] = outs.popleft()
                learn(ids[program[operand]], microseconds * 1e-6, fresh)
                if work[operand]:
                    release(table.job, operand)
                done.append(operand)
            sizes = self._sized(table, done, shapes) if shapes else None
            worker.done += count
            self._uses.finished(table.number, done)
            if self._suspects:
                self._suspects.difference_update((table.number, operand) for operand in done)
        if error is not None and error[0] == UNSIZED:
            if table.number in self._stopping:
                self.admission.sizing.refuse(worker)
            else:
                self.admission.place(worker, batch, error[1])
            error = None
        elif error is not None or not batch.operands:
            worker.batches.popleft()
        self._dispatching = True  # the scheduler's answer comes before the next batch is made
        try:
            if count:
                self.scheduler.finished(table.job, done, worker.index, sizes, elapsed)
            if error is not None:
                self._stopped_short(worker, batch, error)
        finally:
            self._dispatching = False
        if self.storing.blocked:
            self.storing.advance()
        self.dispatch()

    def _sized(self, table: JobTable, done: Sequence[int], shapes: Sequence[tuple[int, Any]]) -> dict[int, Any]:
        """Operands gave chunks whose size was not known, `shapes` by place in `done`; returns it by operand."""
        sizes = {done[place]: tuple(shape) for place, shape in shapes}
        for operand, shape in sizes.items():
            chunk, row = table.chunk[operand], table.program[operand]
            size = math.prod(shape) * table.programs[row].output.dtype.itemsize
            self._arena.shrink(self.chunks.memory[chunk], size)
            self.chunks.shapes[chunk] = shape
            self.admission.quota.release(table.job, operand)
            self.admission.sizing.learn(self._programs.numbers(table)[row], size)
        return sizes

    def _stopped_short(self, worker: Worker, batch: Batch, error: tuple[str, str, str, str, bytes, int]) -> None:
        """The executor dropped the rest of a batch."""
        table, operands = batch.table, list(batch.operands)
        for operand, slot in zip(operands, batch.outs, strict=True):
            self.admission.give_back(table, operand, slot)
        if error[0] == INTERRUPTED:
            self.scheduler.interrupted(table.job, operands, worker.index)
        else:
            self.scheduler.failed(table.job, operands[0], worker.index, error[1:])
            if len(operands) > 1:
                self.scheduler.interrupted(table.job, operands[1:], worker.index)

    # -- sending
    def dispatch(self) -> None:
        """Fill the workers' windows, the emptiest first, until there is nothing to send."""
        if self._dispatching or self._closing:
            self._again = True
            return
        self._dispatching = self._again = True
        staged = self.admission.staged
        try:
            while self._again:
                self._again = False
                for depth in range(WINDOW):
                    for worker in self.workers:
                        held = worker.batches
                        if depth and self._slow and self._is_slow(worker):
                            continue  # what waits there would wait long
                        if len(held) <= depth and (self.queue or staged) and not (held and held[-1].ends_unsized):
                            self._send_batch(worker)
        finally:
            self._dispatching = False

    def _send_batch(self, worker: Worker) -> None:
        batch: Batch | None = None
        wire: list[tuple[Any, ...]] = []
        seconds = 0.0
        admission, programs, staged, suspects = self.admission, self._programs, self.admission.staged, self._suspects
        memory, shapes, seconds_of = self.chunks.memory, self.chunks.shapes, self.ledger.estimate.seconds
        limit = min(BATCH_OPERANDS, 1 + (len(self.queue) + len(staged)) // (WINDOW * len(self.workers)))
        while len(wire) < limit and seconds < BATCH_SECONDS:
            if staged:
                table, operand, slot = staged.popleft()
                if batch is not None and (batch.table is not table or (table.number, operand) in suspects):
                    staged.appendleft((table, operand, slot))
                    break
                row = table.program[operand]
                program, loose = programs.numbers(table)[row], programs.loose(table)[row]
            else:
                taken = self._take(worker)
                if taken is None:
                    break
                number, operand = taken
                table = self._jobs[number]
                if batch is not None and (batch.table is not table or (table.number, operand) in suspects):
                    self.queue.push(worker.index, number, table.rank[operand], operand)
                    break
                row = table.program[operand]
                program, loose = programs.numbers(table)[row], programs.loose(table)[row]
                slot = admission.admit_loose(table, operand, program) if loose else admission.admit(table, operand)
                if slot < 0:
                    continue
            try:
                programs.make_known(worker, program, table, row)
            except Exception as error:  # a user's object may pickle once and not again
                admission.give_back(table, operand, slot)
                self.scheduler.refused(table.job, operand, error)
                continue
            if batch is None:
                batch = admission.building = Batch(table)
            batch.operands.append(operand)
            batch.outs.append(slot)
            args = table.args[operand] if table.args is not None else ()
            chunk = table.chunk
            seconds += BATCH_SECONDS if (table.number, operand) in suspects else seconds_of(program)
            if loose:
                known = [(memory[chunk[i]], shapes.get(chunk[i])) for i in table.inputs[operand]]
                wire.append((program, (slot, self._arena.size_of(slot) if slot else 0), known, args))
                output = table.programs[row].output
                if not output.is_sized and (not slot or output.most is None):  # it may ask for a slot
                    batch.ends_unsized = True
                    break
            else:
                wire.append((program, slot, [memory[chunk[i]] for i in table.inputs[operand]], args))
        admission.building = None
        if batch is not None and (batch.table.number in self._stopping or batch.table.job not in self._names):
            for operand, slot in zip(batch.operands, batch.outs, strict=True):  # stopped while the batch was made
                admission.give_back(batch.table, operand, slot)
            self._again = True
            self.storing.advance()
        elif batch is not None:
            if not worker.batches:
                worker.since = monotonic()
            worker.batches.append(batch)
            worker.link.send(("run", self._flags.word(batch.table.number), wire))
            self.scheduler.started(batch.table.job, list(batch.operands), worker.index)

    def _take(self, worker: Worker) -> tuple[int, int] | None:
        """(job number, operand) that a worker should run next.

        Where many wait for memory only what is more urgent joins them, so that those that become ready, and free what
        the others need, do not stand behind all that was ready before.
        """
        last: tuple[int, int] | None = None
        if self.storing.line:
            waiting = [request.urgency for request in self.storing.line if request.rank >= 0]
            if len(waiting) >= WINDOW * len(self.workers):
                last = max(waiting)
        return self.queue.pop(worker.index, bool(self._tight), last, bool(self._slow) and self._is_slow(worker))

    def _is_slow(self, worker: Worker) -> bool:
        return any(worker.index in slow for slow in self._slow.values())

    def _refused(self, job: str, operand: int, error: Exception) -> None:
        """An operand can never get its memory here."""
        self.scheduler.refused(job, operand, error)

    # -- what the storage asks
    def _moved(self, chunk: int, on_disk: bool) -> None:
        """A chunk went to disk or came back: tell the job that it belongs to."""
        for table in self._jobs.values():
            operand = chunk - table.base
            if 0 <= operand < len(table.chunk) and table.program[operand] >= 0:
                self.scheduler.spilled(table.job, [operand], on_disk)
