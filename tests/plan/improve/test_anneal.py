"""Annealing never loses the best plan, does the same for the same seed, and stops when told to."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.errors import GraphError
from jmars.graph import Dag
from jmars.plan import PlanGraph, Workers, rank_by, simulate
from jmars.plan.improve import MOVES, anneal
from tests.benchmarks.plan_graphs import SMALL_ONES
from tests.plan.examples import clusters, graphs


@settings(max_examples=40)
@given(graphs(), clusters(), st.sampled_from([*[(move,) for move in MOVES], MOVES]), st.integers(0, 99), st.data())
def test_the_best_plan_is_in_range_topological_and_no_worse(graph, workers, moves, seed, data):
    p = len(workers)
    assign = data.draw(st.lists(st.integers(0, p - 1), min_size=graph.n, max_size=graph.n))
    rank = rank_by("dfs", graph)
    found = anneal(graph, workers, assign, rank, tries=30, moves=moves, seed=seed)
    assert np.all((found.assign >= 0) & (found.assign < p))
    src, dst = graph.dag.edges()
    assert np.all(found.rank[src] < found.rank[dst]) and sorted(found.rank.tolist()) == list(range(graph.n))
    run = simulate(found.plan.graph, workers, found.plan.assign, found.plan.rank)
    assert run.makespan == found.cost <= simulate(graph, workers, assign, rank).makespan
    costs = [cost for _, cost in found.curve]
    assert costs == sorted(costs, reverse=True) and costs[-1] == found.cost
    if "duplicate" not in moves:
        assert found.copies == [] and np.array_equal(found.plan.assign, found.assign)
    if moves in (("reorder",), ("duplicate",)):
        assert found.assign.tolist() == assign
    again = anneal(graph, workers, assign, rank, tries=30, moves=moves, seed=seed)
    assert again.curve == found.curve and np.array_equal(again.assign, found.assign)


def test_a_bad_plan_becomes_a_good_one():
    graph, workers = SMALL_ONES["map reduce"](), Workers.build(2, cores=2)
    start = simulate(graph, workers, [0] * graph.n, rank_by("dfs", graph)).makespan
    assert anneal(graph, workers, [0] * graph.n, rank_by("dfs", graph), tries=600).cost < 0.7 * start


def test_each_move_can_help_by_itself():
    lines = PlanGraph.build(Dag.from_edges(4, [0, 2], [1, 3]), 1.0, 8)
    two = Workers.build(2)
    assert anneal(lines, two, [0, 0, 0, 0], np.arange(4), moves=("move",), tries=50).cost == pytest.approx(2, abs=0.01)
    # 0 and 3 are long and on one worker
    loads = PlanGraph.build(Dag.from_edges(4, [], []), [4.0, 1.0, 1.0, 4.0], 8)
    assert anneal(loads, two, [0, 1, 1, 0], np.arange(4), moves=("swap",), tries=50).cost == 5.0
    # 2 is read by a long operand elsewhere and runs last
    late = PlanGraph.build(Dag.from_edges(4, [2], [3]), [1.0, 1.0, 1.0, 5.0], 0)
    assert anneal(late, two, [0, 0, 0, 1], np.arange(4), moves=("reorder",), tries=50).cost == pytest.approx(
        6, abs=0.01
    )
    fan = PlanGraph.build(Dag.from_edges(3, [0, 0], [1, 2]), [0.5, 2.0, 2.0], 8)
    slow = Workers.build(2, bandwidth=2.0, latency=0.0)
    found = anneal(fan, slow, [0, 0, 1], np.arange(3), moves=("duplicate",), tries=20)
    assert found.copies == [(0, 1)] and found.cost == 2.5


def test_a_button_and_a_clock_stop_it():
    graph, workers = SMALL_ONES["tree"](), Workers.build(2)
    assign, rank = [0] * graph.n, rank_by("dfs", graph)
    asked = itertools.count()
    assert anneal(graph, workers, assign, rank, stop=lambda: next(asked) >= 7).tries == 8
    seconds = itertools.count()
    assert anneal(graph, workers, assign, rank, seconds=5.0, clock=lambda: next(seconds)).tries == 5


def test_bytes_moved_may_have_a_price():
    fan = PlanGraph.build(Dag.from_edges(3, [0, 1], [2, 2]), 1.0, 10)
    slow = Workers.build(2, bandwidth=10.0, latency=0.0)
    dear = anneal(fan, slow, [0, 1, 0], np.arange(3), price=10.0, moves=("move",), tries=60)
    assert len(set(dear.assign.tolist())) == 1


def test_what_cannot_be_annealed_is_an_error():
    graph, one = SMALL_ONES["tree"](), Workers.build(1)
    with pytest.raises(GraphError, match="no move 'jump'"):
        anneal(graph, one, [0] * graph.n, np.arange(graph.n), moves=("jump",))
    with pytest.raises(GraphError, match="operand 0 has no worker"):
        anneal(graph, one, [-1] * graph.n, np.arange(graph.n))


def test_stored_chunks_stay_and_improvements_are_told():
    lines = PlanGraph.build(Dag.from_edges(5, [4, 0, 2], [0, 1, 3]), 1.0, 8)
    two, told = Workers.build(2), []
    placed = [-1, -1, -1, -1, 1]  # operand 4 is a chunk of worker 1
    found = anneal(
        lines, two, [0, 0, 0, 0, -1], np.arange(5)[[1, 2, 3, 4, 0]], moves=("move", "swap", "reorder"), tries=80,
        placed=placed, better=lambda number, cost: told.append((number, cost)),
    )  # fmt: skip
    assert found.assign[4] == -1 and found.cost == pytest.approx(2, abs=0.01)
    assert told == found.curve[1:-1] and told
    with pytest.raises(GraphError, match="operand 4 has no worker"):
        anneal(lines, two, [0, 0, 0, 0, -1], np.arange(5))
