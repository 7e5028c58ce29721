"""The scheduler of a detached cluster dies: the next one goes on, and nothing that had finished runs again.

On one host, and on two.
"""

import contextlib
import os
import random
import signal
import time

import numpy as np
import psutil
import pytest

import jmars
import jmars.tensor as mt
from jmars.deploy.control_process import ended_within
from jmars.errors import ClusterLostError, JobCancelledError
from jmars.model.status import OperandState
from jmars.scheduler.journal import Journal
from tests.cluster.operands import apply, numbers, total

CHUNKS, SIZE = 300, 20_000


@pytest.fixture(params=[1, 2], ids=["one host", "two hosts"])
def cluster(request):
    """A detached cluster of two workers, on one host or on two; stopped afterwards."""
    if request.param == 1:
        started = jmars.Cluster(n_workers=2, memory_limit="512MiB", detach=True, lease=60)
    else:
        started = jmars.Cluster.hosts(["local"] * 2, n_workers=1, memory_limit="256MiB", detach=True, lease=60)
    yield started
    started.stop()


def work():
    """A graph that keeps two workers busy for a second or so, and its value."""

    def double(out, inputs, number):
        np.multiply(inputs[0], 2, out=out)
        for _ in range(4):
            np.sin(np.linspace(0, 1, 50_000))

    return total(apply(double, apply(double, numbers(CHUNKS, SIZE)))), 4 * SIZE * sum(range(CHUNKS))


class Watched:
    """Events of a job, read as they come, so that what stood before a scheduler's death is known after it."""

    def __init__(self, cluster, job):
        self.cluster, self.job, self.since = cluster, job, 0
        self.moves = []  # (state, ids)

    def look(self):
        events, self.since = self.cluster.events(self.since, self.job.id)
        self.moves += [(e[4]["state"], np.frombuffer(e[4]["ids"], "<u4")) for e in events if e[2] == "OperandsMoved"]

    def ran_again(self):
        """Operands that began to run after they had finished."""
        done, again = set(), set()
        for state, ids in self.moves:
            if state == OperandState.RUNNING:
                again |= done.intersection(ids.tolist())
            elif state in (OperandState.FINISHED, OperandState.FREED):
                done.update(ids.tolist())
        return again


def kill_scheduler(cluster):
    pid = cluster.info()["scheduler"]["pid"]
    os.kill(pid, signal.SIGKILL)
    assert ended_within(pid, 60)
    return pid


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_run_ends_right_and_nothing_finished_runs_again(cluster, share):
    node, value = work()
    job = cluster.submit_data([node], single=True)
    watched = Watched(cluster, job)
    while job.progress < share:
        watched.look()
    watched.look()
    before = kill_scheduler(cluster)
    assert job.result(60) == value
    watched.look()
    assert watched.ran_again() == set()
    info = cluster.info()
    assert info["scheduler"]["pid"] not in (0, before)
    assert info["memory"]["chunks"] == 1  # the result
    moved = [e[4]["state"] for e in cluster.events()[0] if e[2] == "SchedulerMoved"]
    assert moved in ([], ["restarted"])  # a reader that comes late is told how jobs stand instead


@pytest.mark.long
def test_kills_at_random_points(cluster):
    rng = random.Random(7)
    for _ in range(4):
        node, value = work()
        job = cluster.submit_data([node], single=True)
        watched = Watched(cluster, job)
        end = time.monotonic() + rng.uniform(0, 1.2)
        while time.monotonic() < end and not job.wait(0):
            watched.look()
        kill_scheduler(cluster)
        assert job.result(60) == value
        watched.look()
        assert watched.ran_again() == set()


def test_while_nothing_runs_tensors_and_jobs_stay(cluster):
    values = np.arange(100_000.0)
    x = (mt.asarray(values, chunk_size=30_000) + 1).execute()
    job = cluster.submit(x.sum(), name="sum")
    assert job.result(60) == values.sum() + values.size
    kill_scheduler(cluster)
    assert np.array_equal(x.fetch(), values + 1)
    assert [one["name"] for one in cluster.jobs()] == ["job-1", "sum"]
    assert cluster.jobs()[1]["state"] == "succeeded" and cluster.jobs()[1]["progress"] == 1
    assert float((x * 2).sum().fetch()) == 2 * job.result(60)
    with jmars.connect(cluster.id) as other:
        assert other.job(job.id).result(60) == job.result(60)
    del x, job
    assert cluster.info()["memory"]["chunks"] <= 3  # drops are heard by the new one


@pytest.mark.long
def test_a_job_that_unfolds_goes_on(cluster):
    def slowly(chunk):
        import time

        time.sleep(0.05)
        return chunk

    x = mt.map_blocks(slowly, mt.arange(4000, chunk_size=200), dtype="i8")
    few = x[x % 3 == 0]
    job = cluster.submit((few * 2)[few % 2 == 0], few.sum())
    while not job.progress > 0.1:
        time.sleep(0.01)
    kill_scheduler(cluster)
    first, second = job.result(60)
    thirds = np.arange(0, 4000, 3)
    assert np.array_equal(first, thirds[thirds % 2 == 0] * 2)
    assert second == thirds.sum()
    del first, second, few, x, job
    assert cluster.info()["memory"]["chunks"] == 0


def test_while_a_graph_is_prepared_it_is_prepared_again(cluster):
    jobs = [cluster.submit((mt.ones((600, 600), chunk_size=10) + k).sum()) for k in range(3)]
    kill_scheduler(cluster)
    assert [job.result(60) for job in jobs] == [360_000 * (k + 1) for k in range(3)]


def test_a_cancel_and_an_error_are_not_forgotten(cluster):
    def broken(chunk):
        raise ValueError("broken on purpose")

    failed = cluster.submit(mt.map_blocks(broken, mt.ones(4), dtype="f8"))
    failed.wait(60)
    node, _ = work()
    job = cluster.submit_data([node], single=True)
    while job.progress < 0.1:
        time.sleep(0.01)
    job.cancel()
    kill_scheduler(cluster)
    with pytest.raises(JobCancelledError):
        job.result(60)
    assert [one["state"] for one in cluster.jobs()] == ["failed", "cancelled"]
    assert "broken on purpose" in cluster.jobs()[0]["error"]
    assert float(mt.ones(10).sum().fetch()) == 10


@pytest.mark.long
def test_a_worker_and_the_scheduler_die_together(cluster):
    node, value = work()
    job = cluster.submit_data([node], single=True)
    while job.progress < 0.3:
        time.sleep(0.01)
    worker = cluster.info()["workers"][0]["pid"]
    pid = cluster.info()["scheduler"]["pid"]
    os.kill(pid, signal.SIGKILL)
    os.kill(worker, signal.SIGKILL)
    assert job.result(60) == value


@pytest.mark.long
def test_a_stopped_scheduler_is_waited_for(cluster):
    node, value = work()
    job = cluster.submit_data([node], single=True)
    while job.progress < 0.2:
        time.sleep(0.01)
    pid = cluster.info()["scheduler"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    time.sleep(1.5)  # so long it stands still
    os.kill(pid, signal.SIGCONT)
    assert job.result(60) == value
    assert cluster.info()["scheduler"]["pid"] == pid


@pytest.mark.long
def test_schedulers_that_die_in_a_row_end_the_cluster_with_a_reason(cluster):
    node, _ = work()
    job = cluster.submit_data([node], single=True)
    seen = set()
    end = time.monotonic() + 60
    while not job.wait(0) and time.monotonic() < end:
        for child in psutil.Process(cluster._host.pid).children():
            with contextlib.suppress(psutil.Error):  # it has ended already
                if child.pid not in seen and "scheduler" in child.cmdline():
                    seen.add(child.pid)
                    child.kill()
        time.sleep(0.01)
    with pytest.raises(ClusterLostError, match="its scheduler ended 5 times"):
        job.result(60)
    assert ended_within(cluster._host.janitor, 60)


@pytest.mark.long
def test_a_job_that_fails_as_the_scheduler_dies_still_fails(cluster):
    def fails_or_hangs(x):
        import hashlib
        import time

        if not x[0]:
            time.sleep(0.3)  # until the other block is deep in compiled code
            raise ValueError("mine")
        hashlib.pbkdf2_hmac("sha256", b"", b"", 40_000_000)
        return x

    job = cluster.submit(mt.map_blocks(fails_or_hangs, mt.arange(8, chunk_size=4), dtype="i8"))
    while job.state != "cancelling":
        time.sleep(0.01)  # the look itself takes time too
    kill_scheduler(cluster)
    with pytest.raises(ValueError, match="mine"):
        job.result(30)


@pytest.mark.long
def test_a_journal_that_cannot_be_read_ends_the_cluster(cluster):
    assert cluster.submit(mt.ones(4).sum()).result(60) == 4
    journal = Journal(str(cluster._host.folders.journal), lambda call: None)
    journal.note("of another version")
    journal.close()
    kill_scheduler(cluster)
    with pytest.raises(ClusterLostError):
        cluster.submit(mt.ones(5).sum()).result(30)
