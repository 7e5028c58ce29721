"""Hosts inside the workers of a Dask cluster, and which mode is taken; Ray's are in `tests/contract/engine`."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed")

import dask
import psutil
from distributed import Client, LocalCluster

import jmars
import jmars.tensor as mt
from jmars.errors import ClusterError, ClusterStartError
from tests.contract.engine.kinds import dask_nodes, until


@pytest.fixture
def threads(tmp_path: Path) -> Iterator[Client]:
    """The client of a Dask cluster whose workers are threads of this process."""
    with (
        dask.config.set({"temporary-directory": str(tmp_path)}),
        LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as local,
        Client(local, set_as_default=False) as client,
    ):
        yield client


def test_auto_takes_tasks_with_the_reason_where_hosts_cannot_be_inside(threads: Client) -> None:
    with pytest.raises(ClusterStartError, match="threads of the kernel"):
        jmars.Cluster.dask(threads, mode="inside")
    with jmars.Cluster.dask(threads, mode="auto") as cluster:
        info = cluster.info()
        assert info["mode"] == info["engine"]["mode"] == "tasks"
        assert info["why"].startswith("hosts did not work inside: the workers of this Dask cluster are threads")
        assert float(mt.ones(10).sum()) == 10


@pytest.mark.long
def test_a_worker_that_a_nanny_starts_again_gets_a_host() -> None:
    with dask_nodes(["one", "two"]) as (file, nodes), jmars.Cluster.dask(file, mode="auto") as cluster:
        info = cluster.info()
        assert (info["mode"], info["engine"]["kind"]) == ("inside", "dask")
        assert info["why"].startswith("two hosts came up and reached each other within")
        with pytest.raises(ClusterError, match="scale the Dask cluster itself"):
            cluster.scale(3)
        worker = psutil.Process(nodes[0].pid).children()[-1]
        ours = [one.pid for one in worker.children(recursive=True)]
        os.kill(worker.pid, signal.SIGKILL)
        until(lambda: cluster.n_workers == 1)
        until(lambda: cluster.n_workers == 2, 40)
        assert not [pid for pid in ours if _runs(pid)]
        names = [row["name"] for row in cluster.info()["hosts"] if row["state"] == "here"]
        assert len(names) == 2 and "host-3" in names
        assert float(mt.ones(1000, chunk_size=10).sum()) == 1000


@pytest.mark.long
def test_the_only_host_that_dies_is_followed_by_another_one_and_jobs_wait() -> None:
    with dask_nodes(["one"]) as (file, _), jmars.Cluster.dask(file, mode="inside") as cluster:
        job = cluster.submit(mt.map_blocks(_slow, mt.ones(40, chunk_size=1), dtype=float).sum())
        until(lambda: job.progress > 0)
        os.kill(cluster.info()["hosts"][0]["pid"], signal.SIGKILL)
        assert float(job.result(40)) == 80
        assert [row["name"] for row in cluster.info()["hosts"] if row["state"] == "here"] == ["host-2"]


def _slow(block: Any) -> Any:
    time.sleep(0.05)
    return block + 1


@pytest.mark.long
def test_all_ends_with_a_head_that_is_killed() -> None:
    with dask_nodes(["one", "two"]) as (file, _):
        cluster = jmars.Cluster.dask(file, mode="inside")
        pids = [host[name] for host in cluster.info()["hosts"] for name in ("pid", "janitor")]
        os.kill(cluster.info()["host"]["pid"], signal.SIGKILL)
        until(lambda: not [pid for pid in pids if _runs(pid)], 30)
        cluster.close()
        with Client(scheduler_file=file, set_as_default=False) as client:
            until(lambda: not client.run_on_scheduler(_tasks))
            assert client.submit(sum, [1, 2]).result(60) == 3


def _tasks(dask_scheduler: Any) -> list[str]:
    return list(dask_scheduler.tasks)


def _runs(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
