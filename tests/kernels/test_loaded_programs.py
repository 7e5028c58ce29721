"""Programs that a process remembers: in bounds of number and bytes."""

from __future__ import annotations

from typing import Any

import pytest

from jmars.kernels import group_run


def test_programs_are_forgotten_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_run, "REMEMBERED_PROGRAMS", 4)
    cache: Any = group_run._Remembered()
    for number in range(6):
        assert cache.add(number, str(number), 10) == str(number)
        cache.find(0)
    assert [number for number in range(6) if cache.find(number)] == [0, 3, 4, 5]
    assert cache.add(5, "other", 10) == "5"
    monkeypatch.setattr(group_run, "REMEMBERED_BYTES", 45)
    cache.add(6, "6", 10)
    assert [number for number in range(7) if cache.find(number)] == [4, 5, 6]
    cache.clear()
    assert cache.find(6) is None
