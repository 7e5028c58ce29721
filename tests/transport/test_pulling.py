"""Which holder a host asks, and when it leaves a holder that is silent."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

import pytest

from jmars.storage.chunks import ChunkRange
from jmars.transport import pulling
from jmars.transport.pulling import Puller
from jmars.transport.pulls import LAST_SECONDS, STALL_SECONDS, PullOrder
from tests.transport.certificates import identity


class Lane:
    """A connection that is being made."""

    is_open = is_agreeing = False
    carried = 0.0

    def __init__(self, holder: Any, *_: Any) -> None:
        self.holder, self.inbox = holder, SimpleQueue[Any]()

    def start(self) -> None:
        """Runs no thread."""


@pytest.fixture
def puller(monkeypatch: pytest.MonkeyPatch) -> Puller:
    """Two hosts are known, and a pull was ordered from the first, else from the second."""
    monkeypatch.setattr(pulling, "PullLane", Lane)
    made = Puller(identity(0), memoryview(bytearray(1 << 20)), lambda *_: None, lambda *_: None)
    for host in (1, 2):
        made.add_peer((host, 1), "127.0.0.1:1")
    made.pull(PullOrder(1, ChunkRange(7, 0, 10, 0, (0, 0)), [(1, 1), (2, 1)]), 100.0)
    made.advance(100.0)
    return made


def lanes(puller: Puller) -> dict[int, Any]:
    return {host: route.lanes[0] for (host, _), route in puller._routes.items() if route.lanes}


def test_a_silent_host_is_left_for_the_next_holder(puller: Puller) -> None:
    assert list(lanes(puller)) == [1]
    puller.advance(100.0 + STALL_SECONDS - 1)
    assert list(lanes(puller)) == [1]
    puller.advance(100.0 + STALL_SECONDS)
    assert sorted(lanes(puller)) == [1, 2]


def test_a_host_that_agrees_on_ucx_is_not_silent(puller: Puller) -> None:
    """UCX may take longer to start than a silent host is waited for, above all under load."""
    lane = lanes(puller)[1]
    lane.is_agreeing = True
    puller.advance(100.0 + LAST_SECONDS)
    assert list(lanes(puller)) == [1]
    lane.is_agreeing, lane.carried = False, 100.0 + LAST_SECONDS
    puller.advance(100.0 + LAST_SECONDS + STALL_SECONDS - 1)
    assert list(lanes(puller)) == [1]
    puller.advance(100.0 + LAST_SECONDS + STALL_SECONDS)
    assert sorted(lanes(puller)) == [1, 2]


def test_a_job_dials_each_host_without_a_lane_and_none_twice(puller: Puller) -> None:
    first = lanes(puller)[1]
    puller.open_lanes(100.0)
    assert sorted(lanes(puller)) == [1, 2] and lanes(puller)[1] is first
    puller.open_lanes(100.1)
    assert [len(route.lanes) for route in puller._routes.values()] == [1, 1]


def test_a_job_dials_nobody_where_hosts_are_many(puller: Puller) -> None:
    for host in range(3, 3 + pulling.FEW):
        puller.add_peer((host, 1), "127.0.0.1:1")
    puller.open_lanes(100.0)
    assert list(lanes(puller)) == [1]


def test_a_host_without_an_answer_is_not_dialled_before_its_time(puller: Puller) -> None:
    puller._routes[2, 1].not_before = 101.0
    puller.open_lanes(100.9)
    assert list(lanes(puller)) == [1]
    puller.open_lanes(101.0)
    assert sorted(lanes(puller)) == [1, 2]


def test_a_pull_that_failed_and_is_withdrawn_in_one_turn_ends_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling, "PullLane", Lane)
    told: list[Any] = []
    made = Puller(identity(0), memoryview(bytearray(1 << 20)), lambda *message: told.append(message), lambda *_: None)
    made.add_peer((1, 1), "127.0.0.1:1")
    made.pull(PullOrder(1, ChunkRange(7, 0, 10, 0, (0, 0)), [(1, 1)]), 100.0)
    made.advance(100.0)
    made.drop_peer((1, 1), 100.0)  # a killed host: both orders come in one message
    made.withdraw(1)
    made.advance(100.0)
    assert [message[:2] for message in told] == [("pulled", 1)]
    made.withdraw(1)
    assert told[-1] == ("withdrawn", 1)


def test_events_of_a_closed_lane_have_no_effect(puller: Puller) -> None:
    lane = lanes(puller)[1]
    lane.join = lambda: None
    lane.name = "lane to host 1"
    for kind in ("closed", "closed", "arrived", "failed"):
        puller.event(kind, lane, ["the other end hung up"], 100.0)
    assert lanes(puller) == {}
