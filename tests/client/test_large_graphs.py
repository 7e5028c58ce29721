"""A large graph is sent by a thread: `submit` returns at once, and the handle of the job works meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.client import cluster as module
from jmars.client.sent_graphs import SentGraphs
from jmars.errors import ArrayChangedError, ClusterLostError, JobCancelledError


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[jmars.Cluster]:
    """A cluster to which every graph is large."""
    monkeypatch.setattr(module, "SENT_AT_ONCE", 0)
    with jmars.Cluster(n_workers=1, memory_limit="256MiB") as one:
        yield one


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Graphs are sent when the event is set."""
    event, start = threading.Event(), SentGraphs.start

    def late(self: SentGraphs, *args: Any, **named: Any) -> str:
        assert event.wait(60)
        return start(self, *args, **named)

    monkeypatch.setattr(SentGraphs, "start", late)
    yield event
    event.set()


def test_a_job_tells_its_state_before_its_graph_has_arrived(cluster: jmars.Cluster, gate: threading.Event) -> None:
    array = np.arange(100.0)
    x = mt.asarray(array, chunk_size=10) + 1
    job = cluster.submit(x.sum())
    array[:] = 0  # it entered with the value that it had
    assert job.state == "preparing" and job.progress == 0.0 and not job.wait(0.01)
    assert job.describe()["operands"] == 0 and "on its way" in job.why()
    gate.set()
    assert job.result(60) == 5050 and job.id == job.name == "job-1"
    assert float(x.sum()) == 5050


def test_a_job_that_is_cancelled_before_its_graph_has_arrived_is_cancelled(
    cluster: jmars.Cluster, gate: threading.Event
) -> None:
    job = cluster.submit(mt.ones(10, chunk_size=1).sum())
    job.cancel()
    gate.set()
    with pytest.raises(JobCancelledError):
        job.result(60)


def test_a_graph_that_cannot_be_sent_fails_its_job(cluster: jmars.Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(SentGraphs, "start", lambda *_: 1 // 0)
        job = cluster.submit(mt.ones(3).sum())
        with pytest.raises(ZeroDivisionError):
            job.result(60)
    assert job.id == "" and job.state == "failed"
    assert cluster.submit(mt.ones(10).sum()).result(60) == 10


def test_an_array_that_has_changed_is_refused_at_once(cluster: jmars.Cluster) -> None:
    array = np.zeros(3 * 2**20)
    x = mt.asarray(array)
    array[0] = 1
    with pytest.raises(ArrayChangedError):
        cluster.submit(x)


def test_a_cluster_that_ends_meanwhile_ends_the_job(cluster: jmars.Cluster, gate: threading.Event) -> None:
    job = cluster.submit(mt.ones(10).sum())
    cluster.stop()
    with pytest.raises(ClusterLostError):
        job.result(60)
    gate.set()
