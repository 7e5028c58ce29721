"""Mars's first placement: its two extra rules, its shares, and no operand without a worker."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jmars.graph import Dag
from jmars.plan import assign_bfs_v1, initial_v1, make_plan, shares
from tests.graph.examples import dags, tree


@given(dags(), st.lists(st.integers(0, 3), min_size=1, max_size=4).filter(any), st.data())
def test_each_initial_operand_has_a_worker_and_nobody_else(dag, slots, data):
    shuffles = data.draw(st.lists(st.integers(0, dag.n - 1), max_size=4))
    initial = initial_v1(dag, shuffles)
    quota = shares(len(initial), slots)
    assigned = assign_bfs_v1(dag, initial, quota, shuffles=shuffles, seed=data.draw(st.integers(0, 9)))
    assert set(np.flatnonzero(assigned >= 0).tolist()) == set(initial.tolist())
    assert assigned.max(initial=-1) < len(slots)
    if not shuffles:  # then the search places them all, and nobody gets more than a share
        assert np.bincount(assigned[initial], minlength=len(slots)).tolist() == quota


def test_what_reads_only_shuffles_is_initial():
    dag = Dag.from_edges(5, [0, 1, 1, 2], [1, 2, 3, 4])
    assert initial_v1(dag).tolist() == [0]
    assert initial_v1(dag, [1]).tolist() == [0, 2, 3]


def test_most_descendants_go_first():
    # a short and a long line: the long one is started first, by worker 0
    dag = Dag.from_edges(6, [0, 1, 2, 3], [4, 2, 3, 5])
    assert assign_bfs_v1(dag, [0, 1], [1, 1]).tolist() == [1, 0, -1, -1, -1, -1]


def test_leftovers_go_where_most_of_their_neighbours_are():
    # 5 reads a shuffle, and three operands read it beside the sources 0, 1 and 2
    dag = Dag.from_edges(9, [3, 4, 0, 1, 2, 5, 5, 5], [4, 5, 6, 7, 8, 6, 7, 8])
    found = assign_bfs_v1(dag, [0, 1, 2, 5], [2, 2], shuffles=[4], seed=0)
    votes = found[[0, 1, 2]].tolist()
    assert found[5] == max(set(votes), key=votes.count)


def test_a_plan_takes_it_by_name():
    dag = tree(8)
    plan = make_plan(dag, np.arange(dag.n), [1, 1], search="bfs-v1")
    assert sorted(np.bincount(plan.assign[:8]).tolist()) == [4, 4]
    assert all(len(set(plan.assign[pair].tolist())) == 1 for pair in np.arange(8).reshape(4, 2))
