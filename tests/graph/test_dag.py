"""A Dag holds exactly the edges it was given, both ways round, and cannot be changed."""

import numpy as np
import pytest
from hypothesis import given

from jmars.errors import GraphError
from jmars.graph import Dag, gather_rows, group_by
from tests.graph.examples import edge_lists


@given(edge_lists())
def test_both_directions_hold_the_same_edges(drawn):
    n, pairs = drawn
    dag = Dag.from_edges(n, [a for a, _ in pairs], [b for _, b in pairs])
    assert dag.m == len(set(pairs))
    assert {(p, v) for v in range(n) for p in dag.preds(v).tolist()} == set(pairs)
    assert {(v, s) for v in range(n) for s in dag.succs(v).tolist()} == set(pairs)
    starts, ends = dag.edges()
    assert set(zip(starts.tolist(), ends.tolist(), strict=True)) == set(pairs)
    assert all(dag.succs(v).tolist() == sorted(dag.succs(v).tolist()) for v in range(n))
    assert dag.sources().tolist() == [v for v in range(n) if all(b != v for _, b in pairs)]
    assert dag.reversed.sources().tolist() == dag.sinks().tolist()


def test_inputs_keep_their_order():
    dag = Dag.from_inputs(np.array([0, 0, 0, 2]), np.array([1, 0]))
    assert dag.preds(2).tolist() == [1, 0]
    assert dag.succs(0).tolist() == dag.succs(1).tolist() == [2]


def test_a_dag_is_frozen():
    dag = Dag.from_edges(2, [0], [1])
    with pytest.raises(ValueError, match="read-only"):
        dag.pred_idx[0] = 1


def test_the_arrays_given_stay_the_callers():
    ptr, idx = np.array([0, 0, 1]), np.array([0])
    Dag.from_inputs(ptr, idx)
    idx[0] = 5  # still writable, and not the graph's


def test_an_empty_graph_is_a_graph():
    dag = Dag.from_edges(0, [], [])
    assert dag.n == dag.m == len(dag.sources()) == 0


@pytest.mark.parametrize(
    ("n", "src", "dst", "says"),
    [
        (2, [0], [2], "vertex 2"),
        (2, [-1], [1], "vertex -1"),
        (2, [1], [1], "itself"),
        (2, [0, 1], [1], "2 edge starts and 1 edge ends"),
    ],
)
def test_wrong_edges_are_named(n, src, dst, says):
    with pytest.raises(GraphError, match=says):
        Dag.from_edges(n, src, dst)


def test_grouping_keeps_order_beyond_16_bits():
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 200_000, 100_000)
    ptr, idx = group_by(keys, np.arange(100_000), 200_000)
    assert np.array_equal(idx, np.argsort(keys, kind="stable"))
    assert np.array_equal(np.diff(ptr), np.bincount(keys, minlength=200_000))


def test_gathered_rows_stand_behind_one_another():
    ptr, idx = np.array([0, 2, 2, 5]), np.array([7, 8, 1, 2, 3])
    assert gather_rows(ptr, idx, np.array([2, 1, 0])).tolist() == [1, 2, 3, 7, 8]
    assert gather_rows(ptr, idx, np.array([], np.int64)).tolist() == []
