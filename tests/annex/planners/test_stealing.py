"""Stealing before the run: never worse, whole subgraphs at a time, wishes kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.annex.planners import steal
from jmars.graph import Dag
from jmars.plan import PlanGraph, Workers, choose, rank_by, simulate
from tests.benchmarks.plan_graphs import SMALL_ONES
from tests.plan.examples import clusters, graphs


@given(graphs(), clusters(), st.data())
def test_it_is_never_worse_than_the_start(graph, workers, data):
    p = len(workers)
    assign = data.draw(st.lists(st.integers(0, p - 1), min_size=graph.n, max_size=graph.n))
    rank = rank_by(data.draw(st.sampled_from(["dfs", "blevel"])), graph)
    found = steal(graph, workers, assign, rank, tries=40)
    assert np.all((found >= 0) & (found < p))
    assert simulate(graph, workers, found, rank).makespan <= simulate(graph, workers, assign, rank).makespan
    assert np.array_equal(found, steal(graph, workers, assign, rank, tries=40))


@pytest.mark.parametrize("name", ["tree", "map reduce", "tsqr", "stencil 2d"])
def test_a_planted_imbalance_loses_a_fifth_of_its_time(name):
    graph, workers = SMALL_ONES[name](), Workers.build(3, cores=2)
    rank = rank_by("blevel", graph)
    planted = np.where(np.arange(graph.n) % 8, 0, choose(graph, workers, budget=0.0).plan.assign)
    before = simulate(graph, workers, planted, rank).makespan
    assert simulate(graph, workers, steal(graph, workers, planted, rank), rank).makespan <= 0.8 * before


def test_a_whole_subgraph_is_stolen_where_one_operand_does_not_pay():
    # two lines whose chunks take longer to send than to make
    lines = PlanGraph.build(Dag.from_edges(8, [0, 1, 2, 4, 5, 6], [1, 2, 3, 5, 6, 7]), 1.0, 100)
    slow = Workers.build(2, bandwidth=20.0)
    found = steal(lines, slow, [0] * 8, np.array([0, 2, 4, 6, 1, 3, 5, 7]))
    assert len(set(found[:4].tolist())) == len(set(found[4:].tolist())) == 1 and found[0] != found[4]


def test_pins_and_chunks_that_are_there_are_left_alone():
    free = PlanGraph.build(Dag.from_edges(4, [], []), 1.0, 8, pin=[0, 0, -1, -1])
    found = steal(free, Workers.build(2), [0] * 4, np.arange(4))
    assert found.tolist()[:2] == [0, 0] and sorted(found.tolist()[2:]) == [1, 1]
    line = PlanGraph.build(Dag.from_edges(3, [0, 1], [1, 2]), 1.0, 8)
    assert steal(line, Workers.build(2), [-1, 0, 0], np.arange(3), placed=[0, -1, -1]).tolist() == [-1, 0, 0]


def test_with_nothing_to_gain_nothing_is_stolen():
    even = PlanGraph.build(Dag.from_edges(4, [], []), 1.0, 8)
    assert steal(even, Workers.build(2), [0, 1, 0, 1], np.arange(4)).tolist() == [0, 1, 0, 1]
