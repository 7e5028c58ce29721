"""Orders are topological where they must be, and depth first holds few chunks."""

import numpy as np
import pytest
from hypothesis import given

from jmars.errors import GraphError
from jmars.graph import Dag
from jmars.plan import PlanGraph, rank_b_level, rank_by, rank_depth_first, rank_level
from jmars.plan.order import b_level, liu_key, sequential_peak, t_level
from tests.graph.examples import is_topological
from tests.plan.examples import cascade, graphs, tree, unit
from tests.seeds.worked import held_after_each_unit


@pytest.mark.parametrize("name", ["dfs", "blevel", "level", "wave"])
@given(graphs())
def test_a_rank_is_topological(name, graph):
    assert is_topological(graph.dag, np.argsort(rank_by(name, graph, 0.25)))


@given(graphs())
def test_mars_is_an_order_of_all_operands(graph):
    assert sorted(rank_by("mars", graph).tolist()) == list(range(graph.n))


def test_an_unknown_order_is_refused():
    with pytest.raises(GraphError, match="choose one of dfs, blevel, level, wave, mars"):
        rank_by("best", cascade())


def test_eight_leaves_two_workers_depth_first_holds_four_level_eight():
    graph = unit(tree(8))
    assert held_after_each_unit(graph.dag, rank_level(graph), 2) == [2, 4, 6, 8, 6, 4, 2, 1]
    assert held_after_each_unit(graph.dag, rank_depth_first(graph), 2) == [2, 2, 4, 4, 2, 4, 3, 2, 1]
    assert held_after_each_unit(graph.dag, rank_by("mars", graph), 2) == [2, 2, 4, 4, 2, 4, 3, 2, 1]


def test_paths_through_the_example():
    graph = cascade()
    assert b_level(graph) == [14.0, 10.0, 6.0, 4.0, 5.0]
    assert t_level(graph) == [0.0, 4.0, 4.0, 10.0, 0.0]
    assert b_level(graph, 0.1) == pytest.approx([16.0, 11.0, 7.0, 4.0, 5.5])
    assert rank_b_level(graph).tolist() == [0, 1, 2, 4, 3]


def test_the_input_that_needs_most_room_beside_what_it_leaves_goes_first():
    # 0 and 1 (10 bytes each) make 2 (1 byte); 3 (5 bytes) makes 4 (5 bytes); 5 reads 2 and 4
    graph = PlanGraph.build(Dag.from_edges(6, [0, 1, 3, 2, 4], [2, 2, 4, 5, 5]), 1.0, [10, 10, 1, 5, 5, 1])
    assert liu_key(graph) == [10, 10, 21, 5, 10, 21]
    assert np.argsort(rank_depth_first(graph)).tolist() == [0, 1, 2, 3, 4, 5]
    assert sequential_peak(graph, rank_depth_first(graph)) == 21
    other = np.array([2, 3, 4, 0, 1, 5])
    assert sequential_peak(graph, other) == 26


@given(graphs())
def test_a_tree_needs_what_its_key_says(graph):
    """Where each chunk is read once, depth first is as lean as Liu's rule says."""
    starts, ends = graph.dag.edges()
    first = np.unique(starts, return_index=True)[1]
    forest = PlanGraph.build(Dag.from_edges(graph.n, starts[first], ends[first]), 1.0, graph.nbytes)
    if len(forest.dag.sinks()) == 1:
        assert sequential_peak(forest, rank_depth_first(forest)) <= liu_key(forest)[forest.dag.sinks()[0]]


def test_a_long_chain_needs_no_recursion():
    n = 30_000
    chain = unit(Dag.from_edges(n, np.arange(n - 1), np.arange(1, n)))
    assert rank_depth_first(chain).tolist() == rank_b_level(chain).tolist() == list(range(n))
    assert sequential_peak(chain, rank_depth_first(chain)) == 2
