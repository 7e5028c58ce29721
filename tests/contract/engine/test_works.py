"""A worker, or a node, is killed in the middle of an array work: the right value, in bounded time, and nothing left.

The works are those that engines race in. Their inputs are there, and a lost worker takes its part of them along. The
short run has the sort, on Dask (`conftest.py`).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.client.job import Job
from jmars.config import config
from jmars.deploy.memory import usable_cores
from jmars.model import events
from tests.benchmarks.arrays.engines import Jmars
from tests.benchmarks.arrays.works import WORKS, Work
from tests.contract.engine.kinds import Kind, until

ENDS_WORKERS = True  # so these tests have an engine of their own
SLACK = 30.0  # seconds, beyond the work and the time in which a kind notices a loss
SCALES = {
    "matmul": 0.12, "rechunk": 0.6, "sort": 0.4, "percentile": 1.0, "svd": 0.5, "anomaly": 0.6, "vorticity": 0.6,
    "overlap": 0.5, "spectrum": 0.6, "selection": 0.8,
}  # fmt: skip
BY_NODES = ("matmul", "sort", "anomaly", "selection")  # works that lose a node too
LONGEST = 120.0  # seconds in which a job ends at all


class OnCluster(Jmars):
    """Tools of a work, on a cluster that is there."""

    def __init__(self, cluster: Cluster) -> None:
        self.np, self.cluster = mt, cluster


def operands_done(job: Job) -> int:
    """Operands of a job that ended, as its events tell."""
    told = [event[4]["ids"] for event in job.events() if event[2] == events.OPERANDS_TIMED]
    return sum(map(len, told)) // 4


def is_in_the_middle(job: Job, there: int) -> bool:
    """Wait until a third of a job's operands has ended; whether others run then. `there`: stored ones."""
    until(lambda: (told := job.describe())["state"] != "preparing" and told["operands"], LONGEST)
    until(lambda: 3 * operands_done(job) >= job.describe()["operands"] - there, LONGEST)
    return bool(job.describe()["state"] == "running")


def time_of_end(job: Job) -> float:
    """When a job ended, in seconds since the epoch."""
    return max(event[1] for event in job.events() if event[2] == events.JOB_MOVED)


@config.using(reuse="off")
def loses(cluster: Cluster, work: Work, scale: float, kill: Callable[[], None], notices: float) -> None:
    """Run a work undisturbed, and again with a loss in its middle."""
    tools = OnCluster(cluster)
    begin = time.monotonic()
    inputs: Any = tools.hold(work.inputs(tools, scale))
    wanted = tools.compute(work.result(tools, *inputs))
    normal = time.monotonic() - begin  # inputs too, which may have to be computed again

    there = sum(math.prod(map(len, one.chunks)) for one in inputs)
    for _ in range(10):  # on a busy machine a job may end before its middle is seen
        job = cluster.submit(work.result(tools, *inputs))
        if is_in_the_middle(job, there):
            break
    else:
        pytest.fail(f"{job} ends before its middle is seen: take a larger scale")
    killed = time.time()
    kill()
    value = job.result(LONGEST)
    np.testing.assert_array_equal(value, wanted)
    took = time_of_end(job) - killed
    print(f"{work.name}: {took:.1f} s from the loss to the end, {normal:.1f} s undisturbed")
    beside = max(1.0, os.getloadavg()[0] / usable_cores())  # other work slows the start of the next worker down
    # twice: until the next worker is there, one has to do it all
    assert took <= 2 * normal + notices + SLACK * beside


def assert_nothing_is_left(kind: Kind, before: set[str], runtime_dir: Path, files: set[Path]) -> None:
    end = time.monotonic() + 60
    while left := set(kind.left()) - before:
        assert time.monotonic() < end, left
        time.sleep(0.1)
    assert set(runtime_dir.rglob("*")) == files


@pytest.mark.timeout(400)
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.name)
def test_a_worker_killed_in_a_work_costs_no_value(work, kind, new_workers, runtime_dir):
    before, files = set(kind.left()), set(runtime_dir.rglob("*"))
    with kind.cluster() as cluster:
        kind.pids(cluster)  # workers that an earlier test killed are back
        worker = WORKS.index(work) % 2
        loses(cluster, work, SCALES[work.name] * kind.scale, lambda: kind.kill(cluster, worker), kind.notices)
    assert_nothing_is_left(kind, before, runtime_dir, files)


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("work", [work for work in WORKS if work.name in BY_NODES], ids=lambda work: work.name)
def test_a_node_killed_in_a_work_costs_no_value(work, kind, runtime_dir):
    before, files = set(kind.left()), set(runtime_dir.rglob("*"))
    with kind.nodes() as (cluster, kill):
        loses(cluster, work, SCALES[work.name] * kind.scale, kill, kind.notices_nodes)
    assert_nothing_is_left(kind, before, runtime_dir, files)
