"""Two machines, sshd on the second: a cluster of both computes, one is lost, the cable is cut, and nothing stays."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import psutil
import pytest

import jmars
import jmars.tensor as mt
from jmars.errors import ClusterStartError
from tests.contract.engine.kinds import until
from tests.multihost.cables import Cable
from tests.multihost.machines import Machine
from tests.multihost.ssh_server import SshServer

pytestmark = pytest.mark.root


@pytest.fixture
def here(head: Machine, sshd: SshServer) -> Iterator[None]:
    with head.network():
        yield


@pytest.fixture
def cluster(here: None, sshd: SshServer) -> Iterator[jmars.Cluster]:
    """A host on this machine and one on the other, by a name that only the settings of ssh know."""
    places = ["local", sshd.call("node")]
    with jmars.Cluster.hosts(places, n_workers=1, memory_limit="256MiB", python=sys.executable) as cluster:
        yield cluster


def _far(far: Machine) -> list[psutil.Process]:
    """Processes of jmars on the other machine."""
    space = os.readlink(f"/proc/{far.pid}/ns/net")
    found = []
    for one in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            ours = os.readlink(f"/proc/{one.pid}/ns/net") == space and one.status() != psutil.STATUS_ZOMBIE
            if ours and "jmars" in " ".join(one.cmdline()):
                found.append(one)
    return found


def test_both_machines_compute_and_nothing_stays_there(cluster: jmars.Cluster, far: Machine) -> None:
    assert [host["state"] for host in cluster.info()["hosts"]] == ["here", "here"]
    x = mt.random.rand(1200, 1200, chunk_size=300)
    value = (x @ x.T).execute().fetch()
    a = x.fetch()
    np.testing.assert_allclose(value, a @ a.T)
    done = {worker["host"]: worker["done"] for worker in cluster.info()["workers"]}
    assert len(done) == 2 and min(done.values()) > 0
    assert _far(far)
    cluster.close()
    until(lambda: not _far(far))


@pytest.mark.long
def test_the_machine_is_lost_and_its_chunks_are_computed_again(
    cluster: jmars.Cluster, cable: Cable, far: Machine
) -> None:
    x = mt.random.rand(1000, 1000, chunk_size=250).execute()
    value = x.fetch()
    with cable.unplug(far):
        began = time.monotonic()
        np.testing.assert_array_equal(x.fetch(), value)
        assert time.monotonic() - began < 30
        assert sorted(host["state"] for host in cluster.info()["hosts"]) == ["here", "lost"]
    until(lambda: [host["state"] for host in cluster.info()["hosts"]] == ["here", "here"])  # it comes back by itself
    np.testing.assert_array_equal((x + 0).execute().fetch(), value)


@pytest.mark.long
def test_a_host_that_ended_by_its_lease_is_started_again(cluster: jmars.Cluster, cable: Cable, far: Machine) -> None:
    x = mt.random.rand(1000, 1000, chunk_size=250).execute()
    value = x.fetch()
    with cable.unplug(far):
        until(lambda: not _far(far), 90)  # its lease is over
        np.testing.assert_array_equal((x + 0).execute().fetch(), value)
    until(lambda: [host["state"] for host in cluster.info()["hosts"]] == ["here", "here"], 60)
    np.testing.assert_array_equal((x + 0).execute().fetch(), value)
    done = [worker["done"] for worker in cluster.info()["workers"]]
    assert len(done) == 2
    cluster.close()
    until(lambda: not _far(far))


@pytest.mark.long
def test_a_cable_that_is_plugged_in_again_soon_costs_nothing(
    cluster: jmars.Cluster, cable: Cable, far: Machine
) -> None:
    x = mt.random.rand(1000, 1000, chunk_size=250).execute()
    with cable.unplug(far):
        time.sleep(2)  # s, less than those after which a host is gone
    np.testing.assert_array_equal((x + 0).execute().fetch(), x.fetch())
    assert [host["state"] for host in cluster.info()["hosts"]] == ["here", "here"]


@pytest.mark.long
def test_the_secret_is_nowhere(here: None, sshd: SshServer) -> None:
    with jmars.Cluster.hosts([sshd.place], n_workers=1, memory_limit="256MiB", python=sys.executable) as cluster:
        words = [" ".join(one.cmdline()) + str(one.environ()) for one in _ours()]
        log = cluster._host.folders.log.read_text()
        assert words and not any('"secret"' in text for text in [*words, log])


def _ours() -> list[psutil.Process]:
    return [one for one in psutil.Process(os.getpid()).children(recursive=True) if one.status() != "zombie"]


@pytest.mark.long
def test_a_machine_without_jmars_says_so(here: None, sshd: SshServer) -> None:
    with pytest.raises(ClusterStartError, match="jmars"):
        jmars.Cluster.hosts([sshd.place], n_workers=1, python="/usr/bin/python3")
