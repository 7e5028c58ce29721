"""Runs share the work by speed and keep neighbours together."""

import numpy as np
from hypothesis import given

from jmars.graph import Dag
from jmars.plan import PlanGraph, Workers, assign_runs, rank_depth_first, source_runs, volume
from tests.plan.examples import clusters, graphs, tree, unit


@given(graphs(), clusters())
def test_each_operand_has_a_worker_and_each_worker_one_run(graph, workers):
    rank = rank_depth_first(graph)
    in_order = assign_runs(graph, workers, rank)[np.argsort(rank)]
    assert np.all(np.diff(in_order) >= 0) and in_order.min() >= 0 and in_order.max() < len(workers)
    sources = source_runs(graph, workers, rank)
    assert np.array_equal(sources >= 0, graph.dag.in_degree == 0)


def test_a_tree_is_cut_once_for_each_worker():
    graph = unit(tree(64))
    assign = assign_runs(graph, Workers.build(4), rank_depth_first(graph))
    assert np.bincount(assign).max() <= 33 and volume(graph, assign) <= 3 * 6


def test_faster_workers_have_longer_runs():
    graph = unit(Dag.from_edges(60, [], []))
    workers = Workers.build(3, cores=[1, 2, 1], speed=[1.0, 1.0, 2.0])
    assert np.bincount(assign_runs(graph, workers, np.arange(60))).tolist() == [12, 24, 24]


def test_operands_that_cost_nothing_are_shared_out_too():
    graph = PlanGraph.build(Dag.from_edges(4, [], []), 0.0, 1)
    assert assign_runs(graph, Workers.build(2), np.arange(4)).tolist() == [0, 0, 1, 1]


def test_sources_weigh_what_follows_them():
    # 0 leads to three more, 1 and 2 to nothing
    graph = unit(Dag.from_edges(6, [0, 3, 4], [3, 4, 5]))
    assert source_runs(graph, Workers.build(2), np.arange(6)).tolist() == [0, 1, 1, -1, -1, -1]


def test_pins_are_kept():
    graph = PlanGraph.build(Dag.from_edges(4, [], []), 1.0, 1, pin=[1, -1, -1, 0])
    for assign in (assign_runs, source_runs):
        assert assign(graph, Workers.build(2), np.arange(4)).tolist() == [1, 0, 1, 0]
