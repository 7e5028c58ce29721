"""Reports from events: columns, pages that need no network, texts of users escaped, sizes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars
import jmars.tensor as mt
from jmars.errors import ClusterError, JmarsError
from jmars.reports import figures
from jmars.reports.figures import report_page
from jmars.reports.run_record import Pauses, RunRecord


def packed(*values: int) -> bytes:
    return np.array(values, "<u4").tobytes()


def log(n: int = 4, line: str = "y = x + 1", job: str = "job-1", error: str | None = None) -> list[list[Any]]:
    """A job of n operands on two workers, a second each."""
    graph = {
        "workers": ["worker-0", "worker-1"],
        "group_labels": ["add", "sum"],
        "after_group": (np.arange(n) % 2).astype("<u4").tobytes(),
        "before_group": np.arange(n).astype("<u4").tobytes(),
        "before_stage": np.zeros(n, "<u4").tobytes(),
        "stages": [["add", "cell", 3, line, n]],
        "stage_number": 1,
        "n_before": 2 * n,
        "n_after": n,
        "predicted": {"makespan": 2.0, "peak": [2**20, 2**21]},
    }
    half = n // 2
    microseconds = [b"", b"", packed(*[1_000_000] * half), b""]
    found = [
        [1, 100.0, "WorkerMoved", "", {"worker": 0, "name": "worker-0", "pid": 7, "state": "idle"}],
        [2, 100.0, "JobSubmitted", job, {"name": "In [1]"}],
        [3, 100.0, "JobPrepared", job, {"phases": [["compile", 0.25], ["rank", 0.25]]}],
        [4, 100.5, "GraphBuilt", job, graph],
        [5, 101.0, "MemoryChanged", "", {"used": 10, "resident": 2**20, "spilled": 5, "limit": 2**30}],
    ]
    for worker in (0, 1):
        ids = packed(*range(worker, n, 2))
        data = {"ids": ids, "worker": worker, "microseconds": microseconds, "backends": [[0, "numexpr"]]}
        found.append([6 + worker, 102.0, "OperandsTimed", job, data])
    moved = {"from": 1, "to": 2, "chunks": 3, "bytes": 3 * 2**20, "seconds": 0.5}
    joined = {"host": 1, "name": "node-7", "state": "joined", "why": ""}
    found.append([8, 102.0, "HostMoved", "", joined])
    found.append([9, 102.0, "ChunksMoved", "", moved])
    found.append([10, 102.5, "WorkerMoved", "", {"worker": 1, "name": "worker-1", "pid": 9, "state": "replaced"}])
    state = "failed" if error else "succeeded"
    found.append(
        [11, 103.0, "JobMoved", job, {"state": state, "error": error, "elapsed": 3.0, "measured": {"peak": 77}}]
    )
    return found


def test_a_record_has_operands_memory_transfers_and_marks() -> None:
    record = RunRecord.of(log())
    operands = record.operands
    assert (record.seconds, len(operands), record.workers) == (3.0, 4, ["worker-0", "worker-1"])
    assert operands.seconds.tolist() == [1.0] * 4
    assert operands.times[:, 4].tolist() == [1.0, 2.0, 1.0, 2.0]
    assert [record.kinds[k] for k in operands.kind] == ["add", "add", "sum", "sum"]
    assert [record.lines[k] for k in operands.line] == ["line 3: y = x + 1"] * 4
    assert record.memory == [(1.0, 10, 2**20, 5)] and record.memory_limit == 2**30
    assert record.transfers == {("node-7", "host-2"): [3, 3 * 2**20, 0.5]}
    assert record.marks == [(2.5, "worker-1 replaced")]
    (job,) = record.jobs.values()
    assert (job.operands, job.before, job.measured, sum(job.phases.values())) == (4, 8, {"peak": 77}, 0.5)
    assert job.backends == {"numexpr"}
    assert "<th>back ends</th>" in report_page(record, "A run") and "<td>numexpr</td>" in report_page(record, "A run")


def test_workers_without_planned_jobs_and_late_events_do_not_count() -> None:
    gone = [0, 99.0, "WorkerMoved", "", {"worker": 2, "name": "worker-2", "pid": 0, "state": "left"}]
    memory = [12, 130.0, "MemoryChanged", "", {"used": 1, "resident": 2**40, "spilled": 0, "limit": 2**41}]
    record = RunRecord.of([gone, *log(), memory])
    assert record.workers == ["worker-0", "worker-1"] and record.seconds == 3.0 and len(record.memory) == 1
    again = RunRecord.of([gone, *log(), memory, *([n + 20, time + 60, *rest] for n, time, *rest in log(job="job-2"))])
    assert again.seconds == 63.0 and len(again.memory) == 3  # another job followed: the time between counts


def test_other_jobs_and_a_graph_that_is_told_again_do_not_count() -> None:
    events = log() + log(job="job-2")
    graph = next(event for event in events if event[2] == "GraphBuilt")
    record = RunRecord.of([*events, graph], ["job-1"])
    assert list(record.jobs) == ["job-1"] and record.jobs["job-1"].operands == 4


def after_a_pause(seconds: float) -> list[Any]:
    """The events of two jobs, the second begun so much later."""
    later = log(job="job-2")
    return log() + [[20 + number, time + seconds, *rest] for number, time, *rest in later]


def test_a_long_pause_is_folded_in_the_time_line() -> None:
    chart = figures.timeline(RunRecord.of(after_a_pause(600.0)))
    ends = np.concatenate([bars.data_source.data["right"] for bars in chart.renderers])
    assert ends.min() == 1.0 and ends.max() == pytest.approx(4.0 + 0.02 * 4, abs=0.01)  # 600 s were drawn
    assert "598 s of pause folded" in chart.xaxis[0].axis_label
    short = figures.timeline(RunRecord.of(after_a_pause(3.5)))
    assert short.xaxis[0].axis_label == "seconds since the submission"
    assert max(bars.data_source.data["right"].max() for bars in short.renderers) == pytest.approx(5.5)


def test_bars_of_a_large_run_have_no_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [bars.glyph.line_color for bars in figures.timeline(RunRecord.of(log())).renderers]
    monkeypatch.setattr(figures, "EDGED", 0)
    bare = [bars.glyph for bars in figures.timeline(RunRecord.of(log())).renderers]
    assert None not in drawn and {glyph.line_color for glyph in bare} == {None}
    assert [glyph.fill_color for glyph in bare] == drawn


@given(st.lists(st.tuples(st.floats(-5, 1e4), st.floats(0, 100)), min_size=1, max_size=30))
def test_folded_times_keep_their_order_and_operands_their_lengths(operands: list[tuple[float, float]]) -> None:
    begins = np.array([begin for begin, _ in operands])
    ends = begins + np.array([took for _, took in operands])
    pauses = Pauses.of(begins, ends)
    assert pauses.folded(ends) - pauses.folded(begins) == pytest.approx(ends - begins, abs=1e-6)
    times = np.sort(np.concatenate([begins, ends, np.linspace(-10, 2e4, 50)]))
    assert (np.diff(pauses.folded(times)) >= -1e-9).all()


def test_a_page_stands_alone_and_escapes_texts() -> None:
    page = report_page(RunRecord.of(log(line="<script>alert(1)</script>", error="<b>no</b>")), "<i>title</i>")
    assert "<script>alert" not in page and "<b>no</b>" not in page and "<i>title" not in page
    assert "&lt;b&gt;no&lt;/b&gt;" in page
    head = page[: page.index("<h1>")]
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", head)  # nothing is fetched
    assert "Operands by worker" in page and "MiB between hosts" in page and "1 job, 4 operands on 2 workers" in page


def test_a_page_of_20000_operands_is_small() -> None:
    assert len(report_page(RunRecord.of(log(20_000)), "large")) < 5e6


def test_a_page_of_a_job_without_operands() -> None:
    events = [event for event in log() if event[2] in ("JobSubmitted", "JobMoved")]
    assert "0 operands" in report_page(RunRecord.of(events), "empty")


def test_without_bokeh_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "bokeh.plotting", None)
    with pytest.raises(JmarsError, match=r"pip install 'jmars\[reports\]'"):
        figures.timeline(RunRecord.of(log()))


def test_jobs_of_a_cluster_are_reported(tmp_path: Path) -> None:
    with jmars.Cluster(n_workers=1, memory_limit="256MiB") as cluster:
        before = cluster.submit(mt.ones(10, chunk_size=5), name="before the block")
        before.wait()
        with jmars.performance_report(tmp_path / "all.html"):
            job = cluster.submit((mt.ones((40, 40), chunk_size=10) * 2).sum(), name="within")
            job.result()
        path = job.report(tmp_path / "one.html")
        assert job.timeline().title.text == "Operands by worker" and job.memory().title.text.startswith("Memory")
    page = (tmp_path / "all.html").read_text()
    assert "within" in page and "before the block" not in page
    assert "within" in path.read_text()


def test_a_report_without_a_cluster_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no cluster ran"), jmars.performance_report(tmp_path / "none.html"):
        pass


def test_a_cluster_opened_in_the_block_is_reported_also_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), jmars.performance_report(tmp_path / "late.html"):
        cluster = jmars.Cluster(n_workers=1, memory_limit="256MiB")
        cluster.submit(mt.ones(10, chunk_size=5), name="late").wait()
        raise ZeroDivisionError
    assert "late" in (tmp_path / "late.html").read_text()
    cluster.close()


def test_a_folder_that_is_missing_is_told_before_the_block_runs(tmp_path: Path) -> None:
    report = jmars.performance_report(tmp_path / "none" / "report.html")
    with pytest.raises(FileNotFoundError, match="make the folder first"), report:
        pytest.fail("the block ran")
