"""Seed 004's manager, workers and gateway, as far as they are of one host."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.deploy.batch import slurm_script

PROGRAM = """
import sys, jmars, jmars.tensor as mt
with jmars.Cluster(n_workers=2) as cluster:
    print(int(mt.arange(int(sys.argv[1]), chunk_size=10).sum().fetch()), len(cluster.info()["workers"]))
"""


def who(block):
    time.sleep(0.01)  # long enough that one worker alone does not take them all
    return block + os.getpid()


def test_s4_8_a_manager_starts_workers_and_gives_each_its_part():
    with Cluster(n_workers=2) as cluster:
        workers = {one["pid"] for one in cluster.info()["workers"]}
        found = mt.map_blocks(who, mt.zeros(40, "i8", chunk_size=1)).fetch()
        assert len(workers) == 2 and set(found.tolist()) == workers


def go_on(pid):
    """Wake a stopped process, unless its work was done elsewhere and it was ended meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


@pytest.mark.long
def test_s4_6_data_for_a_stopped_worker_is_stored_and_taken_later():
    with Cluster(n_workers=2) as cluster:
        x = mt.random.default_rng(0).random((400, 400), chunk_size=50)
        job = cluster.submit((x + x.T).sum(axis=0), x)
        stopped = cluster.info()["workers"][0]["pid"]
        os.kill(stopped, signal.SIGSTOP)
        waked = threading.Timer(2.0, go_on, (stopped,))
        waked.start()
        total, values = job.result(60)
        waked.join()
        np.testing.assert_allclose(total, (values + values.T).sum(axis=0))


def test_s4_6_a_host_that_was_down_reads_later_and_transfers_have_marks():
    with Cluster.hosts(["local", "local"], n_workers=1, memory_limit="256MiB") as cluster:
        x = mt.random.default_rng(0).random((800, 800), chunk_size=100).execute()
        down = psutil.Process(cluster.info()["hosts"][1]["pid"])
        stopped = [down, *down.children(recursive=True)]
        for process in stopped:
            process.suspend()
        job = cluster.submit((x + x.T).sum(axis=0))
        waked = threading.Timer(2.0, lambda: [process.resume() for process in stopped])
        waked.start()
        total, values = job.result(60), x.fetch()
        waked.join()
        np.testing.assert_allclose(total, (values + values.T).sum(axis=0))
        moved = [event[4] for event in cluster.events()[0] if event[2] == "ChunksMoved"]
        marks = [list(one[1:]) for data in moved for one in data["marks"]]  # after "planned", in microseconds
        assert {data["to"] for data in moved} == {1, 2}
        assert marks and all(len(one) == 5 and one == sorted(one) for one in marks)


@pytest.mark.long
def test_s4_26_a_script_for_slurm_is_one_command_and_runs(tmp_path):
    (tmp_path / "sum.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "jmars", "slurm", "--cpus", "2", "--memory", "1GiB", "--partition", "short"]
    script = subprocess.run([*command, "sum.py", "100"], capture_output=True, text=True, check=True, timeout=60).stdout
    assert script == slurm_script(["sum.py", "100"], cpus=2, memory="1GiB", partition="short")
    for line in ("--nodes=1", "--cpus-per-task=2", "--mem=1024M", "--partition=short", "--time=01:00:00"):
        assert f"#SBATCH {line}\n" in script
    path = tmp_path / "job.sh"
    path.write_text(script)
    # sbatch runs the script as a shell script, as here
    done = subprocess.run(["bash", path], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["4950", "2"]
