"""Chains of cheap calls run in batches on one worker; deaths, errors and cancels leave them as they leave others."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from jmars.client import Cluster
from jmars.client.job import Job
from jmars.errors import JobCancelledError
from jmars.model.events import OPERANDS_MOVED
from jmars.model.status import OperandState
from jmars.remote import Spawned, spawn


@pytest.fixture(scope="module")
def cluster():
    with Cluster(n_workers=2) as made:
        yield made


def step(value, folder="", what=""):
    """Add one; at 100 do once what a test wants."""
    if value == 100 and what:
        mark = Path(folder) / what
        first = not mark.exists()
        mark.touch()
        if what == "die" and first:
            os._exit(1)
        if what == "pass" and first:
            raise OSError("only once")
        if what == "wait":
            time.sleep(60)
    return value + 1


def chain(length: int, *more: str) -> Spawned:
    one = spawn(step, (0, *more))
    for _ in range(length - 1):
        one = spawn(step, (one, *more))
    return one


def batches(job: Job) -> int:
    """Messages with operands that a worker took."""
    running = int(OperandState.RUNNING)
    return sum(event[2] == OPERANDS_MOVED and event[4]["state"] == running for event in job.events())


def test_a_chain_goes_in_few_batches(cluster: Cluster):
    job = cluster.submit(chain(300))
    assert job.result() == 300
    assert batches(job) < 60


def test_every_result_of_a_chain_can_be_kept(cluster: Cluster):
    calls = [spawn(step, (0,))]
    for _ in range(199):
        calls.append(spawn(step, (calls[-1],)))
    assert cluster.submit(*calls).result() == list(range(1, 201))
    assert spawn(sum, (calls[::50],)).fetch() == 1 + 51 + 101 + 151


def test_a_chain_goes_on_after_a_death_or_an_error_that_passes(cluster: Cluster, tmp_path: Path):
    for what in ("die", "pass"):
        assert chain(300, str(tmp_path), what).fetch() == 300
        assert (tmp_path / what).exists()


def test_an_error_in_a_chain_names_its_line(cluster: Cluster):
    one = chain(150)
    bad = spawn(lambda value: value / 0, (one,))  # raises
    job = cluster.submit(spawn(step, (spawn(step, (bad,)),)))
    with pytest.raises(ZeroDivisionError):
        job.result()
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if text.endswith("# raises"))
    assert job.line is not None and job.line.lineno == line
    counts = job.describe()["counts"]
    assert counts["fatal"] == 3 and counts["cancelled"] == 0


def test_a_chain_is_cancelled_in_mid_batch(cluster: Cluster, tmp_path: Path):
    job = cluster.submit(chain(300, str(tmp_path), "wait"))
    while not (tmp_path / "wait").exists():
        pass
    job.cancel()
    with pytest.raises(JobCancelledError):
        job.result(60)
    assert chain(5).fetch() == 5


def test_a_result_of_a_chain_that_outgrows_its_slot_is_read_where_it_lies(cluster: Cluster):
    def grown(value):
        return np.arange(200_000 if len(value) == 120 else len(value) + 1) if len(value) < 200 else value[-5:]

    one = spawn(grown, (np.zeros(1),))
    for _ in range(120):
        one = spawn(grown, (one,))
    assert one.fetch().tolist() == list(range(199_995, 200_000))


def test_schedulers_apart_know_of_readers_that_went_along():
    with Cluster(n_workers=1, schedulers=1) as cluster:
        assert cluster.submit(chain(300)).result() == 300
    with Cluster(n_workers=1, schedulers=2) as cluster:
        assert cluster.submit(chain(300)).result() == 300
