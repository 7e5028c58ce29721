"""Seed 003's choice of workers while the graph runs."""

import numpy as np
from hypothesis import given

from jmars.graph import Dag
from jmars.plan import FollowInputs, PlanGraph, Workers, assign_initial, rank_mars, simulate
from tests.plan.examples import clusters, graphs


@given(graphs(), clusters())
def test_everything_runs_somewhere(graph, workers):
    first = assign_initial(graph.dag, graph.dag.sources(), workers.cores.tolist())
    run = simulate(graph, workers, first, rank_mars(graph), policy=FollowInputs())
    sources = graph.dag.sources()
    assert run.assign.min() >= 0 and np.array_equal(run.assign[sources], first[sources])


def test_an_operand_goes_to_most_of_its_bytes_and_else_to_the_least_busy():
    graph = PlanGraph.build(Dag.from_edges(5, [0, 1, 0, 2], [3, 3, 4, 4]), 1.0, [5, 9, 5, 1, 1])
    run = simulate(graph, Workers.build(3), [0, 1, 2, -1, -1], np.arange(5), policy=FollowInputs())
    assert run.assign.tolist() == [0, 1, 2, 1, 0]
