"""Single statements, drawn from NumPy's signatures, give what NumPy gives, on arrays of any kind, layout and cut.

The short run draws some hundred statements; `--examples N --hypothesis-seed S` draws N for each function. What jmars
refuses by name is no failure; a wrong value, dtype, kind of error or side effect is, and so is an unclear error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.fuzz import statements
from tests.fuzz.comparing import Tally, Tried
from tests.fuzz.values import Drawing, hypothesis_integers
from tests.tensor.engine import OneByOne

EXAMPLES = settings().max_examples // 2
OPEN = Path(__file__).with_name("open.txt")  # functions with a known difference, each with its shortest statement
SORTS = {"write": statements.write, "method": statements.method, "expression": statements.expression}
tally = Tally()


def checked(d: Drawing, name: str, statement: Callable[[Drawing, Sequence[str]], str], engine: OneByOne) -> None:
    """One drawn statement on drawn arrays."""
    tried = Tried.drawn(d, statement, name in statements.OF_FINITE)
    note(tried.text)
    assert (found := tried.difference(tally)) == "", found
    engine.chunks.clear()


def open_differences() -> set[str]:
    """Names of functions and sorts of statements that are not compared yet."""
    return {line.partition(":")[0] for line in OPEN.read_text().splitlines()}


@pytest.mark.parametrize("name", sorted({*statements.functions()} - open_differences()))
def test_function(name: str, engine: OneByOne) -> None:
    @settings(max_examples=EXAMPLES)
    @given(st.data())
    def check(data: Any) -> None:
        checked(Drawing(hypothesis_integers(data.draw)), name, lambda d, names: statements.call(d, name, names), engine)

    check()


@pytest.mark.parametrize("sort", sorted(SORTS.keys() - open_differences()))
def test_statement(sort: str, engine: OneByOne) -> None:
    @settings(max_examples=20 * EXAMPLES)
    @given(st.data())
    def check(data: Any) -> None:
        checked(Drawing(hypothesis_integers(data.draw)), sort, SORTS[sort], engine)

    check()


def test_open_differences_are_of_functions_there_are() -> None:
    assert open_differences() <= {*statements.functions(), *SORTS}
