"""`out=` of functions that take it: a tensor is rebound to the result, an array of the user's is written at once."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.protocols import FUNCTIONS
from tests.tensor.engine import OneByOne
from tests.tensor.table import CLOSE, ROWS
from tests.tensor.table.comparing import agree, arguments, outcome
from tests.tensor.table.draws import Draw
from tests.tensor.test_table import numpys


def _takes_out(name: str) -> bool:
    theirs = numpys(name)
    if isinstance(theirs, np.ufunc):
        return theirs.nout == 1 and theirs.signature is None
    try:
        return "out" in inspect.signature(theirs).parameters
    except (TypeError, ValueError):  # einsum and concatenate are of C
        return name in ("concatenate", "dot", "einsum")


@pytest.mark.parametrize("name", [name for name in sorted(ROWS) if _takes_out(name)])
def test_it_is_written(name: str, engine: OneByOne) -> None:
    @settings(max_examples=max(1, settings().max_examples // 33))
    @given(st.data())
    def check(data: Any) -> None:
        drawn = ROWS[name](Draw(data.draw))
        expected = outcome(numpys(name), *arguments(drawn)[1])
        assume(isinstance(expected, np.ndarray | np.generic))
        target = np.zeros(np.shape(expected), np.asarray(expected).dtype)
        note(f"np.{name} of {drawn}")
        args, kwargs = arguments(drawn)[1]
        expected = outcome(numpys(name), args, kwargs | {"out": target.copy()})
        assume(not isinstance(expected, Exception))
        for out in (target.copy(), mt.asarray(target.copy(), chunk_size=2)):
            args, kwargs = arguments(drawn)[0]
            result = outcome(FUNCTIONS[name], args, kwargs | {"out": out})
            assert result is out, result
            agree(mt.asarray(out), expected, name in CLOSE, engine)

    check()
