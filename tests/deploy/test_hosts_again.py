"""A host that was given up comes back as its next incarnation, without jobs and chunks; the old one counts no more."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import psutil
import pytest

import jmars
import jmars.tensor as mt
from tests.contract.engine.kinds import until

pytestmark = pytest.mark.long


@contextmanager
def _frozen(host: dict[str, Any]) -> Iterator[None]:
    """The control process and the janitor of a host are stopped, so that nobody speaks for the host."""
    pids = [host["pid"], host["janitor"]]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _moved(cluster: jmars.Cluster, name: str) -> list[tuple[str, str]]:
    told = [event[4] for event in cluster.events()[0] if event[2] == "HostMoved"]
    return [(one["state"], one["why"]) for one in told if one["name"] == name]


def _runs(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def _draws(block: Any) -> Any:
    """Other values at each call."""
    time.sleep(0.01)
    return block + int.from_bytes(os.urandom(4), "little")


def test_a_host_that_was_silent_for_too_long_comes_back_and_computes() -> None:
    with jmars.Cluster.hosts(["local", "local"], n_workers=1, memory_limit="256MiB") as cluster:
        drawn = mt.map_blocks(_draws, mt.zeros((40, 50), chunk_size=(1, 50)), dtype=float).execute()
        before = drawn.fetch()
        host = next(one for one in cluster.info()["hosts"] if one["number"] == 2)
        old = {one.pid for one in psutil.Process(host["pid"]).children(recursive=True)}
        assert len(set(before[:, 0])) == 40
        with _frozen(host):
            job = cluster.submit((drawn + 0).sum())
            until(lambda: _moved(cluster, "host-2")[-1][0] == "lost")
            assert np.isfinite(job.result(30))
            between = drawn.fetch()
            assert cluster.n_workers == 1
        until(lambda: _moved(cluster, "host-2")[-1][0] == "joined")
        why = _moved(cluster, "host-2")[-1][1]
        assert why.startswith("it is back as incarnation 2; ")
        until(lambda: cluster.n_workers == 2)
        np.testing.assert_array_equal(drawn.fetch(), between)  # chunks that were drawn anew stay; the old are gone
        assert (before != between).any()
        x = mt.random.rand(800, 800, chunk_size=100).execute()
        np.testing.assert_allclose((x @ x.T).execute().fetch(), x.fetch() @ x.fetch().T)
        info = cluster.info()
        again = next(one for one in info["hosts"] if one["number"] == 2)
        assert again["state"] == "here" and again["pid"] == host["pid"] and again["janitor"] != host["janitor"]
        assert min(worker["done"] for worker in info["workers"]) > 0 and len(info["workers"]) == 2
        assert not [pid for pid in [*old, host["janitor"]] if _runs(pid)]
        pids = [again["pid"], again["janitor"], *(worker["pid"] for worker in info["workers"])]
    until(lambda: not [pid for pid in pids if _runs(pid)])


def test_a_host_whose_control_process_alone_was_stopped_comes_back_twice() -> None:
    with jmars.Cluster.hosts(["local", "local"], n_workers=1, memory_limit="256MiB") as cluster:
        for incarnation in (2, 3):
            host = next(one for one in cluster.info()["hosts"] if one["number"] == 1)
            os.kill(host["pid"], signal.SIGSTOP)
            until(lambda: _moved(cluster, "host-1")[-1][0] == "lost")
            os.kill(host["pid"], signal.SIGCONT)
            until(lambda: _moved(cluster, "host-1")[-1][0] == "joined")
            assert f"incarnation {incarnation}; the control process of host 1" in _moved(cluster, "host-1")[-1][1]
            until(lambda: cluster.n_workers == 2)
            time.sleep(3.1)  # a host that is refused sooner than 3 s after it joined does not try again
            assert float(mt.ones(1000, chunk_size=100).sum()) == 1000
