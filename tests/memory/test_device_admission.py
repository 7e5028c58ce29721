"""Slots of a GPU that an operand gives up before it runs go to the operand that waits for room there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle
import numpy as np
import pytest

from jmars.actors.frames import pack
from jmars.kernels.expression import Expression, Node
from jmars.kernels.program import ChunkType, Elementwise, Program, single
from jmars.model.limits import PAGE
from jmars.model.messages import InputsMissing, JobTable, LocateChunks, Refused
from jmars.plan.plan_graph import GPU
from jmars.processes.executor_messages import DEVICE, DeviceReady, ExecutorReport
from tests.worker.steps_host import Host, in_loop, table


def _negative(n: int) -> Program:
    """A program for a GPU, of `n` numbers."""
    dtype = np.dtype("f8")
    chunk = ChunkType((n,), dtype)
    return single("neg", (chunk,), Elementwise(Expression((dtype,), (Node("negative", (0,), dtype),)), (0,), chunk))


class GpuHost(Host):
    """A host whose worker has a GPU with room for one operand.

    Operands 2 and 3 read a chunk of another host each; the first has the room, and waits for the chunk.

    Attributes
    ----------
    job
        The job of the two.
    reads
        Ends the read of a chunk from another host, with "" or an error.
    """

    job: JobTable

    def __init__(self) -> None:
        super().__init__(gpus=["a GPU"])
        self.reads: dict[int, Callable[[str], None]] = {}
        self.execution.memory.buffers.pull_by(self._pull)

    def _pull(self, wanted: Any, hosts: Sequence[int], done: Callable[[str], None]) -> Callable[[], None]:
        self.reads[wanted.chunk] = done
        return lambda: None

    def begin(self) -> None:
        """Have both operands sent to the GPU."""
        ready = DeviceReady(DEVICE, 2 * PAGE, 0.1, "a GPU", "")
        self.children.links["gpu-0"].data_received(pack(ExecutorReport(0, [], 0, 0, ready, [])))
        programs, gpus = [_negative(PAGE // 8), _negative(PAGE // 8 - 1)], bytes([GPU] * 4)
        self.job = table(1, programs, [0, 1, 0, 1], [(), (), (0,), (1,)], device=gpus)
        self.execution.open_job(self.job)
        self.execution.locate_chunks(LocateChunks(self.job.chunk[:2], self.job.nbytes[:2], [[2], [3]]))
        self.execution.enqueue_graph("job-1", [2, 3], [0, 0])
        assert (self.owner(2), self.owner(3)) == (0, -1) and list(self.reads) == self.job.chunk[:1]
        assert self.execution.memory.devices.is_waiting(0)

    def owner(self, operand: int) -> int:
        """The worker whose GPU has slots for an operand; -1 for none."""
        return self.execution.memory.devices.owner(self.job, operand)

    def sent(self) -> list[list[int]]:
        """Operands of each batch that the GPU has."""
        return [list(batch.operands) for batch in self.execution.workers[0].batches]


@in_loop
def test_an_operand_gets_the_slots_of_one_whose_inputs_are_lost() -> None:
    """The host with the inputs is gone."""
    with GpuHost() as host:
        host.begin()
        lost, other = host.job.chunk[:2]
        host.reads[lost]("host 2 is gone")
        (missing,) = host.scheduler.of(InputsMissing)
        assert (missing.operands, missing.chunks) == ([2], [lost])
        assert (host.owner(2), host.owner(3)) == (-1, 0)
        host.reads[other]("")
        assert host.sent() == [[3]]


@in_loop
def test_an_operand_gets_the_slots_of_one_that_cannot_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's object may pickle once and not again."""
    with GpuHost() as host:
        host.begin()
        first, other = host.job.chunk[:2]
        dumps = cloudpickle.dumps

        def refuse(value: Any) -> bytes:
            if value is host.job.programs[0]:
                raise TypeError("no")
            return dumps(value)

        monkeypatch.setattr(cloudpickle, "dumps", refuse)
        host.reads[first]("")
        (refused,) = host.scheduler.of(Refused)
        assert refused.operand == 2 and (host.owner(2), host.owner(3)) == (-1, 0)
        host.reads[other]("")
        assert host.sent() == [[3]]
