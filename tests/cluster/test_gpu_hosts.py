"""A cluster of two hosts on this machine, each with a core and a fake GPU."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.errors import ClusterError, UnsupportedError
from tests.contract.engine.kinds import until

X = np.random.default_rng(0).random((900, 800)) - 0.5  # 5.8 MB
Y = np.random.default_rng(1).random((800, 900))
GPUS = ["host-1/gpu-0", "host-2/gpu-0"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[jmars.Cluster]:
    places = ["local", "local"]
    with jmars.Cluster.hosts(places, n_workers=1, memory_limit="400MiB", gpus="fake:8MiB") as cluster:
        yield cluster


def _rows(cluster: jmars.Cluster) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in cluster.info()["workers"]}


def _done(cluster: jmars.Cluster, names: list[str] = GPUS) -> list[int]:
    return [_known(cluster, names)[name]["done"] for name in names]


def _known(cluster: jmars.Cluster, names: list[str] = GPUS) -> dict[str, dict[str, Any]]:
    """Rows of all workers when the hosts of these have answered: `info` leaves out a host that is slow to answer."""
    found: list[dict[str, dict[str, Any]]] = []

    def all_there() -> bool:
        found.append(_rows(cluster))
        return all(name in found[-1] for name in names)

    until(all_there)
    return found[-1]


def _product(gpu: str = "prefer") -> Any:
    return jmars.execute((mt.array(X, chunk_size=100) @ mt.array(Y, chunk_size=100)).sum(axis=0), gpu=gpu)


def test_info_tells_the_gpus_of_each_host(cluster: jmars.Cluster) -> None:
    assert sorted(_known(cluster)) == ["host-1/gpu-0", "host-1/worker-0", "host-2/gpu-0", "host-2/worker-0"]
    assert [_known(cluster)[name]["device"]["name"] for name in GPUS] == ["FakeDevice"] * 2
    assert [host["gpus"] for host in cluster.info()["hosts"]] == [1, 1]


def test_a_plan_uses_gpus_of_hosts(cluster: jmars.Cluster) -> None:
    """How many of which GPU depends on the costs that were measured before."""
    before = sum(_done(cluster))
    np.testing.assert_allclose(_product().fetch(), (X @ Y).sum(axis=0), rtol=1e-9)
    assert sum(_done(cluster)) - before > 90


def test_only_and_off_mean_what_they_mean_on_one_host(cluster: jmars.Cluster) -> None:
    cores = ["host-1/worker-0", "host-2/worker-0"]
    before, on_cores = _done(cluster), _done(cluster, cores)
    np.testing.assert_allclose(_product("only").fetch(), (X @ Y).sum(axis=0), rtol=1e-9)
    after = _done(cluster)
    assert sum(after) > sum(before) and _done(cluster, cores) == on_cores
    np.testing.assert_allclose(_product("off").fetch(), (X @ Y).sum(axis=0), rtol=1e-9)
    assert _done(cluster) == after
    with pytest.raises(UnsupportedError, match="gpu is only"):
        jmars.execute(mt.cumsum(mt.array(X, chunk_size=100), axis=0), gpu="only")


def test_a_chunk_of_a_gpu_is_read_by_a_gpu_of_another_host(cluster: jmars.Cluster) -> None:
    before = _done(cluster)
    x = mt.array(X, chunk_size=300)
    with jmars.annotate(worker=GPUS[0]):
        doubled = x * 2
    with jmars.annotate(worker=GPUS[1]):
        more = mt.sqrt(mt.abs(doubled)) + 1
    with jmars.annotate(worker=GPUS[0]):
        back = more - doubled
    found = jmars.execute(back, gpu="prefer").fetch()
    np.testing.assert_array_equal(found, np.sqrt(np.abs(X * 2)) + 1 - X * 2)
    after = _done(cluster)
    assert all(now - then >= 9 for now, then in zip(after, before)), "nine chunks, and each step where it was asked for"


def test_a_gpu_that_is_lost_in_mid_run_starts_again(cluster: jmars.Cluster, prefer: None) -> None:
    gpus = _known(cluster)
    with jmars.annotate(worker=GPUS[0]):
        product = mt.array(X, chunk_size=50) @ mt.array(Y, chunk_size=50)
    job = cluster.submit(product.sum(axis=0))
    until(lambda: _done(cluster)[0] > gpus[GPUS[0]]["done"])
    os.kill(gpus[GPUS[0]]["pid"], signal.SIGKILL)
    np.testing.assert_allclose(job.result(), (X @ Y).sum(axis=0), rtol=1e-9)
    until(lambda: _known(cluster)[GPUS[0]]["restarts"] > gpus[GPUS[0]]["restarts"])
    np.testing.assert_allclose(_product().fetch(), (X @ Y).sum(axis=0), rtol=1e-9)


@pytest.fixture
def prefer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(jmars.config.task, "gpu", "prefer")


@pytest.fixture
def unlike() -> Iterator[jmars.Cluster]:
    """A host with a GPU, and one without."""
    gpus: list[Any] = [0, "fake:8MiB"]
    with jmars.Cluster.hosts(["local", "local"], n_workers=1, memory_limit="400MiB", gpus=gpus) as cluster:
        yield cluster


def _kill_host(cluster: jmars.Cluster, number: int) -> None:
    (host,) = [one for one in cluster.info()["hosts"] if one["number"] == number]
    os.kill(host["pid"], signal.SIGKILL)


def test_a_host_with_a_gpu_is_lost_in_mid_run_and_cores_go_on(unlike: jmars.Cluster, prefer: None) -> None:
    gpu = "host-2/gpu-0"
    job = unlike.submit((mt.array(X, chunk_size=50) @ mt.array(Y, chunk_size=50)).sum(axis=0))
    until(lambda: _rows(unlike).get(gpu, {"done": 1})["done"])
    _kill_host(unlike, 2)
    np.testing.assert_allclose(job.result(), (X @ Y).sum(axis=0), rtol=1e-9)
    with pytest.warns(RuntimeWarning, match="no worker of the cluster is a GPU"):
        np.testing.assert_allclose(_product("prefer").fetch(), (X @ Y).sum(axis=0), rtol=1e-9)
    with pytest.raises(ClusterError, match="no host that has one is left"):
        _product("only")


def test_a_host_with_a_gpu_comes_and_is_used(unlike: jmars.Cluster, prefer: None) -> None:
    _kill_host(unlike, 2)
    until(lambda: any(host["state"] == "lost" for host in unlike.info()["hosts"]))
    np.testing.assert_allclose((mt.array(X, chunk_size=100) + 1).execute().fetch(), X + 1)
    unlike.scale(2)  # the place of the lost one
    gpu = "host-3/gpu-0"
    np.testing.assert_allclose(_product("only").fetch(), (X @ Y).sum(axis=0), rtol=1e-9)
    assert _done(unlike, [gpu])[0] > 90


def test_a_gpu_that_cannot_be_used_leaves_all_to_that_of_another_host() -> None:
    gpus = ["fake:8MiB:1", "fake:8MiB"]  # the first one loses its context while it is opened
    with jmars.Cluster.hosts(["local", "local"], n_workers=1, memory_limit="400MiB", gpus=gpus) as cluster:
        np.testing.assert_allclose(_product("only").fetch(), (X @ Y).sum(axis=0), rtol=1e-9)
        rows = _known(cluster)
        assert (rows[GPUS[0]]["state"], rows[GPUS[0]]["done"]) == ("given up", 0)
        assert rows[GPUS[1]]["done"] > 0


def test_a_host_that_has_fewer_gpus_than_asked_for_does_not_start() -> None:
    with pytest.raises(jmars.errors.ClusterStartError, match="gpus=9, and this process sees"):
        jmars.Cluster.hosts(["local"], n_workers=1, memory_limit="400MiB", gpus=9)
    with pytest.raises(ValueError, match="names no GPU"):
        jmars.Cluster.hosts(["local"], gpus="fast")
