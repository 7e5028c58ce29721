"""Hosts come at once for work that is worth them, and leave after a while in which fewer were enough."""

from __future__ import annotations

from jmars.scheduler.elastic import IDLE_SECONDS, WORTH, Demand, Elastic


def _look(elastic: Elastic, now: float, hosts: int, seconds: float = 0.0, runnable: int = 1000) -> int:
    return elastic.look(now, hosts, 2 * hosts, Demand(seconds, runnable if seconds else 0))


def test_hosts_come_for_work_up_to_the_most() -> None:
    elastic = Elastic(1, 4)
    assert _look(elastic, 0.0, 1, seconds=2 * WORTH) == 1
    assert _look(elastic, 1.0, 1, seconds=2 * WORTH + 1) == 2
    assert _look(elastic, 2.0, 2, seconds=1e6) == 4


def test_operands_that_cannot_run_at_once_are_no_reason_for_a_host() -> None:
    assert _look(Elastic(1, 4), 0.0, 1, seconds=1e6, runnable=2) == 1
    assert _look(Elastic(1, 4), 0.0, 1, seconds=1e6, runnable=3) == 2


def test_hosts_come_below_the_minimum_and_leave_above_the_maximum() -> None:
    assert _look(Elastic(2, 4), 0.0, 1) == 2
    assert _look(Elastic(1, 2), 0.0, 4) == 2


def test_hosts_leave_only_when_fewer_have_been_enough_for_a_while() -> None:
    elastic = Elastic(1, 4)
    assert _look(elastic, 0.0, 4) == 4
    assert _look(elastic, 1.0, 4, seconds=4 * WORTH) == 4  # needed again
    assert _look(elastic, 2.0, 4) == 4
    assert _look(elastic, 2.0 + IDLE_SECONDS - 0.1, 4) == 4
    assert _look(elastic, 2.0 + IDLE_SECONDS, 4) == 1


def test_the_most_that_was_needed_meanwhile_stays() -> None:
    elastic = Elastic(1, 4)
    _look(elastic, 0.0, 4)
    _look(elastic, 10.0, 4, seconds=2 * WORTH + 1, runnable=3)
    assert _look(elastic, IDLE_SECONDS, 4) == 2


def test_hosts_that_compute_do_not_leave_though_nothing_waits() -> None:
    elastic = Elastic(1, 4)
    for now in (0.0, IDLE_SECONDS, 2 * IDLE_SECONDS):
        assert elastic.look(now, 3, 6, Demand(seconds=0.0, runnable=6)) == 3
    assert elastic.look(100.0, 3, 6, Demand(seconds=0.0, runnable=3)) == 3
    assert elastic.look(100.0 + IDLE_SECONDS, 3, 6, Demand(seconds=0.0, runnable=3)) == 2
