"""Detached clusters: they outlive who started them, end with their lease, and leave nothing."""

import math
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.actors.registry import entries
from jmars.deploy.control_process import ended_within
from jmars.errors import ClusterError, ClusterLostError


@pytest.fixture(autouse=True)
def _ended():
    """Whatever a test left running is stopped."""
    yield
    for entry in entries():
        with jmars.connect(entry.id) as cluster:
            cluster.stop()


def test_a_detached_cluster_runs_on_after_its_kernel():
    program = """
import os, sys, jmars, jmars.tensor as mt
cluster = jmars.Cluster(n_workers=1, memory_limit="512MiB", name="night", detach=True, lease=60)
job = cluster.submit(mt.arange(1000, chunk_size=300) * 2, name="doubles")
done = cluster.submit(mt.ones(10)); done.wait()
print(cluster.info()["scheduler"]["pid"], job.id, done.id, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    pid, job, other = done.stdout.split()
    assert done.returncode == -signal.SIGKILL
    with jmars.connect("night") as cluster:
        assert cluster.detached
        assert [one["name"] for one in cluster.jobs()] == ["doubles", other]
        assert np.array_equal(cluster.job(job).result(60), np.arange(1000) * 2)
        assert cluster.job(other).result(60).sum() == 10
        cluster.stop()
    assert ended_within(int(pid), 60)
    assert entries() == []


def test_a_second_detached_cluster_of_a_name_is_refused():
    with jmars.Cluster(n_workers=1, memory_limit="256MiB", name="night", detach=True) as cluster:
        with pytest.raises(ClusterError, match=rf"called 'night' runs here already \({cluster.id}\)"):
            jmars.Cluster(n_workers=1, memory_limit="256MiB", name="night", detach=True)
        assert [entry.id for entry in entries()] == [cluster.id]
        assert cluster.submit(mt.ones(4).sum()).result(60) == 4
        cluster.stop()


def test_closing_hangs_up_and_stopping_ends():
    cluster = jmars.Cluster(n_workers=1, memory_limit="512MiB", detach=True)
    job = cluster.submit(mt.arange(10, chunk_size=4).sum())
    assert job.result(60) == 45
    cluster.close()
    with jmars.connect(cluster.id) as same:
        assert same.job(job.id).result(60) == 45  # it stayed with its job
        folder = cluster._host.folders.folder
        assert os.path.exists(folder)
        same.stop()
    assert not os.path.exists(folder)
    with pytest.raises(ClusterLostError):
        jmars.connect(cluster.id)


def test_the_lease_ends_a_cluster_that_nobody_uses():
    with jmars.Cluster(n_workers=1, memory_limit="512MiB", detach=True, lease=0.3) as cluster:
        time.sleep(0.6)  # longer than the lease: it is used
        assert cluster.info()["id"] == cluster.id
        pid, janitor = cluster._host.pid, cluster._host.janitor
    assert ended_within(pid, 60) and ended_within(janitor, 60)
    assert entries() == []


def test_a_job_keeps_a_cluster_beyond_its_lease(tmp_path):
    gate = tmp_path / "gate"

    def slow(x):
        import time

        while not gate.exists():
            time.sleep(0.01)
        return x

    cluster = jmars.Cluster(n_workers=1, memory_limit="512MiB", detach=True, lease=0.2)
    cluster.submit(mt.map_blocks(slow, mt.ones(4), dtype="f8"))
    cluster.close()
    assert not ended_within(cluster._host.pid, 0.5)
    gate.touch()
    assert ended_within(cluster._host.pid, 60)


@pytest.mark.long
def test_arrays_of_a_job_that_is_still_prepared_stay_when_its_client_goes():
    values = np.arange(1_000_000.0)
    cluster = jmars.Cluster(n_workers=1, memory_limit="512MiB", detach=True)
    job = cluster.submit((mt.asarray(values, chunk_size=500) * 2 + 1).sum())  # takes a while to compile
    cluster.close()
    with jmars.connect(cluster.id) as same:
        assert same.job(job.id).result(30) == (values * 2 + 1).sum()
        same.job(job.id).forget()
        assert same.info()["memory"]["chunks"] <= 1  # the result, which this client holds
        same.stop()


@pytest.mark.parametrize("lease", [0, -1, math.nan])
def test_a_lease_that_makes_no_sense_is_refused(lease):
    with pytest.raises(ValueError, match="lease is"):
        jmars.Cluster(detach=True, lease=lease)


def test_the_control_process_killed_takes_everything_with_it():
    cluster = jmars.Cluster(n_workers=2, memory_limit="512MiB", detach=True)
    job = cluster.submit(mt.ones(10))
    job.wait(60)
    pids = [one["pid"] for one in cluster.info()["workers"]]
    os.kill(cluster._host.pid, signal.SIGKILL)
    assert ended_within(cluster._host.janitor, 60)
    assert all(ended_within(pid, 60) for pid in pids)
    with pytest.raises(ClusterLostError):
        cluster.info()
    assert entries() == []
    assert not os.path.exists(cluster._host.folders.folder)
    cluster.close()


def test_status_and_stop_from_the_shell():
    def jmars_says(*args):
        done = subprocess.run([sys.executable, "-m", "jmars", *args], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    assert jmars_says("status") == (0, "no cluster of yours runs here\n")
    cluster = jmars.Cluster(n_workers=1, memory_limit="512MiB", name="night", detach=True)
    cluster.submit(mt.ones(10), name="ten").wait(60)
    cluster.close()
    code, text = jmars_says("status")
    assert code == 0 and cluster.id in text and "night" in text and "detached" in text
    code, text = jmars_says("status", "night")
    assert code == 0 and "ten" in text and "succeeded" in text
    code, text = jmars_says("stop", "day")
    assert code == 1 and "no cluster 'day'" in text
    code, text = jmars_says("stop", "night")
    assert (code, text) == (0, f"{cluster.id} (night) has ended\n")
    assert ended_within(cluster._host.janitor, 60)
    assert entries() == []
