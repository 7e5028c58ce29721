"""Every initial operand gets one worker, workers get their shares, and neighbours stay together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.errors import GraphError
from jmars.graph import Dag
from jmars.plan import assign_initial, shares
from jmars.plan.initial import SEARCHES
from tests.graph.examples import dags, tree


@pytest.mark.parametrize("search", [search for search in SEARCHES if search != "ncd"])
@given(dags(), st.lists(st.integers(0, 4), min_size=1, max_size=5).filter(any))
def test_each_source_has_one_worker_and_each_worker_its_share(search, dag, workers):
    sources = dag.sources()
    assigned = assign_initial(dag, sources, workers, search)
    assert set(np.flatnonzero(assigned >= 0).tolist()) == set(sources.tolist())
    counts = np.bincount(assigned[sources], minlength=len(workers)).tolist()
    assert counts == shares(len(sources), workers)


@given(st.integers(0, 1000), st.lists(st.integers(0, 8), min_size=1, max_size=6).filter(any))
def test_shares_are_in_proportion(count, workers):
    quota = shares(count, workers)
    assert sum(quota) == count
    for slots, given_ in zip(workers, quota, strict=True):
        exact = count * slots / sum(workers)
        assert exact - 1 < given_ <= exact + 1


@pytest.mark.parametrize("search", ["bfs", "dfs"])
def test_the_tree_is_cut_in_halves(search):
    assert assign_initial(tree(8), range(8), [1, 1], search)[:8].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("search", ["bfs", "dfs"])
def test_groups_that_share_a_reader_share_a_worker(search):
    # six groups of two sources and a sum, three equal workers: both sources together, two groups a worker
    names = np.random.default_rng(3).permutation(12)
    dag = Dag.from_edges(18, names, 12 + np.arange(12) // 2)
    assigned = assign_initial(dag, range(12), [24, 24, 24], search)
    groups = assigned[names].reshape(6, 2)
    assert np.array_equal(groups[:, 0], groups[:, 1])
    assert np.bincount(groups[:, 0]).tolist() == [2, 2, 2]


def test_a_walk_counts_all_operands_that_it_meets():
    # a long tail behind source 0 fills worker 0's average, so the far source 1 goes elsewhere; 2 is as near as can be
    dag = Dag.from_edges(13, [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1], [3, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 12])
    assert assign_initial(dag, [0, 1, 2], [2, 1])[:3].tolist() == [0, 1, 0]


def test_unconnected_operands_are_cut_into_runs():
    assert assign_initial(Dag.from_edges(6, [], []), range(6), [1, 1, 1]).tolist() == [0, 0, 1, 1, 2, 2]


def test_only_what_is_asked_for_is_placed():
    dag = Dag.from_edges(4, [0, 1, 2], [3, 3, 3])
    assert assign_initial(dag, [2, 0], [1]).tolist() == [0, -1, 0, -1]
    assert assign_initial(dag, [], []).tolist() == [-1] * 4


@given(dags(), st.integers(1, 4))
def test_nothing_is_left_to_chance(dag, n_workers):
    for search in SEARCHES:
        once, again = (assign_initial(dag, dag.sources(), [1] * n_workers, search, seed=7) for _ in range(2))
        assert np.array_equal(once, again)


def test_what_cannot_be_placed_is_an_error():
    dag = Dag.from_edges(1, [], [])
    with pytest.raises(GraphError, match="no worker has a slot"):
        assign_initial(dag, [0], [0, 0])
    with pytest.raises(GraphError, match="choose one of bfs, dfs, random"):
        assign_initial(dag, [0], [1], search="best")
