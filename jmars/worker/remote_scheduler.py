"""A scheduler that is another process, as the workers see it: each report a message, each message an order.

`RemoteScheduler` is the `SchedulerPort` of the host, `Orders` the actor that the scheduler's orders reach; both keep
the `RecoverySnapshot` for the next scheduler, should this one die. While there is none, reports go nowhere: the
snapshot holds what they said.
Source: docs/decisions/0027-scheduler-apart.md; seed 003, "架构" (scheduler and workers apart).
"""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jmars.errors import fault_of
from jmars.model.messages import JobTable, Raised, WorkerPort
from jmars.worker.recovery_snapshot import RecoverySnapshot

__all__ = ["Orders", "RemoteScheduler"]

log = logging.getLogger("jmars.worker")

Send = Callable[[str, tuple[Any, ...]], None]


class RemoteScheduler:
    """Reports as messages.

    Parameters
    ----------
    send
        Takes the name of a method of `SchedulerPort` and its arguments, fit for msgpack; drops them where nobody hears.
    known
        Remembers what was reported.
    """

    def __init__(self, send: Send, known: RecoverySnapshot) -> None:
        self._send, self._known = send, known
        self.when_closed: dict[str, asyncio.Future[None]] = {}  # job that is given up: who waits until it is forgotten

    def started(self, job: str, operands: list[int], worker: int) -> None:
        """A worker took these operands."""
        self._known.running(job, operands, worker)
        self._send("started", (job, operands, worker))

    def finished(
        self,
        job: str,
        operands: list[int],
        worker: int,
        sizes: Mapping[int, tuple[int, ...]] | None = None,
        microseconds: Sequence[int] = (),
    ) -> None:
        """Their chunks are stored."""
        self._known.stored(job, operands, worker, sizes)
        self._send("finished", (job, operands, worker, sizes, microseconds))

    def timed(self, job: str, operands: list[int], worker: int, microseconds: Sequence[bytes]) -> None:
        """How long these were in each of a worker's four states."""
        self._send("timed", (job, operands, worker, microseconds))

    def failed(self, job: str, operand: int, worker: int, error: Raised) -> None:
        """An operand raised."""
        self._known.gone(job, [operand])
        self._send("failed", (job, operand, worker, error))

    def interrupted(self, job: str, operands: list[int], worker: int) -> None:
        """These were stopped before they were done."""
        self._known.gone(job, operands)
        self._send("interrupted", (job, operands, worker))

    def lost(self, job: str, operands: list[int], worker: int, why: str, how: str = "signal") -> None:
        """The worker died while it ran these."""
        self._known.gone(job, operands)
        self._send("lost", (job, operands, worker, why, how))

    def spilled(self, job: str, operands: list[int], on_disk: bool) -> None:
        """Their chunks went to disk, or came back."""
        self._send("spilled", (job, operands, on_disk))

    def refused(self, job: str, operand: int, error: BaseException) -> None:
        """This operand can never run here."""
        if operand >= 0:
            self._known.gone(job, [operand])
        self._send("refused", (job, operand, _pickled(error)))

    def chunks_lost(self, chunks: list[int], why: str) -> None:
        """These chunks are gone."""
        self._known.chunks_gone(chunks)
        self._send("chunks_lost", (chunks, why))

    def missing(self, job: str, operands: list[int], chunks: list[int], why: str) -> None:
        """These operands cannot run because these inputs are not here."""
        self._known.chunks_gone(chunks)
        self._known.gone(job, operands)
        self._send("missing", (job, operands, chunks, why))

    def closed(self, job: str, measured: dict[str, Any]) -> None:
        """The job is forgotten, as ordered."""
        self._known.close(job, measured)
        waiting = self.when_closed.pop(job, None)
        if waiting is None:
            self._send("closed", (job, measured))
        elif not waiting.done():  # given up: nobody else is to hear of it
            waiting.set_result(None)

    def broken(self, job: str, why: str) -> None:
        """We failed at something for this job."""
        self._send("broken", (job, why))

    def worker_moved(self, worker: int, name: str, pid: int, state: str) -> None:
        """A worker process came, went or was replaced."""
        self._send("worker_moved", (worker, name, pid, state))


class Orders:
    """The actor "workers": what a scheduler apart orders. Orders about jobs that are not open here change nothing."""

    def __init__(self, workers: WorkerPort, reports: RemoteScheduler, known: RecoverySnapshot) -> None:
        self._workers, self._reports, self._known = workers, reports, known

    def many(self, orders: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
        """Several orders at once."""
        for method, args in orders:
            getattr(self, method)(*args)

    def open_job(self, blob: bytes) -> None:
        """Take the operands of a job, a pickled JobTable."""
        table: JobTable = pickle.loads(blob)
        try:
            self._workers.open_job(table)
        except Exception as error:  # whatever speaks against it: the scheduler tells the user
            self._reports.refused(table.job, -1, error)
        else:
            self._known.opened(table)

    def enqueue_graph(self, job: str, operands: Sequence[int], workers: Sequence[int]) -> None:
        """Run these ready operands."""
        if job in self._known.jobs:
            self._known.queued(job, operands)
            self._carefully(job, self._workers.enqueue_graph, operands, workers)

    def stop_execution(self, job: str) -> None:
        """Stop what runs of a job."""
        if job in self._known.jobs:
            self._known.jobs[job].stopped = True
            self._workers.stop_execution(job)

    def replan(self, job: str, rank: Sequence[int], workers: Sequence[int], slow: Sequence[int]) -> None:
        """Operands have these ranks and workers."""
        if job in self._known.jobs:
            self._carefully(job, self._workers.replan, rank, workers, slow)

    def close_job(self, job: str) -> None:
        """Forget a job."""
        if job in self._known.jobs:
            self._workers.close_job(job)

    def free_chunks(self, chunks: Sequence[int]) -> None:
        """Give the memory or file of these chunks back."""
        self._workers.free_chunks(chunks)

    def _carefully(self, job: str, act: Callable[..., None], *args: Any) -> None:
        """An order that we fail at ends its job, as the scheduler then orders."""
        try:
            act(job, *args)
        except Exception as error:
            log.exception("an order for %s could not be acted on", job)
            self._reports.broken(job, fault_of(error))

    async def give_up(self, job: str) -> None:
        """Stop a job and forget it with all its chunks; returns when nothing of it runs."""
        known = self._known.jobs.get(job)
        if known is None:
            return
        closed = self._reports.when_closed[job] = asyncio.get_running_loop().create_future()
        self.stop_execution(job)
        self._workers.close_job(job)
        await closed
        self._workers.free_chunks(range(known.base, known.base + len(known.state)))


def _pickled(error: BaseException) -> bytes:
    try:
        blob = pickle.dumps(error)
        pickle.loads(blob)
    except Exception:  # it cannot travel: its class and text do
        blob = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return blob
