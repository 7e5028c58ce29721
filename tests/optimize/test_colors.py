"""Mars's colours on Mars's own examples, never in a cycle, and what is made of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.graph import Dag, levels
from jmars.optimize.regions import FusionLimits, colors, fuse_colors
from tests.graph.examples import dags, tree, wavefront
from tests.optimize.kinds import graph_of, graphs, values


def dag_of(*pairs):
    return Dag.from_edges(max(map(max, pairs)) + 1, [a for a, _ in pairs], [b for _, b in pairs])


def classes(color):
    return sorted(np.flatnonzero(color == c).tolist() for c in set(color.tolist()))


SIMPLE = dag_of((0, 2), (1, 2), (2, 3), (4, 6), (5, 6), (6, 7))


def test_two_trees_in_two_places_are_two_colours():
    assert classes(colors(SIMPLE, bands=[0, 0, 1, 1])) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_sources_one_by_one_leave_lines_only():
    assert len(classes(colors(SIMPLE, bands=[0, 0, 1, 1], same=1))) == 6


def test_the_pictured_graph_of_issue_2435_has_seven_subtasks():
    # 13 chunks; 8, 9, 10 and 11 come from the second place, and the two halves meet in 5 and 12
    pairs = [(0, 2), (1, 2), (8, 10), (9, 10), (2, 3), (3, 4), (2, 5), (10, 5), (5, 6), (4, 7), (6, 7), (10, 11)]
    pairs += [(6, 12), (11, 12)]
    number = [0, 1, 4, 5, 6, 7, 9, 11, 2, 3, 8, 10, 12]  # in topological order, sources first as Mars has them
    dag = Dag.from_edges(13, [number[a] for a, _ in pairs], [number[b] for _, b in pairs])
    found = colors(dag, bands=[0, 0, 1, 1])
    old = [[number.index(v) for v in one] for one in classes(found)]
    assert len(old) == 7
    assert sorted(map(sorted, old)) == [[0, 1, 2], [3, 4], [5, 6], [7], [8, 9, 10], [11], [12]]


def test_readers_of_what_many_read_have_colours_of_their_own():
    pair = dag_of((0, 1), (0, 2))
    assert len(classes(colors(pair))) == 1
    assert len(classes(colors(pair, broadcaster=1))) == 3


@pytest.mark.parametrize(("workers", "most"), [(1, 2), (4, 2), (5, 1), (100, 1)])
def test_sources_share_a_colour_only_if_every_worker_has_one(workers, most):
    dag = tree(8)
    first = colors(dag, workers=workers)[dag.sources()]
    assert np.bincount(first).max() == most


@given(dags(), st.integers(1, 4), st.integers(1, 8), st.data())
@settings(max_examples=300)
def test_the_graph_of_colours_has_no_cycle(dag, same, broadcaster, data):
    bands = data.draw(st.lists(st.integers(0, 2), min_size=len(dag.sources()), max_size=len(dag.sources())))
    _, color = np.unique(colors(dag, bands, same, broadcaster), return_inverse=True)
    src, dst = dag.edges()
    between = color[src] != color[dst]
    levels(Dag.from_edges(int(color.max()) + 1, color[src[between]], color[dst[between]]))  # raises if there is one


@given(graphs(), st.none() | st.integers(24, 300))
def test_values_stay_and_nothing_leaves_but_the_output(drawn, room):
    before, dag, _, results, stored = drawn
    color = colors(dag)
    joined = fuse_colors(before, FusionLimits(room=room))
    after, group = joined.graph, joined.group
    assert values(after) == values(before)
    for row in range(after.n):
        members = np.flatnonzero(group == row)
        assert len(set(color[members].tolist())) == 1
        for k in members[:-1].tolist():
            assert k not in results and k not in stored
            assert all(group[reader] == row for reader in dag.succs(k).tolist())
        if room is not None and len(members) > 1:
            assert after.nbytes[after.inputs(row)].sum() + after.nbytes[row] + after.work[row] <= room


def test_a_pair_of_functions_becomes_one_operand():
    graph = graph_of(dag_of((0, 2), (1, 2), (2, 3)), ["turn", "turn", "turn", "sum"])
    joined = fuse_colors(graph)
    assert joined.graph.n == 1 and values(joined.graph) == values(graph)


def test_operands_of_one_source_are_one_colour_within_the_limits():
    dag = wavefront(6)  # Mars runs all of it on one worker, too
    assert len(classes(colors(dag))) == 1
    joined = fuse_colors(graph_of(dag, ["turn"] * 36), FusionLimits(ops=4))
    assert np.bincount(joined.group).max() <= 4
