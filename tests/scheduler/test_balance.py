"""Operands wait nowhere while a host has nothing to do."""

from __future__ import annotations

from jmars.scheduler.hosts import Balance, HostLoad, Shift


def test_a_host_that_ends_nothing_gives_half_to_one_that_is_idle() -> None:
    balance = Balance()
    balance.look(0.0, {0: HostLoad(2, 2, 8, 0), 1: HostLoad(2, 2, 8, 0)})
    assert balance.look(1.0, {0: HostLoad(2, 2, 8, 0), 1: HostLoad(2, 0, 0, 10)}) == [Shift(0, 1, 4)]


def test_a_host_that_is_soon_through_gives_nothing() -> None:
    balance = Balance()
    balance.look(0.0, {0: HostLoad(1, 1, 9, 0), 1: HostLoad(1, 1, 9, 0)})
    assert balance.look(1.0, {0: HostLoad(1, 1, 20, 1000), 1: HostLoad(1, 0, 0, 1000)}) == []


def test_the_host_furthest_behind_gives_first_and_each_idle_host_once() -> None:
    balance = Balance()
    loads = {0: HostLoad(1, 1, 10, 0), 1: HostLoad(1, 1, 40, 0), 2: HostLoad(1, 0, 0, 0)}
    balance.look(0.0, loads)
    later = {0: HostLoad(1, 1, 10, 10), 1: HostLoad(1, 1, 40, 10), 2: HostLoad(1, 0, 0, 0)}
    assert balance.look(1.0, later) == [Shift(1, 2, 20)]


def test_nothing_moves_while_all_are_busy_or_nobody_waits() -> None:
    balance = Balance()
    for now in range(3):
        assert balance.look(float(now), {0: HostLoad(1, 1, 9, 0), 1: HostLoad(1, 1, 0, 0)}) == []
        assert balance.look(now + 0.5, {0: HostLoad(1, 1, 0, 0), 1: HostLoad(1, 0, 0, 0)}) == []
