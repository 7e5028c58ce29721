"""Every operand knows the user's line, also when NumPy stands between."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import jmars.tensor as jt
from jmars.tensor.operand import source_line


def test_the_line_is_the_first_outside():
    x = jt.ones(3)
    frame = inspect.currentframe()
    assert frame is not None
    y, here = np.sqrt(x).mean(), frame.f_lineno  # this line
    line = y.data.op.line
    assert line is not None
    assert (line.filename, line.text) == (__file__, "y, here = np.sqrt(x).mean(), frame.f_lineno  # this line")
    assert line.lineno == here


def test_operators_note_it_too():
    x = jt.ones(3)
    x += 1  # in place
    assert x.data.op.line is not None and x.data.op.line.text == "x += 1  # in place"


def test_operands_of_a_line_share_it():
    first, second = (jt.ones(3).data.op.line for _ in range(2))
    assert first is not None and first is second


@pytest.mark.parametrize("module", ["interactiveshell", "formatters"])
def test_the_end_of_a_cell_is_no_line_of_ipython(module):
    shell = {"__name__": f"IPython.core.{module}", "source_line": source_line}
    assert eval("source_line()", shell) is None
