"""A plan holds a worker for each initial operand and a rank for each operand, and cannot be changed."""

import numpy as np
import pytest

from jmars.errors import GraphError
from jmars.plan import Plan, make_plan
from tests.graph.examples import tree


def test_chunks_that_are_held_already_get_no_worker():
    stored = np.zeros(15, np.bool_)
    stored[:2] = True
    plan = make_plan(tree(8), np.arange(15), [1, 1], stored)
    assert np.flatnonzero(plan.assign >= 0).tolist() == [2, 3, 4, 5, 6, 7]
    assert np.bincount(plan.assign[2:8]).tolist() == [3, 3]


def test_a_plan_is_frozen():
    plan = make_plan(tree(8), np.arange(15), [1, 1])
    for array in (plan.assign, plan.rank):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_rank_for_another_graph_is_refused():
    with pytest.raises(GraphError, match=r"rank has shape \(3,\); give one entry for each of 15"):
        Plan(tree(8), np.zeros(15, np.int16), np.arange(3))
