"""Formulas mean what they say in C, and compute nothing that they do not need."""

import pytest

from jmars.annex.flow.builder import parse
from jmars.errors import GraphError
from jmars.flow import GraphBuilder
from tests.annex.flow.graphs import Calls


def value(text, **given):
    builder = GraphBuilder()
    builder.input(*given)
    builder.expression(text, "result")
    return builder.finish().build().run("result", given=given).result()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3 - 4", 3),
        ("(1 + 2) * -3", -9),
        ("8 / 2 / 2", 2.0),
        ("7 % 4 == 3", True),
        ("1 < 2 == true", True),
        ("!a", False),
        ("a > 1 ? 'big' : \"small\"", "big"),
        ("false ? 1 : true ? 2 : 3", 2),
        ("a && !b || false", True),
        ("b || b && a", False),
        ("1.5e1", 15.0),
        ("a", 5),
    ],
)
def test_values(text, expected):
    found = value(text, a=5, b=0)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize("text", ["", "1 +", "a b", "(a", "a ? b", "a $ b", "a = b", "* 2", "a ? : b"])
def test_what_cannot_be_read_is_refused_with_its_place(text):
    with pytest.raises(GraphError, match="cannot be read from its character"):
        parse(text)


def test_nested_branches_and_short_circuits_compute_what_is_taken():
    calls = Calls()
    builder = GraphBuilder()
    for name, result in {"p": 0, "q": 1, "x": 10, "y": 20, "z": 30}.items():
        builder.function(calls(name, lambda result=result: result), [], name)
    builder.expression("p && q ? x + 1 : q || p ? y + 1 : z + 1", "r")
    assert builder.finish().build().run("r").result() == 21
    assert sorted(calls) == ["p", "q", "y"]


def test_equal_parts_are_computed_once():
    builder = GraphBuilder()
    builder.input("a", "b")
    builder.expression("a > b ? a - b : b - a", "distance")
    builder.expression("(a > b ? a - b : b - a) * 2", "double")
    builder.expression("a > b ? a - b : b - a", "again")
    structure = builder.finish().structure
    assert sum(name.startswith("select") for name in structure.vertices) == 1
    graph = builder.build()
    assert graph.run("distance", "double", "again", given={"a": 3, "b": 5}).result() == (2, 4, 2)
