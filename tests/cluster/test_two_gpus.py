"""A cluster with two fake GPUs: a process each, chunks from one to the other, the loss of one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jmars
import jmars.tensor as mt

X = np.random.default_rng(0).random((900, 800)) - 0.5  # 5.8 MB
Y = np.random.default_rng(1).random((800, 900))
GPUS = ["gpu-0", "gpu-1"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[jmars.Cluster]:
    """A core and two GPUs, each with room for a part of the data; worker 1 is gpu-0, worker 2 gpu-1."""
    with jmars.Cluster(n_workers=1, memory_limit="400MiB", gpus=["fake:8MiB", "fake:8MiB"]) as cluster:
        yield cluster


def _rows(cluster: jmars.Cluster) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in cluster.info()["workers"]}


def _done(cluster: jmars.Cluster) -> list[int]:
    return [_rows(cluster)[name]["done"] for name in GPUS]


def _product(gpu: str = "prefer") -> Any:
    return jmars.execute((mt.array(X, chunk_size=100) @ mt.array(Y, chunk_size=100)).sum(axis=0), gpu=gpu)


@pytest.mark.seed("S4.5")
def test_a_process_for_each_and_a_plan_that_uses_both(cluster: jmars.Cluster) -> None:
    before = _done(cluster)
    np.testing.assert_allclose(_product().fetch(), (X @ Y).sum(axis=0), rtol=1e-9)
    used = [after - one for after, one in zip(_done(cluster), before)]
    assert min(used) >= 9, used  # a row of chunks; a process that the machine keeps waiting gives operands to the other
    assert len({_rows(cluster)[name]["pid"] for name in GPUS}) == 2
    levels = cluster.info()["memory"]["levels"]
    assert levels["device"] == sum(_rows(cluster)[name]["device"]["used"] for name in GPUS)


def test_a_chunk_of_one_gpu_is_read_by_the_other(cluster: jmars.Cluster) -> None:
    before = _done(cluster)
    x = mt.array(X, chunk_size=300)
    with jmars.annotate(worker=1):
        doubled = x * 2
    with jmars.annotate(worker=2):
        more = mt.sqrt(mt.abs(doubled)) + 1
    with jmars.annotate(worker=1):
        back = more - doubled
    found = jmars.execute(back, gpu="prefer").fetch()
    np.testing.assert_array_equal(found, np.sqrt(np.abs(X * 2)) + 1 - X * 2)
    after = _done(cluster)
    assert all(now - then >= 9 for now, then in zip(after, before)), "nine chunks, and each step where it was asked for"


def test_one_of_two_is_lost_in_mid_run(cluster: jmars.Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(jmars.config.task, "gpu", "prefer")
    x = mt.array(X, chunk_size=100)
    gpus = _rows(cluster)
    job = cluster.submit((x @ mt.array(Y, chunk_size=100)).sum(axis=0))
    while _done(cluster)[1] == gpus["gpu-1"]["done"]:
        time.sleep(0.001)
    os.kill(gpus["gpu-1"]["pid"], signal.SIGKILL)
    np.testing.assert_allclose(job.result(), (X @ Y).sum(axis=0), rtol=1e-9)
    while _rows(cluster)["gpu-1"]["restarts"] == gpus["gpu-1"]["restarts"]:
        time.sleep(0.01)
    assert _rows(cluster)["gpu-0"]["restarts"] == 0
    np.testing.assert_allclose(_product().fetch(), (X @ Y).sum(axis=0), rtol=1e-9)


def test_one_of_two_that_cannot_be_used_leaves_all_to_the_other() -> None:
    with jmars.Cluster(n_workers=1, memory_limit="400MiB", gpus=["fake:8MiB:1", "fake:8MiB"]) as cluster:
        np.testing.assert_allclose(_product("only").fetch(), (X @ Y).sum(axis=0), rtol=1e-9)
        rows = _rows(cluster)
        assert (rows["gpu-0"]["state"], rows["gpu-0"]["done"]) == ("given up", 0)
        assert rows["gpu-1"]["done"] > 0
