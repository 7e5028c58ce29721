"""Earliest finish time uses all workers, keeps to wishes, and moves less when bytes have a price."""

import numpy as np
import pytest
from hypothesis import given

from jmars.errors import GraphError
from jmars.graph import Dag
from jmars.plan import PlanGraph, Workers, assign_eft, rank_b_level, rank_by, simulate, volume
from tests.benchmarks.plan_graphs import SMALL_ONES
from tests.plan.examples import clusters, graphs, tree, unit


@given(graphs(), clusters())
def test_each_operand_gets_a_worker(graph, workers):
    for price in (0.0, 3.0):
        assign = assign_eft(graph, workers, rank_by("dfs", graph), price=price)
        assert assign.min() >= 0 and assign.max() < len(workers)


def test_alike_operands_are_spread_by_speed():
    graph = unit(Dag.from_edges(12, [], []))
    assign = assign_eft(graph, Workers.build(3, speed=[1.0, 2.0, 3.0]), np.arange(12))
    assert np.bincount(assign).tolist() == [2, 4, 6]


def test_the_best_of_many_workers_is_found_though_few_are_tried():
    graph = unit(Dag.from_edges(64, [], []))
    assert np.bincount(assign_eft(graph, Workers.build(32), np.arange(64))).tolist() == [2] * 32


def test_a_price_on_bytes_moves_fewer():
    workers = Workers.build(4, cores=2)
    moved = dict.fromkeys((0.0, 3.0), 0)
    for make in SMALL_ONES.values():
        graph = make()
        rank = rank_b_level(graph, workers.seconds_per_byte)
        for price in moved:
            moved[price] += volume(graph, assign_eft(graph, workers, rank, price=price))
    assert moved[3.0] < 0.6 * moved[0.0]


def test_pins_and_wishes_are_kept():
    graph = PlanGraph.build(tree(4), 1.0, 1, pin=[1, -1, -1, -1, -1, -1, 0])
    assign = assign_eft(graph, Workers.build(2), rank_b_level(graph))
    assert (assign[0], assign[6]) == (1, 0)
    wish = [1, 1, 0, 0, 1, 0, 1]
    assert assign_eft(unit(tree(4)), Workers.build(2), np.arange(7), affinity=wish, pull=100.0).tolist() == wish


def test_readers_go_to_the_chunks_that_are_there():
    graph = PlanGraph.build(Dag.from_edges(4, [0, 1], [2, 3]), 1.0, 10**9)
    placed = np.array([1, 0, -1, -1])
    assign = assign_eft(graph, Workers.build(2), np.arange(4), placed=placed)
    assert assign.tolist() == [-1, -1, 1, 0]
    assert simulate(graph, Workers.build(2), assign, np.arange(4), placed=placed).moved == 0


def test_an_order_that_is_not_topological_is_refused():
    graph = unit(tree(2))
    with pytest.raises(GraphError, match="puts operand 2 before its input"):
        assign_eft(graph, Workers.build(2), np.array([2, 1, 0]))
