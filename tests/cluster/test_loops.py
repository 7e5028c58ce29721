"""Loops of Python's around lazy arrays: what a turn leaves behind goes, and no look computes the history anew."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.client.cluster_registry import make_default


@pytest.fixture
def mine(cluster: Cluster) -> Cluster:
    """The default cluster, which holds nothing of ours yet."""
    make_default(cluster)
    gc.collect()
    return cluster


def held(cluster: Cluster) -> int:
    gc.collect()
    return len(cluster.retained())


def operands(cluster: Cluster) -> int:
    """Of the newest job."""
    return int(cluster.jobs()[-1]["operands"])


def test_each_turn_of_a_loop_lets_the_one_before_go(mine):
    before, chunks = held(mine), mine.info()["memory"]["chunks"]
    x = mt.zeros(100, chunk_size=25)
    for _ in range(20):
        x = (x + 1).execute()
    assert held(mine) - before == 1
    assert mine.info()["memory"]["chunks"] - chunks == 4
    np.testing.assert_array_equal(x.fetch(), np.full(100, 20.0))


def test_what_is_lost_after_its_origins_went_is_computed_from_the_start(mine):
    rng = np.random.default_rng(3)
    start = rng.random(40)
    x = mt.asarray(start, chunk_size=9)
    noise = mt.random.default_rng(4).random(40, chunk_size=9)
    added = noise.fetch()
    for _ in range(5):
        x = mt.sqrt(x + noise).execute()
        start = np.sqrt(start + added)
    for _ in range(2):
        mine.lose(x.data.key)
        np.testing.assert_array_equal(x.fetch(), start)


def test_a_lost_input_of_a_job_is_computed_from_the_start(mine):
    x = mt.arange(30, chunk_size=7)
    for _ in range(3):
        x = (x * 2).execute()
    key = x.data.key
    total = (x + 1).sum()
    mine.tell("session", "drop", [key])  # the client goes on to believe that it is there
    assert int(total.fetch()) == int((np.arange(30) * 8 + 1).sum())


def test_looks_in_a_loop_compute_what_is_new(mine, only_jobs):
    x, real, counts = mt.ones(100, chunk_size=25), np.ones(100), []
    for _ in range(12):
        x, real = mt.sqrt(x[::-1].cumsum() + 1), np.sqrt(real[::-1].cumsum() + 1)
        assert np.isclose(float(x.sum()), real.sum(), rtol=1e-12)
        counts.append(operands(mine))
    assert max(counts[2:]) <= 3 * counts[0]
    np.testing.assert_allclose(x.fetch(), real, rtol=1e-12)


def test_a_loop_until_something_changes_no_more(mine):
    x, real, turns, before = mt.ones((30, 30), chunk_size=8), np.ones((30, 30)), 0, held(mine)
    while True:
        new, expected = mt.sqrt(x + 1) * 0.9, np.sqrt(real + 1) * 0.9
        change = float(abs(new - x).max())
        assert change == float(abs(expected - real).max())
        x, real, turns = new, expected, turns + 1
        if change < 1e-9:
            break
    assert turns > 10
    assert held(mine) <= before + 2
    np.testing.assert_array_equal(x.fetch(), real)


def relaxed(x):
    new = x.copy()
    new[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    return new


def test_relaxation_until_little_changes(mine, only_jobs):
    real = np.zeros((24, 24))
    real[0] = 1
    x, counts = mt.asarray(real, chunk_size=8), []
    for _ in range(20):
        new, expected = relaxed(x), relaxed(real)
        change = float(abs(new[1:-1, 1:-1] - x[1:-1, 1:-1]).max())
        assert change == pytest.approx(abs(expected[1:-1, 1:-1] - real[1:-1, 1:-1]).max(), rel=1e-12)
        counts.append(operands(mine))
        x, real = new, expected
    assert max(counts) <= 3 * counts[0]
    np.testing.assert_allclose(x.fetch(), real, rtol=1e-12)


def test_power_iteration(mine, only_jobs):
    rng = np.random.default_rng(6)
    a = rng.random((40, 40))
    a = a + a.T
    lazy, v, counts = mt.asarray(a, chunk_size=15), mt.ones(40, chunk_size=15), []
    for _ in range(12):
        w = lazy @ v
        v = w / mt.linalg.norm(w)
        value = float(v @ (lazy @ v))
        counts.append(operands(mine))
    assert value == pytest.approx(np.linalg.eigvalsh(a)[-1], rel=1e-9)
    assert max(counts[2:]) <= 3 * counts[0]


def test_what_a_name_refers_to_is_computed_twice_at_most(mine, only_jobs):
    x = mt.ones(100, chunk_size=25)
    slow = mt.sqrt(x + 1)
    float(slow.sum())
    assert not mine.retains(slow.data)
    float(slow.max())
    assert mine.retains(slow.data)
