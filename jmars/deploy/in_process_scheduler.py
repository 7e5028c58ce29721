"""InProcessScheduler: the scheduler in the control process, for clusters that end with their kernel."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from jmars.model.events import Event
from jmars.model.messages import ReportPort, Submission, WorkerPort
from jmars.scheduler import EventLog, Machine, SessionActor, TaskManagerActor, WhyActor

if TYPE_CHECKING:
    from jmars.scheduler.elastic import Demand


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
        self._session = SessionActor(execution, workers, EventLog(), job_ended, plan_bytes)
        self._session.context.machine = machine
        self._session.context.read_chunk = read_chunk
        execution.connect(self._session)
        self.session = InProcessSession(self._session)
        self.tasks = TaskManagerActor(self._session)
        self.reasons = WhyActor(self._session)
        self.submitted = self._session.submitted

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
        return self._session.active

    def note(self, kind: str, job: str, data: dict[str, Any]) -> None:
        """Log an event of the host."""
        self._session.note(kind, job, data)

    def break_jobs(self, why: str) -> None:
        """End all jobs that run with an InternalError."""
        self._session.break_jobs(why)

    def demand(self) -> Demand:
        """Work of all running jobs that has not begun."""
        return self._session.demand()

    def chunk_of(self, key: str, index: int) -> int | None:
        """Number of a chunk of a kept tensor, by its place in C order; None where there is none. For any thread."""
        chunks = self._session.meta.tensors.get(key)
        return chunks[index] if chunks is not None and index < len(chunks) else None

    async def plans(self) -> dict[str, int]:
        """Counts of kept structures, and how often they served; dropped tensors are freed by then."""
        self._session.free_dropped()
        return self._session.plans.counts()


class InProcessSession:
    """A `SessionPort` to a SessionActor of this process."""

    def __init__(self, session: SessionActor) -> None:
        self._session = session

    async def submit(self, submission: Submission) -> str:
        """As SessionActor's."""
        return self._session.submit(submission)

    async def cancel(self, job: str) -> None:
        """As SessionActor's."""
        self._session.cancel(job)

    def withdraw(self, ticket: str) -> None:
        """As SessionActor's."""
        self._session.withdraw(ticket)

    async def describe(self, job: str) -> dict[str, Any]:
        """As SessionActor's."""
        return self._session.describe(job)

    async def wait(self, job: str, timeout: float | None = None) -> None:
        """As SessionActor's."""
        await self._session.wait(job, timeout)

    async def jobs(self) -> list[dict[str, Any]]:
        """As SessionActor's."""
        return self._session.jobs()

    async def read(self, since: int, job: str = "", limit: int = 5_000) -> tuple[list[Event], int]:
        """As SessionActor's."""
        return self._session.read(since, job, limit)

    async def take_chunks(self, count: int) -> int:
        """As SessionActor's."""
        return self._session.take_chunks(count)

    async def keep(self, key: str, first: int, count: int) -> None:
        """As SessionActor's."""
        self._session.keep(key, first, count)

    def drop(self, keys: Sequence[str]) -> None:
        """As SessionActor's."""
        self._session.drop(keys)

    async def chunks(self, keys: Sequence[str]) -> list[list[int]]:
        """As SessionActor's."""
        return self._session.chunks(keys)
