"""ExecutionActor: coordinates every operand on a host; it computes and moves nothing itself.

An operand waits in the queue by rank; when a worker has less than two batches it is taken, gets the slot of its
output, its inputs in memory and its scratch promised, joins a batch and is sent. What an executor reports goes
to the scheduler, whose answer (more ready operands, chunks to free) arrives before the next batch is made.
Source: seed 003, "执行控制" (ExecutionActor) and "Worker 中的执行细节"; the states ALLOCATING, PREPARING_INPUTS,
CALCULATING and STORING are the line of `storing`, its reads, a batch, and `chunks.memory`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from jmars.errors import MemoryLimitError
from jmars.model.messages import JobTable, SchedulerPort
from jmars.storage.arena import Arena
from jmars.storage.chunks import Chunks
from jmars.worker.crew import Batch, Flags, Programs, Worker
from jmars.worker.estimate import BATCH_OPERANDS, BATCH_SECONDS, Estimate
from jmars.worker.executor import INTERRUPTED
from jmars.worker.ledger import Ledger
from jmars.worker.links import ChildLink, Children
from jmars.worker.queue import TaskQueue
from jmars.worker.quota import Quota
from jmars.worker.storing import Request, Storing

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
        self.chunks = Chunks(arena, self._next_use)
        self.quota = Quota(arena)
        self.queue = TaskQueue(workers)
        self.workers = [Worker(index) for index in range(workers)]
        self.storing = Storing(arena, self.chunks, self._start_mover, self._in_use, self._idle, self._moved, disk_room)
        self._arena, self._children, self._threads, self._spill_folder = arena, children, threads, spill_folder
        self._flags = Flags(memoryview(arena.memory))
        self.ledger = Ledger(arena, self.chunks, self.storing, workers)
        self._jobs: dict[int, JobTable] = {}  # by number
        self._names: dict[str, JobTable] = {}
        self._given: dict[int, dict[int, int]] = {}  # job number: last use of chunks that were there before the job
        self._stopping: set[int] = set()
        self._suspects: set[tuple[int, int]] = set()  # (job number, operand): one of them ended a worker
        self._programs = Programs()
        self._building: Batch | None = None  # the batch that is being filled: its inputs are in use already
        self._staged: deque[tuple[JobTable, int, int]] = deque()  # (job, operand, slot) with all memory at hand
        self._preparing: dict[Request, tuple[JobTable, int]] = {}  # who stands in line for memory
        self.clients = 0  # slots that a client fills or reads just now
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
        self._given[table.number] = {
            table.chunk[i]: table.last_use[i] for i, program in enumerate(table.program) if program < 0
        }

    def enqueue_graph(self, job: str, operands: Sequence[int], workers: Sequence[int]) -> None:
        """Run these ready operands, each on the worker chosen for it."""
        table = self._names[job]
        push, rank, number = self.queue.push, table.rank, table.number
        for operand, worker in zip(operands, workers, strict=True):
            push(worker, number, rank[operand], operand)
        if not self._dispatching:
            self.dispatch()

    def stop_execution(self, job: str) -> None:
        """Drop what is queued of a job, tell what runs to stop, and replace an executor that does not."""
        table = self._names[job]
        self._flags.stop(table.number)
        self._stopping.add(table.number)
        dropped = self.queue.drop(table.number)
        mine = [item for item in self._staged if item[0] is table]
        self._staged = deque(item for item in self._staged if item[0] is not table)
        for _, operand, slot in mine:
            self._arena.free(slot)
            self.quota.release(job, operand)
            dropped.append(operand)
        withdrawn = {request for request, owner in self._preparing.items() if owner[0] is table}
        for request in withdrawn:
            dropped.append(self._preparing.pop(request)[1])
        self.storing.withdraw(withdrawn.__contains__)
        if dropped:
            self.scheduler.interrupted(job, dropped, -1)
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._replace_stuck, table)
        self.dispatch()

    def close_job(self, job: str) -> dict[str, Any]:
        """Forget a job that has no running operand; returns what it took."""
        table = self._names.pop(job)
        measured = self.ledger.close_job(table, self._programs.known)
        del self._jobs[table.number], self._given[table.number]
        self._stopping.discard(table.number)
        self._suspects = {suspect for suspect in self._suspects if suspect[0] != table.number}
        self._flags.close_job(table.number)
        if self._programs.close_job(table):
            self.ledger.estimate = Estimate()
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
            for slot in batch.outs:
                self._arena.free(slot)
            table, operands = batch.table, list(batch.operands)
            for operand in operands:
                self.quota.release(table.job, operand)
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
        count, elapsed, fresh, error = message
        batch = worker.batches[0]
        table = batch.table
        if count:
            done = []
            operands, outs = batch.operands, batch.outs
            memory, chunk, program = self.chunks.memory, table.chunk, table.program
            ids, learn, work = self._programs.numbers(table), self.ledger.estimate.learn, table.work
            for microseconds in elapsed:
                operand = operands.popleft()
                memory[chunk[operand]] = outs.popleft()
                learn(ids[program[operand]], microseconds * 1e-6, fresh)
                if work[operand]:
                    self.quota.release(table.job, operand)
                done.append(operand)
            worker.done += count
            if self._suspects:
                self._suspects.difference_update((table.number, operand) for operand in done)
        if error is not None or not batch.operands:
            worker.batches.popleft()
        self._dispatching = True  # the scheduler's answer comes before the next batch is made
        try:
            if count:
                self.scheduler.finished(table.job, done, worker.index)
            if error is not None:
                self._stopped_short(worker, batch, error)
        finally:
            self._dispatching = False
        if self.storing.blocked:
            self.storing.advance()
        self.dispatch()

    def _stopped_short(self, worker: Worker, batch: Batch, error: tuple[str, str, str, str, bytes]) -> None:
        """The executor dropped the rest of a batch."""
        table, operands = batch.table, list(batch.operands)
        for operand, slot in zip(operands, batch.outs, strict=True):
            self._arena.free(slot)
            self.quota.release(table.job, operand)
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
        try:
            while self._again:
                self._again = False
                for depth in range(WINDOW):
                    for worker in self.workers:
                        if len(worker.batches) <= depth and (self.queue or self._staged):
                            self._send_batch(worker)
        finally:
            self._dispatching = False

    def _send_batch(self, worker: Worker) -> None:
        batch: Batch | None = None
        wire: list[tuple[int, int, list[int], tuple[Any, ...]]] = []
        seconds = 0.0
        memory, seconds_of, suspects = self.chunks.memory, self.ledger.estimate.seconds, self._suspects
        limit = min(BATCH_OPERANDS, 1 + (len(self.queue) + len(self._staged)) // (WINDOW * len(self.workers)))
        while len(wire) < limit and seconds < BATCH_SECONDS:
            if self._staged:
                table, operand, slot = self._staged.popleft()
                if batch is not None and (batch.table is not table or (table.number, operand) in suspects):
                    self._staged.appendleft((table, operand, slot))
                    break
            else:
                taken = self.queue.pop(worker.index)
                if taken is None:
                    break
                number, operand = taken
                table = self._jobs[number]
                if batch is not None and (batch.table is not table or (table.number, operand) in suspects):
                    self.queue.push(worker.index, number, table.rank[operand], operand)
                    break
                slot = self._admit(table, operand)
                if slot < 0:
                    continue
            chunk = table.chunk
            row = table.program[operand]
            program = self._programs.numbers(table)[row]
            try:
                self._programs.make_known(worker, program, table, row)
            except Exception as error:  # a user's object may pickle once and not again
                self._arena.free(slot)
                self.quota.release(table.job, operand)
                self.scheduler.refused(table.job, operand, error)
                continue
            if batch is None:
                batch = self._building = Batch(table)
            batch.operands.append(operand)
            batch.outs.append(slot)
            args = table.args[operand] if table.args is not None else ()
            wire.append((program, slot, [memory[chunk[i]] for i in table.inputs[operand]], args))
            seconds += BATCH_SECONDS if (table.number, operand) in suspects else seconds_of(program)
        self._building = None
        if batch is not None and (batch.table.number in self._stopping or batch.table.job not in self._names):
            for operand, slot in zip(batch.operands, batch.outs, strict=True):  # stopped while the batch was made
                self._arena.free(slot)
                self.quota.release(batch.table.job, operand)
            self._again = True
            self.storing.advance()
        elif batch is not None:
            worker.batches.append(batch)
            worker.link.send(("run", self._flags.word(batch.table.number), wire))
            self.scheduler.started(batch.table.job, list(batch.operands), worker.index)

    def _admit(self, table: JobTable, operand: int) -> int:
        """The slot of an operand's output when it can run now; -1 when it stands in line for memory."""
        memory, moving, chunk, nbytes = self.chunks.memory, self.chunks.moving, table.chunk, table.nbytes
        inputs, work = table.inputs[operand], table.work[operand]
        for i in inputs:
            one = chunk[i]
            if one not in memory or one in moving:
                break
        else:
            # who takes less than it may free goes ahead of those who wait for room
            if not self.storing.blocked or 2 * nbytes[operand] <= sum(nbytes[i] for i in inputs):
                slot = self._arena.allocate(nbytes[operand])
                if slot is not None:
                    if not work or self.quota.request(table.job, operand, work):
                        return slot
                    self._arena.free(slot)
        self._prepare(table, operand, [chunk[i] for i in inputs])
        return -1

    def _prepare(self, table: JobTable, operand: int, chunks: list[int]) -> None:
        """Let an operand stand in line for its memory."""
        what = f"the operand {table.programs[table.program[operand]].name}"
        size, work = table.nbytes[operand], table.work[operand]

        def granted(slot: int) -> None:
            self._preparing.pop(request, None)
            if work:
                self.quota.take(table.job, operand, request.promised)
            self._staged.append((table, operand, slot))
            self.dispatch()

        def refused(error: Exception) -> None:
            self._preparing.pop(request, None)
            self.scheduler.refused(table.job, operand, error)

        request = Request(chunks, size, granted, refused, what, table.rank[operand], work)
        self._preparing[request] = (table, operand)
        try:
            self.storing.refuse_too_large([size, work, *(table.nbytes[i] for i in table.inputs[operand])], what)
        except MemoryLimitError as error:
            refused(error)
            return
        self.storing.ask(request)

    # -- what the storage asks
    def _in_use(self) -> set[int]:
        """Chunks that something on its way reads."""
        used: set[int] = set()
        batches = [batch for worker in self.workers for batch in worker.batches]
        if self._building is not None:
            batches.append(self._building)
        for batch in batches:
            table = batch.table
            for operand in batch.operands:
                used.update(table.chunk[i] for i in table.inputs[operand])
        for table, operand, _ in self._staged:
            used.update(table.chunk[i] for i in table.inputs[operand])
        return used

    def _idle(self) -> bool:
        """Whether no operand runs or is about to, so that none will free memory."""
        return not (self._staged or self.clients or self._building or any(worker.batches for worker in self.workers))

    def _moved(self, chunk: int, on_disk: bool) -> None:
        """A chunk went to disk or came back: tell the job that it belongs to."""
        for table in self._jobs.values():
            operand = chunk - table.base
            if 0 <= operand < len(table.chunk) and table.program[operand] >= 0:
                self.scheduler.spilled(table.job, [operand], on_disk)

    def _next_use(self, chunk: int) -> int:
        soonest = 1 << 62  # a result that lies here for later
        for number, table in self._jobs.items():
            operand = chunk - table.base
            if 0 <= operand < len(table.chunk) and table.program[operand] >= 0:
                soonest = min(soonest, table.last_use[operand])
            else:
                soonest = min(soonest, self._given[number].get(chunk, soonest))
        return soonest
