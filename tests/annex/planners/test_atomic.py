"""Groups that run as one process each never wait for each other, and nothing is split without need."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.annex.planners import atomic_labels, atomic_parts
from jmars.errors import GraphError
from jmars.graph import Dag, levels
from jmars.plan import (
    Workers,
    as_labels,
    assign_bisect,
    assign_eft,
    assign_runs,
    contract,
    depth_first,
    merge,
    rank_by,
)
from jmars.plan.partition import assign_km1, assign_metis, has_km1, has_metis
from tests.benchmarks.plan_graphs import SMALL_ONES
from tests.plan.examples import cascade, clusters, graphs, unit


@given(graphs(), st.data())
def test_the_quotient_of_any_groups_has_no_cycle(graph, data):
    label = np.array(data.draw(st.lists(st.integers(0, 4), min_size=graph.n, max_size=graph.n)))
    found = atomic_labels(graph, label)
    levels(contract(graph, found).dag)  # raises where there is one
    assert sorted(set(found.tolist())) == list(range(int(found.max(initial=-1)) + 1))
    for group in range(int(found.max(initial=-1)) + 1):
        assert len(set(label[found == group].tolist())) == 1


@given(graphs(), st.data())
def test_what_is_atomic_already_stays_whole(graph, data):
    memory = int(graph.nbytes.max(initial=1)) + data.draw(st.integers(1, 20))
    parts = merge(graph, data.draw(clusters(memory=memory)))
    label = as_labels(parts, graph.n)
    assert len(set(atomic_labels(graph, label).tolist())) <= graph.n
    if graph.n:
        once = atomic_labels(graph, label)
        assert np.array_equal(atomic_labels(graph, once), once)


@pytest.mark.parametrize("name", SMALL_ONES)
def test_every_partition_of_ours_can_be_run_as_processes(name):
    graph, workers = SMALL_ONES[name](), Workers.build(3)
    rank = rank_by("dfs", graph)
    ways = {
        "eft": assign_eft(graph, workers, rank),
        "halves": assign_bisect(graph, workers, rank),
        "runs": assign_runs(graph, workers, rank),
    }
    if has_metis():
        ways["metis"] = assign_metis(graph, workers, bands=2)
    if has_km1():
        ways["km1"] = assign_km1(graph, workers)
    for way, assign in ways.items():
        found = atomic_labels(graph, assign)
        levels(contract(graph, found).dag)
        assert all(len(set(assign[found == g].tolist())) == 1 for g in set(found.tolist())), way


def test_depth_first_parts_are_split_where_they_wait_for_each_other():
    slow_fast = Workers.build(2, speed=[1.0, 2.0], memory=[20, 30])
    torn = depth_first(cascade(), slow_fast)
    whole = depth_first(cascade(), slow_fast, convex=True)
    with pytest.raises(GraphError, match="cycle"):
        levels(contract(cascade(), as_labels(torn, 5)).dag)
    levels(contract(cascade(), as_labels(whole, 5)).dag)
    assert sorted(v for part in whole for v in part.operands) == [0, 1, 2, 3, 4]
    for w in range(2):
        seconds = sum(part.seconds for part in torn if part.worker == w)
        assert sum(part.seconds for part in whole if part.worker == w) == pytest.approx(seconds)


@given(graphs(), clusters())
def test_split_parts_hold_what_the_parts_held(graph, workers):
    parts = depth_first(graph, workers, quota=4.0)
    found = atomic_parts(graph, parts)
    assert sorted(v for part in found for v in part.operands) == list(range(graph.n))
    assert sum(part.nbytes for part in found) == sum(part.nbytes for part in parts)
    assert sum(part.seconds for part in found) == pytest.approx(sum(part.seconds for part in parts))
    levels(contract(graph, as_labels(found, graph.n)).dag)


def test_a_graph_too_large_is_refused():
    with pytest.raises(GraphError, match="contract first"):
        atomic_labels(unit(Dag.from_edges(30_001, [], [])), np.zeros(30_001))
