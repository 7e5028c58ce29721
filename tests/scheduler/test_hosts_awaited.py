"""Without a host, jobs wait for one where one may come; what they had sent goes to the host that comes."""

from __future__ import annotations

import pytest

from jmars.errors import ClusterLostError
from jmars.model.messages import EnqueueGraph, InputsMissing, JobClosed, OpenJob
from jmars.scheduler.hosts import Hosts
from tests.scheduler.test_hosts import Link, Scheduler, _table


def _hosts() -> tuple[Hosts, Link, Scheduler]:
    hosts, link, scheduler = Hosts(), Link(), Scheduler()
    hosts.connect(scheduler)
    hosts.add(1, "a", link.order, workers=1, memory=1000, room=1000)
    scheduler.take()
    return hosts, link, scheduler


def test_operands_of_a_returned_host_are_sent_again_to_any_host() -> None:
    for number in (1, 2):
        hosts, link, scheduler = _hosts()
        hosts.open_job(_table())
        hosts.enqueue_graph("job-1", [0, 1], [0, 0])
        hosts.awaits = True
        hosts.lost(1, "silent")
        assert InputsMissing("job-1", [0, 1], [], "silent") in scheduler.take()
        link.take()
        hosts.enqueue_graph("job-1", [0, 1], [0, 0])  # the scheduler runs them again
        assert link.take() == []
        back = Link()
        row = hosts.add(number, "ab"[number - 1], back.order, workers=1, memory=1000, room=1000)
        opened, sent = back.take()
        assert isinstance(opened, OpenJob) and sent == EnqueueGraph("job-1", [0, 1], [0, 0])
        hosts.enqueue_graph("job-1", [3], [row.first])
        assert back.take() == [EnqueueGraph("job-1", [3], [0])]


def test_a_job_that_is_submitted_meanwhile_waits_and_can_be_closed() -> None:
    hosts, _, scheduler = _hosts()
    hosts.lost(1, "silent")
    with pytest.raises(ClusterLostError, match="wait for a host"):
        hosts.open_job(_table())
    hosts.awaits = True
    hosts.open_job(_table(kept=10**6))  # how much fits is known when a host is there
    hosts.enqueue_graph("job-1", [0], [0])
    scheduler.take()
    hosts.stop_execution("job-1")
    hosts.close_job("job-1")
    (closed,) = scheduler.take()
    assert isinstance(closed, JobClosed)
    back = Link()
    hosts.add(1, "a", back.order, workers=1, memory=1000, room=1000)
    assert back.take() == []
