"""Regions are what their rule says, within their limits, without cycles; and values stay."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

import jmars.tensor as mt
from jmars.graph import Dag, levels
from jmars.optimize import regions
from jmars.optimize.fuse_groups import is_open
from jmars.optimize.regions import FusionLimits, fuse_chains, fuse_colors, fuse_regions
from tests.optimize.kinds import graph_of, graphs, values

UNLIMITED = FusionLimits(10**6, 10**6)


def label(graph, row):
    return graph.programs[graph.program[row]].name if graph.program[row] >= 0 else "stored"


def labels(graph):
    return [label(graph, row) for row in range(graph.n)]


def by_definition(graph, dag, kinds, results, stored):
    """The output of each row's region: it joins its readers if they are one region and blocks flow to all of them."""
    size = [8 if graph.program[k] < 0 else graph.programs[graph.program[k]].output.size for k in range(dag.n)]
    size = [3 if k in stored else size[k] for k in range(dag.n)]
    elements = [max((size[p] for p in dag.preds(k).tolist()), default=3) for k in range(dag.n)]
    end = list(range(dag.n))
    for k in reversed(range(dag.n)):
        readers = dag.succs(k).tolist()
        ends = {end[r] for r in readers}
        flows = kinds[k] in ("add", "make") and all(
            kinds[r] in ("add", "sum") and elements[r] == size[k] for r in readers
        )
        if len(ends) == 1 and flows and k not in results and k not in stored:
            end[k] = ends.pop()
    return end


@given(graphs())
def test_regions_are_what_their_rule_says(drawn):
    graph, dag, *rest = drawn
    inner, none = is_open(graph), np.zeros(graph.n, np.int64)
    root = regions.grown(graph, regions.flows(graph), inner, none, none, UNLIMITED)
    assert root.tolist() == by_definition(graph, dag, *rest)


@given(graphs())
def test_row_by_row_gives_the_same_regions(drawn):
    graph = drawn[0]
    joins, inner, none = regions.flows(graph), is_open(graph), np.zeros(graph.n, np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regions, "ROUNDS", 0)
        one_by_one = regions.grown(graph, joins, inner, none, none, UNLIMITED)
    assert np.array_equal(regions.grown(graph, joins, inner, none, none, UNLIMITED), one_by_one)


@given(graphs(), st.integers(1, 6), st.integers(1, 4), st.none() | st.integers(24, 300))
def test_values_stay_limits_hold_and_nothing_leaves_but_the_output(drawn, ops, inputs, room):
    before, dag, _, results, stored = drawn
    joined = fuse_regions(before, FusionLimits(ops, inputs, room=room))
    after, group = joined.graph, joined.group
    assert values(after) == values(before)
    users = np.repeat(np.arange(after.n), np.diff(after.input_ptr))
    assert np.all(after.input_idx < users)  # acyclic: inputs stand before their users
    tails = {int(np.flatnonzero(group == row)[-1]) for row in range(after.n)}
    for k in range(before.n):
        leaves = any(group[reader] != group[k] for reader in dag.succs(k).tolist())
        if leaves or k in results or k in stored:
            assert k in tails  # read outside, kept or given: never inside


@given(graphs(), st.integers(1, 6), st.integers(1, 4), st.none() | st.integers(24, 300))
def test_no_region_exceeds_its_limits(drawn, ops, inputs, room):
    graph = drawn[0]
    none, limits = np.zeros(graph.n, np.int64), FusionLimits(ops, inputs, room=room)
    root = regions.grown(graph, regions.flows(graph), is_open(graph), none + 1, none, limits)
    joined = regions.fuse_groups(graph, root)
    after, size = joined.graph, np.bincount(joined.group)
    for row in np.flatnonzero(size > 1).tolist():
        assert size[row] <= ops and len(after.inputs(row)) <= inputs
        assert room is None or after.nbytes[after.inputs(row)].sum() + after.nbytes[row] <= room
    assert values(after) == values(graph)


@given(graphs())
def test_a_region_needs_no_memory_beside_inputs_and_output(drawn):
    graph = drawn[0]
    root = regions.grown(graph, regions.flows(graph), is_open(graph), *(np.zeros(graph.n, np.int64),) * 2, UNLIMITED)
    assert regions.fuse_groups(graph, root).graph.work.tolist() == [0] * len(set(root.tolist()))


def test_a_diamond_under_a_sum_is_one_operand():
    # x = a + b; (x * x - exp(x)).sum(), a and b held: chains get the last two only
    dag = Dag.from_edges(7, [0, 1, 2, 2, 3, 4, 5], [2, 2, 3, 4, 5, 5, 6])
    graph = graph_of(dag, ["x", "x", *["add"] * 4, "sum"], stored=[0, 1])
    assert labels(fuse_chains(graph).graph) == ["stored", "stored", "add", "add", "add", "add+sum"]
    joined = fuse_regions(graph)
    assert labels(joined.graph) == ["stored", "stored", "add+add+add+add+sum"]
    assert joined.group.tolist() == [0, 1, 2, 2, 2, 2, 2] and values(joined.graph) == values(graph)


def test_what_is_read_twice_is_inside_entirely_or_leaves():
    dag = Dag.from_edges(4, [0, 0, 1], [1, 2, 3])
    assert labels(fuse_regions(graph_of(dag, ["make", "add", "add", "sum"])).graph) == ["make", "add", "add+sum"]


def test_generators_of_several_chunks_run_inside():
    dag = Dag.from_edges(4, [0, 1, 2], [2, 2, 3])
    joined = fuse_regions(graph_of(dag, ["make", "make", "add", "sum"]))
    assert labels(joined.graph) == ["make+make+add+sum"] and joined.graph.args == [(0, 1)]


def test_generators_of_few_chunks_run_at_the_same_time():
    dag = Dag.from_edges(4, [0, 1, 2], [2, 2, 3])
    graph = graph_of(dag, ["make", "make", "add", "sum"])
    assert labels(fuse_regions(graph, workers=2).graph) == ["make", "make", "add+sum"]
    line = graph_of(Dag.from_edges(3, [0, 1], [1, 2]), ["make", "add", "sum"])
    assert labels(fuse_regions(line, workers=2).graph) == ["make+add+sum"]  # nothing else could run meanwhile


def test_what_is_to_stay_alone_joins_nothing_in_any_mode():
    dag = Dag.from_edges(5, [0, 1, 2, 3], [1, 2, 3, 4])
    graph = graph_of(dag, ["make", "add", "turn", "add", "sum"])
    turn = next(k for k, program in enumerate(graph.programs) if program.name == "turn")
    (step,) = graph.programs[turn].steps
    graph.programs[turn] = replace(graph.programs[turn], steps=(structs.replace(step, alone=True),))
    for fuse in (fuse_chains, fuse_regions, fuse_colors):
        assert labels(fuse(graph).graph) == ["make+add", "turn", "add+sum"]


def test_functions_are_held_while_read_and_take_whole_chunks():
    # (turn(a, b) + turn(b)).sum(): generators that functions read are chunks
    dag = Dag.from_edges(6, [0, 1, 1, 2, 3, 4], [2, 2, 3, 4, 4, 5])
    joined = fuse_regions(graph_of(dag, ["make", "make", "turn", "turn", "add", "sum"]))
    assert labels(joined.graph) == ["make", "make", "turn+turn+add+sum"]
    assert joined.graph.work.tolist() == [0, 0, 2 * 24]
    assert values(joined.graph) == values(graph_of(dag, ["make", "make", "turn", "turn", "add", "sum"]))


def test_factors_of_a_product_are_computed_in_it_and_held(cluster):
    x, w = mt.random.default_rng(0).normal(size=(400, 5), chunk_size=(200, 5)), mt.ones(400, chunk_size=200)
    d = x - 1.5
    product = (w * d.T) @ d
    graph = product.plan().compiled.after
    products = [row for row in range(graph.n) if "matmul" in label(graph, row)]
    assert len(products) >= 2 and not any(
        "subtract" in label(graph, row) for row in range(graph.n) if row not in products
    )
    assert all(
        graph.work[row] >= 3 * 200 * 5 * 8 for row in products
    )  # the difference, its transpose, the weighted one
    theirs = x.fetch() - 1.5
    np.testing.assert_allclose(product.fetch(), theirs.T @ theirs, rtol=1e-12)


@given(graphs(), st.integers(0, 3))
def test_no_more_functions_are_held_than_the_limit_says(drawn, whole):
    graph = drawn[0]
    joins = regions.flows(graph, lambda program: program.name in ("add", "make", "turn"))
    turns = np.array([program.name == "turn" for program in graph.programs] + [False])[graph.program]
    held = np.where(turns, graph.nbytes, 0)
    root = regions.grown(graph, joins, is_open(graph), 0 * held, held, FusionLimits(10**6, 10**6, whole))
    joined = regions.fuse_groups(graph, root)
    assert np.all(joined.graph.work <= whole * 24) and values(joined.graph) == values(graph)
    inside = np.flatnonzero((root != np.arange(graph.n)) & turns)
    assert np.bincount(root[inside], minlength=1).max() <= whole


def test_a_function_heads_a_line():
    dag = Dag.from_edges(5, [0, 1, 2, 3], [2, 2, 3, 4])
    assert labels(fuse_regions(graph_of(dag, ["make", "make", "turn", "add", "sum"])).graph) == [
        *["make", "make", "turn+add+sum"]
    ]


@pytest.mark.parametrize(
    ("limits", "left"), [(FusionLimits(ops=8), 2), (FusionLimits(inputs=5), 2), (FusionLimits(room=24 * 10), 2)]
)
def test_a_sum_of_sixteen_held_chunks_is_cut_where_its_limits_are(limits, left):
    # 16 held chunks, added one after the other: every add brings one more input
    held = list(range(16))
    src, dst = [0, 1], [16, 16]
    for k in range(2, 16):
        src += [14 + k, k]
        dst += [15 + k, 15 + k]
    graph = graph_of(Dag.from_edges(31, src, dst), ["x"] * 16 + ["add"] * 15, stored=held)
    joined = fuse_regions(graph, limits)
    computed = joined.graph.n - 16
    assert computed >= left and values(joined.graph) == values(graph)
    for row in range(16, joined.graph.n):
        read = joined.graph.inputs(row)
        assert len(read) <= limits.inputs
        if limits.room is not None:
            assert 24 * (len(read) + 1) <= limits.room


def test_equal_regions_share_a_program():
    n = 1_000
    x, square, less = np.arange(0, 4 * n, 4), np.arange(1, 4 * n, 4), np.arange(2, 4 * n, 4)
    src = np.concatenate([x, x, square, less])
    dst = np.concatenate([square, less, less, less + 1])
    graph = graph_of(Dag.from_edges(4 * n, src, dst), ["make", "add", "add", "sum"] * n)
    after = fuse_regions(graph).graph
    assert after.n == n and labels(after)[0] == "make+add+add+sum" and len(after.programs) == 1
    assert levels(Dag.from_inputs(after.input_ptr, after.input_idx)).max() == 0
