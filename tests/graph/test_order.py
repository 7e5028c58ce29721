"""Levels, topological order and ancestors agree with their definitions, wide and narrow."""

import numpy as np
import pytest
from hypothesis import given

from jmars.errors import GraphError
from jmars.graph import Dag, ancestors, levels, topological
from tests.graph.examples import edge_lists, is_topological


def by_definition(n, pairs):
    level = [0] * n
    for v in range(n):  # edges lead from lower to higher numbers here
        level[v] = max((level[a] + 1 for a, b in pairs if b == v), default=0)
    return level


@given(edge_lists())
def test_a_level_is_the_longest_way_from_a_source(drawn):
    n, pairs = drawn
    dag = Dag.from_edges(n, [a for a, _ in pairs], [b for _, b in pairs])
    assert levels(dag).tolist() == by_definition(n, pairs)
    assert is_topological(dag, topological(dag))


@given(edge_lists())
def test_ancestors_are_what_leads_to_a_target(drawn):
    n, pairs = drawn
    dag = Dag.from_edges(n, [a for a, _ in pairs], [b for _, b in pairs])
    wanted = {n - 1}
    for v in range(n - 1, -1, -1):
        if any(a == v and b in wanted for a, b in pairs):
            wanted.add(v)
    assert set(np.flatnonzero(ancestors(dag, [n - 1])).tolist()) == wanted
    assert not ancestors(dag, []).any()


@pytest.mark.parametrize("renumber", [False, True])
def test_long_chains_and_wide_fans_alike(renumber):
    # 300 sources -> one chain of 3,000 -> 300 sinks: NumPy sweeps, then lists, and levels past the narrow part
    n = 300 + 3_000 + 300
    src = np.concatenate([np.arange(300), np.arange(300, 3_299), np.full(300, 3_299)])
    dst = np.concatenate([np.full(300, 300), np.arange(301, 3_300), np.arange(3_300, n)])
    name = np.random.default_rng(1).permutation(n) if renumber else np.arange(n)
    dag = Dag.from_edges(n, name[src], name[dst])
    expected = np.empty(n, np.int64)
    expected[name] = np.concatenate([np.zeros(300), np.arange(1, 3_001), np.full(300, 3_001)])
    assert np.array_equal(levels(dag), expected)
    found = ancestors(dag, [name[n - 1]])
    assert found.sum() == 300 + 3_000 + 1
    assert not found[name[3_300 : n - 1]].any()


def test_a_cycle_is_an_error_that_counts_it():
    with pytest.raises(GraphError, match="3 of 4 vertices wait for each other"):
        levels(Dag.from_edges(4, [1, 2, 3, 0], [2, 3, 1, 1]))


def test_an_order_that_is_none_is_told_apart():
    dag = Dag.from_edges(3, [0, 1], [1, 2])
    assert is_topological(dag, [0, 1, 2])
    assert not is_topological(dag, [1, 0, 2])
    assert not is_topological(dag, [0, 1])
    assert not is_topological(dag, [0, 0, 2])
