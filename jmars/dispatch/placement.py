"""Chooses the queue of an operand: of the planned worker, unless the worker has left or lacks the device.

Source: docs/explanation/seeds.md, "Choosing workers".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jmars.dispatch.gpu_orders import GpuWorkers
from jmars.dispatch.task_queue import TaskQueue
from jmars.dispatch.workers import Worker
from jmars.model.messages import JobTable
from jmars.plan.plan_graph import is_for_gpu

__all__ = ["Placement"]


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
