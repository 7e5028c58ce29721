"""Random programs with views and writes over several cells, plain and `%%jmars`, give what NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from jmars.tensor import Tensor
from tests.tensor.test_views import MAKES, WRITES

START = "a, b, c = np.arange(24).reshape(4, 6), np.arange(6), np.arange(8).reshape(2, 2, 2)"
STATEMENTS = st.tuples(
    st.integers(0, 50),
    st.sampled_from(sorted({*MAKES} - {"bits"}) + [f"write {name}" for name in WRITES]),  # "bits": refused by names
    st.integers(0, 5),
)
EXAMPLES = {2000: 5000}.get(settings.default.max_examples, settings.default.max_examples)  # 5000 in profile `long`
CELLS = st.lists(st.tuples(st.booleans(), st.lists(STATEMENTS, min_size=1, max_size=8)), min_size=1, max_size=5)


def text_of(statements, names):
    """The text of a cell; adds the names that it makes."""
    lines = []
    for number, what, n in statements:
        name = names[number % len(names)]
        if what.startswith("write "):
            lines.append(f"WRITES[{what[6:]!r}]({name}, {n})")
        else:
            names.append(f"v{len(names)}")
            lines.append(f"{names[-1]} = MAKES[{what!r}]({name}, {n})")
    return "\n".join(lines)


@pytest.mark.timeout(3600)
@settings(max_examples=EXAMPLES)
@given(CELLS)
def test_names_have_what_numpy_gives_after_each_cell(lasting_notebook, cells):
    notebook, names = lasting_notebook, ["a", "b", "c"]
    notebook.cells.clear()
    notebook.jobs.clear()
    notebook.shell.user_ns["_oh"].clear()  # of the examples before, of which IPython keeps 1000
    for name in [name for name in notebook.shell.user_ns if name[0] == "v" and name[1:].isdigit()]:
        del notebook.shell.user_ns[name]  # of the example before
    expected = {"np": np, "MAKES": MAKES, "WRITES": WRITES}
    notebook.shell.user_ns.update(expected)
    exec(START, expected)
    notebook(START)
    for is_lazy, statements in cells:
        text = text_of(statements, names)
        note(("%%jmars\n" if is_lazy else "") + text)
        try:
            exec(text, expected)
        except Exception as error:  # as of a slice of an array without axes
            found = notebook.run(("%%jmars\n" if is_lazy else "") + text).error
            assert type(found) is type(error), (found, error)
            return  # a cell of jmars takes its writes back
        notebook(("%%jmars\n" if is_lazy else "") + text)
        for name in names:
            mine, its = notebook[name], expected[name]
            np.testing.assert_array_equal(np.asarray(mine), its, err_msg=name)
            assert mine.dtype == its.dtype and mine.shape == its.shape
    for k, one in enumerate(names):
        for two in names[:k]:
            mine = np.shares_memory(notebook[one], notebook[two]) if _alike(notebook[one], notebook[two]) else False
            assert mine == np.shares_memory(expected[one], expected[two]), (one, two)


def _alike(one, two):
    return isinstance(one, Tensor) == isinstance(two, Tensor)
