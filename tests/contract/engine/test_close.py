"""After `close` there is nothing left of ours; what is left in this process, the leak check of all tests tells."""

from __future__ import annotations

import time

import numpy as np

import jmars.tensor as mt
from tests.contract.engine.gate import Gate
from tests.contract.engine.kinds import until


def test_nothing_is_left_after_close(kind, runtime_dir, gate: Gate):
    before, listed = set(kind.left()), set(runtime_dir.glob("*.json"))  # of the clusters that tests share
    with kind.cluster() as cluster:
        x = mt.asarray(np.random.default_rng(1).random(5000), chunk_size=900)
        kept = x[x > 0.5] * 2
        cluster.submit(kept).wait(30)
        running = cluster.submit(mt.map_blocks(gate, mt.ones(20, chunk_size=1), dtype=float).sum())
        until(lambda: gate.came)
        assert not running.wait(0)
        if not kind.processes:
            gate.open()  # threads are waited for
    gate.open()
    assert cluster.closed and running.state in ("failed", "succeeded")
    end = time.monotonic() + 60
    while left := set(kind.left()) - before:
        assert time.monotonic() < end, left
        time.sleep(0.2)
    assert set(runtime_dir.glob("*.json")) == listed


def test_clusters_beside_each_other_do_not_mix(kind, cluster):
    mine = mt.arange(1000, chunk_size=300) * 2
    cluster.submit(mine).wait(30)
    with kind.cluster() as other:
        theirs = mt.arange(1000, chunk_size=300) * 3
        assert int(other.submit(theirs.sum()).result(30)) == 3 * 499_500
        assert other.id != cluster.id and other.jobs()[-1]["name"] == "job-1"
        np.testing.assert_array_equal(other.submit(mine + theirs).result(30), np.arange(1000) * 5)
    np.testing.assert_array_equal(cluster.submit(mine * 1).result(30), np.arange(1000) * 2)
    assert int(mt.arange(10, chunk_size=3).sum()) == 45
