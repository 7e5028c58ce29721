"""Ranks follow the rule that they are named after."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.errors import GraphError
from jmars.graph import levels
from jmars.optimize.passes import ORDERS, depth_first, mars, ranks
from tests.graph.examples import dags, is_topological, tree


@given(dags(), st.data())
def test_deeper_then_demanded_by_deeper_then_smaller_then_older(dag, data):
    nbytes = np.array(data.draw(st.lists(st.integers(0, 3), min_size=dag.n, max_size=dag.n)), np.int64)
    depth = levels(dag).tolist()
    demand = [max((depth[s] for s in dag.succs(v).tolist()), default=0) for v in range(dag.n)]
    rank = mars(dag, nbytes).tolist()
    assert sorted(range(dag.n), key=rank.__getitem__) == sorted(
        range(dag.n), key=lambda v: (-depth[v], -demand[v], nbytes[v], v)
    )


@given(dags(), st.data())
def test_depth_first_is_a_topological_order(dag, data):
    nbytes = np.array(data.draw(st.lists(st.integers(0, 3), min_size=dag.n, max_size=dag.n)), np.int64)
    assert is_topological(dag, np.argsort(depth_first(dag, nbytes)))


def test_depth_first_finishes_a_pair_before_the_next():
    rank = depth_first(tree(8), np.ones(15, np.int64))
    assert np.argsort(rank).tolist() == [0, 1, 8, 2, 3, 9, 12, 4, 5, 10, 6, 7, 11, 13, 14]


def test_orders_have_names():
    dag, nbytes = tree(8), np.ones(15, np.int64)
    assert all(sorted(ranks(dag, nbytes, order).tolist()) == list(range(15)) for order in ORDERS)
    with pytest.raises(GraphError, match="choose one of mars, dfs"):
        ranks(dag, nbytes, "level")
