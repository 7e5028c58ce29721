"""Elementwise tensors cut alike become one before they are cut; results, other cuts and other work stay apart."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.optimize import compile_graph
from jmars.optimize.passes import fuse_tensors
from jmars.optimize.regions import FusionLimits
from jmars.tensor.tensor_graph import TensorGraph
from tests.optimize.test_values import evaluate, expressions


def held(n, chunk_size=5):
    return mt.asarray(np.arange(float(n)), chunk_size=chunk_size)


def graph_of(*tensors):
    """The graph of tensors, outside arrays as if they were uploaded."""
    graph = TensorGraph.of([tensor.data for tensor in tensors])
    for number, _, _ in graph.arrays():
        graph.replace_by_stored(number, f"array-{number}")
    return graph


def fused(*tensors):
    """Labels of the fused graph's operands, those that are held left out."""
    graph, _ = fuse_tensors(graph_of(*tensors))
    return [operand.label for operand in graph.operands if operand.label != "stored"]


def test_a_long_expression_is_one_operand():
    x, y = held(20), held(20)
    (label,) = fused(mt.sqrt(x * x + y * y) * 2 - mt.exp(-x))
    assert label == "multiply+multiply+add+sqrt+multiply+negative+exp+subtract"


def test_what_is_no_elementwise_work_stays():
    x = held(20)
    assert fused((x * 2 + 1).sum() / 3 - 4) == ["multiply+add", "sum", "divide+subtract"]


def test_a_result_and_what_is_read_elsewhere_are_not_inside():
    x = held(20)
    y = x * 2
    z = y + 1
    assert fused(y, z) == ["multiply", "add"]  # y is a result
    assert fused(z, y.sum()) == ["multiply", "add", "sum"]  # y is read by a sum, too
    assert fused(z) == ["multiply+add"]


def test_other_cuts_do_not_join():
    x, row = mt.asarray(np.ones((4, 5)), chunk_size=(2, 5)), held(5)
    assert sorted(fused((x + 1) * (row + 1))) == ["add", "add+multiply"]  # the row has another shape


@pytest.mark.parametrize("limits", [FusionLimits(ops=2), FusionLimits(inputs=2), FusionLimits(room=5 * 8 * 3)])
def test_limits_hold(limits):
    arrays = [held(20) for _ in range(6)]
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array
    graph, _ = fuse_tensors(graph_of(total), limits)
    joined = [k for k, operand in enumerate(graph.operands) if "add" in operand.label]
    assert len(joined) > 1
    for k in joined:
        ops, read = graph.operands[k].label.count("add"), len(graph.inputs[k])
        assert ops <= limits.ops and (ops == 1 or read <= limits.inputs)
        assert ops == 1 or limits.room is None or (read + 1) * 40 <= limits.room


@given(expressions(), st.sampled_from([2, 3, 7]), st.sampled_from(["chain", "region", "color"]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_every_row_as_it_would_be_is_in_the_operand_that_computes_it(expression, chunk_size, mode, early):
    steps, results = expression
    x, y = np.arange(28.0).reshape(7, 4) - 5, np.linspace(-1, 1, 28).reshape(7, 4)
    tensors = evaluate(mt, steps, results, *(mt.array(a, chunk_size=chunk_size) for a in (x, y)))
    compiled = compile_graph(graph_of(*tensors), {"fuse": mode, "fuse_tileable": early})
    plain = compile_graph(graph_of(*tensors), {"fuse_enabled": False})
    before, after, group = compiled.before, compiled.after, compiled.group
    assert before.n == plain.before.n and [s.name for s in before.layers] == [s.name for s in plain.before.layers]
    assert [s.line for s in before.layers] == [s.line for s in plain.before.layers]

    def name(graph, row):
        return graph.programs[graph.program[row]].name if graph.program[row] >= 0 else "stored"

    members = [[] for _ in range(after.n)]
    for row, into in enumerate(group.tolist()):
        if into >= 0:
            members[into].append(row)
    for row in range(after.n):
        assert sorted(name(after, row).split("+")) == sorted(name(before, k) for k in members[row])
    for key, ids in before.results.items():
        assert group[ids].tolist() == after.results[key].tolist()
    users = np.repeat(np.arange(before.n), np.diff(before.input_ptr))
    kept = group[users] >= 0
    crossing = kept & (group[before.input_idx] != group[users])
    edges = set(zip(group[before.input_idx[crossing]].tolist(), group[users[crossing]].tolist()))
    assert edges == {(int(p), v) for v in range(after.n) for p in after.inputs(v)}
