"""What no result needs goes; all else stays as it was."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jmars.graph import Dag, ancestors
from jmars.optimize.passes import prune
from tests.graph.examples import dags
from tests.optimize.examples import chunk_graph, labels, values


@given(dags(), st.data())
def test_what_is_left_is_what_results_need_and_their_values_stay(dag, data):
    results = data.draw(st.lists(st.integers(0, dag.n - 1), min_size=1, unique=True))
    before = chunk_graph(dag, results=results, args=[(k,) if k % 3 else () for k in range(dag.n)])
    after, group = prune(before)
    assert np.array_equal(group >= 0, ancestors(dag, results))
    assert values(after) == values(before)
    kept = np.flatnonzero(group >= 0)
    assert group[kept].tolist() == list(range(after.n))
    assert labels(after) == [labels(before)[k] for k in kept]
    assert np.array_equal(after.layer, before.layer[kept]) and np.array_equal(after.nbytes, before.nbytes[kept])
    assert {p.name for p in after.programs} == set(labels(after))  # no program that nobody runs


def test_a_graph_of_which_all_is_needed_is_passed_on():
    before = chunk_graph(Dag.from_edges(3, [0, 1], [2, 2]))
    after, group = prune(before)
    assert after is before and group.tolist() == [0, 1, 2]


def test_stored_chunks_keep_their_place():
    before = chunk_graph(Dag.from_edges(4, [1, 2], [3, 3]), results=[3], stored=[0, 2])
    after, _ = prune(before)
    assert labels(after) == ["op1", "stored", "op3"] and after.stored == {1: ("elsewhere", 2)}
