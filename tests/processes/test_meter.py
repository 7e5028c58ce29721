"""Meter: what is no computing is told apart; a kernel that does not count changes nothing."""

import mmap
import os
from collections.abc import Iterator

import pytest

from jmars.model.limits import PAGE
from jmars.processes.vitals import Meter


@pytest.fixture
def meter() -> Iterator[Meter]:
    made = Meter()
    yield made
    made.close()


def test_memory_that_is_touched_first_is_told_and_used_memory_is_not(meter: Meter):
    pages = 1000
    with mmap.mmap(-1, pages * PAGE) as memory:
        meter.start()
        for at in range(0, pages * PAGE, PAGE):
            memory[at] = 1
        _, fresh, _ = meter.read([1])
        assert fresh >= pages * PAGE // 2  # huge pages may take several at once
        for at in range(0, pages * PAGE, PAGE):
            memory[at] = 2
        _, again, _ = meter.read([1])
        assert again < fresh


def test_waiting_for_a_core_is_taken_from_every_operand_alike(meter: Meter, monkeypatch: pytest.MonkeyPatch):
    counted = [0]
    monkeypatch.setattr(meter, "_nanoseconds", lambda: counted[0])
    meter.start()
    counted[0] = 50_000
    assert meter.read([60, 40])[::2] == ([30, 20], 50)
    assert meter.read([60, 40])[::2] == ([60, 40], 0)


def test_more_waiting_than_time_is_not_believed(meter: Meter, monkeypatch: pytest.MonkeyPatch):
    counted = [0]
    monkeypatch.setattr(meter, "_nanoseconds", lambda: counted[0])
    meter.start()
    counted[0] = 10**9
    assert meter.read([60, 40])[::2] == ([60, 40], 0)


def test_a_kernel_that_does_not_count_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    def missing(*_: object) -> int:
        raise FileNotFoundError

    monkeypatch.setattr(os, "open", missing)
    assert Meter().read([60, 40])[::2] == ([60, 40], 0)
