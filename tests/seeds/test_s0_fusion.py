"""Seed 000, "Graph fusion"; seed 001, "Graph Compose"; seed 003, "图压缩": which operands become one."""

import pytest

from jmars.config import Config
from jmars.optimize import compile_graph
from jmars.tensor.graph import TensorGraph
from tests.optimize.examples import labels, last_chunk, tensor


def rand():
    return tensor("rand", equal=False)


def a_plus_b():
    return tensor("add", rand(), rand())


def fused(*results, **config):
    return labels(compile_graph(TensorGraph.of(results), config).after)


def test_s0_5_the_documented_example():
    # c = (a + b).sum(): ADD and SUM compose, RAND does not form a line with them
    assert fused(tensor("sum", a_plus_b())) == ["rand", "rand", "add+sum"]


def test_s0_5_one_line_includes_its_source():
    # (rand + 1).sum(): what kept RAND out above is the shape, not its kind
    assert fused(tensor("sum", tensor("add", rand()))) == ["rand+add+sum"]


def test_s0_5_a_value_read_twice_ends_a_line():
    x = a_plus_b()
    assert fused(tensor("sum", x), tensor("max", x)) == ["rand", "rand", "add", "sum", "max"]
    y = tensor("add", rand())
    assert fused(tensor("sum", y), tensor("max", y)) == ["rand+add", "sum", "max"]


def test_s0_5_a_diamond_fuses_its_straight_arms_only():
    x = a_plus_b()
    left, right = tensor("sqrt", tensor("abs", x)), tensor("exp", x)
    assert fused(tensor("sum", tensor("sub", left, right))) == ["rand", "rand", "add", "abs+sqrt", "exp", "sub+sum"]


def test_s0_6_a_result_is_never_inside_a_line():
    x = tensor("add", rand())
    compiled = compile_graph(TensorGraph.of([x, tensor("sum", x)]), {})
    assert labels(compiled.after) == ["rand+add", "sum"]
    assert compiled.after.results[x.key].tolist() == [0]


@pytest.mark.parametrize(
    ("make", "before", "after"),
    [
        (lambda: tensor("sum", a_plus_b()), 4, 3),
        (lambda: tensor("sum", tensor("add", rand())), 3, 1),
        (a_plus_b, 3, 3),
        (lambda: tensor("exp", tensor("sum", a_plus_b())), 5, 3),
        (lambda: tensor("add", tensor("abs", rand()), tensor("abs", rand())), 5, 3),
    ],
)
def test_s0_4_nodes_before_and_after_are_counted_by_hand(make, before, after):
    compiled = compile_graph(TensorGraph.of([make()]), {})
    assert (compiled.before.n, compiled.after.n) == (before, after)


def test_s1_2_composing_can_be_switched_off():
    assert fused(tensor("sum", a_plus_b()), fuse_enabled=False) == ["rand", "rand", "add", "sum"]


def test_s0_15_each_switch_of_the_configuration_changes_the_graph_as_it_says():
    x = tensor("x")
    unequal = tensor("pair", tensor("add", x), tensor("add", x))  # twice the same
    part = last_chunk(tensor("x", chunks=2))  # one of two chunks

    def operands(result, **switches):
        config = Config()
        config.load({"task": {"default_config": switches}})
        return fused(result, **config.task)

    assert operands(unequal) == ["x+add+pair"]
    assert operands(unequal, optimize_tileable_graph=False) == ["x", "add", "add", "pair"]
    assert operands(unequal, fuse_enabled=False) == ["x", "add", "pair"]
    assert operands(part) == ["x"] and operands(part, optimize_chunk_graph=False) == ["x", "x"]
