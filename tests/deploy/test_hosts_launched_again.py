"""What the head knows of hosts that it started and that start again in their process: janitor, place, tickets."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

import jmars
import jmars.tensor as mt
from tests.contract.engine.kinds import until

pytestmark = pytest.mark.long


@contextmanager
def _stopped(*pids: int) -> Any:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            if _runs(pid):
                os.kill(pid, signal.SIGCONT)


def _runs(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def _host(cluster: jmars.Cluster, number: int) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in cluster.info()["hosts"] if one["number"] == number)
    return found


def test_the_head_ends_the_janitor_that_a_host_has_since_it_is_back() -> None:
    with jmars.Cluster.hosts(["local", "local"], n_workers=1, memory_limit="256MiB") as cluster:
        before = _host(cluster, 2)
        with _stopped(before["pid"], before["janitor"]):
            until(lambda: _host(cluster, 2)["state"] == "lost")
        until(lambda: cluster.n_workers == 2 and _host(cluster, 2)["state"] == "here")
        again = _host(cluster, 2)
        assert again["pid"] == before["pid"] and again["janitor"] != before["janitor"]
        with _stopped(again["janitor"]):  # it does not end by itself
            cluster.evacuate("host-2")
            assert not _runs(again["pid"]) and not _runs(again["janitor"])


def test_a_host_whose_place_another_one_has_taken_does_not_come_back() -> None:
    with jmars.Cluster.hosts(["local", "local"], n_workers=1, memory_limit="256MiB") as cluster:
        before = _host(cluster, 2)
        with _stopped(before["pid"], before["janitor"]):
            until(lambda: _host(cluster, 2)["state"] == "lost")
            cluster.scale(2)
            assert cluster.n_workers == 2 and _host(cluster, 3)["state"] == "here"
        until(lambda: not _runs(before["pid"]))
        time.sleep(2.0)  # for a host that would join
        assert cluster.n_workers == 2 and _host(cluster, 2)["state"] == "lost"
        assert float(mt.ones(1000, chunk_size=100).sum()) == 1000
