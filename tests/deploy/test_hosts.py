"""A cluster of two hosts on this machine: values, places, losses, and nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import jmars
import jmars.tensor as mt
from jmars.config import config
from jmars.errors import ClusterLostError, ClusterStartError, InternalError, MemoryLimitError
from jmars.tensor.operand import annotate
from tests.contract.engine.kinds import until


@pytest.fixture
def hosts() -> Iterator[jmars.Cluster]:
    with jmars.Cluster.hosts(["local", "local"], n_workers=1, memory_limit="256MiB") as cluster:
        yield cluster


def _fetched(cluster: jmars.Cluster) -> int:
    """Bytes that hosts read from one another since the start."""
    return sum(host["fetched"] for host in cluster.info()["hosts"])


def test_chunks_of_a_kept_tensor_are_read_where_they_lie(hosts: jmars.Cluster) -> None:
    x = mt.random.rand(1000, 1000, chunk_size=250).execute()
    before = _fetched(hosts)
    y = (2 * x + 1).execute()
    assert _fetched(hosts) == before  # no chunk moved
    np.testing.assert_array_equal(y.fetch(), 2 * x.fetch() + 1)
    z = x.T.rechunk(100).execute()
    assert _fetched(hosts) > before
    np.testing.assert_array_equal(z.fetch(), x.fetch().T)
    moved = [event[4] for event in hosts.events()[0] if event[2] == "ChunksMoved"]
    marks = [list(mark[1:]) for one in moved for mark in one["marks"]]  # of each transfer, after "planned"
    assert marks and all(mark == sorted(mark) and len(mark) == 5 and mark[0] >= 0 for mark in marks)
    assert sum(one["bytes"] for one in moved) == _fetched(hosts) - before and all(
        one["from"] != one["to"] for one in moved
    )


@pytest.mark.seed("S0.13")
def test_the_host_that_has_most_bytes_of_the_inputs_reads_the_rest(hosts: jmars.Cluster) -> None:
    for large in (0, 1):  # the plan of the first is not taken for the second, whose chunks lie elsewhere
        _add_on_two_hosts(hosts, large)


def _fetched_by_worker(hosts: jmars.Cluster) -> list[int]:
    """Bytes that the host of each worker read from other hosts."""
    info = hosts.info()
    fetched = {host["name"]: host["fetched"] for host in info["hosts"]}
    return [fetched[worker["host"]] for worker in info["workers"]]


def _add_on_two_hosts(hosts: jmars.Cluster, large: int) -> None:
    with annotate(worker=large):
        x = mt.ones((1000, 1000), chunk_size=1000).execute()
    with annotate(worker=1 - large), config.using(local_seconds=0):  # not in this process
        y = mt.ones(1000, chunk_size=1000).execute()
    before = _fetched_by_worker(hosts)
    z = (x + y).execute()
    after = _fetched_by_worker(hosts)
    assert after[large] - before[large] == y.nbytes and after[1 - large] == before[1 - large]
    assert float(z.sum()) == 2e6


@pytest.mark.seed("S4.17")
def test_links_between_hosts_are_measured_and_plans_take_them(hosts: jmars.Cluster) -> None:
    def links() -> list[dict[str, Any]]:
        return [event[4] for event in hosts.events()[0] if event[2] == "LinkMeasured"]

    def by_tls() -> bool:  # the head passes chunks on until both hosts listen
        x = mt.random.rand(2000, 1000, chunk_size=500).execute()
        (x.T @ x).execute()
        return any(one["transport"] == "tls" for one in links())

    until(by_tls)
    first = next(one for one in links() if one["transport"] == "tls")
    assert first["bandwidth"] > 1e6 and {first["from"], first["to"]} == {1, 2}
    joined = [int(worker["host"].removeprefix("host-")) for worker in hosts.info()["workers"]]  # rows of plans

    def planned() -> bool:  # with what was told last of a link, which a machine under load measures again
        bandwidth = hosts._ready()["machines"]["bandwidth"]
        last = {(one["from"], one["to"]): one["bandwidth"] for one in links()}
        return any(bandwidth[joined.index(a)][joined.index(b)] == value for (a, b), value in last.items())

    until(planned)


def test_results_that_no_host_could_hold_alone_are_held_by_both(hosts: jmars.Cluster) -> None:
    x = (mt.ones((4000, 5000), chunk_size=1000) * 3).execute()  # 160 MB of 2 × 256 MiB
    used = [host["memory"]["arena"]["used"] for host in hosts.info()["hosts"]]
    assert min(used) > 30e6 and float(x.sum()) == 6e7


def test_an_operand_larger_than_a_host_is_refused_before_it_runs(hosts: jmars.Cluster) -> None:
    with pytest.raises(MemoryLimitError, match="largest worker"):
        mt.ones(60_000_000, chunk_size=60_000_000).execute()


def test_chunks_of_a_host_that_dies_are_computed_again(hosts: jmars.Cluster) -> None:
    x = mt.random.rand(1200, 1200, chunk_size=300).execute()
    value = x.fetch()
    first, peak = hosts.info()["hosts"][0], hosts.info()["memory"]["peak"]
    os.kill(first["pid"], signal.SIGKILL)
    until(lambda: any(host["state"] == "lost" for host in hosts.info()["hosts"]))
    np.testing.assert_array_equal(x.fetch(), value)
    assert float((x * 0 + 1).sum()) == 1200 * 1200
    assert hosts.n_workers == 1 and "lost" in str(hosts.info()["hosts"])
    assert hosts.info()["memory"]["peak"] >= peak > 0  # the lost host's share, too
    moved = [event[4] for event in hosts.events()[0] if event[2] == "HostMoved"]
    assert sorted((one["name"], one["state"]) for one in moved) == sorted(
        [("host-1", "joined"), ("host-2", "joined"), (first["name"], "lost")]
    )
    assert moved[-1]["why"]


def test_a_stopped_host_is_named_and_comes_back(hosts: jmars.Cluster) -> None:
    def moved() -> list[Any]:
        return [event[4] for event in hosts.events()[0] if event[2] == "HostMoved"]

    first = hosts.info()["hosts"][0]
    os.kill(first["pid"], signal.SIGSTOP)
    try:
        until(lambda: moved()[-1]["state"] == "suspect")
    finally:
        os.kill(first["pid"], signal.SIGCONT)
    assert f"the control process of host {first['number']} has been stopped for" in moved()[-1]["why"]
    until(lambda: moved()[-1]["state"] == "back")
    assert float(mt.ones(1000, chunk_size=100).sum()) == 1000


FAULT = """
import os, sys
if "--join" in sys.orig_argv:
    from jmars.memory import HostMemory

    def locate_chunks(self, order):
        HostMemory.locate_chunks = real
        try:
            os.close(os.open({once!r}, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return real(self, order)
        raise ZeroDivisionError("injected")

    real, HostMemory.locate_chunks = HostMemory.locate_chunks, locate_chunks
"""


def test_a_fault_of_ours_on_a_host_ends_the_job_and_no_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(FAULT.format(once=str(tmp_path / "once")))
    monkeypatch.syspath_prepend(str(tmp_path))
    with jmars.Cluster.hosts(["local", "local"], n_workers=1, memory_limit="256MiB") as cluster:
        x = mt.ones((900, 900), chunk_size=300)
        pids = [host["pid"] for host in cluster.info()["hosts"]]
        with pytest.raises(InternalError, match="ZeroDivisionError: injected"):
            cluster.submit((x @ x).sum()).result(60)
        assert float(cluster.submit((x @ x + 1).sum()).result(60)) == 900**3 + 900**2
        assert [host["pid"] for host in cluster.info()["hosts"]] == pids


def test_without_a_host_left_the_cluster_says_so_and_the_next_works() -> None:
    with jmars.Cluster.hosts(["local"], n_workers=1, memory_limit="256MiB") as cluster:
        job = cluster.submit(mt.map_blocks(_sleeps, mt.ones(1), dtype=float))
        os.kill(cluster.info()["hosts"][0]["pid"], signal.SIGKILL)
        with pytest.raises(
            ClusterLostError, match=r"(its hosts|all hosts of the cluster) are gone"
        ):  # begun, or not yet
            job.result(30)
    with jmars.Cluster.hosts(["local"], n_workers=1, memory_limit="256MiB"):
        assert float(mt.ones(10).sum()) == 10


def _runs(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def _sleeps(block: Any) -> Any:
    import time

    time.sleep(20)
    return block


def test_nothing_is_left_after_a_close() -> None:
    cluster = jmars.Cluster.hosts(["local", "local"], n_workers=1, memory_limit="256MiB")
    info = cluster.info()
    pids = [host[what] for host in info["hosts"] for what in ("pid", "janitor")] + [info["host"]["pid"]]
    pids += [worker["pid"] for worker in info["workers"]]
    cluster.close()
    assert not [pid for pid in pids if _runs(pid)]


@pytest.mark.long
def test_hosts_end_when_their_head_has_died() -> None:
    cluster = jmars.Cluster.hosts(["local", "local"], n_workers=1, memory_limit="256MiB")
    info = cluster.info()
    pids = [host[what] for host in info["hosts"] for what in ("pid", "janitor")]
    os.kill(info["host"]["pid"], signal.SIGKILL)
    until(lambda: not [pid for pid in pids if _runs(pid)])
    cluster.close()


def test_places_that_are_none(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="list with a place for each host"):
        jmars.Cluster.hosts("local")
    with pytest.raises(ClusterStartError, match="two words"):
        jmars.Cluster.hosts(["two words"])
    with pytest.raises(ClusterStartError, match="memory_limit"):
        jmars.Cluster.hosts(["local"], memory_limit="20MiB")


_DETACHED = """
import jmars, jmars.tensor as mt
places, size = ["local", "local"], {"n_workers": 1, "memory_limit": "256MiB"}
cluster = jmars.Cluster.hosts(places, **size, name="both", detach=True, lease=60)
job = cluster.submit((mt.ones((1000, 1000), chunk_size=250) * 2).sum())
cluster.close()
"""


def test_a_detached_cluster_of_hosts_outlives_the_program_that_started_it() -> None:
    subprocess.run([sys.executable, "-c", _DETACHED], check=True, timeout=60)
    with jmars.connect("both") as cluster:
        job = cluster.job(cluster.jobs()[0]["id"])
        assert float(job.result()) == 2e6
        pids = [host["pid"] for host in cluster.info()["hosts"]]
        cluster.stop()
    assert not any(psutil.pid_exists(pid) for pid in pids)
