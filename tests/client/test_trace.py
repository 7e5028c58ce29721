"""The trace follows the Trace Event Format: what Perfetto reads without a warning."""

from __future__ import annotations

import json
from typing import Any

import jmars.tensor as mt
from jmars.client.cluster import Cluster
from jmars.client.reporting import trace_of
from tests.browser.simulated import simulate

REQUIRED = {"ph", "name", "ts", "pid", "tid"}


def check(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """The records, after all that the format asks of them was looked at."""
    assert json.loads(json.dumps(trace)) == trace
    assert trace["displayTimeUnit"] in ("ms", "ns")
    records = trace["traceEvents"]
    open_waits: dict[Any, int] = {}
    by_thread: dict[int, list[tuple[int, int]]] = {}
    for one in records:
        assert one.keys() >= REQUIRED, one
        assert isinstance(one["ts"], int) and one["ts"] >= 0
        assert isinstance(one["tid"], int) and isinstance(one["name"], str) and one["name"]
        if one["ph"] == "X":
            assert isinstance(one["dur"], int) and one["dur"] >= 0
            by_thread.setdefault(one["tid"], []).append((one["ts"], one["ts"] + one["dur"]))
        elif one["ph"] in "be":
            assert one["cat"] and isinstance(one["id"], int)
            open_waits[one["cat"], one["id"]] = open_waits.get((one["cat"], one["id"]), 0) + (
                1 if one["ph"] == "b" else -1
            )
        elif one["ph"] == "C":
            assert all(isinstance(value, int) for value in one["args"].values()) and one["args"]
        elif one["ph"] == "i":
            assert one["s"] in ("g", "p", "t")
        else:
            assert one["ph"] == "M" and one["name"] in ("process_name", "thread_name", "thread_sort_index")
    assert set(open_waits.values()) <= {0}
    for slices in by_thread.values():  # of one thread they follow each other or lie within each other
        stack: list[int] = []
        for begin, end in sorted(slices, key=lambda one: (one[0], -one[1])):
            while stack and stack[-1] <= begin:
                stack.pop()
            assert not stack or end <= stack[-1], (begin, end, stack)
            stack.append(end)
    return records


def test_a_run_with_spill_and_waits():
    log = simulate(32)
    records = check(trace_of(log, "job-1"))
    n = next(event[4]["n_after"] for event in log if event[2] == "GraphBuilt")
    slices = [one for one in records if one["ph"] == "X" and one["cat"] == "operand"]
    assert len(slices) == n
    assert {one["args"]["line"] for one in slices if one["name"] == "sum"} == {"line 7: f.sum()"}
    states = {one["name"] for one in records if one.get("cat") in ("state", "waits")}
    assert states == {"allocating", "preparing", "calculating", "storing"}
    threads = {one["args"]["name"] for one in records if one["name"] == "thread_name"}
    assert threads == {"scheduler", "worker-0", "worker-1", "worker-2", "worker-3"}
    assert [one["name"] for one in records if one.get("cat") == "job"] == ["preparing", "running"]
    assert {one["name"] for one in records if one["ph"] == "C"} == {"memory", "spill"}


def test_a_failed_run_tells_its_error():
    records = check(trace_of(simulate(16, fail_at=2.0), "job-1"))
    (end,) = [one for one in records if one["name"] == "failed"]
    assert "FloatingPointError" in end["args"]["error"]


def test_a_log_that_has_lost_its_begin_says_so():
    log = simulate(8)
    assert trace_of(log, "job-1")["otherData"]["complete"]
    assert not trace_of(log[5:], "job-1")["otherData"]["complete"]
    check(trace_of(log[20:], "job-1"))


def test_a_batch_that_was_told_late_does_not_overlap_the_next_one():
    log = simulate(8)
    late = [[seq, time + 0.5 * (kind == "OperandsTimed"), kind, job, data] for seq, time, kind, job, data in log]
    check(trace_of(late, "job-1"))


def test_a_real_run_is_written_and_whole(cluster: Cluster, tmp_path):
    job = cluster.submit((mt.ones(1000, chunk_size=100) * 2).sum())
    job.result()
    path = job.trace(tmp_path / "run.json")
    trace = json.loads(path.read_text())
    records = check(trace)
    assert trace["otherData"] == {"job": job.id, "complete": True, "program": "jmars"}
    assert {"preparing", "running", "succeeded", "compile", "rank"} <= {one["name"] for one in records}
    assert [one.name for one in tmp_path.iterdir()] == ["run.json"]
