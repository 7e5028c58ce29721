"""Workers of a local cluster come and leave, also while jobs run; values stay right, and memory within its limit."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.client import Cluster
from jmars.errors import ClusterError, MemoryLimitError
from jmars.model.status import JobState
from jmars.tensor.operand import annotate
from tests.cluster.operands import apply, numbers, total
from tests.fault.harness import until


def names(cluster: Cluster) -> list[str]:
    return [worker["name"] for worker in cluster.info()["workers"]]


def settled(cluster: Cluster, workers: int) -> bool:
    """Whether the processes of a cluster are those of so many workers, within ten seconds."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if names(cluster) == [f"worker-{number}" for number in range(workers)]:
            return True
        time.sleep(0.01)
    return False


def nap(out, inputs, number):
    np.add(inputs[0], number, out=out)
    time.sleep(0.02)


def test_workers_come_and_leave():
    with Cluster(n_workers=1, memory_limit="300MiB") as cluster, jmars.connect(cluster.name) as other:
        cluster.scale(3)
        assert (cluster.n_workers, names(cluster)) == (3, ["worker-0", "worker-1", "worker-2"])
        until(lambda: other.n_workers == 3, 30, "the other program does not hear of the new workers")
        job = cluster.submit_data([total(apply(nap, numbers(60, 10)))], single=True)
        assert job.result(30) == sum(10 * 2 * number for number in range(60))
        assert {worker["name"] for worker in cluster.info()["workers"] if worker["done"]} == set(names(cluster))
        cluster.scale(1)
        assert cluster.n_workers == 1 and settled(cluster, 1)
        assert cluster.submit_data([total(numbers(3))], single=True).result(30) == 30
        cluster.scale(2)
        assert settled(cluster, 2)
        moved = [(event[4]["name"], event[4]["state"]) for event in cluster.events()[0] if event[2] == "WorkerMoved"]
        of_last = [state for name, state in moved if name == "worker-2"]
        assert of_last[0] == "starting" and of_last[-2:] == ["leaving", "left"]


def test_what_cannot_be_says_why():
    with Cluster(n_workers=1, memory_limit="200MiB") as cluster:
        for wanted, why in ((0, "1 worker or more"), (["node-9"], "run on this machine")):
            with pytest.raises(ClusterError, match=why):
                cluster.scale(wanted)
        with pytest.raises(MemoryLimitError, match="30 workers"):
            cluster.scale(30)
        with pytest.raises(ClusterError, match="can follow the work"):
            cluster.adapt(1, 2)
        assert cluster.n_workers == 1 and names(cluster) == ["worker-0"]


def test_a_plan_is_for_the_workers_that_are_here():
    with Cluster(n_workers=3, memory_limit="300MiB") as cluster:
        x = mt.ones((40, 40), chunk_size=10) + 1
        cluster.submit(x).wait()
        cluster.scale(1)
        job = cluster.submit(x + 1)
        job.wait()
        graph = next(event[4] for event in job.events() if event[2] == "GraphBuilt")
        assert list(graph["workers"]) == ["worker-0"] and job.state == "succeeded"


def test_workers_come_and_leave_in_mid_run_and_some_are_killed():
    choose = random.Random(5)
    with Cluster(n_workers=2, memory_limit="400MiB") as cluster:
        rng = np.random.default_rng(3)
        a, b = rng.random((1200, 1200)), rng.random((1200, 1200))
        x, y = mt.tensor(a, chunk_size=150), mt.tensor(b, chunk_size=150)
        job = cluster.submit(((x @ y) + x.T).sum(axis=0))
        turns = 0
        while not job.wait(0.02) and turns < 200:
            wanted, turns = choose.randint(1, 5), turns + 1
            cluster.scale(wanted)
            assert cluster.n_workers == wanted
            if turns % 7 == 3:
                with suppress(ProcessLookupError):  # it has left since
                    os.kill(
                        choose.choice([one["pid"] for one in cluster.info()["workers"] if one["pid"]]), signal.SIGKILL
                    )
        np.testing.assert_allclose(job.result(60), (a @ b + a.T).sum(axis=0))
        assert settled(cluster, cluster.n_workers)


def test_a_late_job_and_pinned_operands_outlive_their_worker():
    with Cluster(n_workers=3, memory_limit="300MiB") as cluster:
        with annotate(worker="worker-2"):
            x = mt.map_blocks(slow, mt.ones((4, 4), chunk_size=2), dtype=float)
        job = cluster.submit(x.sum())
        until(lambda: job.state != JobState.PREPARING, 30, "the job does not begin")  # a plan needs the worker
        cluster.scale(1)
        assert job.result(30) == 32
        with pytest.raises(Exception, match="worker-2"), annotate(worker="worker-2"):
            cluster.submit(mt.ones(4) + 2).result(30)


@pytest.mark.parametrize("schedulers", [1, 2])
def test_a_scheduler_that_starts_again_knows_the_workers_that_are_here(schedulers):
    with Cluster(n_workers=3, memory_limit="500MiB", schedulers=schedulers) as cluster:
        cluster.scale(1)
        assert settled(cluster, 1)
        cluster.scale(2)
        os.kill(cluster.info()["scheduler"]["pid"], signal.SIGKILL)
        job = cluster.submit(mt.ones((40, 40), chunk_size=10) + 1)
        assert job.result(30).sum() == 3200
        assert cluster.n_workers == 2
        graph = next(event[4] for event in job.events() if event[2] == "GraphBuilt")
        assert list(graph["workers"]) == ["worker-0", "worker-1"]


def slow(block):
    time.sleep(0.05)
    return block + 1


@pytest.mark.parametrize("wanted", [1, 4])
def test_a_scheduler_that_dies_after_a_scaling_is_followed(wanted):
    with Cluster(n_workers=2, memory_limit="500MiB", schedulers=1) as cluster:
        job = cluster.submit(mt.map_blocks(slow, mt.arange(60.0, chunk_size=1), dtype=float).sum())
        while job.describe()["counts"].get("finished", 0) < 8:
            time.sleep(0.01)
        cluster.scale(wanted)
        while len(names(cluster)) < wanted or not all(one["pid"] for one in cluster.info()["workers"]):
            time.sleep(0.01)
        os.kill(cluster.info()["scheduler"]["pid"], signal.SIGKILL)
        assert job.result(60) == 60 * 61 / 2 and settled(cluster, wanted)


@pytest.mark.long
def test_a_job_that_is_looked_at_runs_on_workers_that_came_after_its_plan():
    with Cluster(n_workers=2, memory_limit="500MiB") as cluster:
        job = cluster.submit(mt.map_blocks(slow, mt.arange(240.0, chunk_size=1), dtype=float).sum())
        assert not job.wait(1.5)
        cluster.scale(4)
        assert job.result(60) == 240 * 241 / 2


def test_a_client_connects_while_a_worker_that_leaves_computes(tmp_path):
    begun, gate = str(tmp_path / "begun"), str(tmp_path / "gate")

    def waits(block):
        open(begun, "w").close()
        while not os.path.exists(gate):
            time.sleep(0.01)
        return block

    with Cluster(n_workers=3, memory_limit="300MiB") as cluster:
        with annotate(worker="worker-2"):
            job = cluster.submit(mt.map_blocks(waits, mt.ones(4), dtype=float))
        while not os.path.exists(begun):
            time.sleep(0.01)
        cluster.scale(1)
        with jmars.connect(cluster.name) as other:
            assert other.n_workers == 1 and names(other) == ["worker-0", "worker-1", "worker-2"][: len(names(other))]
        cluster.submit(mt.ones(9, chunk_size=1) + 1).result(30)
        states = {one["name"]: one["state"] for one in cluster.info()["workers"]}
        assert states["worker-2"] == "leaving"
        open(gate, "w").close()
        assert job.result(30).sum() == 4 and settled(cluster, 1)


def keeps(block):
    """Keeps 30 MiB for each process."""
    import builtins

    if not hasattr(builtins, "kept"):
        builtins.kept = np.ones(30 * 2**17)
    time.sleep(0.1)
    return block


def test_leftovers_of_functions_in_new_workers_stay_within_the_limit():
    with Cluster(n_workers=1, memory_limit="600MiB") as cluster:
        cluster.scale(10)
        arrays = mt.ones(50 * 2**20, chunk_size=2**20) * 2
        cluster.submit(arrays).wait()
        cluster.submit(mt.map_blocks(keeps, mt.ones(50, chunk_size=1), dtype=float)).wait()
        assert cluster.submit(arrays.sum()).result(60) == 100 * 2**20
        memory = cluster.info()["memory"]
        assert memory["peak"] <= 1.1 * memory["limit"]


def test_workers_that_come_take_their_memory_from_chunks():
    with Cluster(n_workers=1, memory_limit="300MiB") as cluster:
        kept = mt.ones(18 * 2**20, chunk_size=2**20)  # 144 MiB stay in memory
        cluster.submit(kept).wait()
        cluster.scale(6)
        assert cluster.submit((mt.ones(12 * 2**20, chunk_size=2**20) * 2).sum()).result(60) == 2 * 12 * 2**20
        memory = cluster.info()["memory"]
        assert memory["resident"] <= 1.1 * memory["limit"]
        assert cluster.submit(kept.sum()).result(30) == 18 * 2**20
