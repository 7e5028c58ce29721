"""Reducers after a shuffle are placed as operands without inputs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.graph import Dag
from jmars.plan import initial_v1, make_plan, shares
from jmars.plan.choice import assign_shuffled, without_shuffles


def shuffled(mappers: int, reducers: int) -> tuple[Dag, np.ndarray]:
    """Sources, a mapper behind each, reducers that read all mappers, and a reader of each reducer."""
    edges = [(i, mappers + i) for i in range(mappers)]
    begin = 2 * mappers
    edges += [(mappers + i, begin + j) for i in range(mappers) for j in range(reducers)]
    edges += [(begin + j, begin + reducers + j) for j in range(reducers)]
    n = begin + 2 * reducers
    src, dst = np.array(edges).T
    flags = np.zeros(n, np.bool_)
    flags[begin : begin + reducers] = True
    return Dag.from_edges(n, src, dst), flags


@pytest.mark.parametrize("search", ["bfs", "dfs", "random", "bfs-v1"])
@given(mappers=st.integers(1, 9), reducers=st.integers(1, 9), workers=st.integers(1, 4))
def test_initial_operands_and_reducers_get_a_worker_and_no_others(search, mappers, reducers, workers):
    dag, flags = shuffled(mappers, reducers)
    none = np.zeros(dag.n, np.bool_)
    assigned = assign_shuffled(dag, flags, none, [1] * workers, search)
    assert np.array_equal(assigned >= 0, flags | (dag.in_degree == 0)) and assigned.max() < workers
    if search != "bfs-v1":
        for some in (dag.sources(), np.flatnonzero(flags)):
            counts = np.bincount(assigned[some], minlength=workers)
            assert sorted(counts) == sorted(shares(len(some), [1] * workers))


def test_fixed_operands_get_none():
    dag, flags = shuffled(4, 4)
    fixed = np.zeros(dag.n, np.bool_)
    fixed[[0, 8]] = True
    for search in ("bfs", "bfs-v1"):
        assigned = assign_shuffled(dag, flags, fixed, [1, 1], search)
        assert assigned[0] == assigned[8] == -1 and (assigned[[1, 2, 3, 9, 10, 11]] >= 0).all()


def test_the_first_mars_sees_an_operand_between_mappers_and_reducers():
    dag, flags = shuffled(2, 3)
    apart = without_shuffles(dag, flags)
    assert apart.sources().tolist() == [0, 1, 4, 5, 6] == initial_v1(apart).tolist()
    # no search passes the shuffle, so what lies behind has no neighbours: reducers go where most share is left
    plan = make_plan(dag, np.arange(dag.n), [1, 1], search="bfs-v1", reducers=flags)
    assert sorted(np.bincount(plan.assign[plan.assign >= 0]).tolist()) == [2, 3]
    without = make_plan(dag, np.arange(dag.n), [1, 1], search="bfs-v1")
    assert (without.assign >= 0).tolist() == (dag.in_degree == 0).tolist()
