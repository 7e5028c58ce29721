"""RemoteWorkers: sends orders to workers in another process as messages.

Source: docs/decisions/0027-scheduler-apart.md; docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cloudpickle

from jmars.model.messages import JobTable
from jmars.model.orders import CloseJob, EnqueueGraph, FreeChunks, OpenJob, Order, Replan, StopExecution

__all__ = ["RemoteWorkers"]


class RemoteWorkers:
    """Orders as messages: a `WorkerPort`.

    Parameters
    ----------
    send
        Sends orders in one message.

    Attributes
    ----------
    muted
        While this holds nothing is sent: what was ordered before is done once more in the mind alone.
    opening
        Called with each table before it is sent; may raise to refuse it.
    """

    def __init__(self, send: Callable[[Sequence[Order]], None]) -> None:
        self._send_now = send
        self._gathered: list[Order] | None = None
        self.muted = False
        self.opening: Callable[[JobTable], None] = lambda table: None

    def gather(self) -> None:
        """Keep orders from now on until `send_gathered` is called, to be sent as a single message."""
        self._gathered = []

    def send_gathered(self) -> None:
        """Send the gathered orders; later orders are sent at once."""
        gathered, self._gathered = self._gathered, None
        if gathered:
            self._send_now(gathered)

    def _order(self, order: Order) -> None:
        if self.muted:
            return
        if self._gathered is None:
            self._send_now([order])
        else:
            self._gathered.append(order)

    def open_job(self, table: JobTable) -> None:
        """Take the operands of a job; refusals come as reports."""
        self.opening(table)
        if not self.muted:
            self._order(OpenJob(table.job, cloudpickle.dumps(table)))

    def enqueue_graph(self, job: str, operands: Sequence[int], workers: Sequence[int]) -> None:
        """Run ready operands."""
        self._order(EnqueueGraph(job, list(operands), list(workers)))

    def stop_execution(self, job: str) -> None:
        """Stop running operands of a job."""
        self._order(StopExecution(job))

    def replan(self, job: str, rank: Sequence[int], workers: Sequence[int], slow: Sequence[int]) -> None:
        """Give operands new ranks and workers."""
        self._order(Replan(job, list(rank), list(workers), list(slow)))

    def close_job(self, job: str) -> None:
        """Forget a job; `closed` is reported."""
        self._order(CloseJob(job))

    def free_chunks(self, chunks: Sequence[int]) -> None:
        """Give the memory or file of chunks back."""
        if chunks:
            self._order(FreeChunks(list(chunks)))
