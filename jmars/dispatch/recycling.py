"""Recycles workers: replaces an executor process for retained or refused memory, or after each operand of a job.

Source: docs/explanation/seeds.md, "Cost-driven graph partitioning".
"""

from __future__ import annotations

from collections.abc import Sequence

from jmars.dispatch.speculation import SpeculativeExecution
from jmars.dispatch.workers import DISCARDED, RECYCLED, Batch, Worker
from jmars.memory import HostMemory

__all__ = ["WorkerRecycling"]


class WorkerRecycling:
    """Workers with processes to replace."""

    def __init__(self, memory: HostMemory, workers: Sequence[Worker], speculation: SpeculativeExecution) -> None:
        self._memory, self._workers, self._speculation = memory, workers, speculation

    def retained(self, worker: Worker, nbytes: int) -> None:
        """An executor measured the memory that functions left allocated."""
        if self._memory.update_retained(worker.index, nbytes):
            self.recycle(worker)

    def recycle(self, worker: Worker) -> None:
        """Replace a process between two batches; a batch that has not begun goes to other workers."""
        worker.state = RECYCLED
        if worker.batches and worker.batches[-1].duplicate is None:
            self._speculation.revoke(worker)
        self.rested(worker)

    def at_once(self, worker: Worker) -> None:
        """Replace a process now: a library that was refused memory while loading stays broken."""
        worker.state = RECYCLED
        worker.link.kill(DISCARDED)

    def batch_ended(self, worker: Worker, batch: Batch) -> None:
        """A batch has ended: end an ephemeral process, or a recycled process without further batches."""
        if batch.table.ephemeral and worker.state in ("", RECYCLED):
            self.recycle(worker)
        else:
            self.rested(worker)

    def rested(self, worker: Worker) -> None:
        """Replace the process of a recycled worker without further batches."""
        if worker.state == RECYCLED and not worker.batches:
            worker.link.kill(DISCARDED)

    def shed(self) -> bool:
        """Recycle all workers that retain memory, since a request finds no room; returns whether some will end.

        A worker that waits for a slot does not end by itself; its result is dropped (`memory.dynamic_outputs`).
        """
        retaining = [one for one in self._workers if one.link.pid and self._memory.retains(one.index)]
        for worker in retaining:
            if worker.state != RECYCLED:
                self.recycle(worker)
        return any(not worker.batches or not self._memory.waits_for_slot(worker.index) for worker in retaining)
