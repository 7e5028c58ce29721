"""Kills one of two hosts, or their scheduler, under twelve programs: values are NumPy's, and hosts live on."""

from __future__ import annotations

from random import Random

import pytest

from tests.fault.kills import PROGRAMS, kill_once, kill_scheduler_once

KILLS, SCHEDULER_KILLS = 100, 20


@pytest.mark.long(beyond=2)
@pytest.mark.parametrize("number", range(KILLS))
def test_a_killed_host_costs_neither_a_value_nor_another_host(number: int) -> None:
    name = list(PROGRAMS)[number % len(PROGRAMS)]
    outcome = kill_once(name, Random(f"1 {number}"))
    assert not outcome.wrong, f"{name}, killed {outcome.moment:.2f} s after its submission: {outcome.wrong}"


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("number", range(SCHEDULER_KILLS))
def test_a_killed_scheduler_of_two_hosts_costs_no_value(number: int) -> None:
    name = list(PROGRAMS)[number % len(PROGRAMS)]
    outcome = kill_scheduler_once(name, Random(f"1 {number}"))
    assert not outcome.wrong, f"{name}, killed {outcome.moment:.2f} s after its submission: {outcome.wrong}"
