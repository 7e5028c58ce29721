"""Operands that a GPU cannot run: cores run them from then on, or they fail where only a GPU may run them.

A function of CuPy may raise where NumPy's does not, and the memory of a GPU may be too small. The reason goes to the
scheduler, which logs an event; no core computes under the name of a GPU.
Source: docs/explanation/devices.md, "What a GPU refuses".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jmars.dispatch.gpu_orders import GpuWorkers
from jmars.dispatch.task_queue import TaskQueue
from jmars.dispatch.workers import Worker
from jmars.errors import UnsupportedError
from jmars.memory import HostMemory
from jmars.model.failure import Failure
from jmars.model.messages import JobTable
from jmars.model.reports import Failed, GpuRefused, Interrupted, Refused, Report
from jmars.plan.plan_graph import GPU_ONLY, is_for_gpu

__all__ = ["GpuRefusals"]


class GpuRefusals:
    """Acts on refusals.

    Parameters
    ----------
    of_kind
        Gives a worker that may run an operand.
    report
        Sends a report to the scheduler.
    """

    def __init__(
        self,
        memory: HostMemory,
        gpus: GpuWorkers,
        queue: TaskQueue,
        of_kind: Callable[[JobTable, int, int], int],
        report: Callable[[Report], None],
    ) -> None:
        self._memory, self._gpus, self._queue, self._of_kind, self._report = memory, gpus, queue, of_kind, report

    def refused(self, worker: Worker, table: JobTable, operands: Sequence[int], why: str) -> None:
        """A GPU cannot run the first of some operands, which it was sent; the others were not tried."""
        operand = operands[0]
        if table.device[operand] == GPU_ONLY:
            self._report(Failed(table.job, operand, worker.index, Failure.of(self.error(worker, table, operand, why))))
            if len(operands) > 1:
                self._report(Interrupted(table.job, list(operands[1:]), worker.index))
            return
        self._give_to_cores(worker, table, operand, why)
        self._report(Interrupted(table.job, list(operands), worker.index))

    def too_large(self, worker: Worker, table: JobTable, operand: int, why: str) -> None:
        """An operand does not fit in the memory of a GPU, and was not sent there."""
        if table.device[operand] == GPU_ONLY:
            self._report(Refused(table.job, operand, Failure.of(self.error(worker, table, operand, why))))
            return
        self._give_to_cores(worker, table, operand, why)
        self._queue.push(self._of_kind(table, operand, worker.index), table.number, table.rank[operand], operand)

    def _give_to_cores(self, worker: Worker, table: JobTable, operand: int, why: str) -> None:
        """All waiting operands with the program of an operand go to cores; the first time this is reported."""
        row, rows = table.program[operand], self._gpus.refused.setdefault(table.number, {})
        if row in rows:
            return
        rows[row] = why
        alike = [i for i in range(len(table.rank)) if table.program[i] == row and is_for_gpu(table.device, i)]
        places = [-1] * len(table.rank)
        for one in alike:
            places[one] = self._of_kind(table, one, worker.index)
        self._memory.devices.take_back(table, alike)
        self._queue.replan(table.number, table.rank, places)
        first_tried = [operand, *(one for one in alike if one != operand)]
        self._report(GpuRefused(table.job, first_tried, worker.index, why))

    def error(self, worker: Worker, table: JobTable, operand: int, why: str) -> UnsupportedError:
        """The error of an operand that only a GPU may run."""
        name = table.programs[table.program[operand]].name
        return UnsupportedError(
            f"{worker.name} cannot run {name}, and no core may: {why}; use gpu='prefer' (%%jmars --gpu), which gives "
            "to cores what a GPU cannot run, or leave out what asks for a GPU"
        )
