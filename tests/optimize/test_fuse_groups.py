"""Groups become operands: equal ones share a program, whatever their digests."""

import numpy as np
import pytest
from hypothesis import given

from jmars.graph import Dag
from jmars.optimize import fuse_groups
from jmars.optimize.regions import fuse_regions
from tests.optimize.kinds import graph_of, graphs, values


@given(graphs())
def test_groups_of_one_digest_that_differ_stay_apart(drawn):
    before = drawn[0]
    expected = fuse_regions(before)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fuse_groups, "_digests", lambda ptr, token, at: np.zeros(len(ptr) - 1, np.uint64))
        joined = fuse_regions(before)
    programs = [joined.graph.programs[k] for k in joined.graph.program if k >= 0]
    assert programs == [expected.graph.programs[k] for k in expected.graph.program if k >= 0]
    assert values(joined.graph) == values(before)


def test_members_that_read_the_same_in_another_order_are_another_kind():
    # a - b and b - a, each negated: two programs; a - b twice: one
    dag = Dag.from_edges(8, [0, 1, 0, 1, 2, 4, 0, 1, 6], [2, 2, 4, 4, 3, 5, 6, 6, 7])
    graph = graph_of(dag, ["x", "x"] + ["add"] * 6, stored=[0, 1])
    assert len({int(k) for k in fuse_regions(graph).graph.program if k >= 0}) == 1
    turned = graph.input_idx.copy()
    turned[graph.input_ptr[4] : graph.input_ptr[5]] = [1, 0]
    object.__setattr__(graph, "input_idx", turned)
    joined = fuse_regions(graph)
    assert len({int(k) for k in joined.graph.program if k >= 0}) == 1  # what is read first is input 0 in each
    assert [joined.graph.inputs(k).tolist() for k in range(2, 5)] == [[0, 1], [1, 0], [0, 1]]


def test_a_chunk_that_several_members_read_is_one_input():
    dag = Dag.from_edges(4, [0, 0, 1, 2], [1, 2, 3, 3])
    graph = graph_of(dag, ["x", "add", "add", "add"], stored=[0])
    joined = fuse_regions(graph)
    assert joined.graph.inputs(1).tolist() == [0] and values(joined.graph) == values(graph)
