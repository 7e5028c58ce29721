"""A short job that comes while a long one runs does not wait for its end."""

import numpy as np

import jmars
import jmars.tensor as mt


def slow(block):
    """A block that takes a while."""
    for _ in range(20):
        np.linalg.svd(np.ones((60, 60)) + np.eye(60))
    return block


def test_a_short_job_ends_while_a_long_one_runs():
    with jmars.Cluster(n_workers=2, memory_limit="512MiB") as cluster:
        long = cluster.submit(mt.map_blocks(slow, mt.ones(2000, chunk_size=1), dtype=float).sum())
        while not any(event[2] == "OperandsMoved" for event in long.events()):
            pass  # until it runs
        short = cluster.submit(mt.map_blocks(slow, mt.ones(8, chunk_size=1), dtype=float).sum())
        assert short.result(60) == 8
        assert long.state == "running" and long.progress < 0.9
        long.cancel()
        assert long.wait(60)
