"""`jmars.connect("ssh://…")`: a cluster of another machine, over a real sshd."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.actors.registry import entries, find_entry
from jmars.config import runtime_dir
from jmars.errors import ClusterLostError, ClusterStartError
from tests.house.source import ROOT
from tests.multihost.machines import Machine
from tests.multihost.ssh_server import SshServer

pytestmark = pytest.mark.root

_CLUSTER = "import jmars; jmars.Cluster(n_workers=1, memory_limit='300MiB', name='daily', detach=True, lease=60)"


@pytest.fixture
def cluster(head: Machine, far: Machine, sshd: SshServer) -> Iterator[str]:
    """The URL of a cluster that runs on the other machine; the test is on the machine of the user."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(far.command([sys.executable, "-c", _CLUSTER]), env=environment, check=True, timeout=60)
    with head.network():
        yield f"ssh://{sshd.place}/daily"
    subprocess.run(far.command([sys.executable, "-m", "jmars", "stop", "daily"]), env=environment, timeout=60)


def test_a_kernel_computes_on_a_cluster_of_another_machine(cluster: str, far: Machine) -> None:
    values = np.arange(3_000_000, dtype=float)  # chunks of 8 MB go in pieces
    before = set(far.pids())
    with jmars.connect(cluster, python=sys.executable) as there:
        assert there.name.startswith("daily at ")
        x = mt.asarray(values, chunk_size=1_000_000)
        np.testing.assert_array_equal((x * 2).execute().fetch(), values * 2)
        assert float(x.sum()) == values.sum()
        pids = {worker["pid"] for worker in there.info()["workers"]}
        assert pids <= set(far.pids()) and pids
        entry = find_entry(there.id)
        assert entry.far and stat.S_IMODE(os.stat(entry.socket).st_mode) == 0o600
        with jmars.connect(there.id) as again:  # another notebook of this machine, over the same ssh connection
            assert float(mt.ones(10, chunk_size=4).sum()) == 10.0
            assert again.detached
    assert there.id not in [one.id for one in entries()]
    assert before <= set(far.pids())  # the cluster goes on


def test_stop_ends_the_cluster_there(cluster: str, far: Machine) -> None:
    there = jmars.connect(cluster, python=sys.executable)
    control = there.info()["host"]["pid"]
    there.stop()
    assert far.wait_for_end(control, 10)
    assert not list(runtime_dir().glob(f"{there.id}*"))


def test_a_link_that_breaks_is_a_lost_cluster_and_the_job_goes_on(cluster: str, sshd: SshServer, far: Machine) -> None:
    there = jmars.connect(cluster, python=sys.executable)
    job = there.submit(mt.arange(10, chunk_size=4).sum())
    assert int(job.result()) == 45
    for pid in filter(_is_session, far.pids().values()):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(ClusterLostError):
        while True:
            there.ask("host", "ping")
    there.close()
    with jmars.connect(cluster, python=sys.executable) as again:
        assert [one["state"] for one in again.jobs()] == ["succeeded"]
        again.stop()


def test_errors_name_the_machine_and_what_to_do(cluster: str, sshd: SshServer) -> None:
    with pytest.raises(ClusterLostError, match=r"no cluster 'weekly' runs here; there are .*daily"):
        jmars.connect(cluster.replace("daily", "weekly"), python=sys.executable)
    with pytest.raises(ClusterLostError, match="cannot be reached: it has no program /no/python; name an interpreter"):
        jmars.connect(cluster, python="/no/python")
    with pytest.raises(ClusterLostError, match="cannot be reached: nothing listens at"):
        jmars.connect(cluster.replace(":2222", ":2223"))
    with pytest.raises(ClusterStartError, match="is no place for ssh"):
        jmars.connect("ssh://-oProxyCommand=x/daily")
    with pytest.raises(ClusterLostError, match="is no place of a cluster"):
        jmars.connect("http://example.org")


def _is_session(pid: int) -> bool:
    """Whether a process is sshd for a user who is logged in, "sshd: ada@notty"."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes()
    return words.startswith(b"sshd") and b"@" in words


_ELSEWHERE = """
import tests.multihost.without_linux
import sys, numpy as np, jmars, jmars.tensor as mt
with jmars.connect(sys.argv[1], python=sys.executable):
    x = mt.asarray(np.arange(100.0), chunk_size=40)
    print(float((x * 2).sum()), (x + 1).fetch()[-1])
try:
    jmars.Cluster(n_workers=1)
except jmars.errors.ClusterStartError as error:
    print(error)
"""


def test_a_program_without_what_only_linux_has_is_a_client(cluster: str, sshd: SshServer) -> None:
    """A program on macOS, as far as it can be shown on Linux."""
    told = subprocess.run([sys.executable, "-c", _ELSEWHERE, cluster], capture_output=True, text=True, timeout=100)
    numbers, refused = told.stdout.splitlines() or pytest.fail(told.stderr)
    assert numbers == "9900.0 100.0" and "clusters run on Linux only" in refused
