"""SchedulerPort: a scheduler as the clients' host sees it, in any process.

InProcessScheduler is in the host's process, SchedulerSubprocess in a separate process. Methods that need an answer are
coroutines; the rest neither answers nor fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from jmars.model.events import Event
from jmars.model.messages import Submission
from jmars.model.status import HostStatus, Verdict


class SessionPort(Protocol):
    """The jobs of a cluster and their tensors; jobs that are not remembered raise UnknownTaskError."""

    async def submit(self, submission: Submission) -> str:
        """Start a job; returns the job's id, "" for a structure that is not kept any more. A ticket is one job."""

    async def cancel(self, job: str) -> None:
        """Stop a job; no effect on an ended job."""

    def withdraw(self, ticket: str) -> None:
        """Stop the job of an interrupted submission, if it came, and drop the results."""

    async def describe(self, job: str) -> dict[str, Any]:
        """State, counts of operands by state, progress, seconds, error."""

    async def wait(self, job: str, timeout: float | None = None) -> None:
        """Return when the job has ended, or `timeout` seconds have passed."""

    async def jobs(self) -> list[dict[str, Any]]:
        """`describe` of all remembered jobs, oldest first."""

    async def read(self, since: int, job: str = "", limit: int = 5_000) -> tuple[list[Event], int]:
        """Events after number `since`, and the number to read on from."""

    async def take_chunks(self, count: int) -> int:
        """The first of `count` fresh chunk numbers."""

    async def keep(self, key: str, first: int, count: int) -> None:
        """Make chunks that a client has stored the tensor `key`; the same chunks may come twice."""

    def drop(self, keys: Sequence[str]) -> None:
        """Free tensors that no client needs any more."""

    async def chunks(self, keys: Sequence[str]) -> list[list[int]]:
        """Chunk numbers of kept tensors, each in C order of the grid."""


class TasksPort(Protocol):
    """Jobs as Mars shows tasks, tileables and subtasks; unknown ids raise UnknownTaskError."""

    async def results(self) -> list[dict[str, Any]]:
        """`result` of all remembered jobs, oldest first."""

    async def result(self, task: str) -> dict[str, Any]:
        """State of a job: the fields of `TaskResult`."""

    async def wait(self, task: str, timeout: float | None = None) -> dict[str, Any]:
        """`result`, once the job has ended or `timeout` seconds have passed."""

    async def progress(self, task: str) -> float:
        """Share of a job that is done."""

    async def last_idle_time(self) -> float | None:
        """Seconds since the epoch of the end of the last job, or the cluster's begin; None while a job runs."""

    async def tileable_graph(self, task: str) -> dict[str, Any]:
        """Tensor operands and their edges."""

    async def tileable_details(self, task: str) -> dict[str, Any]:
        """Progress and state of all tensor operands."""

    async def tileable_subtasks(self, task: str, tileable: str, with_input_output: bool) -> dict[str, Any]:
        """The operands on chunks of a tensor operand."""


class ReasonsPort(Protocol):
    """Why jobs stand as they do; `host` is the status of the host's workers."""

    async def job(self, job: str, host: HostStatus) -> Verdict:
        """Why a job stands as it does."""

    async def cluster(self, host: HostStatus) -> str:
        """Why running jobs stand as they do, line by line, and which workers ended of late."""

    async def operand(self, job: str, operand: int) -> dict[str, Any]:
        """The executable graph of an operand, as JSON."""

    async def pulses(self) -> dict[str, list[Any]]:
        """A value for each running job; two equal values mean that the job has not moved."""

    async def expect(self) -> None:
        """Log the remaining seconds of running jobs."""

    async def stalled(self, job: str, verdict: Verdict, seconds: float) -> None:
        """Log that a job has not moved for so long; an empty text says that it moves again."""


class SchedulerPort(Protocol):
    """A scheduler: jobs, process and log."""

    submitted: asyncio.Event  # set with each job; whoever waits for one clears it

    @property
    def session(self) -> SessionPort:
        """Jobs and tensors."""

    @property
    def tasks(self) -> TasksPort:
        """Jobs as Mars's tasks."""

    @property
    def reasons(self) -> ReasonsPort:
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
