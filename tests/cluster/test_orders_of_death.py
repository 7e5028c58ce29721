"""Whatever process of a cluster dies first, and which next: in the end nothing of it is left."""

import os
import signal

import psutil
import pytest

import jmars
import jmars.tensor as mt
from jmars.deploy.control_process import ended_within
from jmars.deploy.folders import sweep
from jmars.errors import ClusterError
from jmars.model.status import JobState

ORDERS = [
    ("host",),
    ("zygote",),
    ("janitor", "host"),
    ("host", "janitor"),
    ("executor", "host", "janitor"),
    ("janitor", "zygote"),
]
APART = [("scheduler", "host"), ("janitor", "scheduler", "executor", "host"), ("host", "scheduler", "janitor")]


def processes(cluster):
    """Process ids by what they are, and all of them."""
    info = cluster.info()
    found = {
        "host": info["host"]["pid"],
        "scheduler": info["scheduler"]["pid"],
        "janitor": info["janitor"]["pid"],
        "executor": info["workers"][0]["pid"],
    }
    below = psutil.Process(found["host"]).children(recursive=True)
    executors = {worker["pid"] for worker in info["workers"]}
    found["zygote"] = next(one.ppid() for one in below if one.pid in executors)
    return found, {*found.values(), *(one.pid for one in below)}


@pytest.mark.long(beyond=3)
@pytest.mark.parametrize(
    ("order", "detach"),
    [(order, detach) for order in ORDERS for detach in (False, True)] + [(order, True) for order in APART],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else ("attached", "detached")[value],
)
def test_nothing_is_left_and_who_waits_hears_of_it(order, detach):
    def slowly(chunk):
        import time

        time.sleep(0.1)
        return chunk

    cluster = jmars.Cluster(n_workers=2, memory_limit="512MiB", detach=detach)
    try:
        job = cluster.submit(mt.map_blocks(slowly, mt.ones(400, chunk_size=2), dtype="f8").sum())
        while job.state == JobState.PREPARING:
            job.wait(0.01)
        named, everyone = processes(cluster)
        for name in order:
            os.kill(named[name], signal.SIGKILL)
        with pytest.raises(ClusterError, match="went away"):
            job.result(60)
        assert all(ended_within(pid, 60) for pid in everyone)
        folder = cluster._host.folders.folder
        sweep()  # as the next cluster does; needed where the janitor was killed
        assert not os.path.exists(folder)
        assert not os.path.exists(cluster._host.folders.registry)
    finally:
        cluster.close()


def test_a_client_that_is_killed_leaves_others_and_their_jobs_alone():
    """RELIABILITY 4.2, row 28, for a detached cluster: see test_detached for the kernel that started it."""
    cluster = jmars.Cluster(n_workers=1, memory_limit="512MiB", detach=True)
    try:
        job = cluster.submit(mt.arange(100, chunk_size=10).sum())
        pid = os.fork()
        if not pid:  # a process that knows the cluster and dies without a word
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
        assert job.result(60) == 4950
    finally:
        cluster.stop()
