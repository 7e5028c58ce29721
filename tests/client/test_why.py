"""`job.why()` in the situations that users report as hangs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client.cluster import Cluster
from jmars.client.job import Job


def until(text: str, ask: Callable[[], str], seconds: float = 60) -> str:
    """What `ask` says once it says `text`."""
    end = time.monotonic() + seconds
    said = ask()
    while text not in said:
        assert time.monotonic() < end, said
        time.sleep(0.02)  # polled: it is the answer that is tested
        said = ask()
    return said


def sleeper(go_on: Path) -> Callable[[np.ndarray], np.ndarray]:
    """A function of a user's that does nothing until a file is there."""

    def rests(block: np.ndarray) -> np.ndarray:
        while not go_on.exists():
            time.sleep(0.02)
        return block

    return rests


blocks = partial(mt.map_blocks, dtype=float)


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "go on"


def test_a_function_that_waits_is_said_to_run_with_its_line_and_worker(cluster: Cluster, gate: Path):
    job = cluster.submit(blocks(sleeper(gate), mt.ones(8, chunk_size=8)))
    said = until("runs: operand", job.why)
    assert "(job = cluster.submit(blocks(" in said and " on worker-" in said
    assert "whose process sleeps: it waits for something" in until("sleeps", job.why)
    gate.touch()
    job.result()
    assert "is done: it took" in job.why()


def test_the_cluster_tells_of_each_job(cluster: Cluster, gate: Path):
    first = cluster.submit(*[blocks(sleeper(gate), mt.ones(8, chunk_size=8) + i) for i in range(4)], name="one")
    until("runs: operand", first.why)
    second = cluster.submit(blocks(sleeper(gate), mt.zeros(8, chunk_size=8)), name="two")
    said = until(f"waits for {first.id}, whose operands go first", second.why)
    assert "worker-" in said
    assert [line.split(" (")[0] for line in cluster.why().splitlines()][:2] == ["one", "two"]
    gate.touch()
    first.wait()
    second.wait()


def test_a_stopped_worker_is_named_with_its_pid(gate: Path):
    with Cluster(n_workers=1, memory_limit="512MiB") as cluster:
        job = cluster.submit(blocks(sleeper(gate), mt.ones(8, chunk_size=8)))
        until("runs: operand", job.why)
        pid = cluster.info()["workers"][0]["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            said = until("is stopped", job.why)
            assert f"worker-0 (pid {pid})" in said and f"kill -CONT {pid}" in said
        finally:
            gate.touch()
            with suppress(ProcessLookupError):  # it was replaced meanwhile
                os.kill(pid, signal.SIGCONT)
        assert job.result().tolist() == [1.0] * 8


def test_who_waits_for_memory_hears_what_is_lacking(gate: Path):
    with Cluster(n_workers=2, memory_limit="400MiB") as cluster:
        size = cluster.capacity // 8 // 5  # an operand needs three times that: for input, output and scratch
        tensors = [blocks(sleeper(gate), mt.full(size, float(i), chunk_size=size)) for i in range(2)]
        job = cluster.submit(*tensors)
        said = until("waiting for memory, the first of which lacks", job.why)
        assert "MiB" in said
        gate.touch()
        job.wait(60)


def test_what_never_fits_is_said_with_its_line(cluster: Cluster, gate: Path):
    size = cluster.capacity // 8 // 2
    job = cluster.submit(blocks(sleeper(gate), mt.ones(size, chunk_size=size)))
    assert job.wait(60)
    said = job.why()
    assert "failed after" in said and "smaller chunk_size" in said and "job = cluster.submit(blocks(" in said


@pytest.mark.long
def test_a_disk_that_hangs_is_said_to():
    with Cluster(n_workers=1, memory_limit="300MiB") as cluster:
        n = cluster.capacity // 8 // 4
        kept = mt.ones(6 * n, chunk_size=n)
        cluster.submit(kept).result()  # two of the six went to disk: the mover is started
        (mover,) = movers(cluster)
        os.kill(mover, signal.SIGSTOP)
        try:
            job = cluster.submit(mt.zeros(6 * n, chunk_size=n))
            said = until("waits for the disk", job.why)
            assert "being written (" in said and "MiB" in said
            until("the disk is slow or hangs", job.why)
        finally:
            with suppress(ProcessLookupError):  # it was replaced meanwhile
                os.kill(mover, signal.SIGCONT)
        assert job.wait(60)


def movers(cluster: Cluster) -> list[int]:
    """What the zygote has forked and is no executor."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            stat = path.read_text()
        except OSError:  # it is gone
            continue
        parents[int(path.parent.name)] = int(stat.rpartition(")")[2].split()[1])
    executors = {worker["pid"] for worker in cluster.info()["workers"]}
    zygote = parents[min(executors)]
    return [pid for pid, parent in parents.items() if parent == zygote and pid not in executors]


def test_a_failed_job_tells_the_line(cluster: Cluster):
    def breaks(block: np.ndarray) -> np.ndarray:
        raise ValueError("not this one")

    job = cluster.submit(blocks(breaks, mt.ones(8, chunk_size=8)))
    job.wait()
    said = job.why()
    assert "failed after" in said and "ValueError: not this one" in said and "job = cluster.submit(" in said


def test_an_operand_that_ends_workers_is_told(cluster: Cluster):
    def dies(block: np.ndarray) -> np.ndarray:
        os.kill(os.getpid(), signal.SIGKILL)
        return block

    job = cluster.submit(blocks(dies, mt.ones(8, chunk_size=8)))
    job.wait()
    said = job.why()
    assert "failed after" in said and "SIGKILL" in said and "job = cluster.submit(" in said


def test_why_a_worker_died_is_told_though_its_job_went_on(gate: Path):
    with Cluster(n_workers=2, memory_limit="512MiB") as cluster:
        job = cluster.submit(blocks(sleeper(gate), mt.ones(8, chunk_size=8)))
        said = until("runs: operand", job.why)
        name = said.partition(" on ")[2].split()[0]
        victim = next(worker["pid"] for worker in cluster.info()["workers"] if worker["name"] == name)
        os.kill(victim, signal.SIGKILL)
        said = until(f"{name} (pid {victim}) was killed by SIGKILL", cluster.why)
        assert "while it ran operand ones+rests of line" in said and "job = cluster.submit(" in said
        assert "; at most it had " in said and "MiB" in said
        gate.touch()
        assert job.result().tolist() == [1.0] * 8
        assert f"{name} (pid {victim}) was killed" in cluster.why()


def test_a_cancelled_job_that_is_stuck_in_a_function(cluster: Cluster, gate: Path):
    job = cluster.submit(blocks(sleeper(gate), mt.ones(8, chunk_size=8)))
    until("runs: operand", job.why)
    job.cancel()
    assert job.wait(60)
    assert "was cancelled" in until("was cancelled", job.why)


def test_after_the_end_of_the_cluster_the_job_still_tells_how_it_ended():
    with Cluster(n_workers=1, memory_limit="300MiB") as cluster:
        job: Job = cluster.submit(mt.ones(4))
        job.result()
    assert "succeeded" in job.why()


@pytest.mark.long
def test_the_watchdog_speaks_before_anybody_asks(gate: Path, caplog: pytest.LogCaptureFixture):
    with Cluster(n_workers=1, memory_limit="300MiB") as cluster, caplog.at_level("INFO", "jmars.client"):
        job = cluster.submit(blocks(sleeper(gate), mt.ones(8, chunk_size=8)))
        until("Stalled", lambda: str([event[2] for event in job.events()]))
        (told,) = [event[4] for event in job.events() if event[2] == "Stalled"]
        assert told["kind"] == "runs" and "runs: operand" in told["text"] and told["seconds"] >= 5
        until("nothing moved for", lambda: caplog.text)
        gate.touch()
        job.result()


@pytest.mark.long
def test_a_result_that_is_late_on_a_stopped_cluster_is_an_error_in_time(gate: Path):
    with Cluster(n_workers=1, memory_limit="512MiB") as cluster:
        job = cluster.submit(blocks(sleeper(gate), mt.ones(8, chunk_size=8)))
        host = cluster.info()["host"]["pid"]
        os.kill(host, signal.SIGSTOP)
        try:
            with pytest.raises(TimeoutError, match=rf"process {host}\) is stopped"):
                job.result(timeout=0.2)
            assert f"kill -CONT {host}" in job.why() and "is stopped" in cluster.why()
        finally:
            os.kill(host, signal.SIGCONT)
        gate.touch()
        assert job.result(timeout=60).tolist() == [1.0] * 8
