"""At scale: messages and steps of the scheduler grow with the operands, not with operands times hosts."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any

from tests.sim.scale import run


def _steps(operands: int, hosts: int) -> tuple[int, Any]:
    """Function calls of the scheduler that a run takes, and what it told."""
    seen: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and "/jmars/scheduler/" in frame.f_code.co_filename:
            seen[frame.f_code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        told = run(operands, hosts)
    finally:
        sys.setprofile(before)
    return sum(seen.values()), told


def test_messages_per_operand_stay_equal_with_four_times_the_operands() -> None:
    (few, small), (many, large) = _steps(1_500, 25), _steps(6_000, 25)
    assert large.operands > 3.8 * small.operands
    for told in (small, large):
        assert told.messages < 2.5 * told.operands + 10 * 25
        assert sum(told.reports.values()) <= 2.1 * told.operands + 25
        assert told.makespan < 2.5 * told.ideal + 0.5
    assert many / large.operands < 1.2 * few / small.operands


def test_steps_an_operand_stay_the_same_with_four_times_the_hosts() -> None:
    (few, small), (many, large) = _steps(6_000, 15), _steps(6_000, 60)
    assert many / large.operands < 2.0 * few / small.operands, "batches are smaller on more hosts, no loop is over all"


def test_moving_work_looks_at_hosts_and_not_at_each_operand_for_each_host() -> None:
    seen = Counter[str]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == "waiting":
            caller = frame.f_back
            if caller is not None and caller.f_code.co_name == "balance":
                seen[frame.f_code.co_name] += 1

    sys.setprofile(note)
    try:
        told = run(6_000, 60)
    finally:
        sys.setprofile(None)
    assert seen["waiting"] <= told.orders["TakeBack"] + told.balances, seen
