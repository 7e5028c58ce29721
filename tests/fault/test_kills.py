"""Kills one of two hosts under twelve programs: values are NumPy's, and the other host lives."""

from __future__ import annotations

from random import Random

import pytest

from tests.fault.kills import PROGRAMS, kill_once

KILLS = 100


@pytest.mark.long(beyond=2)
@pytest.mark.parametrize("number", range(KILLS))
def test_a_killed_host_costs_neither_a_value_nor_another_host(number: int) -> None:
    name = list(PROGRAMS)[number % len(PROGRAMS)]
    outcome = kill_once(name, Random(f"1 {number}"))
    assert not outcome.wrong, f"{name}, killed {outcome.moment:.2f} s after its submission: {outcome.wrong}"
