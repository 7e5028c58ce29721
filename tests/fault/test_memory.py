"""Rows 8 and 13: the system's own limits. A worker that it kills costs what ran there; no shared memory is a SIGBUS."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fault import injections
from tests.fault.probes import need


@pytest.mark.root
def test_row_08_a_worker_killed_for_its_memory(scene, seed):
    need("memory")
    job = scene.compute()
    victim = scene.worker()
    with injections.group("memory") as small:
        small.set("memory.limit_in_bytes", 2**20)
        scene.now()
        small.add(victim)  # what it touches from here on is too much
        scene.equal(job, 1, 3)
        if victim not in scene.workers():  # else the job had ended before it wrote anything
            assert int(small.get("memory.failcnt")) > 0


FULL = """
import json, sys, time
import jmars
from tests.fault import program
program.value()
with jmars.Cluster(program.WORKERS, memory_limit=program.LIMIT) as cluster:
    job = cluster.submit(*program.arrays())
    if sys.argv[1] == "during":
        while not cluster.info()["memory"]["spilled_total"]:
            time.sleep(0.001)
        with open("/dev/shm/ballast", "wb") as file:
            try:
                while True:
                    file.write(bytes(2**16))
                    file.flush()
            except OSError:
                pass
    wrong = program.differs(job.result(30))
    log = open(cluster._host.folders.log).read()
print(json.dumps([wrong, "SIGBUS" in log or "Bus error" in log]))
"""


@pytest.mark.root
@pytest.mark.parametrize("when", ["before", "during"])
def test_row_13_a_full_dev_shm(seed, when, tmp_path):
    """In a mount namespace of its own; filled before the start, or while it spills."""
    need("mount")
    fill = "; head -c 2000000 /dev/zero > /dev/shm/ballast 2>/dev/null" if when == "before" else ""
    script = f'mount -t tmpfs -o size=1m none /dev/shm{fill}; exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-c", FULL, when]
    root = Path(__file__).parents[2]
    answer = subprocess.run(command, cwd=root, env=dict(os.environ), capture_output=True, text=True, timeout=100)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout) == ["", False]
