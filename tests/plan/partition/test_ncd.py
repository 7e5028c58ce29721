"""Cascade's distances and values on its own small cases, and its scheduler's rule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.errors import GraphError
from jmars.graph import Dag
from jmars.plan import assign_initial, shares
from jmars.plan.initial import assign_ncd, components, distances, values
from tests.graph.examples import dags, tree

# v0 -> v1 -> v2, v3 -> v1; and v4 -> v5 -> v2, v4 -> v6 beside it, as in cascade's tests
SEVEN = Dag.from_edges(7, [0, 1, 3, 4, 5, 4], [1, 2, 1, 5, 2, 6])


def by_hand(dag):
    """Distances straight from their definition."""
    steps = np.full((dag.n, dag.n), np.inf)
    for v in range(dag.n):
        steps[v, v], line = 0, [v]
        while line:
            u = line.pop(0)
            for r in dag.succs(u).tolist():
                if steps[v, r] == np.inf:
                    steps[v, r] = steps[v, u] + 1
                    line.append(r)
    return np.maximum(steps[:, None, :], steps[None, :, :]).min(axis=2)


def test_values_and_distances_are_those_that_cascade_tests():
    assert values(SEVEN).tolist() == [1, 2, 3, 1, 2, 2, 3]
    between = distances(SEVEN)
    assert (between[0, 3], between[0, 4], between[4, 6], between[5, 6]) == (1, 2, 1, 3)
    assert components(Dag.from_edges(7, [0, 1, 3, 4, 4], [1, 2, 1, 5, 6])).tolist() == [0, 0, 0, 0, 1, 1, 1]


@given(dags(max_n=14))
def test_the_distance_is_to_the_nearest_common_descendant(dag):
    between, exact = distances(dag), by_hand(dag)
    known = exact < np.inf
    assert np.array_equal(between[known], exact[known])
    assert np.array_equal(between == between.T, np.ones_like(known)) or not known.all()
    assert np.all(between[~known] >= 1)


@given(dags(), st.lists(st.integers(0, 3), min_size=1, max_size=4).filter(any))
def test_each_operand_has_a_worker_with_a_slot(dag, slots):
    found = assign_ncd(dag, slots)
    assert np.all(np.array(slots)[found] > 0)
    first = assign_initial(dag, dag.sources(), slots, "ncd")
    assert np.array_equal(first[dag.sources()], found[dag.sources()])
    assert np.array_equal(first >= 0, dag.in_degree == 0)


def test_siblings_share_a_worker():
    found = assign_ncd(tree(8), [1, 1])
    pairs = found[:8].reshape(4, 2)
    assert sum(a == b for a, b in pairs.tolist()) >= 3
    assert (
        sum(a != b for a, b in assign_initial(tree(8), range(8), [1, 1], "random", 1)[:8].reshape(4, 2).tolist()) >= 1
    )


def test_workers_serve_components_of_their_own():
    six = Dag.from_edges(6, [0, 1, 2, 3], [4, 4, 5, 5])
    assert assign_ncd(six, [1, 1]).tolist() == [0, 0, 1, 1, 0, 1]
    assert shares(4, [1, 1]) == [2, 2]


def test_a_graph_too_large_for_all_pairs_is_refused():
    with pytest.raises(GraphError, match="another assigner"):
        distances(Dag.from_edges(4001, [], []))
    with pytest.raises(GraphError, match="no worker has a slot"):
        assign_ncd(tree(2), [0])
