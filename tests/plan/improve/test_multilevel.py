"""From coarse to fine the cost never rises, and the coarsest level is solved exactly."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.graph import Dag
from jmars.plan import PlanGraph, Workers, contract, rank_by, simulate, volume
from jmars.plan.improve import groups_of, refine, solve_exactly
from jmars.plan.partition import has_metis
from tests.benchmarks.plan_graphs import SMALL_ONES
from tests.plan.examples import clusters, graphs


def drawn(graph, p, seed=0):
    return np.random.default_rng(seed).integers(0, p, graph.n).astype(np.int16)


@settings(max_examples=40)
@given(graphs(), clusters(), st.data())
def test_the_cost_never_rises_and_every_operand_keeps_a_worker(graph, workers, data):
    assign = data.draw(st.lists(st.integers(0, len(workers) - 1), min_size=graph.n, max_size=graph.n))
    rank = rank_by("blevel", graph)
    found = refine(graph, workers, assign, rank, tries=60)
    assert np.all((found.assign >= 0) & (found.assign < len(workers)))
    start = simulate(graph, workers, assign, rank).makespan
    costs = [start, *(cost for _, cost in found.levels)]
    assert costs == sorted(costs, reverse=True) and found.tries <= 60
    assert simulate(graph, workers, found.assign, rank).makespan == found.cost <= start


@settings(max_examples=60)
@given(graphs(max_n=6), st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=1, max_size=3), st.sampled_from([1.0, 1e9]))
def test_the_coarsest_level_is_solved_exactly(graph, speeds, bandwidth):
    workers = Workers.build(len(speeds), speed=speeds, bandwidth=bandwidth)

    def model(where):
        load = np.bincount(where, graph.cost, len(speeds)) / workers.speed
        return load.max() + volume(graph, where) * workers.seconds_per_byte

    ways = [np.array(way) for way in itertools.product(range(len(speeds)), repeat=graph.n)]
    found = solve_exactly(graph, workers, np.arange(graph.n))
    assert model(found) == pytest.approx(min(model(way) for way in ways))


def test_groups_are_solved_as_one():
    # two lines in two groups: one for each worker
    lines = PlanGraph.build(Dag.from_edges(6, [0, 1, 3, 4], [1, 2, 4, 5]), 1.0, 10**9)
    assert sorted(solve_exactly(lines, Workers.build(2), np.array([0, 0, 0, 1, 1, 1])).tolist()) == [0, 1]


@pytest.mark.parametrize("name", ["tree", "stencil", "map reduce", "tsqr"])
def test_a_random_plan_gets_much_better(name):
    graph, workers = SMALL_ONES[name](), Workers.build(3, cores=2)
    assign, rank = drawn(graph, 3), rank_by("blevel", graph)
    found = refine(graph, workers, assign, rank)
    assert found.cost < 0.85 * simulate(graph, workers, assign, rank).makespan
    assert [k for k, _ in found.levels] == sorted(k for k, _ in found.levels)


def test_bytes_moved_may_have_a_price():
    graph, workers = SMALL_ONES["matmul"](), Workers.build(2)
    assign, rank = drawn(graph, 2), rank_by("dfs", graph)
    free, dear = (refine(graph, workers, assign, rank, price=price).assign for price in (0.0, 10.0))
    assert volume(graph, dear) < volume(graph, free)


@pytest.mark.skipif(not has_metis(), reason="needs pymetis: pip install jmars[plan]")
def test_groups_hang_together():
    graph = SMALL_ONES["stencil"]()
    label = groups_of(graph, 4)
    crossing = contract(graph, np.unique(label, return_inverse=True)[1]).dag
    assert crossing.m <= 12  # of 16 groups' pairs; neighbours only


def test_pins_and_chunks_that_are_there_stay():
    graph = PlanGraph.build(Dag.from_edges(5, [0, 1], [2, 2]), 1.0, 8, pin=[-1, 0, 0, -1, -1])
    found = refine(graph, Workers.build(2), [-1, 0, 0, 0, 0], np.arange(5), placed=[0, -1, -1, -1, -1])
    assert found.assign.tolist()[:3] == [-1, 0, 0] and found.cost < 4.0


def test_time_stops_it():
    graph, workers = SMALL_ONES["tree"](), Workers.build(2)
    seconds = itertools.count()
    found = refine(graph, workers, drawn(graph, 2), rank_by("dfs", graph), seconds=6, clock=lambda: next(seconds))
    assert found.tries < 8
