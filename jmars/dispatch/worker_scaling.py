"""Workers of a host that come and leave while the cluster lives.

The last worker leaves first, so that the numbers of the staying workers begin at 0: plans rely on that. A worker leaves
as a worker is recycled, between two batches, and gets no further process; waiting operands go to other workers.

An operand goes to the queue of its planned worker, unless the worker has left or lacks the device.
Source: docs/decisions/0059-workers-that-come-and-leave.md; docs/explanation/seeds.md, "Choosing workers".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from jmars.dispatch.gpu_orders import GpuWorkers
from jmars.dispatch.speculation import WorkerRecycling
from jmars.dispatch.task_queue import TaskQueue
from jmars.dispatch.workers import OpenJobs, Worker
from jmars.model.messages import JobTable, Report, WorkerMoved
from jmars.plan.plan_graph import is_for_gpu

LEAVING, LEFT = "leaving", "left"  # states of workers that plans leave out (scheduler/session_actor.py)


class WorkerScaling:
    """Changes the number of workers.

    Parameters
    ----------
    workers
        All workers that have a process, by number; changed here.
    counted
        Called with the number of workers that have a process.
    report
        Sends a report to the scheduler.

    Attributes
    ----------
    names
        Names of all workers that ever were, by number.
    """

    def __init__(
        self,
        jobs: OpenJobs,
        queue: TaskQueue,
        workers: list[Worker],
        placement: Placement,
        recycling: WorkerRecycling,
        counted: Callable[[int], None],
        report: Callable[[Report], None],
    ) -> None:
        self._jobs, self._queue, self._workers, self._placement = jobs, queue, workers, placement
        self._recycling, self._counted, self._report = recycling, counted, report
        self.names = [worker.name for worker in workers]

    @property
    def staying(self) -> int:
        """Number of workers that do not leave."""
        return self._placement.staying

    def leaves(self, worker: int) -> bool:
        """Whether a worker leaves, or has left."""
        return worker >= self._placement.staying

    def come(self) -> int | None:
        """A worker comes: the number of a worker without a process, None where a leaving worker stays after all."""
        number = self._placement.staying
        self._placement.staying += 1
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
        self._placement.staying -= 1
        worker = self._workers[self._placement.staying]
        self._report(WorkerMoved(worker.index, worker.name, worker.link.pid, LEAVING))
        for table in self._jobs.by_number.values():
            self.unpin(table)
        for number, slow in self._jobs.slow.items():
            self._jobs.slow[number] = slow - {worker.index}
        self._queue.redirect(worker.index, min(range(self._placement.staying), key=self._queue.load))
        self._recycling.recycle(worker)

    def unpin(self, table: JobTable) -> None:
        """Operands of a job that are pinned to workers that leave may run anywhere."""
        free = [operand for operand, at in table.pinned.items() if at >= self._placement.staying]
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


class Placement:
    """The workers of a host as places of operands that wait.

    Attributes
    ----------
    staying
        Number of workers that do not leave, GPUs counted: the numbers of these workers are lower.
    """

    def __init__(self, workers: Sequence[Worker], gpus: GpuWorkers, queue: TaskQueue) -> None:
        self.staying = len(workers)
        self._workers, self._gpus, self._queue = workers, gpus, queue
        self._cores = len(workers) - len(gpus.living)
        self._has_gpus = bool(gpus.living)

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

    def give_up(self, worker: int, tables: Iterable[JobTable]) -> None:
        """Operands that wait for a GPU that is given up go to other GPUs, else to cores."""
        self._queue.lost.add(worker)
        for table in tables:
            if table.device:
                mine = [is_for_gpu(table.device, one) for one in range(len(table.rank))]
                places = [self.place(table, one, worker) if is_mine else -1 for one, is_mine in enumerate(mine)]
                self._queue.replan(table.number, table.rank, places)
