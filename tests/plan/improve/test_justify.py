"""An order learnt from a run keeps to the graph, and brings first what somebody waited for."""

import numpy as np
from hypothesis import given

from jmars.plan import Workers, assign_eft, rank_b_level, rank_depth_first, rank_justified, simulate
from tests.benchmarks.plan_graphs import shuffle
from tests.plan.examples import clusters, graphs


@given(graphs(), clusters())
def test_it_is_an_order_of_all_operands_that_runs(graph, workers):
    rank = rank_depth_first(graph)
    assign = assign_eft(graph, workers, rank)
    trace = simulate(graph, workers, assign, rank, trace=True).trace
    again = rank_justified(graph, assign, trace, workers.seconds_per_byte)
    assert sorted(again.tolist()) == list(range(graph.n))
    assert simulate(graph, workers, assign, again).moved == simulate(graph, workers, assign, rank).moved


def test_a_rechunk_ends_earlier():
    graph, workers = shuffle(28), Workers.build(8, cores=2)
    rank = rank_b_level(graph, workers.seconds_per_byte)
    assign = assign_eft(graph, workers, rank)
    before = simulate(graph, workers, assign, rank, trace=True)
    again = rank_justified(graph, assign, before.trace, workers.seconds_per_byte)
    assert simulate(graph, workers, assign, again).makespan < 0.97 * before.makespan
    assert np.any(again != rank)
