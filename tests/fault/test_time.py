"""Row 19: clocks that jump, and machines that sleep. No false death, the right value, progress that never falls."""

import os
import struct
import subprocess
import time
from pathlib import Path

import pytest

from tests.fault import injections
from tests.fault.harness import share_done
from tests.fault.probes import need

HOUR = 3600.0


@pytest.fixture
def jump(tmp_path, monkeypatch):
    """Clusters that start now live by clocks that `jump(wall, monotonic)` puts off by so many seconds."""
    need("cc")
    library, offsets = tmp_path / "clock.so", tmp_path / "offsets"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True, timeout=60)
    offsets.write_bytes(bytes(16))
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("JMARS_TEST_CLOCK", str(offsets))

    def set_off(wall, monotonic=0.0):
        with open(offsets, "r+b") as file:
            os.pwrite(file.fileno(), struct.pack("<dd", wall, monotonic), 0)

    return set_off


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("way", [1, -1], ids=["ahead", "back"])
def test_row_19_the_wall_clock_jumps(jump, stage, seed, way):
    scene = stage()
    wall = way * scene.random.choice([HOUR, 24 * HOUR])
    job = scene.compute()
    before, pids = share_done(job), scene.workers()
    scene.now()
    jump(wall)
    assert job.wait(0) or share_done(job) >= before
    scene.equal(job, 1, 3)
    assert scene.workers() == pids  # nobody was taken for dead
    assert 0 <= job.describe()["elapsed"] < 60  # measured on a clock that does not jump


def test_row_19_the_machine_sleeps_for_ten_minutes(jump, stage, seed):
    """All processes stand still, and when they go on both clocks are ten minutes later."""
    scene = stage()
    job = scene.compute()
    pids = scene.workers()
    scene.now()
    with injections.stopped([scene.control(), *pids, *scene.movers()]):
        time.sleep(0.2)  # the fault itself
        jump(600.0, 600.0)
    scene.equal(job, 1, 3)
    assert scene.workers() == pids
