"""Depth, readers and descendants, beside a count by hand."""

import numpy as np
import pytest
from hypothesis import given

from jmars.errors import GraphError
from jmars.graph import Dag
from jmars.plan import statistics
from tests.graph.examples import dags, tree


def paths_from(dag, v):
    """Ways that start at `v`, of any length: what `descendant_size` counts."""
    return 1 + sum(paths_from(dag, u) for u in set(dag.succs(v).tolist()))


@given(dags(max_n=12))
def test_descendants_count_once_for_each_path(dag):
    found = statistics(dag)
    assert found.descendant_size.tolist() == [paths_from(dag, v) for v in range(dag.n)]
    assert found.successor_size.tolist() == [len(set(dag.succs(v).tolist())) for v in range(dag.n)]


def test_a_chunk_that_is_read_twice_counts_once():
    found = statistics(Dag.from_edges(2, [0, 0], [1, 1]))
    assert found.successor_size.tolist() == [1, 0] and found.descendant_size.tolist() == [2.0, 1.0]


def test_so_many_paths_that_they_are_no_int_are_still_a_number():
    n = 3000
    ladder = Dag.from_edges(n, [*range(n - 1), *range(n - 2)], [*range(1, n), *range(2, n)])
    assert statistics(ladder).descendant_size[0] == np.inf
    assert statistics(tree(1024)).descendant_size[-1] == 1
    assert len(statistics(Dag.from_edges(0, [], [])).depth) == 0


def test_a_cycle_is_an_error():
    with pytest.raises(GraphError, match="cycle"):
        statistics(Dag.from_edges(2, [0, 1], [1, 0]))
