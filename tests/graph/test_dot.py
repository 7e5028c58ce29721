"""DOT text names every vertex and edge, whatever characters the labels hold."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.errors import GraphError
from jmars.graph import Dag, to_dot
from jmars.graph.dot import quoted


def test_the_documented_example_is_drawn():
    dag = Dag.from_edges(4, [0, 1, 2], [2, 2, 3])
    text = to_dot(dag, ["rand", "rand", "add", "sum"], colors=["gold", "", "", ""], name="cell 1")
    assert text.startswith('digraph "cell 1" {\n') and text.endswith("\n}")
    assert '0 [label="rand", style=filled, fillcolor="gold"];' in text
    assert re.findall(r"(\d) -> (\d);", text) == [("0", "2"), ("1", "2"), ("2", "3")]


@given(st.text())
def test_a_label_is_one_string_on_one_line_and_ends_where_it_should(label):
    text = quoted(label)
    assert re.fullmatch(r'"(?:[^"\\\n\r\0]|\\.)*"', text)


def test_quotes_backslashes_and_lines_come_through():
    assert quoted('a"b\\c\nd') == '"a\\"b\\\\c\\nd"'


def test_a_label_is_missing():
    with pytest.raises(GraphError, match="1 labels for 2 vertices"):
        to_dot(Dag.from_edges(2, [], []), ["only one"])
