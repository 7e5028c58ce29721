"""HostDispatch: the interface of jmars/dispatch that other folders call.

The scheduler's orders come from above (`open_job` to `close_job`), events of processes from supervision (`started` to
`look`), and calls of jmars/memory through `MemoryEvents` (`active_batches` to `recycle`). Reports leave by a callable.

Workers of a host come and leave while the cluster lives (`WorkerScaling`). The last worker leaves first, so that the
numbers of the staying workers begin at 0: plans rely on that. A worker leaves as a worker is recycled, between two
batches, and gets no further process; waiting operands go to other workers.

An operand goes to the queue of its planned worker, unless the worker has left or lacks the device.
Source: docs/decisions/0059-workers-that-come-and-leave.md; docs/explanation/seeds.md, "Execution in a worker",
"Choosing workers".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from jmars.dispatch.dispatcher import Dispatcher
from jmars.dispatch.gpu_orders import GpuRefusals, GpuWorkers
from jmars.dispatch.ledger import Ledger, StateTimes
from jmars.dispatch.output_reports import OutputReports
from jmars.dispatch.report_handler import ReportHandler
from jmars.dispatch.speculation import (
    CANCELLED,
    BatchRecovery,
    SpeculativeExecution,
    WorkerRecycling,
    runs_user_code,
)
from jmars.dispatch.task_queue import TaskQueue
from jmars.dispatch.workers import DISCARDED, GIVEN_UP, GPU_NAME, WARMING, OpenJobs, Worker
from jmars.errors import ClusterError, fault_of
from jmars.memory import HostMemory
from jmars.model.messages import Failure, Interrupted, JobBroken, JobClosed, JobTable, Refused, Report, WorkerMoved
from jmars.plan import signature
from jmars.plan.plan_graph import is_for_gpu
from jmars.processes.executor_messages import (
    COPY_DOWN,
    FORGET,
    PLACE,
    CopyDown,
    DeviceReady,
    ForgetPrograms,
    GrantSlot,
)
from jmars.processes.links import ChildLink
from jmars.processes.vitals import GRACE_LOOK_SECONDS, ProcessUsage, StopGrace
from jmars.units import format_bytes

LEAVING, LEFT = "leaving", "left"  # states of workers that plans leave out (scheduler/session_actor.py)


class WorkerScaling:
    """The workers of a host as places of operands that wait; changes the number of workers.

    Parameters
    ----------
    workers
        All workers that have a process, by number; changed here.
    recycle
        Replaces the process of a worker between two batches.
    counted
        Called with the number of workers that have a process.
    report
        Sends a report to the scheduler.

    Attributes
    ----------
    staying
        Number of workers that do not leave, GPUs counted: the numbers of these workers are lower.
    names
        Names of all workers that ever were, by number.
    """

    def __init__(
        self,
        jobs: OpenJobs,
        queue: TaskQueue,
        workers: list[Worker],
        gpus: GpuWorkers,
        recycle: Callable[[Worker], None],
        counted: Callable[[int], None],
        report: Callable[[Report], None],
    ) -> None:
        self._jobs, self._queue, self._workers, self._gpus = jobs, queue, workers, gpus
        self._recycle, self._counted, self._report = recycle, counted, report
        self.staying = len(workers)
        self.names = [worker.name for worker in workers]
        self._cores = len(workers) - len(gpus.living)
        self._has_gpus = bool(gpus.living)

    def leaves(self, worker: int) -> bool:
        """Whether a worker leaves, or has left."""
        return worker >= self.staying

    def come(self) -> int | None:
        """A worker comes: the number of a worker without a process, None where a leaving worker stays after all."""
        number = self.staying
        self.staying += 1
        if number < len(self._workers) and self._workers[number].state != LEFT:
            self._report(WorkerMoved(number, self._workers[number].name, 0, "starting"))
            return None
        worker = Worker(number)
        self._workers[number : number + 1] = [worker]
        self.names[number : number + 1] = [worker.name]
        self._queue.grow(len(self._workers))
        self._count()
        return number

    def leave(self) -> None:
        """The last worker leaves, as soon as its running batch has ended."""
        self.staying -= 1
        worker = self._workers[self.staying]
        self._report(WorkerMoved(worker.index, worker.name, worker.link.pid, LEAVING))
        for table in self._jobs.by_number.values():
            self.unpin(table)
        for number, slow in self._jobs.slow.items():
            self._jobs.slow[number] = slow - {worker.index}
        self._queue.redirect(worker.index, min(range(self.staying), key=self._queue.load))
        self._recycle(worker)

    def unpin(self, table: JobTable) -> None:
        """Operands of a job that are pinned to workers that leave may run anywhere."""
        free = [operand for operand, at in table.pinned.items() if at >= self.staying]
        for operand in free:
            del table.pinned[operand]
        if free:
            self._queue.replan(table.number, table.rank, [-1] * len(table.rank))

    def left(self, worker: Worker) -> None:
        """The last process of a worker that leaves has ended."""
        worker.state = LEFT
        self._report(WorkerMoved(worker.index, worker.name, 0, LEFT))
        while self._workers[-1].state == LEFT:
            self._workers.pop()
        self._count()

    def _count(self) -> None:
        self._counted(sum(worker.state != LEFT for worker in self._workers))

    def places(self, table: JobTable, operands: Sequence[int], planned: Sequence[int]) -> Sequence[int]:
        """Workers for operands that are planned for workers; -1 stays."""
        if self._has_gpus:
            return [self.place(table, one, worker) for one, worker in zip(operands, planned, strict=True)]
        staying = self.staying
        if not planned or max(planned) < staying:
            return planned
        return [worker % staying if worker >= staying else worker for worker in planned]

    def place(self, table: JobTable, operand: int, worker: int) -> int:
        """`worker` if it stays and has the device of an operand; else a worker with that device that has least to do.

        Operands for a GPU go to cores where no GPU is left.
        """
        if not self._has_gpus or worker < 0:
            return worker if worker < self.staying else worker % self.staying
        on_gpu = self._gpus.on_gpu(table, operand)
        if on_gpu == (worker >= self._cores) and worker not in self._gpus.lost:
            return worker
        able = self._gpus.living if on_gpu else self._workers[: self._cores]
        return min(able, key=lambda one: self._queue.load(one.index) + one.running).index

    def give_up(self, worker: int) -> None:
        """Operands that wait for a GPU that is given up go to other GPUs, else to cores."""
        self._queue.lost.add(worker)
        for table in self._jobs.by_number.values():
            if table.device:
                mine = [is_for_gpu(table.device, one) for one in range(len(table.rank))]
                places = [self.place(table, one, worker) if is_mine else -1 for one, is_mine in enumerate(mine)]
                self._queue.replan(table.number, table.rank, places)


log = logging.getLogger("jmars.worker")

STARTING = "starting"  # state of a worker without a process that could start now


class HostDispatch:
    """Ready operands, workers and batches of a host.

    Parameters
    ----------
    workers
        Number of workers, those with a GPU last.
    gpus
        Number of workers with a GPU.
    report
        Sends a report to the scheduler.
    kill
        Kills the process of a `ChildLink` and all that it started; takes the reason.
    use
        Resources that a process has used, by pid; None if the system does not tell.

    Attributes
    ----------
    dispatch
        Fills the workers' windows.
    """

    def __init__(
        self,
        memory: HostMemory,
        workers: int,
        report: Callable[[Report], None],
        kill: Callable[[Any, str], None],
        use: Callable[[int], ProcessUsage | None],
        gpus: int = 0,
    ) -> None:
        self.jobs = OpenJobs(memoryview(memory.arena.memory))
        self.programs = self.jobs.programs
        self.queue = TaskQueue(workers, gpus)
        cores = workers - gpus
        self.workers = [Worker(index) for index in range(cores)]
        self.workers += [Worker(cores + number, f"{GPU_NAME}{number}") for number in range(gpus)]
        self.gpus = GpuWorkers(self.workers)
        self.scaling = WorkerScaling(
            self.jobs,
            self.queue,
            self.workers,
            self.gpus,
            lambda worker: self.recycling.recycle(worker),
            self._counted,
            report,
        )
        self.ledger = Ledger(memory.arena, memory.chunks, lambda: memory.buffers.mover.seconds, workers)
        self.times = StateTimes()
        estimate = self.ledger.estimate
        refusals = GpuRefusals(memory, self.gpus, self.queue, self.scaling.place, report)
        self.dispatcher = Dispatcher(
            memory, self.jobs, self.queue, self.workers, estimate, report, self.gpus, self.ledger.on_gpu, refusals
        )
        self.dispatch = self.dispatcher.dispatch
        self.speculation = SpeculativeExecution(
            memory, self.jobs, self.queue, self.workers, estimate, lambda: self.dispatcher.is_short, report
        )
        self.recycling = WorkerRecycling(memory, self.workers, self.speculation)
        self.leaves = self.scaling.leaves
        self.recovery = BatchRecovery(memory, self.jobs, self.workers, self.speculation, report)
        self._reports = ReportHandler(
            memory,
            self.jobs,
            self.ledger,
            self.times,
            self.dispatcher,
            self.speculation,
            self.recycling,
            self._close_if_still,
            report,
            self._warm,
            refusals,
        )
        self.output = OutputReports(self.jobs, self.workers, report)
        self._memory, self._report, self._kill, self._use = memory, report, kill, use
        self._closed = False

    # -- the scheduler orders
    def open_job(self, table: JobTable) -> None:
        """Take the operands of a job; no operand runs yet. Too many jobs raise ClusterError and change no state."""
        self.jobs.open(table)
        self.scaling.unpin(table)
        self.queue.open_job(table.number, table.late, table.pinned)
        self._memory.next_use.open_job(table)
        self.ledger.open_job(table)

    def enqueue_graph(self, job: str, operands: Sequence[int], workers: Sequence[int]) -> None:
        """Run ready operands on the workers chosen for them."""
        table = self._open(job)
        if table is None:
            return
        push, rank, number = self.queue.push, table.rank, table.number
        workers = self.scaling.places(table, operands, workers)
        for operand, worker in zip(operands, workers, strict=True):
            push(worker, number, rank[operand], operand)
        if not self.dispatcher.is_held:
            self.dispatch()

    def replan(self, job: str, rank: Sequence[int], workers: Sequence[int], slow: Sequence[int]) -> None:
        """Give operands new ranks, and waiting ones new workers; slow workers take only operands planned for them."""
        table = self._open(job)
        if table is None:
            return
        table.rank[:] = rank
        self.queue.replan(table.number, rank, self.scaling.places(table, range(len(workers)), workers))
        self.jobs.slow[table.number] = frozenset(slow)
        self.dispatch()

    def take_back(self, job: str, operands: Sequence[int]) -> list[int]:
        """Give up those of some operands that wait and have no memory yet; returns them."""
        table = self._open(job)
        return [] if table is None else self.queue.take_back(table.number, set(operands))

    def stop_execution(self, job: str) -> None:
        """Drop the queued operands of a job, stop the running operands, and replace executors that do not stop."""
        table = self._open(job)
        if table is None:
            return
        self.jobs.stop(table)
        dropped = self.queue.drop(table.number)
        dropped += self._memory.drop_job(table)
        if dropped:
            self._report(Interrupted(job, dropped, -1))
        for worker in self.workers:
            if worker.batches and worker.batches[0].table is table and self._memory.outputs.waits(worker.index):
                self._memory.outputs.withdraw(worker.index)
                self._memory.outputs.refuse(worker.index)
        self._kill_unresponsive(table, StopGrace(asyncio.get_running_loop().time()))
        self.dispatch()

    def close_job(self, job: str) -> None:
        """Forget a job once no operand of the job runs, and report the measurements."""
        table = self._open(job)
        if table is not None:
            self.jobs.ending.add(job)
            self._close_if_still(table)

    def _open(self, job: str) -> JobTable | None:
        """The table of an open job; orders about other jobs come too late, and have no effect."""
        table = self.jobs.by_name.get(job)
        if table is None:
            log.info("%s is closed, and gets an order", job)
        return table

    def close(self) -> None:
        """Send no batch any more."""
        self._closed = True
        self.output.close()
        self.dispatcher.is_closed = True
        self.jobs.flags.words.release()

    def _kill_unresponsive(self, table: JobTable, grace: StopGrace) -> None:
        """Kill executors that still run an operand of a job that was stopped, when their grace is over."""
        mine = [worker for worker in self.workers if any(batch.table is table for batch in worker.batches)]
        if not mine or self._closed or table.number not in self.jobs.stopping:
            return
        loop = asyncio.get_running_loop()
        running = {worker.link.pid: worker.link for worker in mine if worker.batches[0].table is table}
        for pid in grace.look(loop.time(), {pid: self._use(pid) for pid in running}):
            self._kill(running[pid], CANCELLED)
        loop.call_later(GRACE_LOOK_SECONDS, self._kill_unresponsive, table, grace)

    def _close_if_still(self, table: JobTable) -> None:
        """Close a job that the scheduler closed, unless an executor still runs operands of the job."""
        job = table.job
        if job not in self.jobs.ending or any(b.table is table for worker in self.workers for b in worker.batches):
            return
        self.output.close_job(table)
        measured = self.ledger.close_job(table, self.programs.known, self._memory.outputs.take())
        self._memory.close_job(table.number)
        self.times.close_job(table.number)
        self.queue.close_job(table.number)
        self.gpus.close_job(table.number)
        if self.jobs.close(table):
            self.ledger.estimate.seen_by_program.clear()
            self.ledger.on_gpu.seen_by_program.clear()
            self._memory.forget_programs()
            self.speculation.stragglers.seen.clear()
            signature.cache_clear()
            for worker in self.workers:
                worker.known.clear()
                if worker.state != GIVEN_UP:
                    worker.link.send(ForgetPrograms(FORGET))
        self._report(JobClosed(job, measured))

    def _counted(self, workers: int) -> None:
        """So many workers have a process now."""
        self.ledger.executors = workers
        self._memory.count_workers(workers)

    def _close_those_still(self) -> None:
        """Close jobs that the scheduler closed, and whose last batches were taken from their workers."""
        for job in list(self.jobs.ending):
            self._close_if_still(self.jobs.by_name[job])

    def _warm(self, worker: Worker, ready: DeviceReady) -> None:
        """The GPU of a worker is warm, or cannot be used: then the worker is given up."""
        if ready.why:
            worker.is_warm = True
            self.gave_up(worker.index, worker.link, f"{ready.name} cannot be used: {ready.why}")
            self.dispatch()
            return
        send = worker.link.send

        def to_down(chunk: int, place: int, slot: int, nbytes: int) -> None:
            send(CopyDown(COPY_DOWN, chunk, place, slot, nbytes))

        worker.slots = self._memory.devices.open(worker.index, ready.slab, to_down)
        worker.state, worker.is_warm = "", True
        worker.gpu_name, worker.gpu_bytes = ready.name, ready.slab
        what = f"{ready.name}, {format_bytes(ready.slab)} for chunks"
        log.info("%s is warm after %.3f s: %s", worker.name, ready.seconds, what)
        self._report(WorkerMoved(worker.index, worker.name, worker.link.pid, "idle", ready.slab))
        self.dispatch()

    # -- jmars/memory asks
    def active_batches(self) -> Iterator[tuple[int, JobTable, Iterable[int]]]:
        """(Worker, job, operands) of all batches; worker -1 for the batch that is being built."""
        for worker in self.workers:
            for batch in worker.batches:
                yield worker.index, batch.table, batch.operands
        building = self.dispatcher.building
        if building is not None:
            yield -1, building.table, building.operands

    def requeue(self, table: JobTable, operand: int) -> None:
        """An operand that was admitted, or waited for memory, waits for a worker again."""
        self.queue.push(self.scaling.place(table, operand, 0), table.number, table.rank[operand], operand)

    def answer(self, worker: int, slot: int, why: str) -> None:
        """Send an executor the slot for a result, or slot 0 and a reason."""
        if slot:
            self.workers[worker].batches[0].outs[0] = slot
        self.workers[worker].link.send(GrantSlot(PLACE, slot, why))

    def is_leaving(self, worker: int) -> bool:
        """Whether a worker's process is about to be replaced, or hangs."""
        return bool(self.workers[worker].state)

    # -- processes: called by worker/execution.py
    def started(self, worker: int, link: ChildLink) -> None:
        """A worker gets a new process."""
        one = self.workers[worker]
        one.known = set()
        one.state, one.revoking, one.offered = "", False, False
        self._memory.retained.reset(worker)
        one.link = link
        if one.has_gpu:
            one.state, one.slots, one.is_warm = WARMING, None, False

    def received(self, worker: int, message: Any) -> None:
        """An executor reports; a fault of jmars in the handler ends the jobs concerned and replaces the executor."""
        one = self.workers[worker]
        about = list(one.batches)
        try:
            self._reports.handle(one, message)
        except Exception as error:
            if not about:
                raise
            log.exception("a message of %s could not be handled", one.name)
            for job in {batch.table.job for batch in about}:
                self._report(JobBroken(job, fault_of(error)))
            self._kill(one.link, DISCARDED)  # its state is not known for sure any more

    def ended(self, worker: int, link: ChildLink, why: str) -> None:
        """The process `link` of a worker has ended, and a new process was started."""
        if self._closed:
            return
        self.output.ended(worker)
        one = self.workers[worker]
        one.restarts += 1
        lost = list(one.batches)
        one.batches.clear()
        for slot in one.quarantined:
            self._memory.free_slot(slot)
        one.quarantined = []
        self.recovery.remember(one, link, lost[0] if lost else None, why)
        self._memory.devices.lose(worker, f"{one.name}, which alone had it, ended: {why}")
        if self.scaling.leaves(worker):
            self._memory.retained.reset(worker)
            self.scaling.left(one)
        elif one.state != GIVEN_UP:
            self._report(WorkerMoved(worker, one.name, link.pid, "idle" if link.how == DISCARDED else "replaced"))
        self.recovery.ended(one, link, lost, why)
        for table in {batch.table.number: batch.table for batch in lost}.values():
            self._close_if_still(table)
        self._memory.advance()
        self.dispatch()

    def is_warming(self, worker: int) -> bool:
        """Whether the process of a worker opens its GPU."""
        return self.workers[worker].has_gpu and not self.workers[worker].is_warm

    def is_gpus_fault(self, worker: int, link: ChildLink) -> bool:
        """Whether a process ended because its GPU lost its context, while no function of a user ran."""
        return link.how == "gpu" and not runs_user_code(list(self.workers[worker].batches)[:1])

    def gave_up(self, worker: int, link: ChildLink, why: str) -> None:
        """A worker with a GPU gets no operands any more: its operands go to other GPUs, else to cores."""
        one = self.workers[worker]
        one.state, one.gpu_bytes = GIVEN_UP, 0
        if worker in self.gpus.lost:  # its process was replaced, and the GPU cannot be used again
            return
        self.gpus.give_up(one, why)
        log.error("%s is given up: %s", one.name, why)
        self._report(WorkerMoved(worker, one.name, link.pid, GIVEN_UP, gpu_bytes=-1))
        self.scaling.give_up(worker)

    def moved(self, worker: int, pid: int, state: str) -> None:
        """A process hangs ("suspect"), is killed for hanging ("fenced"), or runs again ("")."""
        one = self.workers[worker]
        one.state = state or (WARMING if self.is_warming(worker) else "")
        if self.scaling.leaves(worker):
            self.recycling.recycle(one)
            return
        self._report(WorkerMoved(worker, one.name, pid, one.state or "idle"))
        if not one.state:
            self.dispatch()

    def quarantine(self, worker: int) -> Callable[[], None]:
        """A process cannot die: keep the slots of the process; returns a function that frees them after the end."""
        return self.recovery.quarantine(self.workers[worker] if worker >= 0 else None)

    def cap(self, worker: int) -> int | None:
        """Bytes that the running batch of a worker may take; -1 without a cap, None without a batch."""
        batches = self.workers[worker].batches
        if not batches:
            return None
        return batches[0].cap if batches[0].capped else -1

    def unavailable(self, worker: int) -> None:
        """A worker's process cannot be started now: the batches go to other workers."""
        one = self.workers[worker]
        one.state, one.offered = STARTING, False
        batches = list(one.batches)
        one.batches.clear()
        one.known = set()
        one.link.unsend()
        for batch in batches:
            self.recovery.recover(one, batch, "", "", running=False)
        if self.leaves(worker):
            self.recycling.recycle(one)
        self._close_those_still()

    def available(self, worker: int) -> None:
        """A worker's process could be started after all."""
        one = self.workers[worker]
        if one.state == STARTING:
            one.state = ""
            self.dispatch()

    def no_executors(self, error: ClusterError) -> None:
        """No process can be started for long: all jobs with waiting operands fail."""
        for table in list(self.jobs.by_number.values()):
            waiting = self.queue.drop(table.number) + self._memory.drop_job(table)
            if waiting:
                self._report(Interrupted(table.job, waiting[1:], -1))
                self._report(Refused(table.job, waiting[0], Failure.of(error)))

    def look(self) -> None:
        """Look for stragglers, for lost chunks without readers, and for retained memory without a promise."""
        self._memory.lost_chunks.release()
        self._memory.retained.settle()
        revoked = self.speculation.look()
        self._close_those_still()  # batches are revoked from workers that are recycled, too
        if revoked:
            self.dispatch()

    @property
    def is_busy(self) -> bool:
        """Whether a job is open, or requests wait for memory."""
        return bool(self.jobs.by_number or self._memory.is_blocked or self._memory.buffers.loading)
