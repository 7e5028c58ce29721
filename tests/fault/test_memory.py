"""Rows 8, 9 and 13: memory that there is not. What it ended runs again or is named, and nothing is a SIGBUS."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import MemoryLimitError
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


def at_once(block):
    return block + len(np.ones(6 * 2**30, dtype=np.uint8)[:1])


def bit_by_bit(block):
    held = []
    while len(held) < 1000:
        held.append(np.ones(2**20, dtype=np.int64))
    return block + len(held)


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("function", [at_once, bit_by_bit])
def test_row_09_a_block_takes_far_more_memory_than_there_is(scene, seed, function):
    """More than is there in one piece, or in a thousand: the error names the function, its line and the limit."""

    def greedy(block):
        return function(block)

    scene.now()
    job = scene.cluster.submit(mt.map_blocks(greedy, mt.arange(8, chunk_size=1), dtype=np.int64))
    error = scene.error(job, 0, 10, MemoryLimitError)
    text = "\n".join([str(error), *error.__notes__])
    assert "greedy" in text and function.__name__ in text and "memory_limit 200.0 MiB" in text, text
    assert scene.memory()["peak"] <= 1.1 * scene.cluster.memory_limit


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


@pytest.mark.long
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
