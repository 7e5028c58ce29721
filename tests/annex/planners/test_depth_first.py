"""Cascade's partition depth first then expansion: its worked example, and parts that fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.errors import GraphError
from jmars.graph import Dag
from jmars.plan import CPU, GPU, PlanGraph, Workers, depth_first
from tests.plan.examples import cascade, clusters, graphs


def test_the_critical_path_first_and_a_new_part_when_it_is_full():
    parts = depth_first(cascade(), Workers.build(2, speed=[1.0, 2.0], memory=[20, 30]))
    assert [(part.worker, part.operands, part.nbytes, part.seconds) for part in parts] == [
        (1, (3, 1, 0), 30, 7.0),
        (0, (2, 4), 15, 3.0),
    ]


@given(graphs(), st.data())
def test_every_operand_is_in_one_part_that_fits(graph, data):
    memory = int(graph.nbytes.max(initial=1)) + data.draw(st.integers(1, 20))
    parts = depth_first(graph, data.draw(clusters(memory=memory)), quota=data.draw(st.sampled_from([2.0, np.inf])))
    assert sorted(v for part in parts for v in part.operands) == list(range(graph.n))
    assert all(len(part.operands) > 0 and part.nbytes <= memory for part in parts)


def test_what_was_passed_by_is_taken_up_at_an_input():
    # 5 reads 3 and 4; 3 reads 0 and 1, 4 reads 2; the path through 3 and 1 is the longest
    graph = PlanGraph.build(Dag.from_edges(6, [0, 1, 2, 3, 4], [3, 3, 4, 5, 5]), [1.0, 2.0, 1.0, 1.0, 1.0, 1.0], 1)
    assert depth_first(graph, Workers.build(1))[0].operands == (5, 3, 1, 0, 4, 2)


def test_the_output_behind_the_longest_path_comes_first():
    graph = PlanGraph.build(Dag.from_edges(4, [0, 1], [2, 3]), [1.0, 5.0, 1.0, 1.0], 1)
    assert [part.operands for part in depth_first(graph, Workers.build(2), quota=6.0)] == [(3, 1), (2, 0)]


def test_devices_open_parts_of_their_own():
    graph = PlanGraph.build(Dag.from_edges(3, [0, 1], [1, 2]), 1.0, 1, device=[CPU, GPU, CPU])
    parts = depth_first(graph, Workers.build(2, device=[CPU, GPU]))
    assert [(part.worker, part.operands) for part in parts] == [(0, (2,)), (1, (1,)), (0, (0,))]


def test_what_fits_nowhere_is_an_error():
    with pytest.raises(GraphError, match="operand 0 writes 2 bytes and fits no worker"):
        depth_first(PlanGraph.build(Dag.from_edges(1, [], []), 1.0, 2), Workers.build(1, memory=1))
