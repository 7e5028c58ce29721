"""A host in each worker of an engine, as workers and hosts come and go. The workers are this process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jmars.deploy import inside_head
from jmars.deploy.inside_head import InsideLaunches
from jmars.deploy.roster import Roster
from jmars.deploy.tickets import Enrolment
from jmars.errors import ClusterStartError
from tests.deploy.guests_here import Here, head

SECONDS = 60.0


class Engine:
    """An engine whose workers are this process."""

    kind, address = "Dask", "tcp://here"

    def __init__(self, *berths: Here) -> None:
        self.berths = {str(number): berth for number, berth in enumerate(berths)}
        for key, berth in self.berths.items():
            berth.key = key  # type: ignore[misc]
        self.held: list[tuple[str, str]] = []
        self.closed = False

    async def start(self) -> None:
        pass

    async def look(self, patience: float = 0.0) -> dict[str, Any]:
        return dict(self.berths)

    async def hold(self, key: str, guest: str) -> None:
        self.held.append((key, guest))

    def heads(self) -> Sequence[str]:
        return ("127.0.0.1",)

    def security(self) -> str:
        return ""

    async def close(self) -> None:
        self.closed = True


@asynccontextmanager
async def launching(engine: Engine) -> AsyncIterator[tuple[Roster, InsideLaunches]]:
    """A head, and what starts its hosts; a host that is lost is told."""
    async with head() as (roster, authority, ticket):
        port = int(ticket.head[0].rpartition(":")[2])
        launches = InsideLaunches(engine, roster, Enrolment(authority), port)
        roster.opinion = launches.opinion
        roster.changed = lambda number, state, why: launches.lost(number) if state == "lost" else None
        try:
            yield roster, launches
        finally:
            roster.tell_all("member", "end", "the test is over")
            await launches.end(5.0)
            assert engine.closed


def run(engine: Engine, then: Callable[[Roster, InsideLaunches], Awaitable[None]]) -> None:
    async def story() -> None:
        async with launching(engine) as (roster, launches):
            await then(roster, launches)

    asyncio.run(story())


async def until(true: Callable[[], Any]) -> None:
    async with asyncio.timeout(SECONDS):
        while not true():
            await asyncio.sleep(0.01)


def test_a_host_that_has_ended_is_followed_by_another_with_a_new_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside_head, "PAUSE", 0.0)
    engine = Engine(Here())

    async def then(roster: Roster, launches: InsideLaunches) -> None:
        await launches.start(SECONDS)
        assert sorted(roster.links) == [1 + 1]  # number 1 is that of `head`'s ticket
        os.kill((await roster.links[2].channel.ask("member", "info"))["pid"], signal.SIGKILL)
        await until(lambda: sorted(roster.links) == [3])
        await until(lambda: len(engine.held) == 2)
        assert engine.held == [("0", "5f3a9c01-2-1"), ("0", "5f3a9c01-3-1")]

    run(engine, then)


def test_a_worker_that_comes_late_gets_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside_head, "LOOK_SECONDS", 0.01)
    engine = Engine(Here())

    async def then(roster: Roster, launches: InsideLaunches) -> None:
        await launches.start(SECONDS)
        late = Here()
        late.key = "late"  # type: ignore[misc]
        engine.berths["late"] = late
        await until(lambda: len(roster.links) == 2)

    run(engine, then)


def test_an_engine_without_workers_is_refused() -> None:
    async def then(roster: Roster, launches: InsideLaunches) -> None:
        with pytest.raises(ClusterStartError, match="Dask cluster at tcp://here has no workers whose cores are free"):
            await launches.start(SECONDS)

    run(Engine(), then)


def test_one_worker_of_two_may_fail_unless_two_are_wanted() -> None:
    async def then(roster: Roster, launches: InsideLaunches) -> None:
        with pytest.raises(ClusterStartError, match=r"host-\d \(this process\) did not start: the worker is gone"):
            await launches.start(SECONDS, least=2)
        assert len(roster.links) == 1

    run(Engine(Here(), Here(gone=True)), then)


def test_hosts_that_are_late_are_counted() -> None:
    async def then(roster: Roster, launches: InsideLaunches) -> None:
        with pytest.raises(ClusterStartError, match="0 of 1 hosts on the Dask cluster at tcp://here came up within"):
            await launches.start(0.01)

    run(Engine(Here()), then)


def test_starts_that_fail_again_and_again_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(inside_head, "PAUSE", 0.0)

    async def then(roster: Roster, launches: InsideLaunches) -> None:
        with pytest.raises(ClusterStartError, match="the worker is gone"):
            await launches.start(SECONDS)
        await until(lambda: "it gets none any more" in caplog.text)
        assert max(roster.names) == 1 + inside_head.TRIES

    run(Engine(Here(gone=True)), then)
