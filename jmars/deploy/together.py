"""The scheduler in the control process: what a cluster has that ends with its kernel.

`Together` and `Apart` are the same to the host; here every answer is there at once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from jmars.scheduler import EventLog, Machine, SessionActor, TaskManagerActor, WhyActor
from jmars.worker import ExecutionActor

__all__ = ["Together"]


class Together:
    """A scheduler that is part of this process.

    Attributes
    ----------
    session, events, tasks, reasons
        Its actors: SessionActor for clients and for readers of events, TaskManagerActor, WhyActor.
    """

    def __init__(
        self,
        execution: ExecutionActor,
        workers: Sequence[str],
        plan_bytes: int,
        job_ended: Callable[[dict[str, Any]], None],
        machine: Callable[[], Machine],
        read_chunk: Callable[[int, int], Awaitable[bytes]],
    ) -> None:
        self._log = EventLog()
        self.session = self.events = SessionActor(execution, workers, self._log, job_ended, plan_bytes)
        self.tasks = TaskManagerActor(self.session)
        self.reasons = WhyActor(self.session)
        self.session.around.machine = machine
        self.session.around.read_chunk = read_chunk
        execution.scheduler = self.session

    def start(self) -> None:
        """Nothing to start."""

    def close(self) -> None:
        """Nothing to end."""

    @property
    def pids(self) -> dict[str, int]:
        """Processes of its own."""
        return {}

    @property
    def pid(self) -> int:
        """The process that schedules."""
        return os.getpid()

    @property
    def state(self) -> str:
        """For `Cluster.info`."""
        return "running"

    @property
    def active(self) -> bool:
        """Whether a job has not ended."""
        return self.session.active

    @property
    def submitted(self) -> asyncio.Event:
        """Set with each job; whoever waits for one clears it."""
        return self.session.submitted

    def held(self) -> list[int]:
        """Bytes of the running jobs' chunks by the worker that made them."""
        return self.session.held()

    def note(self, kind: str, job: str, data: dict[str, Any]) -> None:
        """Something happened on the host."""
        self._log.append(kind, job, data)

    def plans(self) -> dict[str, int]:
        """How many structures are kept, and how often they served."""
        return self.session.plans.counts()
