"""One program on one cluster under one fault: started, broken, answered, probed.

`Scene` is what the tests of a row get: it measures D, the fault-free time of the program, once in a session, and
again where a limit seems broken, since the machine may have become busier; a limit is `PATIENCE * (n * D + seconds)`
from the injection to the answer. That nothing is left afterwards tests/leaks.py says, for every test.
Source: the reliability matrix of the design (rows by number, promises E, X and C).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psutil

from jmars.client import Cluster, Job
from jmars.errors import JmarsError
from tests.fault import program

__all__ = ["HANG", "PATIENCE", "Clock", "Scene", "alive", "until"]

PATIENCE = 6.0  # a machine that runs tests beside others, however busy
HANG = 60.0  # seconds after which no answer is a hang
PROBE_SECONDS = 5.0


def until(holds: Callable[[], Any], seconds: float, what: str, pause: float = 0.002) -> float:
    """Wait until `holds()`, `seconds` at most, else fail with `what`; returns how long it took."""
    begun = time.monotonic()
    while not holds():
        waited = time.monotonic() - begun
        assert waited < seconds, f"after {waited:.1f} s: {what}"
        time.sleep(pause)  # what is waited for happens in other processes, and tells nobody
    return time.monotonic() - begun


def alive(pid: int) -> bool:
    """Whether the process runs or is stopped; one that only waits to be reaped does not count."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@dataclass
class Clock:
    """D, the seconds of a fault-free run, and what rows took: `told` is printed at the end of a full run."""

    fault_free: float = 0.0
    told: list[tuple[str, float, float]] = field(default_factory=list)  # test, seconds, limit

    def measure(self) -> float:
        """Run the program without a fault; D is the longest such run of this session."""
        with Cluster(program.WORKERS, memory_limit=program.LIMIT) as cluster:
            begun = time.monotonic()
            assert not program.differs(cluster.submit(*program.arrays()).result(HANG))
            self.fault_free = max(self.fault_free, time.monotonic() - begun)
        return self.fault_free

    def check(self, test: str, took: float, runs: float, seconds: float) -> None:
        """An answer came `took` seconds after the fault; `runs` * D + `seconds` are promised."""
        limit = PATIENCE * (runs * (self.fault_free or self.measure()) + seconds)
        if took > limit and runs:
            limit = PATIENCE * (runs * self.measure() + seconds)
        self.told.append((test, took, limit))
        assert took <= limit, f"the answer took {took:.2f} s after the fault, the limit is {limit:.2f} s"


@dataclass
class Scene:
    """A cluster, a program on it, and a random point; `close` is called by the fixture."""

    cluster: Cluster
    clock: Clock
    random: random.Random
    test: str
    injected: float = 0.0  # when, on the monotonic clock
    ended: bool = False  # the fault ends the cluster: no probe

    # -- moments
    def run(self) -> Job:
        """Submit the program."""
        self.injected = time.monotonic()
        return self.cluster.submit(*program.arrays())

    def at(self, job: Job, share: float) -> None:
        """Wait until this share of the job's operands is done, or all of it."""
        until(lambda: job.wait(0) or share_done(job) >= share, HANG, "the job does not come so far")

    def compute(self, most: float = 0.9) -> Job:
        """A job at a random point of its run: up to this share of it, less where it must not end by itself."""
        job = self.run()
        self.at(job, self.random.uniform(0.0, most))
        return job

    def spilling(self) -> Job:
        """A job that has begun to spill."""
        before = self.memory()["spilled_total"]
        job = self.run()
        least = self.random.randrange(1, 32 * 2**20)
        until(lambda: job.wait(0) or self.memory()["spilled_total"] - before >= least, HANG, "nothing is spilled")
        return job

    def memory(self) -> dict[str, Any]:
        """What `Cluster.info` says of memory."""
        found: dict[str, Any] = self.cluster.info()["memory"]
        return found

    # -- processes
    def workers(self) -> list[int]:
        """Pids of the executors that are up."""
        return [worker["pid"] for worker in self.cluster.info()["workers"] if worker["pid"]]

    def worker(self) -> int:
        """One of them."""
        return self.random.choice(self.workers())

    def control(self) -> int:
        """The control process."""
        return self.cluster._host.pid

    def scheduler(self) -> int:
        """Who schedules: the control process, or where the cluster is detached a process of its own."""
        return int(self.cluster.info()["scheduler"]["pid"])

    def zygote(self) -> int:
        """What forks executors and the mover."""
        return int(psutil.Process(self.workers()[0]).ppid())

    def movers(self) -> list[int]:
        """Children of the zygote that are no executors."""
        workers = set(self.workers())
        return [child.pid for child in psutil.Process(self.zygote()).children() if child.pid not in workers]

    # -- promises
    def now(self) -> None:
        """The fault is injected now; limits count from here."""
        self.injected = time.monotonic()

    def equal(self, job: Job, runs: float, seconds: float) -> None:
        """Promise E: the job's values are NumPy's, within the limit."""
        got = job.result(HANG)
        took = time.monotonic() - self.injected
        assert not (wrong := program.differs(got)), wrong
        self.clock.check(self.test, took, runs, seconds)

    def error(self, job: Job, runs: float, seconds: float, kind: type[BaseException] = JmarsError) -> BaseException:
        """Promise C: the job fails with a clear error within the limit; returns it."""
        assert job.wait(HANG), f"no answer for {HANG} s"
        took = time.monotonic() - self.injected
        error = job.error
        assert error is not None, "the job succeeded"
        assert isinstance(error, kind), f"{type(error).__name__}: {error}"
        self.clock.check(self.test, took, runs, seconds)
        return error

    def equal_or_error(self, job: Job, runs: float, seconds: float, kind: type[BaseException]) -> BaseException | None:
        """Promise X: equal, or a clear error of this kind."""
        assert job.wait(HANG), f"no answer for {HANG} s"
        if job.error is not None:
            return self.error(job, runs, seconds, kind)
        self.equal(job, runs, seconds)
        return None

    def probe(self) -> None:
        """After the fault a small job gives its value at once."""
        begun = time.monotonic()
        assert int(self.cluster.submit(program.probe()).result(HANG)) == 499500
        took = time.monotonic() - begun
        assert took <= PATIENCE * PROBE_SECONDS, f"the probe took {took:.1f} s"

    def close(self) -> None:
        """Probe, where the cluster should still live, and close it."""
        try:
            if not self.ended:
                self.probe()
        finally:
            self.cluster.stop()


def share_done(job: Job) -> float:
    """Share of a job's operands that are done; -1 while they are not known."""
    known = job.describe()
    done = known["counts"].get("finished", 0) + known["counts"].get("freed", 0)
    return float(done) / known["operands"] if known["operands"] else -1.0
