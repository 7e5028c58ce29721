"""On one host a plan is an order: the best of a few, simulated under the memory limit, in a share of the run's time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import GraphError, MemoryLimitError
from jmars.graph import Dag, topological
from jmars.optimize import compile_graph
from jmars.plan import PlanGraph, Profile, Workers, annotate, one_host, simulate
from jmars.plan.choice import HOST_ORDERS, choose_order, seconds_to_plan
from jmars.tensor.tensor_graph import TensorGraph

MIB = 2**20


def seen(tensor):
    compiled = compile_graph(TensorGraph.of([tensor.data]), {"redraw": False})  # what is stored differs
    return annotate(compiled.after, compiled.dag, Profile())


def transposed():
    z = mt.ones((4000, 4000), chunk_size=500) + 1
    return z + z.T


def anomaly():
    x = mt.random.default_rng(0).random((40, 1000, 500), chunk_size=(5, 500, 250))
    return x - x.mean(axis=0)


@pytest.mark.parametrize("graph", [transposed, anomaly])
def test_the_order_that_spills_least_is_taken_and_differs_by_graph(graph):
    costs = seen(graph())
    host = one_host(Profile(), 2, 50 * MIB)
    choice = choose_order(costs, host)
    assert [one.ranked_by for one in choice.tried] == list(HOST_ORDERS)
    spilled = {one.ranked_by: one.result.spilled for one in choice.tried}
    assert len(set(spilled.values())) > 1
    assert choice.predicted.spilled <= 1.1 * min(spilled.values())
    assert spilled["level"] > 2 * min(spilled.values())  # what a plan is worth


def diamonds(n):
    """Sources in pairs, summed in pairs: n of them."""
    sources = 2 * n
    dag = Dag.from_edges(3 * n, list(range(sources)), [sources + i // 2 for i in range(sources)])
    return PlanGraph.build(dag, cost=1.0, nbytes=MIB)


def test_what_is_preferred_decides_between_time_and_bytes():
    wide = diamonds(40)
    host = Workers.build(1, cores=2, memory=400 * MIB)
    fast, memory = (choose_order(wide, host, prefer=prefer) for prefer in ("fast", "memory"))
    assert fast.predicted.makespan == min(one.result.makespan for one in fast.tried)
    assert memory.predicted.peak_total == min(one.result.peak_total for one in memory.tried)
    assert memory.predicted.peak_total < max(one.result.peak_total for one in memory.tried)


def test_planning_stops_when_its_time_is_up_and_one_order_is_always_tried():
    times = iter(np.arange(0.0, 100.0, 1.0))
    choice = choose_order(diamonds(5), Workers.build(1), budget=0.0, clock=lambda: next(times))
    assert [one.ranked_by for one in choice.tried] == ["dfs"]
    times = iter(np.arange(0.0, 100.0, 1.0))
    choice = choose_order(diamonds(5), Workers.build(1), budget=2.5, clock=lambda: next(times))
    assert len(choice.tried) == 2


def test_small_graphs_are_not_planned_and_large_ones_within_a_share():
    host = Workers.build(1, cores=2)
    assert seconds_to_plan(PlanGraph.build(diamonds(5).dag, cost=1e-6, nbytes=8), host) == 0
    assert seconds_to_plan(diamonds(50), host) == pytest.approx(0.03 * 150 / 2)
    tight = Workers.build(1, cores=2, memory=10 * MIB, disk=MIB)
    assert seconds_to_plan(PlanGraph.build(diamonds(50).dag, cost=0.0, nbytes=MIB), tight) == pytest.approx(0.03 * 40)


def test_what_cannot_be_planned_says_so():
    with pytest.raises(GraphError, match="no preference 'best'; choose one of fast, lean, memory"):
        choose_order(diamonds(1), Workers.build(1), prefer="best")
    with pytest.raises(GraphError, match="one host"):
        choose_order(diamonds(1), Workers.build(2))
    with pytest.raises(MemoryLimitError):
        choose_order(diamonds(1), Workers.build(1, memory=MIB))


@given(st.integers(1, 14), st.data())
def test_every_order_that_can_be_chosen_runs_everything_within_the_limit(n, data):
    edges = [(a, b) for b in range(n) for a in range(b) if data.draw(st.integers(0, 3)) == 0]
    dag = Dag.from_edges(n, [a for a, _ in edges], [b for _, b in edges])
    graph = PlanGraph.build(dag, cost=1.0, nbytes=data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)))
    host = Workers.build(1, cores=2, memory=200)
    for prefer in ("fast", "lean", "memory"):
        choice = choose_order(graph, host, prefer=prefer)
        assert sorted(choice.plan.rank.tolist()) == list(range(n))
        assert choice.predicted.peak_total <= 200
        again = simulate(graph, host, np.zeros(n), choice.plan.rank)
        assert again.makespan == choice.predicted.makespan
        if choice.best.ranked_by != "mars":
            order = np.argsort(choice.plan.rank)
            place = {int(v): i for i, v in enumerate(order)}
            assert all(place[a] < place[b] for a, b in edges)
    assert len(topological(dag)) == n
