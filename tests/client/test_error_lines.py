"""Every error of a run names the operand and the user's line, and says what to do: one test for each kind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client.cluster import Cluster
from jmars.client.job import Job
from jmars.errors import MemoryLimitError, StorageError, WorkerLostError
from jmars.remote import spawn

HERE = Path(__file__).name


def told(job: Job, tag: str) -> str:
    """All that the job's error says, once it names the line that ends with `# tag`."""
    assert job.wait(60) and job.error is not None
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if text.endswith(f"# {tag}"))
    said = " ".join([str(job.error), *getattr(job.error, "__notes__", [])])
    assert job.line is not None and Path(job.line.filename).name == HERE, said
    assert job.line.lineno == line, (job.line, said)
    assert f"of line {line} (" in said, said
    assert f"of line {line} (" in job.why(), job.why()
    return said


blocks = partial(mt.map_blocks, dtype=float)


def fails(block: np.ndarray) -> np.ndarray:
    raise KeyError("no such thing")


def dies(block: np.ndarray) -> np.ndarray:
    os.kill(os.getpid(), signal.SIGKILL)
    return block


def leaves(block: np.ndarray) -> np.ndarray:
    os._exit(3)


def test_an_exception_of_the_users(cluster: Cluster):
    tensor = blocks(fails, mt.ones(8, chunk_size=4))  # raises
    said = told(cluster.submit(tensor + 1), "raises")
    assert "no such thing" in said and "test_error_lines.py" in said


def test_an_exception_of_numpys(cluster: Cluster):
    tensor = mt.linalg.inv(mt.zeros((4, 4), chunk_size=4))  # singular
    assert "Singular matrix" in told(cluster.submit(tensor), "singular")


def test_an_exception_in_a_spawned_function(cluster: Cluster):
    result = spawn(fails, (1,))  # spawned
    told(cluster.submit(result), "spawned")


def test_an_operand_that_needs_more_memory_than_there_is(cluster: Cluster):
    size = cluster.capacity // 8 // 2
    tensor = blocks(fails, mt.ones(size, chunk_size=size))  # too large
    said = told(cluster.submit(tensor), "too large")
    assert "memory limit leaves" in said and "smaller chunk_size" in said and re.search(r"\d MiB", said)


def test_a_result_of_unknown_size_that_is_too_large(cluster: Cluster):
    def grows(count: int) -> Any:
        return np.ones(count)

    size = cluster.capacity // 8
    result = spawn(grows, (size,))  # grows
    said = told(cluster.submit(result), "grows")
    assert "MiB" in said


def test_results_that_fit_nowhere(tmp_path: Path):
    with Cluster(n_workers=1, memory_limit="300MiB") as cluster:
        free = os.statvfs("/tmp")
        most = cluster.capacity + 2 * free.f_bavail * free.f_frsize
        tensor = mt.ones(most // 8, chunk_size=cluster.capacity // 32)  # nowhere
        said = told(cluster.submit(tensor), "nowhere")
        assert "keep less" in said


def test_an_operand_that_kills_its_workers(cluster: Cluster):
    tensor = blocks(dies, mt.ones(4, chunk_size=4))  # kills
    job = cluster.submit(tensor)
    said = told(job, "kills")
    assert isinstance(job.error, WorkerLostError) and "SIGKILL" in said and "smaller data" in said
    assert re.search(r"worker-\d \(pid \d+\), which took at most [\d.]+ MiB", said)


def test_an_operand_whose_workers_exit(cluster: Cluster):
    tensor = blocks(leaves, mt.ones(4, chunk_size=4))  # exits
    assert "exit status 3" in told(cluster.submit(tensor), "exits")


def test_a_function_that_cannot_be_sent(cluster: Cluster):
    class Once:
        times = 0

        def __call__(self, block: np.ndarray) -> np.ndarray:
            return block

        def __reduce__(self) -> Any:
            return _refuses, ()

    tensor = blocks(Once(), mt.ones(4, chunk_size=4))  # refused
    said = told(cluster.submit(tensor), "refused")
    assert "cannot be made" in said


def _refuses() -> Any:
    def call(block: np.ndarray) -> np.ndarray:
        return block

    if Path("/proc/self/comm").exists() and os.environ.get("JMARS_NEVER") is None and _in_executor():
        raise TypeError("this cannot be made here")
    return call


def _in_executor() -> bool:
    return "jmars" in Path("/proc/self/cmdline").read_text()


@pytest.mark.long
def test_a_disk_that_is_full(tmp_path: Path):
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(small)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no mount here: {mounted.stderr.decode().strip()}")
    try:
        with Cluster(n_workers=1, memory_limit="300MiB", spill_dir=small) as cluster:
            n = cluster.capacity // 8 // 4
            tensors = [mt.random.default_rng(seed).random(n, chunk_size=n) for seed in range(6)]  # full
            job = cluster.submit(*[(one[::-1] + other).sum() for one in tensors for other in tensors])
            assert job.wait(60)
            if job.error is not None:
                said = " ".join([str(job.error), *job.error.__notes__])
                assert isinstance(job.error, StorageError | MemoryLimitError), job.error
                assert "of line" in said and job.line is not None, said
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_wait_that_is_too_short_says_why_it_is_not_done(cluster: Cluster, tmp_path: Path):
    gate = tmp_path / "gate"

    def rests(block: np.ndarray) -> np.ndarray:
        while not gate.exists():
            time.sleep(0.02)
        return block

    job = cluster.submit(blocks(rests, mt.ones(4, chunk_size=4)))
    while " runs: " not in job.why():
        time.sleep(0.02)  # polled: it is the answer that is tested
    with pytest.raises(TimeoutError, match=r"has not ended within 0.01 s; .*runs: operand ones\+rests of line \d+"):
        job.result(timeout=0.01)
    gate.touch()
    job.result()
