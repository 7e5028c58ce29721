"""A worker that turns out slow while a job runs: what is left is planned anew, and the values are the same."""

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.config import config

BLOCKS, SIZE = 100, 300_000


def slowed(folder):
    """A function of blocks that takes four times as long in one of the processes."""

    def function(block):
        import os
        import time

        try:
            os.close(os.open(f"{folder}/slow", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            with open(f"{folder}/pid", "w") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            pass
        while not os.path.exists(f"{folder}/pid") or not os.path.getsize(f"{folder}/pid"):
            time.sleep(0.001)
        with open(f"{folder}/pid") as file:
            time.sleep(0.08 if file.read() == str(os.getpid()) else 0.02)  # the work itself
        return block[:1] * 2

    return function


def cell(folder, first):
    x = mt.arange(first, first + BLOCKS * SIZE, dtype=float, chunk_size=SIZE)
    return mt.map_blocks(slowed(str(folder)), x, dtype=float, chunks=((1,) * BLOCKS,))


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("replan", [True, False])
def test_a_slow_worker_is_found_and_the_rest_planned_anew(cluster, tmp_path, replan):
    with config.using(task=config.task | {"replan": replan, "fuse_enabled": False}):
        job = cluster.submit(cell(tmp_path, 5.0))
        value = job.result(60)
    assert np.array_equal(value, 2 * (5.0 + SIZE * np.arange(BLOCKS)))
    told = [event[4] for event in job.events() if event[2] == "Replanned"]
    assert bool(told) == replan
    for one in told:
        assert len(one["slow"]) == 1 and "worker" in one["why"] and one["makespan"] <= one["before"]
