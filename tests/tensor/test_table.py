"""Each lazy function of NumPy's namespaces gives what NumPy gives, for any dtype, cut and hostile value.

`pytest tests/tensor/test_table.py --hypothesis-profile=long` draws twenty times as many.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from jmars.tensor.ops.nditer import PASSED_THROUGH
from jmars.tensor.protocols import FUNCTIONS
from tests.tensor.engine import OneByOne
from tests.tensor.table import BY_PROPERTY, CLOSE, ROWS
from tests.tensor.table.comparing import agree, arguments, outcome
from tests.tensor.table.draws import Call, Draw

ANY_ORDER = {"unique_values"}  # NumPy promises none, we give them sorted
CLASSES = {"ndarray", "poly1d", "nditer", "broadcast"}
EXAMPLES = max(1, settings().max_examples // 5)


def numpys(name: str) -> Any:
    """NumPy's function of that name."""
    return reduce(getattr, name.split("."), np)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_it_is_numpy_s(name: str, engine: OneByOne) -> None:
    """One draw in five, the simplest among them, is also made of arrays whose lengths only a run tells."""

    @settings(max_examples=EXAMPLES)
    @given(st.data())
    def check(data: Any) -> None:
        for hidden in [True, False] if data.draw(st.integers(0, 4)) == 0 else [False]:
            compared(name, ROWS[name](Draw(data.draw, hidden)), engine)
            engine.chunks.clear()

    check()


def compared(name: str, call: Call, engine: OneByOne) -> None:
    """The function called with drawn arguments, ours and NumPy's."""
    note(f"np.{name} of {call}")
    ours, theirs = arguments(call)
    expected = outcome(numpys(name), *theirs)
    if name in ANY_ORDER:
        expected = np.sort(expected)
    agree(outcome(FUNCTIONS[name], *ours), expected, name in CLOSE, engine)


def test_each_lazy_function_has_a_row() -> None:
    """Whoever adds a function adds a row."""
    covered = {id(FUNCTIONS[name]) for name in [*ROWS, *BY_PROPERTY]}
    lazy = [name for name, function in FUNCTIONS.items() if _is_numpys(name) and id(function) not in covered]
    assert [name for name in lazy if name not in PASSED_THROUGH] == []


def _is_numpys(name: str) -> bool:
    if name.startswith(("method.", "random.", "ma.", "strings.", "char.", "polynomial.")) or name in CLASSES:
        return False  # compared elsewhere: docs/reference/numpy.md says where
    try:
        return callable(numpys(name))
    except AttributeError:
        return False
