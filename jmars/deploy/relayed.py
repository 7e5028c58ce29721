"""Relays: the scheduler's actors in another process, method by method as messages.

Classes implement the ports of the same names in `scheduler_port`; `ask` sends a call and gives the answer, `submit` and
`tell` send submissions and calls without an answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from jmars.actors import remote_method
from jmars.model.events import Event
from jmars.model.status import HostStatus, Verdict
from jmars.model.submission import Submission

__all__ = ["RelayedReasons", "RelayedSession", "RelayedTasks"]

Ask = Callable[..., Awaitable[Any]]  # (actor, method, *args) -> the answer


class RelayedSession:
    """A `SessionPort` to the actor "session"."""

    def __init__(self, ask: Ask, submit: Callable[[Submission], Awaitable[str]], tell: Callable[..., None]) -> None:
        self._ask, self._submit, self._tell = ask, submit, tell

    async def submit(self, submission: Submission) -> str:
        """As SessionActor's."""
        return await self._submit(submission)

    async def cancel(self, job: str) -> None:
        """As SessionActor's."""
        await self._ask("session", "cancel", job)

    def withdraw(self, ticket: str) -> None:
        """As SessionActor's."""
        self._tell("session", "withdraw", ticket)

    async def describe(self, job: str) -> dict[str, Any]:
        """As SessionActor's."""
        return dict(await self._ask("session", "describe", job))

    async def wait(self, job: str, timeout: float | None = None) -> None:
        """As SessionActor's."""
        await self._ask("session", "wait", job, timeout)

    async def jobs(self) -> list[dict[str, Any]]:
        """As SessionActor's."""
        return list(await self._ask("session", "jobs"))

    async def read(self, since: int, job: str = "", limit: int = 5_000) -> tuple[list[Event], int]:
        """As SessionActor's."""
        found, last = await self._ask("session", "read", since, job, limit)
        return list(found), last

    async def take_chunks(self, count: int) -> int:
        """As SessionActor's."""
        return int(await self._ask("session", "take_chunks", count))

    async def keep(self, key: str, first: int, count: int) -> None:
        """As SessionActor's."""
        await self._ask("session", "keep", key, first, count)

    def drop(self, keys: Sequence[str]) -> None:
        """As SessionActor's."""
        self._tell("session", "drop", list(keys))

    async def chunks(self, keys: Sequence[str]) -> list[list[int]]:
        """As SessionActor's."""
        return [list(one) for one in await self._ask("session", "chunks", list(keys))]


class RelayedTasks:
    """A `TasksPort` to the actor "tasks"; itself the actor "tasks" of the host."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    @remote_method
    async def results(self) -> list[dict[str, Any]]:
        """As TaskManagerActor's."""
        return list(await self._ask("tasks", "results"))

    @remote_method
    async def result(self, task: str) -> dict[str, Any]:
        """As TaskManagerActor's."""
        return dict(await self._ask("tasks", "result", task))

    @remote_method
    async def wait(self, task: str, timeout: float | None = None) -> dict[str, Any]:
        """As TaskManagerActor's."""
        return dict(await self._ask("tasks", "wait", task, timeout))

    @remote_method
    async def progress(self, task: str) -> float:
        """As TaskManagerActor's."""
        return float(await self._ask("tasks", "progress", task))

    @remote_method
    async def last_idle_time(self) -> float | None:
        """As TaskManagerActor's."""
        found: float | None = await self._ask("tasks", "last_idle_time")
        return found

    @remote_method
    async def tileable_graph(self, task: str) -> dict[str, Any]:
        """As TaskManagerActor's."""
        return dict(await self._ask("tasks", "tileable_graph", task))

    @remote_method
    async def tileable_details(self, task: str) -> dict[str, Any]:
        """As TaskManagerActor's."""
        return dict(await self._ask("tasks", "tileable_details", task))

    @remote_method
    async def tileable_subtasks(self, task: str, tileable: str, with_input_output: bool) -> dict[str, Any]:
        """As TaskManagerActor's."""
        return dict(await self._ask("tasks", "tileable_subtasks", task, tileable, with_input_output))


class RelayedReasons:
    """A `ReasonsPort` to the actor "why"."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def job(self, job: str, host: HostStatus) -> Verdict:
        """As WhyActor's."""
        found: Verdict = await self._ask("why", "job", job, host)
        return found

    async def cluster(self, host: HostStatus) -> str:
        """As WhyActor's."""
        return str(await self._ask("why", "cluster", host))

    async def operand(self, job: str, operand: int) -> dict[str, Any]:
        """As WhyActor's."""
        return dict(await self._ask("why", "operand", job, operand))

    async def pulses(self) -> dict[str, list[Any]]:
        """As WhyActor's."""
        return dict(await self._ask("why", "pulses"))

    async def expect(self) -> None:
        """As WhyActor's."""
        await self._ask("why", "expect")

    async def stalled(self, job: str, verdict: Verdict, seconds: float) -> None:
        """As WhyActor's."""
        await self._ask("why", "stalled", job, verdict, seconds)
