"""Executors run machine code where the graph says so, and give NumPy's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.config import config

pytest.importorskip("llvmlite", reason="machine code needs the extra jit")


@pytest.fixture(scope="module")
def cluster():
    with Cluster(n_workers=2, memory_limit="512MiB") as one, config.using(task=config.task | {"jit": "on"}):
        yield one


def test_exact_expressions_have_the_same_bits(cluster):
    x, y = (np.random.default_rng(seed).random((700, 300)) for seed in (1, 2))

    def work(m):
        return m.sqrt(x * x + y * y) / (1 + abs(x))

    mx, my = (mt.asarray(one, chunk_size=(200, 170)) for one in (x, y))
    found = (mt.sqrt(mx * mx + my * my) / (1 + abs(mx))).fetch()
    np.testing.assert_array_equal(found, work(np))
    total = (mt.sqrt(mx * mx + my * my) - mx).sum()
    with config.using(task=config.task | {"jit": "off"}):
        assert float(total) == float((mt.sqrt(mx * mx + my * my) - mx).sum())


def test_formulas_are_numpys_unless_fast_is_asked_for(cluster):
    x = np.linspace(-50, 50, 200_000)
    mx = mt.asarray(x, chunk_size=50_000)
    expected = np.sin(x) * np.exp(-x * x / 900) + np.cos(x)
    waves = mt.sin(mx) * mt.exp(-mx * mx / 900) + mt.cos(mx)
    np.testing.assert_array_equal(waves.fetch(), expected)
    twice = waves.map_blocks(lambda block: block * 2)
    np.testing.assert_allclose(twice.sum().fetch(), 2 * expected.sum())


def test_fast_formulas_are_near(cluster):
    x = np.linspace(-50, 50, 80_000_000 // 8)
    mx = mt.asarray(x, chunk_size=2_500_000)
    with config.using(task=config.task | {"jit": "fast"}):
        waves = (mt.sin(mx) + mt.cos(mx)).fetch()
    expected = np.sin(x) + np.cos(x)
    np.testing.assert_allclose(waves, expected, rtol=0, atol=1e-15)


def test_it_is_the_executors_that_compile(cluster, only_jobs):
    x = mt.asarray(np.linspace(0, 1, 400_000), chunk_size=100_000)
    assert np.isclose(float(mt.sqrt(x).sum()), 400_000 * 2 / 3, rtol=1e-3)
    maps = [Path(f"/proc/{worker['pid']}/maps").read_text() for worker in cluster.info()["workers"]]
    assert any("llvmlite" in one for one in maps)
    assert "llvmlite" not in Path(f"/proc/{cluster.info()['scheduler']['pid']}/maps").read_text()
