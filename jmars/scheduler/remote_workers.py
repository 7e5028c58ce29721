"""Workers that are in another process, as the scheduler sees them: each order a message.

Source: docs/decisions/0027-scheduler-apart.md; seed 003, "架构" (scheduler and workers apart).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle

from jmars.model.messages import JobTable

__all__ = ["RemoteWorkers"]


class RemoteWorkers:
    """Orders as messages: a `WorkerPort`.

    Parameters
    ----------
    send
        Takes the name of a method of `WorkerPort` and its arguments, fit for msgpack; of `open_job` the pickled table.

    Attributes
    ----------
    muted
        While this holds nothing is sent: what was ordered before is done once more in the mind alone.
    opening
        Called with each table before it is sent; may raise to refuse it.
    """

    def __init__(self, send: Callable[[str, tuple[Any, ...]], None]) -> None:
        self._send_now = send
        self._gathered: list[tuple[str, tuple[Any, ...]]] | None = None
        self.muted = False
        self.opening: Callable[[JobTable], None] = lambda table: None

    def gather(self) -> None:
        """Orders from now on go together, as one `many`, when `send_gathered` is called: a message costs its time."""
        self._gathered = []

    def send_gathered(self) -> None:
        """Send what was gathered; what comes now is sent at once."""
        gathered, self._gathered = self._gathered, None
        if gathered:
            self._send_now("many", (gathered,))

    def _send(self, method: str, args: tuple[Any, ...]) -> None:
        if self._gathered is None:
            self._send_now(method, args)
        else:
            self._gathered.append((method, args))

    def open_job(self, table: JobTable) -> None:
        """Take the operands of a job; refusals come as reports."""
        self.opening(table)
        if not self.muted:
            self._send("open_job", (cloudpickle.dumps(table),))

    def enqueue_graph(self, job: str, operands: Sequence[int], workers: Sequence[int]) -> None:
        """Run these ready operands."""
        self._order("enqueue_graph", job, list(operands), list(workers))

    def stop_execution(self, job: str) -> None:
        """Stop what runs of a job."""
        self._order("stop_execution", job)

    def replan(self, job: str, rank: Sequence[int], workers: Sequence[int], slow: Sequence[int]) -> None:
        """Operands have these ranks and workers from now on."""
        self._order("replan", job, list(rank), list(workers), list(slow))

    def close_job(self, job: str) -> None:
        """Forget a job; `closed` is reported."""
        self._order("close_job", job)

    def free_chunks(self, chunks: Sequence[int]) -> None:
        """Give the memory or file of these chunks back."""
        if chunks:
            self._order("free_chunks", list(chunks))

    def _order(self, method: str, *args: Any) -> None:
        if not self.muted:
            self._send(method, args)
