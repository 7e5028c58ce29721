"""Costs are learnt from runs and kept: a second session predicts from what the first one measured."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.config import config
from jmars.optimize import compile_graph
from jmars.plan import Prediction, Profile, annotate, predict
from jmars.tensor.tensor_graph import TensorGraph

MB = 2**20


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JMARS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def slowly(block: np.ndarray) -> np.ndarray:
    time.sleep(0.02)  # what an operand waits for is part of what it costs
    return block + 1


def slow_sum(chunks: int = 16) -> mt.Tensor:
    return mt.map_blocks(slowly, mt.ones(chunks * 1000, chunk_size=1000), dtype="f8").sum()


def foreseen(tensor: mt.Tensor, profile: Profile) -> Prediction:
    done = compile_graph(TensorGraph.of([tensor.data]), config.task)
    return predict(done.after, done.dag, done.rank, profile, 2, 256 * MB)


def measured(job: jmars.Job) -> dict[str, float]:
    """What the last JobMoved of a job says that it took."""
    job.result()
    return [event for event in job.events() if event[2] == "JobMoved"][-1][4]["measured"]


@pytest.mark.long
def test_a_second_session_predicts_from_what_the_first_one_measured(cache: Path):
    assert foreseen(slow_sum(), Profile.load()).makespan < 0.1  # nobody knows that it sleeps
    with jmars.Cluster(n_workers=2, memory_limit="256MiB") as first:
        measured(first.submit(slow_sum()))
    (file,) = cache.glob("costs-*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    prediction = foreseen(slow_sum(32), Profile.load())  # twice as many operands
    assert prediction.makespan >= 0.02 * 32 / 2
    with jmars.Cluster(n_workers=2, memory_limit="256MiB") as second:
        took = measured(second.submit(slow_sum(32)))
    assert took["makespan"] >= 0.02 * 32 / 2
    # what the prediction rests on is that operands that sleep sleep as long again
    done = compile_graph(TensorGraph.of([slow_sum(32).data]), config.task)
    cost = annotate(done.after, done.dag, Profile.load()).cost
    assert np.sum(cost >= 0.02) == 32


def test_a_run_tells_what_it_took(cache: Path):
    with jmars.Cluster(n_workers=2, memory_limit="256MiB") as cluster:
        x = mt.ones((1000, 1000), chunk_size=(100, 1000)) + 1
        took = measured(cluster.submit(mt.stack([x.sum(), (x - x.mean()).sum()])))
        assert 0 < took["makespan"] < 60
        assert 8_000_000 <= took["peak"] <= 30_000_000  # all of x waits for its mean
        assert (took["spilled"], took["moved"]) == (0, 0)


def test_what_is_spilled_is_told_and_predicted(cache: Path):
    stored = config.using(task=config.task | {"redraw": False})
    with stored, jmars.Cluster(n_workers=2, memory_limit="256MiB") as cluster:
        memory = cluster.info()["memory"]["arena"]["capacity"]
        n = int(1.5 * memory) // 8_000_000
        x = mt.random.default_rng(1).random((n, 1_000_000), chunk_size=(1, 1_000_000))
        y = mt.sqrt(abs(x - x.mean(axis=0))).sum()
        took = measured(cluster.submit(y))
        done = compile_graph(TensorGraph.of([y.data]), config.task)
        prediction = predict(done.after, done.dag, done.rank, Profile(), 2, memory)
    assert took["spilled"] > 0 and prediction.spilled > 0
    assert took["peak"] <= memory and prediction.peak[1] <= memory
    assert Profile.load().disk != Profile().disk  # measured


def test_a_cache_that_others_may_enter_is_not_used_and_stops_no_cluster(cache: Path):
    cache.mkdir(mode=0o755)
    cache.chmod(0o755)
    with jmars.Cluster(n_workers=1, memory_limit="256MiB") as cluster:
        assert float(cluster.submit(mt.ones(10).sum()).result()) == 10
    assert not list(cache.iterdir())


def test_deleting_the_file_forgets(cache: Path):
    with jmars.Cluster(n_workers=1, memory_limit="256MiB") as cluster:
        measured(cluster.submit(slow_sum(2)))
    (file,) = cache.glob("costs-*.json")
    assert Profile.load().costs
    file.unlink()
    assert not Profile.load().costs
