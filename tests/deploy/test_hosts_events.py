"""Events of hosts: what is told, in which order, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from jmars.deploy.hosts_head import EVERY, HostsEvents


class _Time:
    """The timers of an event loop, run by hand."""

    def __init__(self, monkeypatch: Any) -> None:
        self.timers: list[Callable[[], None]] = []
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self)

    def call_later(self, seconds: float, call: Callable[[], None]) -> object:
        assert seconds == EVERY
        self.timers.append(call)
        return self

    def pass_on(self) -> None:
        due, self.timers = self.timers, []
        for call in due:
            call()


def test_hosts_that_joined_before_there_was_a_log_are_told_first() -> None:
    told: list[Any] = []
    events = HostsEvents()
    events.moved(0, "a", "joined", "")
    events.connect(lambda *one: told.append(one))
    events.moved(0, "a", "lost", "its connection was cut")
    assert told == [
        ("HostMoved", "", {"host": 0, "name": "a", "state": "joined", "why": ""}),
        ("HostMoved", "", {"host": 0, "name": "a", "state": "lost", "why": "its connection was cut"}),
    ]


def test_transfers_are_told_once_in_a_while_and_add_up(monkeypatch: Any) -> None:
    time, told = _Time(monkeypatch), []
    events = HostsEvents()
    events.connect(lambda kind, job, data: told.append(data))
    for number in range(50):
        events.transferred(0, 1, 1, 10, 0.5, [[number, 1, 2, 3, 4, 5]])
    assert [one["bytes"] for one in told] == [10]  # the first at once
    events.transferred(1, 0, 1, 7, 0.5)
    time.pass_on()
    marks = [[number, 1, 2, 3, 4, 5] for number in range(34, 50)]  # of the newest
    assert told[1:] == [{"from": 0, "to": 1, "chunks": 49, "bytes": 490, "seconds": 24.5, "marks": marks, "ahead": 0}]
    time.pass_on()
    assert (told[2]["from"], told[2]["bytes"]) == (1, 7)
    time.pass_on()
    assert len(told) == 3 and not time.timers  # no timer while nothing moves
    events.transferred(0, 1, 1, 3, 0.0)
    assert told[3]["bytes"] == 3


def test_the_end_of_a_job_leaves_nothing_untold(monkeypatch: Any) -> None:
    time, told = _Time(monkeypatch), []
    events = HostsEvents()
    events.connect(lambda kind, job, data: told.append(data))
    for target in range(4):
        events.transferred(9, target, 1, 10, 0.5)
    events.flush()
    assert [one["to"] for one in told] == [0, 1, 2, 3]
    time.pass_on()
    assert len(told) == 4
