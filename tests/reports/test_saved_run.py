"""Runs in files: what is saved is read again, damaged files are refused, no code is run."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

import jmars
import jmars.tensor as mt
from jmars.__main__ import run
from jmars.errors import JmarsError
from jmars.reports.saved_run import SavedRun, save_run
from tests.reports.test_reports import log


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_run(tmp_path / "one.run", log(), "job-1", "In [1]")


def test_a_run_is_read_again(saved: Path, tmp_path: Path) -> None:
    found = jmars.replay(saved)
    assert (found.job, found.name, found.events) == ("job-1", "In [1]", log())
    assert "Operands by worker" in found.report(tmp_path / "page.html").read_text()
    assert found.timeline().title.text == "Operands by worker" and found.memory().title.text.startswith("Memory")
    text = found.summary()
    assert text.startswith("Replay In [1]: 4 operands") and "succeeded after 3.00 s, predicted 2.00 s" in text
    assert "4.000        4  line 3: y = x + 1" in text and "worker-1 replaced" in text


def test_a_run_of_20000_operands_is_small(tmp_path: Path) -> None:
    assert save_run(tmp_path / "large.run", log(20_000), "job-1", "").stat().st_size < 2e6


def test_other_damaged_and_later_files_are_refused(saved: Path, tmp_path: Path) -> None:
    data = saved.read_bytes()
    head, _, body = data.partition(b"\n")
    for wrong, words in (
        (b"hello", "holds no run"),
        (b"jmars run 2\n" + body, "later version"),
        (data[:-20], "is damaged"),
        (head + b"\n" + b"x" * 50, "is damaged"),
        (head + b"\n" + zlib.compress(b"\xc0"), "is damaged"),
    ):
        saved.write_bytes(wrong)
        with pytest.raises(JmarsError, match=words):
            SavedRun(saved)


def test_a_run_without_a_graph_cannot_be_drawn(tmp_path: Path) -> None:
    events = [event for event in log() if event[2] == "JobSubmitted"]
    with pytest.raises(JmarsError, match="no graph"):
        SavedRun(save_run(tmp_path / "none.run", events, "job-1", "")).visualize()


def test_a_job_is_saved_and_told_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.run"
    with jmars.Cluster(n_workers=1, memory_limit="256MiB") as cluster:
        job = cluster.submit((mt.ones((40, 40), chunk_size=10) * 2).sum(), name="forty")
        job.result()
        job.save(path)
    assert "after fusion" in jmars.replay(path).visualize(colour="worker").dot
    assert run(["replay", str(path), "--report", str(tmp_path / "page.html")]) == 0
    assert "forty: succeeded" in capsys.readouterr().out and (tmp_path / "page.html").exists()
    path.write_bytes(b"")
    assert run(["replay", str(path)]) == 1 and "holds no run" in capsys.readouterr().err
