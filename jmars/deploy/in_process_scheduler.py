"""InProcessScheduler: the scheduler in the control process, for clusters that end with their kernel.

SchedulerPort: what a host needs of a scheduler in any process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from jmars.model.messages import ReportPort, WorkerPort
from jmars.scheduler import EventLog, Machine, SessionActor, TaskManagerActor, WhyActor

if TYPE_CHECKING:
    from jmars.scheduler.elastic import Demand


class SchedulerPort(Protocol):
    """A scheduler as the clients' host sees it, in any process: jobs, process and log.

    InProcessScheduler is in the host's process, SchedulerSubprocess in a separate process, whose actors are proxies.
    """

    submitted: asyncio.Event  # set with each job; whoever waits for one clears it

    @property
    def session(self) -> SessionActor:
        """Jobs and tensors."""

    @property
    def tasks(self) -> TaskManagerActor:
        """Jobs as Mars's tasks."""

    @property
    def reasons(self) -> WhyActor:
        """Why jobs stand as they do."""

    def start(self) -> None:
        """Start the scheduler's process, if there is one."""

    def close(self) -> None:
        """End the scheduler's process, if there is one."""

    @property
    def pid(self) -> int:
        """The process that schedules; 0 while none does."""

    @property
    def pids(self) -> dict[str, int]:
        """The scheduler's own processes, by name."""

    @property
    def state(self) -> str:
        """State for `Cluster.info`: running or starting."""

    @property
    def active(self) -> bool:
        """Whether a job has not ended."""

    def note(self, kind: str, job: str, data: dict[str, Any]) -> None:
        """Log an event of the host."""

    def break_jobs(self, why: str) -> None:
        """End all jobs that run with an InternalError, for a fault of jmars."""

    async def plans(self) -> dict[str, int]:
        """Counts of kept structures, and how often they served."""


class ConnectedWorkers(WorkerPort, Protocol):
    """Workers that send their reports to a scheduler."""

    def connect(self, scheduler: ReportPort) -> None:
        """Send reports to this scheduler from now on."""


class InProcessScheduler:
    """A `SchedulerPort` to objects of this process."""

    def __init__(
        self,
        execution: ConnectedWorkers,
        workers: Sequence[str],
        plan_bytes: int,
        job_ended: Callable[[dict[str, Any]], None],
        machine: Callable[[], Machine],
        read_chunk: Callable[[int, int], Awaitable[bytes]],
    ) -> None:
        self.session = SessionActor(execution, workers, EventLog(), job_ended, plan_bytes)
        self.session.context.machine = machine
        self.session.context.read_chunk = read_chunk
        execution.connect(self.session)
        self.tasks = TaskManagerActor(self.session)
        self.reasons = WhyActor(self.session)
        self.submitted = self.session.submitted

    def start(self) -> None:
        """No effect."""

    def close(self) -> None:
        """No effect."""

    @property
    def pid(self) -> int:
        """This process."""
        return os.getpid()

    @property
    def pids(self) -> dict[str, int]:
        """No process of its own."""
        return {}

    @property
    def state(self) -> str:
        """Always running."""
        return "running"

    @property
    def active(self) -> bool:
        """Whether a job has not ended."""
        return self.session.active

    def note(self, kind: str, job: str, data: dict[str, Any]) -> None:
        """Log an event of the host."""
        self.session.note(kind, job, data)

    def break_jobs(self, why: str) -> None:
        """End all jobs that run with an InternalError."""
        self.session.break_jobs(why)

    def demand(self) -> Demand:
        """Work of all running jobs that has not begun."""
        return self.session.demand()

    def chunk_of(self, key: str, index: int) -> int | None:
        """Number of a chunk of a kept tensor, by its place in C order; None where there is none. For any thread."""
        chunks = self.session.meta.tensors.get(key)
        return chunks[index] if chunks is not None and index < len(chunks) else None

    async def plans(self) -> dict[str, int]:
        """Counts of kept structures, and how often they served; dropped tensors are freed by then."""
        self.session.free_dropped()
        return self.session.plans.counts()
