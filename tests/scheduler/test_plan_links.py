"""Plans for several hosts are dropped with what they count on: hosts, and the links that they use."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import jmars.tensor as mt
from jmars.model.events import HOST_MOVED, LINK_MEASURED
from jmars.model.messages import Finished, Started, Submission
from jmars.plan import Profile
from jmars.plan import Workers as PlanWorkers
from jmars.scheduler import EventLog, Machine, SessionActor
from jmars.scheduler.host_links import links_of
from jmars.scheduler.prepare import LEAST_SECONDS
from tests.scheduler.answers import answer
from tests.scheduler.test_plans import Workers, again, submitted, wire


class TimedWorkers(Workers):
    """Workers that tell how long operands took, too."""

    def run(self, session: SessionActor, job: str) -> None:
        while self.queued[job]:
            operand, worker = self.queued[job].pop()
            session.report(Started(job, [operand], worker))
            session.report(Finished(job, [operand], worker, None, [100]))


def _hosts(machine: Callable[[], Machine] | None = None) -> tuple[SessionActor, TimedWorkers]:
    """A session of three hosts with a worker each."""
    port: Any = TimedWorkers()
    names = [f"host-{number}/worker-0" for number in (1, 2, 3)]
    port.scheduler = one = SessionActor(port, names, EventLog(), lambda report: None, 2**24)
    for number in (1, 2, 3):
        one.note(HOST_MOVED, "", {"host": number, "name": f"host-{number}", "state": "joined", "why": ""})
    one.context.machine = machine or _machine
    return one, port


def _machine() -> Machine:
    return Machine(Profile(), 3 * 10**9, rows=PlanWorkers.build(3, memory=10**9), numbers=range(3))


def _measured(one: SessionActor, source: int, reader: int, bandwidth: float) -> None:
    told = {"from": source, "to": reader, "bandwidth": bandwidth, "latency": 0.0, "transport": "tls", "why": ""}
    one.note(LINK_MEASURED, "", told)


def test_a_link_that_changes_costs_the_plans_that_use_it_and_no_others() -> None:
    async def story() -> None:
        one, port = _hosts()
        x = mt.ones((4000, 4000), chunk_size=500)
        staying = mt.ones(12, chunk_size=6) + 1
        port.run(one, await submitted(one, (x @ x.T).sum()))
        port.run(one, await submitted(one, staying))
        moving, (structure, prepared) = one.plans._kept.items()
        assert not links_of(prepared)
        uses = links_of(moving[1])
        assert uses
        source, reader = min(uses)
        _measured(one, source + 1, reader + 1, 1e7)  # slower than was taken for granted
        assert list(one.plans._kept) == [structure] and one.plans.dropped == 1
        assert not one.plans.is_slow(prepared)
        port.makespan = LEAST_SECONDS
        _measured(one, source + 1, reader + 1, 1e9)  # what avoided the link is planned again, after the next run
        port.run(one, again(one, staying))
        await asyncio.gather(*one.context._refining)
        assert one.plans.refined == one.plans.dropped == 1 and not one.plans.is_slow(one.plans._kept[structure])

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
