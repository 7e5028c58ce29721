"""What every planner promises, asked of all of them: workers in range, wishes kept, orders topological, groups that can
run as processes, memory within the limit, and the same plan each time.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.annex.planners import atomic_labels, duplicate, steal
from jmars.graph import levels
from jmars.plan import (
    UNLIMITED,
    FollowInputs,
    Plan,
    PlanGraph,
    Workers,
    as_assignment,
    assign_bisect,
    assign_eft,
    assign_initial,
    assign_runs,
    choose,
    contract,
    depth_first,
    merge,
    rank_by,
    rank_min_memory,
    replan,
    simulate,
    volume,
)
from jmars.plan.improve import anneal, refine
from jmars.plan.initial import SEARCHES, assign_ncd
from jmars.plan.order import RANKS, rank_backwards
from jmars.plan.partition import assign_km1, assign_metis, has_km1, has_metis
from tests.plan.examples import clusters, graphs, largest_need


def start(graph, workers):
    return assign_runs(graph, workers, rank_by("dfs", graph))


def urgent(graph):
    return rank_by("blevel", graph)


def planned_anew(graph, workers):
    """Nothing has run yet, and half of the operands have lost their owner."""
    owners = np.where(np.arange(graph.n) % 2, -1, start(graph, workers)).astype(np.int16)
    nobody = np.full(graph.n, -1)
    return replan(
        graph, workers, Plan(graph.dag, owners, urgent(graph)), np.zeros(graph.n), nobody, budget=None
    ).plan.assign


def following_inputs(search):
    """First operands by a search, the others after their inputs, as in the seeds."""

    def plan(graph, workers):
        first = assign_initial(graph.dag, graph.dag.sources(), workers.cores.tolist(), search)
        roomy = replace(workers, memory=np.full(len(workers), UNLIMITED))
        return simulate(graph, roomy, first, rank_by("mars", graph), policy=FollowInputs()).assign

    return plan


# name: assignment of all operands
PLANNERS = {
    "eft 0": lambda g, w: assign_eft(g, w, urgent(g), price=0.0),
    "eft 3": lambda g, w: assign_eft(g, w, urgent(g)),
    "halves": lambda g, w: assign_bisect(g, w, rank_by("dfs", g)),
    "runs": start,
    "cascade merge": lambda g, w: as_assignment(merge(g, w, convex=False), g.n),
    "cascade, convex": lambda g, w: as_assignment(merge(g, w), g.n),
    "cascade depth first": lambda g, w: as_assignment(depth_first(g, w), g.n),
    "stealing": lambda g, w: steal(g, w, start(g, w), urgent(g), tries=12),
    "annealing": lambda g, w: anneal(g, w, start(g, w), urgent(g), tries=12, moves=("move", "swap")).assign,
    "coarse to fine": lambda g, w: refine(g, w, start(g, w), urgent(g), tries=12).assign,
    "choice": lambda g, w: choose(g, w, budget=0.0).plan.assign,
    "choice of all": lambda g, w: choose(g, w, budget=None).plan.assign,
    "choice for memory": lambda g, w: choose(g, w, prefer="memory", budget=None).plan.assign,
    "planned anew": planned_anew,
}
if has_metis():
    PLANNERS |= {
        "metis": lambda g, w: assign_metis(g, w),
        "metis, 3 bands": lambda g, w: assign_metis(g, w, bands=3),
    }
if has_km1():
    PLANNERS["km1"] = assign_km1

STRUCTURAL = {  # know no pins and no devices
    "cascade today": lambda g, w: assign_ncd(g.dag, w.cores.tolist()),
    **{f"seeds, {search}": following_inputs(search) for search in SEARCHES},
}
ORDERS = [name for name in RANKS if name != "mars"]  # Mars's rules give no topological order


@st.composite
def wishes(draw):
    """A graph some operands of which want a worker or a device, and workers that have both devices."""
    graph = draw(graphs(max_n=16))
    p = draw(st.integers(2, 4))
    device = draw(st.lists(st.sampled_from([0, 0, 1, 2]), min_size=graph.n, max_size=graph.n))
    pin = [draw(st.sampled_from([-1, -1, (p - 1 if d == 2 else 0)])) for d in device]
    workers = Workers.build(p, cores=2, device=[1] * (p - 1) + [2], speed=[1.0] * (p - 1) + [2.0], latency=0.125)
    wished = PlanGraph.build(
        graph.dag, graph.cost, graph.nbytes, work=graph.work, result=graph.result, device=device, pin=pin
    )
    return wished, workers


@pytest.mark.long(beyond=8)
@pytest.mark.parametrize("name", [*PLANNERS, *STRUCTURAL])
@settings(max_examples=20)
@given(graphs(max_n=16), clusters())
def test_workers_are_in_range_and_groups_can_run_as_processes(name, graph, workers):
    plan = (PLANNERS | STRUCTURAL)[name]
    assign = plan(graph, workers)
    assert assign.shape == (graph.n,) and np.all((assign >= 0) & (assign < len(workers)))
    levels(contract(graph, atomic_labels(graph, assign)).dag)  # raises where groups wait for each other
    assert simulate(graph, workers, assign, rank_by("dfs", graph)).moved == volume(graph, assign)
    assert np.array_equal(assign, plan(graph, workers))


@pytest.mark.parametrize("name", PLANNERS)
@settings(max_examples=15)
@given(wishes())
def test_pins_and_devices_are_kept(name, given_):
    graph, workers = given_
    assign = PLANNERS[name](graph, workers)
    for v, able in enumerate(workers.able(graph)):
        assert assign[v] in able


@pytest.mark.parametrize("name", [*PLANNERS, *STRUCTURAL])
@settings(max_examples=15)
@given(graphs(max_n=16), st.integers(0, 20), st.integers(1, 3), st.sampled_from(["dfs", "blevel", "level"]))
def test_the_simulated_peak_is_within_the_memory(name, graph, more, p, order):
    limit = largest_need(graph) + more
    workers = Workers.build(p, cores=2, memory=limit, bandwidth=10.0, disk=4.0)
    run = simulate(graph, workers, (PLANNERS | STRUCTURAL)[name](graph, workers), rank_by(order, graph))
    assert run.peak.max(initial=0) <= limit


@pytest.mark.parametrize("order", [*ORDERS, "backwards", "least memory"])
@settings(max_examples=30)
@given(graphs())
def test_orders_are_topological(order, graph):
    make = {"backwards": rank_backwards, "least memory": rank_min_memory}.get(order, lambda g: rank_by(order, g))
    rank = make(graph)
    src, dst = graph.dag.edges()
    assert sorted(rank.tolist()) == list(range(graph.n)) and np.all(rank[src] < rank[dst])


@settings(max_examples=30)
@given(graphs(max_n=16), clusters())
def test_the_rank_of_a_choice_is_topological_unless_it_is_marss(graph, workers):
    choice = choose(graph, workers, budget=None)
    src, dst = graph.dag.edges()
    if "mars" not in choice.best.ranked_by:
        assert np.all(choice.plan.rank[src] < choice.plan.rank[dst])


@pytest.mark.parametrize("search", SEARCHES)
@settings(max_examples=20)
@given(graphs(max_n=16), clusters())
def test_first_workers_are_those_of_what_reads_nothing(search, graph, workers):
    assign = assign_initial(graph.dag, graph.dag.sources(), workers.cores.tolist(), search)
    assert np.array_equal(assign >= 0, graph.dag.in_degree == 0) and assign.max(initial=-1) < len(workers)


@settings(max_examples=20)
@given(graphs(max_n=16), clusters())
def test_copies_are_operands_in_range(graph, workers):
    found = duplicate(graph, workers, start(graph, workers), urgent(graph), share=4.0)
    assert np.all((found.assign >= 0) & (found.assign < len(workers)))
    src, dst = found.graph.dag.edges()
    assert np.all(found.rank[src] < found.rank[dst])
