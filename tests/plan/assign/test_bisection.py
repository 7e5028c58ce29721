"""Halves of halves: everyone has a share of the work, and few bytes go between workers."""

import numpy as np
import pytest
from hypothesis import given

from jmars.graph import Dag
from jmars.plan import PlanGraph, Workers, assign_bisect, assign_runs, rank_depth_first, volume
from jmars.plan.assign import _Halves
from jmars.plan.order import rows
from tests.benchmarks.plan_graphs import SMALL_ONES, matmul, stencil
from tests.plan.examples import clusters, graphs, tree, unit


@given(graphs(), clusters())
def test_each_operand_gets_a_worker(graph, workers):
    assign = assign_bisect(graph, workers, rank_depth_first(graph))
    assert assign.min() >= 0 and assign.max() < len(workers)


@given(graphs())
def test_gains_stay_what_a_move_would_save(graph):
    readers = rows(graph.dag.succ_ptr, graph.dag.succ_idx)
    nets = [[v, *readers[v]] for v in range(graph.n) if readers[v]]
    weights = [int(graph.nbytes[net[0]]) for net in nets]
    halves = _Halves(list(range(graph.n)), nets, weights, graph.cost.tolist())

    def cut():
        return sum(w for w, (a, b) in zip(weights, halves.count, strict=True) if a and b)

    for v in [*range(graph.n), *range(0, graph.n, 2), *range(0, graph.n, 3)]:
        before, gain = cut(), halves.gain[v]
        halves.move(v)
        assert before - cut() == gain
    assert halves.load[1] == pytest.approx(sum(graph.cost[v] for v in range(graph.n) if halves.side[v]))


@pytest.mark.parametrize("name", SMALL_ONES)
def test_the_work_is_shared(name):
    graph = SMALL_ONES[name]()
    load = np.bincount(assign_bisect(graph, Workers.build(4), rank_depth_first(graph)), graph.cost, 4)
    assert load.max() <= 1.1 * load.mean() + graph.cost.max()


def test_unequal_workers_have_unequal_shares():
    graph = unit(Dag.from_edges(300, [], []))
    assign = assign_bisect(graph, Workers.build(3, cores=[1, 2, 3]), np.arange(300))
    assert np.bincount(assign).tolist() == pytest.approx([50, 100, 150], abs=6)


def test_a_tree_is_cut_at_its_top_and_a_line_into_pieces():
    graph = unit(tree(128))
    assert volume(graph, assign_bisect(graph, Workers.build(4), rank_depth_first(graph))) <= 6
    line = stencil(32, 8)
    moved = volume(line, assign_bisect(line, Workers.build(4), rank_depth_first(line)))
    assert moved <= 3 * 2 * 8 * 2 * 1_000_000  # two borders at each of three cuts and eight steps, and a little more


def test_products_are_cut_into_blocks_instead_of_rows():
    graph, workers = matmul(8), Workers.build(8)
    rank = rank_depth_first(graph)
    by_rows = volume(graph, assign_runs(graph, workers, rank))
    assert volume(graph, assign_bisect(graph, workers, rank)) < 0.7 * by_rows


def test_pins_are_kept():
    graph = PlanGraph.build(Dag.from_edges(4, [], []), 1.0, 1, pin=[1, -1, -1, 0])
    assert assign_bisect(graph, Workers.build(2), np.arange(4))[[0, 3]].tolist() == [1, 0]
