"""Hosts come to a living cluster and leave it; nothing is computed twice."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

import jmars
import jmars.tensor as mt
from jmars.client.host_clusters import _by_place, _ucx
from jmars.deploy import elastic_hosts
from jmars.deploy.elastic_hosts import ElasticHosts
from jmars.errors import ClusterError, ClusterStartError
from tests.contract.engine.kinds import until


@pytest.fixture
def hosts() -> Iterator[jmars.Cluster]:
    with jmars.Cluster.hosts(["local", "local"], n_workers=1, memory_limit="256MiB") as cluster:
        yield cluster


def _noted(path: Path, seconds: float = 0.0) -> Any:
    def note(block: Any) -> Any:
        import time

        time.sleep(seconds)
        with open(path, "a") as file:
            file.write("x\n")
        return block + 1

    return note


def _ran(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def _states(cluster: jmars.Cluster) -> dict[str, str]:
    return {host["name"]: host["state"] for host in cluster.info()["hosts"]}


def test_a_host_leaves_in_mid_run_and_nothing_is_computed_again(hosts: jmars.Cluster, tmp_path: Path) -> None:
    kept = mt.map_blocks(_noted(tmp_path / "kept"), mt.ones((64, 50_000), chunk_size=(4, 50_000)), dtype=float)
    kept = kept.execute()
    view = kept.fetch(copy=False)
    slow = mt.map_blocks(_noted(tmp_path / "slow", 0.03), mt.ones(40, chunk_size=1), dtype=float)
    job = hosts.submit(slow.sum() + kept.sum())
    until(lambda: _ran(tmp_path / "slow") >= 4)
    pids = [host["pid"] for host in hosts.info()["hosts"] if host["name"] == "host-1"]
    hosts.evacuate("host-1")
    assert _states(hosts) == {"host-1": "left", "host-2": "here"} and hosts.n_workers == 1
    assert float(job.result(30)) == 80 + 64 * 50_000 * 2
    np.testing.assert_array_equal(view, 2)
    np.testing.assert_array_equal(kept.fetch(), 2)
    assert (_ran(tmp_path / "kept"), _ran(tmp_path / "slow")) == (16, 40)
    assert not [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]
    moved = [event[4] for event in hosts.events()[0] if event[2] == "HostMoved" and event[4]["name"] == "host-1"]
    assert [one["state"] for one in moved] == ["joined", "leaving", "left"]


def test_what_does_not_fit_in_memory_there_is_spilled_there(hosts: jmars.Cluster, tmp_path: Path) -> None:
    x = mt.map_blocks(_noted(tmp_path / "ran"), mt.ones((40, 1_000_000), chunk_size=(1, 1_000_000)), dtype=float)
    x = x.execute()  # 320 MB of 2 × 256 MiB
    hosts.evacuate("host-2")
    assert hosts.info()["memory"]["spilled"] > 50e6
    assert float(x.sum()) == 80e6 and _ran(tmp_path / "ran") == 40


@pytest.mark.long
def test_a_host_that_dies_while_it_leaves_is_lost_as_any_other(hosts: jmars.Cluster, tmp_path: Path) -> None:
    x = mt.random.rand(1200, 1200, chunk_size=300).execute()
    value = x.fetch()
    slow = mt.map_blocks(_noted(tmp_path / "slow", 1.0), mt.ones(2, chunk_size=1), dtype=float)
    first = next(host for host in hosts.info()["hosts"] if host["name"] == "host-1")
    job = hosts.submit(slow.sum())
    with ThreadPoolExecutor(1) as thread:
        leaving = thread.submit(hosts.evacuate, "host-1")
        until(
            lambda: [event for event in hosts.events()[0] if event[2] == "HostMoved" and "leaving" in event[4].values()]
        )
        os.kill(first["pid"], signal.SIGKILL)
        with pytest.raises(ClusterError, match="lost while other hosts took"):
            leaving.result(30)
    assert float(job.result(30)) == 4
    np.testing.assert_array_equal(x.fetch(), value)


def test_hosts_that_cannot_leave_say_why(hosts: jmars.Cluster) -> None:
    with pytest.raises(ClusterError, match="no host 'node-9' is here; the cluster has host-1, host-2"):
        hosts.evacuate("node-9")
    with pytest.raises(ClusterError, match="close the cluster instead"):
        hosts.evacuate("host-1", "host-2")
    hosts.evacuate("host-1")
    with pytest.raises(ClusterError, match="no host 'host-1' is here"):
        hosts.evacuate("host-1")


def test_hosts_come_to_places_and_leave_them(hosts: jmars.Cluster, tmp_path: Path) -> None:
    x = mt.map_blocks(_noted(tmp_path / "ran"), mt.ones((16, 1000), chunk_size=(1, 1000)), dtype=float).execute()
    hosts.scale(1)
    assert sorted(_states(hosts).values()) == ["here", "left"] and hosts.n_workers == 1
    hosts.scale(2)
    hosts.scale(["local"])
    assert {name for name, state in _states(hosts).items() if state == "here"} >= {"host-3", "host-4"}
    assert hosts.n_workers == 3 and list(hosts.info()["places"]) == ["local"] * 3
    assert float(x.sum()) == 32_000 and _ran(tmp_path / "ran") == 16
    with pytest.raises(ClusterError, match="4 hosts are more than the 3"):
        hosts.scale(4)
    with pytest.raises(ClusterError, match="1 host or more"):
        hosts.scale(0)
    with pytest.raises(ClusterStartError, match="two words"):
        hosts.scale(["two words"])
    with pytest.raises(ValueError, match=r"a list of new places: \['local'\]"):
        hosts.scale("local")  # type: ignore[arg-type]


def test_a_running_job_uses_a_host_that_comes(tmp_path: Path) -> None:
    with jmars.Cluster.hosts(["local"], n_workers=1, memory_limit="256MiB") as cluster:
        slow = mt.map_blocks(_noted(tmp_path / "slow", 0.05), mt.ones(60, chunk_size=1), dtype=float)
        job = cluster.submit(slow.sum())
        until(lambda: _ran(tmp_path / "slow") >= 2)
        cluster.scale(["local"])
        assert float(job.result(30)) == 120 and _ran(tmp_path / "slow") == 60
        done = {worker["host"]: worker["done"] for worker in cluster.info()["workers"]}
        assert len(done) == 2 and min(done.values()) >= 5
        replanned = [event[4]["why"] for event in cluster.events()[0] if event[2] == "Replanned"]
        assert "host-2 joined" in replanned


@pytest.mark.long
def test_the_number_of_hosts_follows_the_work(tmp_path: Path) -> None:
    with jmars.Cluster.hosts(["local", "local"], n_workers=1, memory_limit="256MiB") as cluster:
        cluster.scale(1)
        cluster.adapt(1, 2)
        assert cluster.info()["adapt"] == {"least": 1, "most": 2, "why": ""}
        assert list(cluster.ask("cluster", "summary")["adapt"]) == [1, 2]
        slow = mt.map_blocks(_noted(tmp_path / "slow", 0.2), mt.ones(80, chunk_size=1), dtype=float)
        job = cluster.submit(slow.sum())
        until(lambda: cluster.n_workers == 2)
        assert float(job.result(60)) == 160
        with pytest.raises(ClusterError, match="3 hosts are more than the 2"):
            cluster.adapt(1, 3)


@pytest.mark.long
def test_a_host_that_does_not_come_up_is_told_and_the_rest_goes_on(hosts: jmars.Cluster) -> None:
    with pytest.raises(ClusterStartError, match="1 of 2 hosts came up"):
        hosts.scale(["local", "nobody@127.0.0.1:1"])
    assert hosts.n_workers == 3 and list(hosts.info()["places"]) == ["local"] * 3
    assert float(mt.ones(1000, chunk_size=10).sum()) == 1000


@pytest.mark.seed("S0.14")
def test_unlike_hosts_get_work_by_size_and_pins_are_kept() -> None:
    places = ["local", "local"]
    with jmars.Cluster.hosts(places, n_workers=[1, 3], memory_limit=["256MiB", "512MiB"]) as cluster:
        assert [row["workers"] for row in sorted(cluster.info()["hosts"], key=lambda row: row["number"])] == [1, 3]
        assert cluster.machines is not None and sorted(cluster.machines.cores.tolist()) == [1, 3]
        x = mt.random.rand(2000, 2000, chunk_size=200)
        assert float((x @ x).sum()) > 0
        done = {row["host"]: 0 for row in cluster.info()["workers"]}
        for row in cluster.info()["workers"]:
            done[row["host"]] += row["done"]
        assert done["host-2"] > 1.5 * done["host-1"]
        with jmars.annotate(prefer="host-1"):
            y = mt.random.rand(400, chunk_size=100)
        before = done["host-1"]
        y.execute()
        after = sum(row["done"] for row in cluster.info()["workers"] if row["host"] == "host-1")
        assert after - before == 4
        with jmars.annotate(prefer="host-9"):  # a wish
            assert float(mt.ones(4, chunk_size=2).sum()) == 4


def test_settings_by_place() -> None:
    places = ["local", "node-7", "node-8"]
    assert _by_place("n_workers", 2, places, None) == [2, 2, 2]
    assert _by_place("n_workers", [1, 2, 3], places, None) == [1, 2, 3]
    assert _by_place("memory_limit", {"node-7": "8GiB"}, places, None) == [None, "8GiB", None]
    with pytest.raises(ValueError, match="2 values for 3 places"):
        _by_place("n_workers", [1, 2], places, None)
    with pytest.raises(ValueError, match="'node-9', which is none of the places"):
        _by_place("n_workers", {"node-9": 1}, places, None)


@pytest.mark.long
def test_what_more_hosts_would_bring_is_what_they_bring(tmp_path: Path) -> None:
    def slow(block: Any) -> Any:
        import time

        time.sleep(0.03)
        return block

    def work(seed: int) -> mt.Tensor:
        return mt.map_blocks(slow, mt.full(60, float(seed), chunk_size=1), dtype=float).sum()

    def seconds(seed: int) -> float:
        began = time.monotonic()
        work(seed).execute()
        return time.monotonic() - began

    with jmars.Cluster.hosts(["local"], n_workers=1, memory_limit="256MiB") as cluster:
        work(0).execute()  # measures the function
        plan = work(1).plan()
        predicted = plan.what_if(hosts=2).makespan / plan.makespan
        one = seconds(2)
        cluster.scale(["local"])
        two = seconds(3)
        assert 0.4 < predicted < 0.7
        assert abs(two / one - predicted) < 0.25


def test_ucx_is_false_auto_or_true() -> None:
    assert [_ucx(one) for one in (False, "auto", True)] == ["no", "auto", "always"]
    with pytest.raises(ValueError, match="ucx is 'yes'"):
        _ucx("yes")


def test_a_look_at_the_work_that_fails_is_told_and_the_next_one_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elastic_hosts, "LOOK_SECONDS", 0.0)

    async def run() -> None:
        again, asked = asyncio.Event(), []

        async def demand() -> tuple[float, int]:
            asked.append(elastic.info()["adapt"]["why"])
            if len(asked) == 1:
                raise OSError("no route to host")
            again.set()
            return 0.0, 0

        row: Any = SimpleNamespace(number=1, cores=2)
        roster: Any = SimpleNamespace(hosts=SimpleNamespace(staying=[row]))
        nothing: Any = None
        elastic = ElasticHosts(roster, nothing, [{"place": "local"}], lambda host: False, demand)
        elastic.adapt(1, 1)
        try:
            await asyncio.wait_for(again.wait(), 60)
        finally:
            elastic.close()
        assert asked[:2] == ["", "no route to host"]

    asyncio.run(run())
