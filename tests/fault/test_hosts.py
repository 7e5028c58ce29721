"""Two hosts: cut and half-open links, delay, loss, a killed host, killed ssh, stopped processes, a full disk, a clock
that is off. `python -m tests.fault --full --hosts 2 --times 20` runs each twenty times.

The value is NumPy's bit for bit, or the stated error comes within its limit, and nothing is left on either machine.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jmars.errors import ClusterStartError, MemoryLimitError, StorageError
from tests.fault import injections
from tests.fault.harness import until
from tests.fault.probes import need
from tests.fault.two_machines import LEASE, Pair, TwoHostsClock
from tests.multihost.cables import Cable, SlowCable
from tests.multihost.conftest import far, head  # noqa: F401

pytestmark = [pytest.mark.root, pytest.mark.long]

GONE = 8.0  # seconds of silence after which a host is given up
HOUR = 3600.0
START_SECONDS = 40.0

_clock = TwoHostsClock()


@pytest.fixture
def clock() -> TwoHostsClock:
    """D of two hosts."""
    return _clock


@pytest.fixture
def machines(head, far, chance, clock, request) -> Iterator[Callable[..., Pair]]:  # type: ignore[no-untyped-def] # noqa: F811
    """Makes the two machines with a cable."""
    made: list[Pair] = []

    def make(cable: type[Cable] = Cable, *args: float) -> Pair:
        clock.fault_free = clock.fault_free or clock.measure()
        made.append(Pair(head, far, cable(head, far, *args), chance, clock, request.node.name))
        return made[-1]

    yield make
    for pair in made:
        pair.close()


@pytest.fixture
def pair(machines) -> Pair:  # type: ignore[no-untyped-def]
    """A cluster of two hosts."""
    return machines().start()


@pytest.fixture
def slow_cable(machines) -> Iterator[Pair]:  # type: ignore[no-untyped-def]
    """A cluster of two hosts whose cable can delay and drop packets."""
    pair = machines(SlowCable, 0.0)
    with pair.cable:
        yield pair.start()
        pair.close()


def test_row_15_cut_link(pair, seed):
    """For a moment: nobody is lost. For long: the host is given up; later it hears so, or ends by its lease."""
    job = pair.compute()
    brief = pair.random.random() < 0.4
    pair.mend.enter_context(pair.cable.unplug(pair.far))
    if brief:
        time.sleep(pair.random.uniform(0.1, 2.5))  # the fault itself
        pair.mend.close()
        pair.equal(job, 2, 5)
        assert pair.states() == ["here", "here"]
        return
    pair.equal(job, 2, GONE + 7)
    if seed % 10 == 0:  # the cable stays out: the host ends by its lease
        left = pair.injected + LEASE + 15 - time.monotonic()
        until(lambda: not pair.processes(), 2 * max(left, 1.0), "the lease ends nothing", 0.1)


def test_row_15_half_open_link(pair, seed):
    """One way is silent: whoever does not hear gives up."""
    job = pair.compute()
    mute = pair.random.choice([pair.head, pair.far])
    pair.mend.enter_context(pair.cable.silence(mute))
    if pair.random.random() < 0.3:
        time.sleep(pair.random.uniform(0.1, 2.5))  # the fault itself
        pair.mend.close()
        pair.equal(job, 2, 8)
        assert pair.states() == ["here", "here"]
    else:
        pair.equal(job, 2, GONE + 7)


def test_row_16_delay(slow_cable, seed):
    """Packets are late by up to a tenth of a second each way; some pass one another, which costs TCP much more."""
    pair = slow_cable
    job = pair.compute()
    delay, jitter = pair.random.choice([(0.1, 0.0), (0.03, 0.0), (0.02, 0.01)])
    pair.mend.enter_context(pair.cable.weather(delay, jitter))
    pair.equal(job, 3, 20)
    assert pair.states() == ["here", "here"]


def test_row_16_loss(slow_cable, seed):
    """One packet of ten is lost for eight seconds; a host that is silent so long is given up, and no value is wrong."""
    pair = slow_cable
    job = pair.compute()
    with pair.cable.weather(0.0, 0.0, pair.random.choice([0.01, 0.1])):
        job.wait(8)
    pair.equal(job, 3, 10 + 8)


def test_row_31_killed_host(pair, seed):
    """The machine is switched off, or all its processes die, or the control process alone."""
    job = pair.compute()
    how = pair.random.choice(["off", "all", "control"])
    if how == "off":
        pair.crashed = True
        pair.far.crash()
    elif how == "control":
        injections.kill(pair.control())
    else:
        for process in pair.processes():
            injections.kill(process.pid)
        pair.crashed = True
    pair.equal(job, 2, GONE + 7)
    assert "lost" in pair.states()


def test_row_27_killed_scheduler(machines, seed):
    """The next scheduler goes on where this one was; now and then the control process of the far host dies, too."""
    pair = machines().start(schedulers=1)
    scheduler = pair.cluster.info()["scheduler"]["pid"]
    far_too, control = pair.random.random() < 0.3, pair.control()
    job = pair.compute()
    injections.kill(scheduler)
    if far_too:
        injections.kill(control)
    pair.equal(job, 2, 5 + far_too * (GONE + 2))
    assert pair.cluster.info()["scheduler"]["pid"] not in (0, scheduler)
    assert pair.states() == ["here", "lost" if far_too else "here"]


def test_row_31_killed_ssh(machines, seed):
    """While the cluster runs nobody needs ssh; while it starts the error says what happened, and nothing is left."""
    pair = machines()
    if pair.random.random() < 0.6:
        pair.start()
        job = pair.compute()
        pair.sshd.close()
        pair.equal(job, 2, 5)
        assert pair.states() == ["here", "here"]
        return
    pair.listen({})
    killer = threading.Timer(pair.random.uniform(0.02, 1.0), pair.sshd.close)
    killer.start()
    begun = time.monotonic()
    try:
        pair.begin()
    except ClusterStartError as error:
        assert "far" in str(error) or pair.cable.addresses["far"] in str(error), error
    finally:
        killer.join()
    assert time.monotonic() - begun < START_SECONDS


def test_row_07_stopped_control_process(pair, seed):
    """That of a host for a moment, that of the head for a moment, or that of a host for ever: it is given up."""
    who = pair.random.choice(["host for a moment", "head for a moment", "host", "host"])
    control = pair.control()
    job = pair.compute()
    if who == "host":
        injections.stop(control)
        pair.mend.callback(os.kill, control, signal.SIGCONT)
        pair.equal(job, 2, GONE + 7)
        assert pair.states() == ["here", "lost"]
        return
    with injections.stopped([control if who == "host for a moment" else pair.cluster._host.pid]):
        time.sleep(pair.random.uniform(0.5, 4.0))  # the fault itself
    pair.equal(job, 2, 8)
    assert pair.states() == ["here", "here"]


def test_row_10_full_disk_on_one(machines, seed, tmp_path):
    """The far host has little room for spilled chunks, none from some point on; the other one has all it wants."""
    need("mount")
    pair = machines()
    spill = tmp_path / "spill"
    spill.mkdir(mode=0o700)
    pair.far.run("mount", "-t", "tmpfs", "-o", f"size={pair.random.choice([1, 16, 64])}m,mode=700", "none", str(spill))
    pair.start(spill=str(spill))
    job = pair.compute()
    if pair.random.random() < 0.7:
        fill = f"head -c 100000000 /dev/zero > {spill}/ballast 2>/dev/null; true"
        pair.far.run("sh", "-c", fill)
        pair.mend.callback(pair.far.run, "rm", "-f", f"{spill}/ballast")
    pair.equal_or_error(job, 2, 10, StorageError, MemoryLimitError)
    assert pair.states() == ["here", "here"]


def test_row_19_clock_off_by_an_hour(machines, seed, tmp_path):
    """The far host's wall clock is an hour ahead or behind, from the start or from some point on."""
    need("cc")
    library, offsets = tmp_path / "clock.so", tmp_path / "offsets"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True, timeout=60)
    pair = machines()
    off = struct.pack("<dd", pair.random.choice([HOUR, -HOUR]), 0.0)
    jumps = pair.random.random() < 0.5
    offsets.write_bytes(bytes(16) if jumps else off)
    pair.start(LD_PRELOAD=str(library), JMARS_TEST_CLOCK=str(offsets))
    assert "clock.so" in Path(f"/proc/{pair.control()}/maps").read_text()
    job = pair.compute()
    if jumps:
        with offsets.open("r+b") as file:
            os.pwrite(file.fileno(), off, 0)
    pair.equal(job, 1, 3)
    assert pair.states() == ["here", "here"]
    assert 0 <= job.describe()["elapsed"] < 60
