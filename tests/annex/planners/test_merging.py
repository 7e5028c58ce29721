"""Cascade's partition by merging: its worked example, every tie-break, and parts that never wait for each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.errors import GraphError
from jmars.graph import Dag, levels
from jmars.plan import CPU, GPU, PlanGraph, Workers, as_assignment, as_labels, contract, merge
from tests.plan.examples import cascade, clusters, graphs, unit

SLOW_FAST = Workers.build(2, speed=[1.0, 2.0], memory=[20, 30])


def shown(parts):
    return [(part.worker, "".join("ABCDEFGH"[v] for v in part.operands), part.nbytes, part.seconds) for part in parts]


def test_the_seeds_rules_to_the_letter():
    assert shown(merge(cascade(), SLOW_FAST, convex=False)) == [
        (1, "ABD", 30, 7.0),
        (0, "C", 10, 2.0),
        (0, "E", 5, 1.0),
    ]


def test_convex_parts_can_run_one_after_another():
    assert shown(merge(cascade(), SLOW_FAST)) == [(1, "ABC", 30, 6.0), (0, "ED", 15, 5.0)]


@given(graphs(), st.data())
def test_every_operand_is_in_one_part_that_fits(graph, data):
    memory = int(graph.nbytes.max(initial=1)) + data.draw(st.integers(1, 20))
    workers = data.draw(clusters(memory=memory))
    for convex in (True, False):
        parts = merge(graph, workers, convex=convex)
        assert sorted(v for part in parts for v in part.operands) == list(range(graph.n))
        assert all(part.nbytes <= memory for part in parts)
        assert as_assignment(parts, graph.n).min() >= 0
        for part in parts:
            assert part.seconds == pytest.approx(graph.cost[list(part.operands)].sum() / workers.speed[part.worker])


@given(graphs(), st.data())
def test_the_quotient_of_convex_parts_has_no_cycle(graph, data):
    memory = int(graph.nbytes.max(initial=1)) + data.draw(st.integers(1, 20))
    parts = merge(graph, data.draw(clusters(memory=memory)), quota=data.draw(st.sampled_from([1.0, 4.0, np.inf])))
    levels(contract(graph, as_labels(parts, graph.n)).dag)  # raises where there is one


def test_parts_that_are_convex_one_by_one_may_still_wait_for_each_other():
    # 0 -> 1 and 2 -> 3, 4 joins 0 and 3 by large chunks: {0, 4, 3} would wait for 2, {1, 2} for 0
    dag = Dag.from_edges(6, [0, 2, 0, 3, 1, 2], [1, 3, 4, 4, 5, 5])
    graph = PlanGraph.build(dag, [9.0, 1.0, 1.0, 1.0, 9.0, 1.0], [8, 1, 1, 8, 1, 1])
    parts = merge(graph, Workers.build(2, memory=18))
    levels(contract(graph, as_labels(parts, graph.n)).dag)


def joins(src, dst, cost, nbytes, **wishes):
    """Who is the second operand of the first part, which starts at 0; room for two."""
    graph = PlanGraph.build(Dag.from_edges(len(cost), src, dst), cost, nbytes, **wishes)
    workers = Workers.build(2, speed=[2.0, 1.0], memory=30, device=[CPU, GPU])
    return merge(graph, workers, quota=11.0)[0].operands[1]


def test_most_shared_bytes_come_first():
    # after 0 and 1, operand 2 reads both of them; 3 and 4 lie on longer paths and share less
    graph = PlanGraph.build(
        Dag.from_edges(5, [0, 0, 1, 0, 1], [1, 2, 2, 3, 4]), [10.0, 1.0, 0.5, 5.0, 5.0], [5, 1, 1, 1, 1]
    )
    assert merge(graph, Workers.build(1))[0].operands == (0, 1, 2, 3, 4)


def test_of_equal_bytes_the_longer_path():
    assert joins([0, 1, 0], [2, 2, 3], [10.0, 1.0, 1.0, 1.5], [5, 9, 1, 1]) == 3


def test_of_equal_bytes_and_paths_the_one_that_writes_most():
    assert joins([0, 0], [1, 2], [10.0, 2.0, 2.0], [5, 1, 3]) == 2


def test_then_the_one_that_costs_most():
    # 1 and 2 lie on paths of equal length; 2 is the dearer part of its own
    assert joins([0, 0, 1], [1, 2, 3], [10.0, 1.0, 2.0, 1.0], [5, 1, 1, 1]) == 2


def test_then_the_first():
    assert joins([0, 0], [1, 2], [10.0, 2.0, 2.0], [5, 1, 1]) == 1


def test_what_may_not_run_here_or_does_not_fit_stays_out():
    assert joins([0, 0], [1, 2], [10.0, 2.0, 1.0], [5, 1, 1], device=[CPU, GPU, CPU]) == 2
    assert joins([0, 0], [1, 2], [10.0, 2.0, 1.0], [5, 26, 1]) == 2


def test_an_inefficient_worker_prefers_what_only_it_may_run():
    # on the slow GPU worker operand 2 is twice as dear as elsewhere, operand 1 may run nowhere else
    graph = PlanGraph.build(Dag.from_edges(3, [0, 0], [1, 2]), [1.0, 1.0, 2.0], [5, 1, 1], device=[GPU, GPU, 0])
    slow = Workers.build(2, speed=[2.0, 1.0], device=[CPU, GPU], memory=6)
    assert merge(graph, slow)[0].operands == (0, 1)


def test_a_root_that_the_fastest_may_not_run_is_passed_over():
    graph = PlanGraph.build(Dag.from_edges(2, [], []), [5.0, 1.0], [1, 1], device=[CPU, GPU])
    workers = Workers.build(2, speed=[1.0, 4.0], device=[CPU, GPU])
    assert [(part.worker, part.operands) for part in merge(graph, workers)] == [(1, (1,)), (0, (0,))]


def test_unused_workers_are_taken_first_and_then_the_one_that_ends_first():
    graph = PlanGraph.build(Dag.from_edges(4, [], []), [8.0, 3.0, 2.0, 1.0], 1)
    workers = Workers.build(2, memory=1)
    assert [part.worker for part in merge(graph, workers)] == [0, 1, 1, 1]


def test_what_fits_nowhere_is_an_error():
    with pytest.raises(GraphError, match="operand 0 writes 2 bytes and fits no worker"):
        merge(PlanGraph.build(Dag.from_edges(1, [], []), 1.0, 2), Workers.build(1, memory=1))


def test_a_graph_too_large_for_sets_of_ancestors_is_refused():
    large = unit(Dag.from_edges(30_001, [], []))
    with pytest.raises(GraphError, match="contract the graph first, or give convex=False"):
        merge(large, Workers.build(2))
