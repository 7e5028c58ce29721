"""Seed 001: the first Mars's placement of initial operands, and the numbers that it is made from."""

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.graph import Dag, levels
from jmars.plan import assign_bfs_v1, initial_v1, make_plan, shares, statistics
from jmars.scheduler.prepare import prepare
from jmars.switches import checked
from jmars.tensor import Tensor
from jmars.tensor.ops.chunks import shuffle
from jmars.tensor.structure import canonical
from jmars.tensor.tensor_graph import TensorGraph
from tests.graph.examples import tree


def eight() -> Dag:
    """0, 1 and 2 read nothing; 3 = f(0, 1); 4 shuffles 2 and 3; 5 and 7 read the shuffle, 6 reads 5 and 1."""
    return Dag.from_edges(8, [0, 1, 2, 3, 4, 4, 5, 1], [3, 3, 4, 4, 5, 7, 6, 6])


@pytest.mark.parametrize("seed", range(5))
def test_s1_4_eight_operands_placed_by_hand(seed):
    dag, shuffles = eight(), [4]
    initial = initial_v1(dag, shuffles)
    assert initial.tolist() == [0, 1, 2, 5, 7]  # first extra rule: 5 and 7 read nothing but a shuffle
    assert statistics(dag).descendant_size[initial].tolist() == [6, 7, 5, 2, 1]
    quota = shares(5, [1, 1])
    assert quota == [3, 2]
    # worker 0 starts at 1, on which most hangs, meets 3, 6 and 0; with four operands met it stops: 0 and 1 are its own.
    # worker 1 has more left and starts at 2, which sees only the shuffle. 5 and 7 read something and are left over.
    # second extra rule: 6 has 1 for a neighbour, so worker 0; then 5 has 6. 7 has nobody: worker 1 has more left.
    assigned = assign_bfs_v1(dag, initial, quota, shuffles=shuffles, seed=seed)
    assert assigned.tolist() == [0, 0, 1, -1, -1, 0, -1, 1]


@pytest.mark.parametrize("assigner", ["bfs-v1", "bfs", "dfs", "random"])
def test_s1_4_reducers_after_a_shuffle_are_placed_as_if_without_inputs(assigner):
    x = mt.ones((8, 8), chunk_size=(1, 8))
    y = Tensor(shuffle((x + 1).data, ((8,), (2, 2, 2, 2))))
    graph = canonical(TensorGraph.of([(y * 2).data]))
    prepared = prepare(graph, {"assigner": assigner, "fuse_enabled": False}, ["a", "b"], lambda: None)
    after, assign = prepared.compiled.after, prepared.plan.assign
    reducers = np.array([program.gathers for program in after.programs])[after.program]
    initial = np.diff(after.input_ptr) == 0
    assert (reducers.sum(), initial.sum()) == (4, 8)
    assert np.array_equal(assign >= 0, reducers | initial), "others follow their inputs"
    assert np.bincount(assign[reducers | initial]).tolist() == [6, 6]
    if assigner != "bfs-v1":  # which lets reducers vote
        assert np.bincount(assign[reducers]).tolist() == [2, 2]


def test_s1_4_the_old_placement_is_a_setting_and_a_plan():
    assert checked({"assigner": "bfs-v1"}) == {"assigner": "bfs-v1"}
    dag = tree(16)
    plan = make_plan(dag, np.arange(dag.n), [1, 1, 1, 1], search="bfs-v1")
    assert np.bincount(plan.assign[dag.sources()]).tolist() == [4, 4, 4, 4]
    assert np.array_equal(plan.assign >= 0, dag.in_degree == 0)


def test_s1_5_depth_successors_and_descendants_of_trees_as_by_hand():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        parent = [int(rng.integers(v + 1, 41)) for v in range(40)]  # each operand is read by one later one
        dag = Dag.from_edges(41, range(40), parent)
        found = statistics(dag)

        to_end = [1] * 41
        for v in reversed(range(40)):
            to_end[v] += to_end[parent[v]]
        assert found.descendant_size.tolist() == to_end
        assert found.successor_size.tolist() == [1] * 40 + [0]
        assert found.depth.tolist() == levels(dag).tolist()
        back = statistics(dag.reversed)  # and a tree that grows: all that hangs below, each once
        size = [1] * 41
        for v in range(40):
            size[parent[v]] += size[v]
        assert back.descendant_size.tolist() == size
