"""Operands for workers with a GPU: which worker may run them, and their slots in the GPU's memory.

Cores run the operands that a GPU cannot run; operands that only a GPU may run fail. A function of CuPy may raise where
NumPy's does not, and the memory of a GPU may be too small. The reason goes to the scheduler, which logs an event; no
core computes under the name of a GPU.
Source: docs/explanation/devices.md, "What a GPU refuses".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jmars.dispatch.task_queue import TaskQueue
from jmars.dispatch.workers import Worker
from jmars.errors import ClusterError, UnsupportedError
from jmars.memory import HostMemory
from jmars.memory.device_memory import DeviceGrant, DeviceRequest
from jmars.model.messages import Failed, Failure, GpuRefused, Interrupted, JobTable, Refused, Report
from jmars.plan.plan_graph import GPU_ONLY, is_for_gpu

if TYPE_CHECKING:
    from jmars.devices.device_program import DeviceProgram


class GpuWorkers:
    """The workers of a host that have a GPU.

    Attributes
    ----------
    living
        Those that are not given up.
    lost
        Why the others are given up, by worker number.
    refused
        By job number, why GPUs do not run a program, by row of the job's programs.
    """

    def __init__(self, workers: Sequence[Worker]) -> None:
        self.living = [worker for worker in workers if worker.has_gpu]
        self.lost: dict[int, str] = {}
        self.refused: dict[int, dict[int, str]] = {}
        self._kept: dict[int, frozenset[int]] = {}  # job number: operands with chunks that outlive the job

    def give_up(self, worker: Worker, why: str) -> None:
        """A worker gets no operands any more."""
        self.living.remove(worker)
        self.lost[worker.index] = f"{worker.name} is given up: {why}"

    @property
    def memory(self) -> int:
        """Bytes that chunks may take in the memory of all GPUs."""
        return sum(worker.gpu_bytes for worker in self.living)

    def on_gpu(self, table: JobTable, operand: int) -> bool:
        """Whether an operand goes to a GPU: it is planned so, a GPU is left, and none has refused its program."""
        if not (self.living and is_for_gpu(table.device, operand)):
            return False
        return not self.refused or table.program[operand] not in self.refused.get(table.number, ())

    def keeps(self, table: JobTable, operand: int) -> bool:
        """Whether the output of an operand stays on its GPU alone: only operands of GPUs of this host read it."""
        if table.ephemeral or table.planned or operand in self._results(table):
            return False
        readers = table.readers[operand]
        program = table.program
        return bool(readers) and all(self.on_gpu(table, one) and runs_on_device(table, program[one]) for one in readers)

    def close_job(self, number: int) -> None:
        """Forget a job."""
        self.refused.pop(number, None)
        self._kept.pop(number, None)

    def _results(self, table: JobTable) -> frozenset[int]:
        if table.number not in self._kept:
            self._kept[table.number] = frozenset(table.results)
        return self._kept[table.number]

    def may_run(self, worker: Worker, table: JobTable, operand: int) -> bool:
        """Whether a worker is of the kind that an operand goes to, and the pinned one if there is one."""
        pin = table.pinned.get(operand, worker.index)
        return (pin == worker.index or pin in self.lost) and worker.has_gpu == self.on_gpu(table, operand)

    def refusal(self, table: JobTable, operand: int) -> ClusterError | None:
        """The error of an operand that needs a lost or missing GPU; None for other operands."""
        must = bool(table.device) and table.device[operand] == GPU_ONLY
        if table.pinned.get(operand) in self.lost:
            why = self.lost[table.pinned[operand]]
        elif must and not self.living:
            why = "; ".join(self.lost.values()) or "no host that has one is left"
        else:
            return None
        name = table.programs[table.program[operand]].name
        return ClusterError(f"{name} must run on a GPU, and {why}; see the log, or leave out what asks for the GPU")


def runs_on_device(table: JobTable, row: int) -> bool:
    """Whether a GPU can run a program of a job."""
    return _on_device(table, row) is not None


def device_request(gpus: GpuWorkers, table: JobTable, operand: int) -> DeviceRequest:
    """What an operand needs in the memory of a GPU."""
    program = table.programs[table.program[operand]]
    found = _on_device(table, table.program[operand])
    assert found is not None
    chunks = [table.chunk[i] for i in table.inputs[operand]]
    inputs = [(chunk, kind.nbytes) for chunk, kind in zip(chunks, program.inputs, strict=True)]
    out = table.chunk[operand], program.output.nbytes
    return DeviceRequest(table, operand, inputs, out, found.scratch, gpus.keeps(table, operand))


def device_order(grant: DeviceGrant) -> tuple[Any, ...]:
    """The grant of an operand as it travels (`RunOnDevice`)."""
    places = [place.offset for place in grant.inputs]
    return places, [place.chunk for place in grant.inputs], grant.out.offset, grant.out.chunk, grant.scratch


def _on_device(table: JobTable, row: int) -> DeviceProgram | None:
    """A program of a job for a GPU; None where cores must run the program."""
    from jmars.devices.device_program import device_program  # only hosts with a GPU import the device floor

    return device_program(table.programs[row])


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
