"""Cancel, several jobs at once, jobs in the background, and names."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.errors import JobCancelledError
from tests.contract.engine.gate import LONGEST
from tests.contract.engine.kinds import until

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "../../etc/passwd",
    "two\nlines\t\x1b[31m",
    "quote\"'`$(id)",
    "\u202egnp",
    "n" * 999,
]


def is_usable(cluster: Cluster) -> bool:
    x = mt.arange(4000, chunk_size=900)
    return int(cluster.submit((x * 2).sum()).result(30)) == 4000 * 3999


def deep(size: int = 3_000_000, times: int = 1000) -> mt.Tensor:
    """A minute of work in our own kernels, in two operands."""
    x = mt.arange(2 * size, chunk_size=size) * 1.0
    for _ in range(times):
        x = mt.sin(x)
    return x.sum()


def test_cancel_ends_a_running_kernel(cluster):
    job = cluster.submit(deep())
    until(lambda: job.describe()["counts"]["running"])
    time.sleep(0.3)  # the first operands are cheap: the long ones run now, and no event tells how far they are
    begin = time.monotonic()
    job.cancel()
    with pytest.raises(JobCancelledError):
        job.result(60)
    assert is_usable(cluster)
    assert time.monotonic() - begin < 20  # both workers were free


def test_cancel_drops_what_is_queued(cluster, gate):
    job = cluster.submit(mt.map_blocks(gate, mt.ones(60, chunk_size=1), dtype=float).sum())
    until(lambda: gate.came)
    job.cancel()
    with pytest.raises(JobCancelledError):
        job.result(60)
    time.sleep(0.5)  # an engine may tell its workers after the job has ended
    gate.open()
    assert is_usable(cluster)
    assert gate.came <= 4
    counts = job.describe()["counts"]
    assert counts["cancelled"] > 50 and not counts["running"] and not counts["cancelling"]


@pytest.mark.long
def test_a_function_that_does_not_end_is_ended(cluster, gate):
    job = cluster.submit(mt.map_blocks(gate, mt.ones(1), dtype=float))
    until(lambda: gate.came)
    begin = time.monotonic()
    job.cancel()
    with pytest.raises(JobCancelledError):
        job.result(60)
    assert time.monotonic() - begin < 15
    time.sleep(1)
    is_ended = gate.silent > 0.5
    until(lambda: gate.silent > 0.5, 2 * LONGEST)  # nobody waits behind it in the tests that follow
    assert is_ended


def test_a_job_may_be_cancelled_before_it_runs_and_after_its_end(cluster):
    job = cluster.submit(mt.ones(100, chunk_size=10).sum())
    job.cancel()
    assert job.wait(60)
    done = cluster.submit(mt.ones(3).sum())
    assert done.result(60) == 3
    done.cancel()
    assert done.state == "succeeded"


def test_two_threads_run_jobs_at_once(cluster):
    found: dict[int, float] = {}

    def many(number: int) -> None:
        for turn in range(3):
            x = mt.full((60, 60), number, chunk_size=25) + turn
            found[number, turn] = float(cluster.submit(x.sum()).result(30))

    threads = [threading.Thread(target=many, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {(n, turn): 3600.0 * (n + turn) for n in range(2) for turn in range(3)}


def test_a_long_function_of_one_job_holds_up_no_other(cluster, gate):
    slow = cluster.submit(mt.map_blocks(gate, mt.ones(1), dtype=float))
    until(lambda: gate.came)
    for turn in range(3):
        x = mt.full((60, 60), turn, chunk_size=25) + 1
        assert float(cluster.submit(x.sum()).result(30)) == 3600 * (turn + 1)
    assert not slow.wait(0)
    gate.open()
    assert slow.result(30) == 1


def test_a_job_in_the_background_is_found_by_its_id(cluster, gate):
    job = cluster.submit(mt.map_blocks(gate, mt.ones(2), dtype=float) * 3, name="background")
    until(lambda: gate.came)
    with pytest.raises(TimeoutError, match="it runs on"):
        job.result(0.05)
    (row,) = [row for row in cluster.jobs() if row["id"] == job.id]
    assert (row["name"], row["state"]) == ("background", "running")
    assert 0 <= job.progress < 1
    until(lambda: "operand" in job.why(), 15)  # an engine tells some tenths of a second later that a task runs
    gate.open()
    other = cluster.job(job.id)
    np.testing.assert_array_equal(other.result(30), [3, 3])
    assert job.progress == 1 and job.state == "succeeded"


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_of_jobs_are_only_names(cluster, name):
    job = cluster.submit(mt.arange(10, chunk_size=4).sum(), name=name)
    assert job.result(30) == 45
    assert job.name == name
    (row,) = [row for row in cluster.jobs() if row["id"] == job.id]
    assert row["name"][:100] == name[:100]
    assert job.why()


def test_a_name_of_a_cluster_is_only_a_name(kind, runtime_dir):
    with kind.cluster("<b>../../x\n") as cluster:
        assert cluster.name == "<b>../../x\n"
        assert int(cluster.submit(mt.arange(10, chunk_size=4).sum()).result(30)) == 45
        assert {path.parent for path in runtime_dir.rglob("*.json")} <= {runtime_dir}
