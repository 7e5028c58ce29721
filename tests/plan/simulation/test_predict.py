"""What a run on this host should take, beside what the simulator says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.config import config
from jmars.graph import Dag
from jmars.optimize import Compiled, compile_graph
from jmars.plan import PlanGraph, Prediction, Profile, Workers, predict, simulate
from jmars.plan.prediction import predict_from_simulation, slots
from jmars.storage.arena import Allocator
from jmars.tensor.tensor_graph import TensorGraph

MB = 2**20


def compiled(*tensors: mt.Tensor) -> Compiled:
    return compile_graph(TensorGraph.of([tensor.data for tensor in tensors]), config.task)


def foreseen(done: Compiled, memory: int = 10**9, executors: int = 2) -> Prediction:
    return predict(done.after, done.dag, done.rank, Profile(), executors, memory)


def of_line(n: int, cost: float, fresh: int = 0, profile: Profile | None = None) -> Prediction:
    """Independent operands, whose chunks of a megabyte a last one reads."""
    graph = PlanGraph.build(Dag.from_edges(n + 1, range(n), [n] * n), [cost] * n + [0.0], [MB] * n + [8])
    workers, placed, rank = Workers.build(1, cores=2), np.full(n + 1, -1), np.arange(n + 1)
    result = simulate(graph, workers, np.zeros(n + 1), rank)
    return predict_from_simulation(graph, workers, rank, result, profile or Profile(), placed, fresh)


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=50))
def test_slots_are_those_of_the_arena(sizes: list[int]):
    allocator = Allocator(64 * MB)
    for size, slot in zip(sizes, slots(np.array(sizes)).tolist(), strict=True):
        assert allocator.size_of(allocator.allocate(size)) == slot


def test_the_peak_is_an_interval_within_memory():
    done = compiled((mt.random.default_rng(1).random((40, 250_000), chunk_size=(1, 250_000)) + 1).sum(axis=0))
    found = foreseen(done)
    low, high = found.peak
    assert 0 < low <= high
    tight = foreseen(done, memory=20 * MB)
    assert tight.peak[0] <= tight.peak[1] <= 20 * MB
    assert tight.spilled > 0 and found.spilled == 0
    assert tight.makespan > found.makespan


def test_operands_that_are_sent_ahead_take_memory():
    x = mt.random.default_rng(1).random((400, 100_000), chunk_size=(1, 100_000))
    done = compiled(mt.map_blocks(np.sort, x, dtype="f8").sum())
    low, high = foreseen(done).peak
    assert high > low


def test_no_prediction_is_below_the_bound():
    done = compiled((mt.ones((100, 100), chunk_size=10) @ mt.ones((100, 100), chunk_size=10)).sum())
    found = foreseen(done)
    assert found.makespan >= found.lower_bound > 0


def test_memory_that_nobody_has_used_yet_takes_time_once():
    profile = Profile(touch=1e-9)
    warm, cold = of_line(100, 0.001, profile=profile), of_line(100, 0.001, fresh=10**9, profile=profile)
    assert cold.makespan - warm.makespan == pytest.approx(cold.peak[1] * 1e-9 / 2)


def test_chunks_that_are_there_take_memory_and_no_time():
    x = mt.ones((100, 10_000), chunk_size=(10, 10_000))
    graph = TensorGraph.of([(x + 1).sum().data], held={x.data.key})
    done = compile_graph(graph, config.task)
    found = foreseen(done)
    assert found.peak[0] >= 8_000_000
    assert found.makespan < foreseen(compiled((mt.sin(x) + 1).sum())).makespan


def test_nothing_to_run_takes_nothing():
    done = compiled()
    assert foreseen(done).makespan == 0
