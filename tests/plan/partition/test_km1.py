"""Parts that move fewest bytes: in range, balanced, the same each time, and better than what we make ourselves."""

import numpy as np
import pytest
from hypothesis import given, settings

from jmars.graph import Dag
from jmars.plan import CPU, GPU, PlanGraph, Workers, assign_bisect, rank_by, simulate, volume
from jmars.plan.partition import assign_km1, has_km1
from tests.benchmarks.plan_graphs import SMALL_ONES, stencil
from tests.plan.examples import clusters, graphs

pytestmark = pytest.mark.skipif(not has_km1(), reason="needs mtkahypar: pip install jmars[plan]")


@settings(max_examples=30)
@given(graphs(), clusters())
def test_every_operand_has_a_worker(graph, workers):
    assign = assign_km1(graph, workers)
    assert assign.shape == (graph.n,) and assign.dtype == np.int16
    assert np.all((assign >= 0) & (assign < len(workers)))
    assert simulate(graph, workers, assign, rank_by("dfs", graph)).moved == volume(graph, assign)
    assert np.array_equal(assign, assign_km1(graph, workers))


def test_parts_have_their_share_of_the_work():
    graph = stencil(32, 8)
    for rates in ([1.0, 1.0, 1.0, 1.0], [1.0, 3.0]):
        workers = Workers.build(len(rates), speed=rates)
        load = np.bincount(assign_km1(graph, workers), graph.cost, len(rates))
        assert np.all(load / load.sum() <= np.array(rates) / sum(rates) * 1.1)


def test_no_more_bytes_move_than_by_halving():
    ours = theirs = 0
    for name in ("tree", "stencil", "stencil 2d", "matmul", "shuffle"):
        graph, workers = SMALL_ONES[name](), Workers.build(4)
        theirs += volume(graph, assign_km1(graph, workers))
        ours += volume(graph, assign_bisect(graph, workers, rank_by("dfs", graph)))
    assert theirs <= ours


def test_cycles_of_refinement_move_no_more():
    graph, workers = SMALL_ONES["cholesky"](), Workers.build(4)
    assert volume(graph, assign_km1(graph, workers, cycles=3)) <= volume(graph, assign_km1(graph, workers))


def test_pins_and_devices_are_kept():
    graph = PlanGraph.build(Dag.from_edges(8, [0, 1, 2, 3], [4, 5, 6, 7]), 1.0, 8, device=[GPU] * 4 + [CPU] * 4)
    workers = Workers.build(3, device=[CPU, GPU, CPU])
    assign = assign_km1(graph, workers)
    assert set(assign[:4].tolist()) == {1} and 1 not in assign[4:].tolist()


def test_a_graph_without_edges_is_dealt_out():
    graph = PlanGraph.build(Dag.from_edges(6, [], []), 1.0, 8)
    assert np.bincount(assign_km1(graph, Workers.build(3))).tolist() == [2, 2, 2]
