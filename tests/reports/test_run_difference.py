"""Differences of two runs: the first operand placed or ordered otherwise, the largest differences."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from jmars.reports.run_difference import run_difference
from jmars.reports.run_record import RunRecord
from tests.reports.test_reports import log, packed


def changed(ids: tuple[int, ...], worker: int = 0, seconds: tuple[int, ...] = (1, 1)) -> list[list[Any]]:
    """The log of four operands, in which worker 0 ran `ids` instead of 0 and 2."""
    events = deepcopy(log())
    timed = next(event for event in events if event[2] == "OperandsTimed" and event[4]["worker"] == worker)
    timed[4]["ids"] = packed(*ids)
    timed[4]["microseconds"][2] = packed(*[1_000_000 * one for one in seconds])
    return events


def differ(one: list[Any], other: list[Any]) -> dict[str, Any]:
    return run_difference(RunRecord.of(one, ["job-1"]), RunRecord.of(other, ["job-1"]))


def test_equal_runs_have_no_first_difference():
    found = differ(log(), log())
    assert found["first"] is None and found["notes"] == []


def test_the_first_operand_ordered_otherwise_is_told():
    found = differ(log(), changed((2, 0)))
    assert found["first"]["text"].startswith("operand 1 of worker-0 was add #0 (line 3: y = x + 1) in A, add #2")
    assert found["first"]["at"] == 0.0


def test_the_first_operand_placed_otherwise_is_told():
    other = changed((0, 3))
    next(event for event in other if event[2] == "OperandsTimed" and event[4]["worker"] == 1)[4]["ids"] = packed(1, 2)
    found = differ(log(), other)
    assert (
        found["first"]["at"] == 1.0
        and "add #2 (line 3: y = x + 1) ran on worker-0 in A, on worker-1 in B" in (found["first"]["text"])
    )


def test_the_largest_differences_come_first():
    found = differ(log(), changed((0, 2), seconds=(1, 0)))
    tables = {table["title"].split(":")[0]: [row["cells"] for row in table["rows"]] for table in found["tables"]}
    assert tables["operand"][0] == ["add #2", "1.00 s", "0.00 s", "−1.00 s"]
    assert tables["kind"][0] == ["add", "2.00 s · 2", "1.00 s · 2", "−1.00 s"]
    assert tables["worker"][0] == ["worker-0", "2.00 s · 2", "1.00 s · 2", "−1.00 s"]


def test_runs_of_other_graphs_are_compared_by_kind():
    found = differ(log(), log(6))
    assert found["first"] is None and "graphs differ" in found["notes"][0]
    assert [table["title"] for table in found["tables"]] == [
        "whole run",
        "kind: time · operands",
        "worker: time · operands",
    ]
