"""A plan graph is checked, frozen, contracted without loss, and known by its digest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.errors import GraphError
from jmars.graph import Dag
from jmars.plan import GPU, PlanGraph, contract, volume
from tests.plan.examples import cascade, graphs, unit


def test_what_is_given_is_copied_and_cannot_be_changed():
    cost = np.ones(5)
    graph = PlanGraph.build(cascade().dag, cost, 1)
    cost[0] = 7
    assert graph.cost[0] == 1 and graph.result.tolist() == [False, False, False, True, False]
    with pytest.raises(ValueError, match="read-only"):
        graph.cost[0] = 7


def test_what_makes_no_sense_is_refused():
    dag = cascade().dag
    with pytest.raises(GraphError, match=r"nbytes has shape \(3,\); give one entry for each of 5 operands"):
        PlanGraph.build(dag, 1.0, [1, 2, 3])
    for cost in (-1.0, np.nan, np.inf):
        with pytest.raises(GraphError, match="cost must be 0 or more"):
            PlanGraph.build(dag, cost, 1)


def test_equal_structure_has_an_equal_digest_whatever_it_costs():
    graph = cascade()
    again = PlanGraph.build(Dag.from_edges(5, *graph.dag.edges()), graph.cost * 2, graph.nbytes)
    assert graph.digest() == again.digest() and len(graph.digest()) == 16
    unlike = [
        PlanGraph.build(graph.dag, graph.cost, graph.nbytes + 1),
        PlanGraph.build(graph.dag, graph.cost, graph.nbytes, device=GPU),
        PlanGraph.build(graph.dag, graph.cost, graph.nbytes, pin=0),
        PlanGraph.build(graph.dag, graph.cost, graph.nbytes, result=True),
        PlanGraph.build(Dag.from_edges(5, [0, 0, 1, 2], [1, 2, 3, 3]), graph.cost, graph.nbytes),
    ]
    assert len({graph.digest(), *(other.digest() for other in unlike)}) == 6


def test_a_group_costs_its_members_and_writes_what_leaves_it():
    quotient = contract(cascade(), [0, 0, 1, 0, 2])  # {A, B, D}, {C}, {E}: the seed's parts, which wait for each other
    assert quotient.cost.tolist() == [14.0, 2.0, 1.0]
    assert quotient.nbytes.tolist() == [20, 10, 5]  # A goes to C, D is the result
    assert quotient.work.tolist() == [10, 0, 0]  # B stays inside
    assert sorted(zip(*(ends.tolist() for ends in quotient.dag.edges()), strict=True)) == [(0, 1), (1, 0), (2, 0)]


def test_members_that_want_different_workers_cannot_be_one_group():
    graph = PlanGraph.build(cascade().dag, 1.0, 1, pin=[0, 1, -1, -1, -1])
    assert contract(graph, [0, 1, 1, 1, 1]).pin.tolist() == [0, 1]
    with pytest.raises(GraphError, match="group 0 holds operands that want different workers"):
        contract(graph, [0, 0, 1, 1, 1])


@given(graphs(), st.data())
def test_nothing_is_lost_in_a_quotient(graph, data):
    label = np.array(data.draw(st.lists(st.integers(0, 3), min_size=graph.n, max_size=graph.n)))
    label = np.unique(label, return_inverse=True)[1]
    quotient = contract(graph, label)
    assert quotient.cost.sum() == pytest.approx(graph.cost.sum())
    assert (quotient.nbytes.sum() + quotient.work.sum()) >= graph.nbytes[graph.result].sum()
    assert quotient.result.tolist() == [graph.result[label == k].any() for k in range(quotient.n)]


def test_a_chunk_goes_once_to_each_worker_that_reads_it():
    fan = unit(Dag.from_edges(4, [0, 0, 0], [1, 2, 3]))
    assert [volume(fan, where) for where in ([0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 1, 2], [3, 0, 1, 2])] == [0, 1, 2, 3]
