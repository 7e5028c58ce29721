"""Workers are lost in mid-run: the right value or a clear error in bounded time, and a cluster that goes on."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.errors import WorkerLostError
from tests.contract.engine.kinds import until

ENDS_WORKERS = True  # so these tests have an engine of their own


def test_a_worker_killed_in_mid_run_costs_no_value(kind, cluster, gate):
    x = mt.asarray(np.arange(4000.0), chunk_size=400)
    job = cluster.submit((mt.map_blocks(gate, x + 1, dtype=float) * 2).sum())
    until(lambda: gate.came)
    kind.kill(cluster, 0)
    gate.open()
    begin = time.monotonic()
    assert job.result(60) == 2 * (np.arange(4000.0) + 1).sum()
    assert time.monotonic() - begin < 50
    assert len(kind.pids(cluster)) == 2
    assert int(cluster.submit(mt.arange(1000, chunk_size=90).sum()).result(30)) == 499_500


def test_results_on_a_lost_worker_are_computed_again(kind, cluster):
    values = np.random.default_rng(3).random((400, 40))
    x = mt.asarray(values, chunk_size=100) * 3
    y = mt.random.default_rng(3).random((400, 40), chunk_size=100)
    jmars.Session(cluster).execute(x, y)
    before = y.fetch()
    kind.kill(cluster, 1)
    np.testing.assert_array_equal(y.fetch(), before)
    np.testing.assert_array_equal(cluster.submit(x + y).result(40), values * 3 + before)
    assert len(kind.pids(cluster)) == 2


@pytest.mark.long
def test_a_node_killed_in_mid_run_costs_no_value(kind, gate):
    with kind.nodes() as (cluster, kill):
        before = [row["name"] for row in cluster.info()["workers"]]
        assert len(set(before)) == len(before) >= 2
        values = np.random.default_rng(3).random((400, 40))
        held = mt.asarray(values, chunk_size=100) * 3
        jmars.Session(cluster).execute(held)
        x = mt.asarray(np.arange(4000.0), chunk_size=400)
        job = cluster.submit((mt.map_blocks(gate, x + 1, dtype=float) * 2).sum())
        until(lambda: gate.came >= 2)
        kill()
        begin = time.monotonic()
        gate.open()
        assert job.result(60) == 2 * (np.arange(4000.0) + 1).sum()
        assert time.monotonic() - begin < 50
        np.testing.assert_array_equal(held.fetch(), values * 3)
        until(lambda: len(cluster.info()["workers"]) == len(before) - 1)
        assert int(cluster.submit(mt.arange(1000, chunk_size=90).sum()).result(30)) == 499_500


def dies(block):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.long
def test_a_function_that_ends_its_workers_is_a_clear_error(kind, cluster):
    if not kind.processes:
        pytest.skip("it would end the process of the tests")
    job = cluster.submit((mt.map_blocks(dies, mt.ones(4, chunk_size=2), dtype=float) + 1).sum())
    with pytest.raises(WorkerLostError, match="map_blocks"):
        job.result(60)
    kind.pids(cluster)
    assert int(cluster.submit(mt.arange(1000, chunk_size=90).sum()).result(30)) == 499_500
