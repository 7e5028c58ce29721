"""The least-memory order is an order, and no other of ours holds less."""

import itertools

import numpy as np
from hypothesis import given, settings

from jmars.plan import Workers, rank_by, simulate
from jmars.plan.order import rank_backwards, rank_min_memory, sequential_peak
from tests.plan.examples import graphs


@given(graphs())
def test_ranks_are_topological(graph):
    src, dst = graph.dag.edges()
    for rank in (rank_backwards(graph), rank_min_memory(graph)):
        assert sorted(rank.tolist()) == list(range(graph.n)) and np.all(rank[src] < rank[dst])


@given(graphs())
def test_none_of_our_orders_holds_less(graph):
    peak = sequential_peak(graph, rank_min_memory(graph))
    assert peak <= min(sequential_peak(graph, rank_by(order, graph)) for order in ("dfs", "level"))


@settings(max_examples=30)
@given(graphs(max_n=6))
def test_it_is_near_the_best_of_all_orders(graph):
    src, dst = graph.dag.edges()
    ways = (np.argsort(way) for way in itertools.permutations(range(graph.n)))
    least = min(sequential_peak(graph, rank) for rank in ways if np.all(rank[src] < rank[dst]))
    assert sequential_peak(graph, rank_min_memory(graph)) <= 1.5 * least + 3


@given(graphs())
def test_one_core_holds_what_is_said(graph):
    rank = rank_min_memory(graph)
    bare = type(graph).build(graph.dag, 1.0, graph.nbytes, result=graph.result)
    assert simulate(bare, Workers.build(1), [0] * graph.n, rank).peak_total <= sequential_peak(graph, rank)
