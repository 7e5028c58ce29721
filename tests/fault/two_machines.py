"""Two machines with a cable between them, a cluster of both, and a program of several stages on it, for test_hosts.py.

The first host runs beside the test on the machine "head", the second one on the machine "far", by ssh, with folders of
its own. `Pair.close` says what must be true behind every fault: the cluster answers, ends, and leaves nothing.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import psutil
import pytest

import jmars.tensor as mt
from jmars.client import Cluster, Job
from jmars.errors import JmarsError
from tests.fault import program
from tests.fault.harness import HANG, PATIENCE, Clock, until
from tests.house.source import ROOT
from tests.multihost.cables import Cable
from tests.multihost.machines import Machine, run_here
from tests.multihost.ssh_server import SshServer

__all__ = ["LEASE", "Pair", "TwoHostsClock", "arrays", "value"]

LIMIT = "175MiB"  # of each host: 74 MiB for chunks
LEASE = 30.0  # seconds after which a host without a head has ended
END_SECONDS = 15.0  # for processes of a host that was told to end


def arrays(module: Any = mt) -> list[Any]:
    """Results of several stages, since only the run tells the length of some arrays."""
    sums, most, both = program.arrays(module)
    few = both[both % 11 == 0]
    return [sums, most, both, few.sum(), module.unique(both % 40)]


@cache
def value() -> list[Any]:
    """What NumPy says."""
    return arrays(np)


class TwoHostsClock(Clock):
    """D of two hosts on this machine."""

    def measure(self) -> float:
        """Run the program without a fault."""
        with Cluster.hosts(["local", "local"], n_workers=1, memory_limit=LIMIT) as cluster:
            begun = time.monotonic()
            assert not program.differs(cluster.submit(*arrays()).result(HANG), value())
            self.fault_free = max(self.fault_free, time.monotonic() - begun)
        return self.fault_free


class Pair:
    """Two machines, and from `start` on a cluster of both.

    Attributes
    ----------
    mend
        Whatever is to be mended before the cluster is closed.
    injected
        When the fault began.
    crashed
        Whether the second machine is switched off, so that nobody can tidy up there.
    """

    def __init__(self, head: Machine, far: Machine, cable: Cable, random: Random, clock: Clock, test: str) -> None:
        self.head, self.far, self.cable, self.random = head, far, cable, random
        self.clock, self.test = clock, test
        self.mend = ExitStack()
        self.injected, self.crashed, self._closed = 0.0, False, False
        self.cluster: Cluster
        self.sshd: SshServer
        self._stack = ExitStack()
        self.folder = Path(tempfile.mkdtemp(prefix="jm-", dir="/tmp"))  # short: sockets lie in it
        self._stack.callback(shutil.rmtree, self.folder)
        for name in ("tmp", "run"):
            (self.folder / name).mkdir(mode=0o700)

    def listen(self, environment: Mapping[str, str]) -> None:
        """Start sshd, whose commands get these variables."""
        patch = self._stack.enter_context(pytest.MonkeyPatch.context())
        own = {"TMPDIR": str(self.folder / "tmp"), "JMARS_RUNTIME_DIR": str(self.folder / "run")}
        keys = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="jm-ssh-", dir="/tmp"))
        variables = {**own, "PYTHONPATH": str(ROOT), **environment}
        self.sshd = SshServer(self.far, self.cable.addresses["far"], Path(keys), variables)
        self._stack.callback(self.sshd.close)
        patch.setenv("HOME", str(self.sshd.home))
        patch.delenv("SSH_AUTH_SOCK", raising=False)
        self._stack.enter_context(self.head.network())

    def start(self, spill: str | None = None, schedulers: int = 0, **environment: str) -> Pair:
        """Start the cluster."""
        self.listen(environment)
        self.begin(spill, schedulers)
        return self

    def begin(self, spill: str | None = None, schedulers: int = 0) -> None:
        """Start the cluster where sshd listens already."""
        settings = {"spill_dir": spill, "python": sys.executable, "schedulers": schedulers}
        self.cluster = Cluster.hosts(["local", self.sshd.place], n_workers=1, memory_limit=LIMIT, **settings)

    # -- moments
    def compute(self, most: float = 0.8) -> Job:
        """A job somewhere in its run, and the fault is to begin now."""
        job = self.cluster.submit(*arrays())
        begun, most_seconds = time.monotonic(), most * self.fault_free
        wait = self.random.uniform(0.05, most_seconds)
        until(lambda: job.wait(0) or time.monotonic() - begun >= wait, HANG, "the clock stands still")
        self.injected = time.monotonic()
        return job

    @property
    def fault_free(self) -> float:
        """D."""
        return self.clock.fault_free or self.clock.measure()

    # -- processes
    def control(self) -> int:
        """The control process of the far host."""
        (pid,) = [host["pid"] for host in self.cluster.info()["hosts"] if host["number"] == 2]
        return self.far.pids()[pid]

    def processes(self) -> list[psutil.Process]:
        """Processes of jmars on the far machine."""
        found = []
        for pid in self.far.pids().values():
            with suppress(OSError, psutil.Error):
                one = psutil.Process(pid)
                if one.status() != psutil.STATUS_ZOMBIE and "jmars" in " ".join(one.cmdline()):
                    found.append(one)
        return found

    def states(self) -> list[str]:
        """States of both hosts, by number."""
        hosts = sorted(self.cluster.info()["hosts"], key=lambda host: host["number"])
        return [host["state"] for host in hosts]

    # -- promises
    def equal(self, job: Job, runs: float, seconds: float) -> None:
        """The job's values are NumPy's, bit for bit, within the limit."""
        got = job.result(2 * HANG)
        took = time.monotonic() - self.injected
        assert not (wrong := program.differs(got, value())), wrong
        self.clock.check(self.test, took, runs, seconds)

    def equal_or_error(self, job: Job, runs: float, seconds: float, *kinds: type[JmarsError]) -> None:
        """The same, or a clear error of one of these kinds within the limit."""
        assert job.wait(2 * HANG), f"no answer for {2 * HANG} s"
        if job.error is None:
            self.equal(job, runs, seconds)
            return
        assert isinstance(job.error, kinds) and len(str(job.error)) > 20, repr(job.error)
        self.clock.check(self.test, time.monotonic() - self.injected, runs, seconds)

    def close(self, ended: float = END_SECONDS) -> None:
        """The cluster answers; when it is closed, nothing of it runs `ended` seconds later, and nothing is left."""
        if self._closed:
            return
        self._closed = True
        try:
            if hasattr(self, "cluster"):
                try:
                    begun = time.monotonic()
                    assert int(self.cluster.submit(program.probe()).result(HANG)) == 499500
                    assert (took := time.monotonic() - begun) < 5 * PATIENCE, f"the probe took {took:.1f} s"
                finally:
                    self.mend.close()
                    self.cluster.stop()
            self.mend.close()
            self._nothing_is_left(ended)
        finally:
            self.mend.close()
            self._stack.close()

    def _nothing_is_left(self, seconds: float) -> None:
        if not self.crashed:
            until(
                lambda: not self.processes(), PATIENCE * seconds, f"{self.far.name} still runs {self.processes()}", 0.05
            )
            files = [path for path in self.folder.rglob("*") if not path.is_dir()]
            assert not files, f"left on the far machine: {files}"
        for machine in (self.head, self.far):
            if machine is self.head or not self.crashed:
                until(lambda: not _sockets(machine), PATIENCE * seconds, f"sockets on {machine.name}", 0.05)  # noqa: B023


def _sockets(machine: Machine) -> list[str]:
    """TCP sockets of jmars on a machine that listen or are connected."""
    lines = run_here(*machine.command(["ss", "-Htnap"])).splitlines()
    return [line for line in lines if "python" in line]
