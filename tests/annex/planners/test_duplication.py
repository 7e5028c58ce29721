"""Copies run as operands of their own, and only where they pay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.annex.planners import cheap_copies, duplicate
from jmars.errors import GraphError
from jmars.graph import Dag
from jmars.plan import PlanGraph, Workers, assign_bisect, rank_by, simulate, volume
from jmars.plan.improve import with_copies
from tests.benchmarks.plan_graphs import SMALL_ONES
from tests.plan.examples import clusters, graphs


@given(graphs(), clusters(), st.data())
def test_a_plan_with_copies_runs_every_operand_and_moves_no_copied_chunk(graph, workers, data):
    p = len(workers)
    assign = np.array(data.draw(st.lists(st.integers(0, p - 1), min_size=graph.n, max_size=graph.n)), np.int16)
    rank = rank_by("dfs", graph)
    src, dst = graph.dag.edges()
    pairs = [(a, int(assign[b])) for a, b in zip(src.tolist(), dst.tolist()) if not graph.dag.in_degree[a]]
    copies = data.draw(st.lists(st.sampled_from(pairs), max_size=8)) if pairs else []
    found = with_copies(graph, assign, rank, copies)
    assert sorted(found.rank.tolist()) == list(range(found.graph.n))
    assert np.array_equal(found.origin[: graph.n], np.arange(graph.n))
    a, b = found.graph.dag.edges()
    assert sorted(zip(found.origin[a].tolist(), found.origin[b].tolist())) == sorted(zip(src.tolist(), dst.tolist()))
    assert np.all(found.rank[a] < found.rank[b])
    run = simulate(found.graph, workers, found.assign, found.rank)
    assert run.moved <= volume(graph, assign)
    for v, w in copies:  # what these readers read lies where they are
        mine = (found.origin[a] == v) & (found.assign[b] == w)
        assert np.all(found.assign[a[mine]] == w)
    read = found.graph.dag.out_degree > 0
    assert np.all(read[graph.n :])


@given(graphs(), clusters(), st.data())
def test_duplicating_is_never_worse(graph, workers, data):
    p = len(workers)
    assign = np.array(data.draw(st.lists(st.integers(0, p - 1), min_size=graph.n, max_size=graph.n)), np.int16)
    rank = rank_by("blevel", graph)
    before = simulate(graph, workers, assign, rank)
    found = duplicate(graph, workers, assign, rank, share=2.0)
    after = simulate(found.graph, workers, found.assign, found.rank)
    assert (
        after.makespan <= before.makespan * (1 + 1e-9)
        and after.moved <= max(before.moved, 0)
        or (after.makespan < before.makespan)
    )


def test_an_operand_that_nobody_reads_at_home_moves_instead():
    line = PlanGraph.build(Dag.from_edges(2, [0], [1]), 1.0, 8)
    found = with_copies(line, np.array([0, 1], np.int16), np.arange(2), [(0, 1)])
    assert found.assign.tolist() == [1, 1] and found.copies == []
    kept = PlanGraph.build(line.dag, 1.0, 8, result=True)
    assert with_copies(kept, np.array([0, 1], np.int16), np.arange(2), [(0, 1)]).copies == [(0, 1)]


def test_dear_pinned_and_foreign_operands_are_not_copied():
    fan = Dag.from_edges(3, [0, 0], [1, 2])
    slow, where = Workers.build(2, bandwidth=1.0, latency=0.0, device=[1, 2]), np.array([0, 0, 1], np.int16)
    assert cheap_copies(PlanGraph.build(fan, 1.0, 10), slow, where) == [(0, 1)]
    assert cheap_copies(PlanGraph.build(fan, 6.0, 10), slow, where) == []
    assert cheap_copies(PlanGraph.build(fan, 1.0, 10, pin=[0, -1, -1]), slow, where) == []
    assert cheap_copies(PlanGraph.build(fan, 1.0, 10, device=[1, 0, 0]), slow, where) == []
    assert cheap_copies(PlanGraph.build(fan, 1.0, 10), slow, np.array([-1, 0, 1], np.int16)) == []
    with pytest.raises(GraphError, match="operand 1 reads other chunks"):
        with_copies(PlanGraph.build(Dag.from_edges(3, [0, 1], [1, 2]), 1.0, 8), where, np.arange(3), [(1, 1)])


def test_generators_of_a_product_move_less():
    graph = SMALL_ONES["matmul"]()
    cheap = PlanGraph.build(graph.dag, np.where(graph.dag.in_degree == 0, 1e-3, graph.cost), graph.nbytes)
    workers = Workers.build(4, cores=2)
    assign, rank = assign_bisect(cheap, workers, rank_by("dfs", cheap)), rank_by("dfs", cheap)
    found = duplicate(cheap, workers, assign, rank)
    assert simulate(found.graph, workers, found.assign, found.rank).moved < 0.6 * volume(cheap, assign)
