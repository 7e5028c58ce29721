"""Sizes and durations as text."""

from __future__ import annotations

import pytest

from jmars.units import format_seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0009, "900 µs"), (0.001, "1.0 ms"), (0.05, "50.0 ms"), (0.1, "0.10 s"), (9.5, "9.50 s"), (10, "10 s"),
        (60, "1 min 0 s"),
    ],
)  # fmt: skip
def test_each_duration_has_its_unit(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
