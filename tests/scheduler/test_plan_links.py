"""Plans for several hosts are dropped with what they count on: hosts, and the bandwidth of links."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import jmars.tensor as mt
from jmars.model.events import HOST_MOVED, LINK_MEASURED
from jmars.model.messages import Submission
from jmars.plan import Profile
from jmars.plan import Workers as PlanWorkers
from jmars.scheduler import EventLog, Machine, SessionActor
from tests.scheduler.answers import answer
from tests.scheduler.test_plans import Workers, submitted, wire


def _hosts(machine: Callable[[], Machine] | None = None) -> tuple[SessionActor, Workers]:
    """A session of three hosts with a worker each."""
    port: Any = Workers()
    names = [f"host-{number}/worker-0" for number in (1, 2, 3)]
    port.scheduler = one = SessionActor(port, names, EventLog(), lambda report: None, 2**24)
    for number in (1, 2, 3):
        one.note(HOST_MOVED, "", {"host": number, "name": f"host-{number}", "state": "joined", "why": ""})
    one.context.machine = machine or _machine
    return one, port


def _machine() -> Machine:
    return Machine(Profile(), 3 * 10**9, rows=PlanWorkers.build(3, memory=10**9), numbers=range(3))


def test_a_link_that_changes_costs_the_plans_that_were_made_before() -> None:
    async def story() -> None:
        one, port = _hosts()
        port.run(one, await submitted(one, mt.ones(12, chunk_size=6) + 1))
        assert len(one.plans) == 1
        told = {"from": 1, "to": 2, "bandwidth": 1e7, "latency": 0.0, "transport": "tls", "why": ""}
        one.note(LINK_MEASURED, "", told)
        assert len(one.plans) == 0 and one.plans.dropped == 1

    asyncio.run(story())


def test_a_plan_for_a_host_that_is_gone_when_it_is_made_is_not_kept() -> None:
    async def story() -> None:
        asked, goes_on = threading.Event(), threading.Event()

        def machine() -> Machine:
            if not asked.is_set():
                asked.set()
                goes_on.wait(60)  # in the thread that prepares
            return _machine()

        one, _ = _hosts(machine)
        blob, structure, bound = wire(mt.ones(400, chunk_size=2) + 1)
        answer(one.submit(Submission(blob, "", {}, "", structure, bound)))
        await asyncio.to_thread(asked.wait, 10)
        one.note(HOST_MOVED, "", {"host": 3, "name": "host-3", "state": "lost", "why": "it ended"})
        goes_on.set()
        await asyncio.gather(*one._tasks)
        assert len(one.plans) == 0

    asyncio.run(story())
