"""Random programs with views and writes over several cells, plain and `%%jmars`, give what NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from jmars.errors import ArrayChangedError
from jmars.tensor import Tensor
from tests.tensor.test_views import BETWEEN, MAKES, WRITES, between, public_class, same_error, write

RECORDS = "np.array([(k, 2 * k) for k in range(6)], [('x', 'i8'), ('y', 'i8')])"
STARTS = (
    "a, b, c = np.arange(24).reshape(4, 6), np.arange(6), np.arange(8).reshape(2, 2, 2)",
    f"a, b, c = np.arange(24).reshape(4, 6), {RECORDS}, np.arange(6).reshape(2, 3) + 1j",
)
LINES = {  # as users write them
    "augmented": "{name} += {n}",
    "part": "{name}[1:] -= {n}",
    "sum": "{name}[:1] = {name}[-1:] + {n}",
    "out": "np.add({name}, {n}, out={name})",
    "loop": "for one in [{name}[:1], {name}[1:]]: one *= 2",
    "real": "{name}.real = {n}",
    "field": "{name}['x'] -= {n}",
}
STATEMENTS = st.tuples(
    st.integers(0, 50),
    st.sampled_from(
        sorted({*MAKES} - {"bits", "broadcast"})  # refused by names: decision 0044
        + [f"write {name}" for name in WRITES]
        + [f"between {name}" for name in BETWEEN]
        + [f"line {name}" for name in LINES]
    ),
    st.integers(0, 5),
)
EXAMPLES = {2000: 5000}.get(settings.default.max_examples, settings.default.max_examples)  # 5000 in profile `long`
CELLS = st.lists(st.tuples(st.booleans(), st.lists(STATEMENTS, min_size=1, max_size=8)), min_size=1, max_size=5)


def text_of(statements, names, lists):
    """The text of a cell; adds the names that it makes, those of lists to `lists`."""
    lines = []
    for number, what, n in statements:
        name, second = ((one, f"{one}[{n % 2}]")[one in lists] for one in _both(names, number, n))
        kind, _, which = what.partition(" ")
        if kind == "write":
            lines.append(f"write({which!r}, {name}, {n})")
        elif kind == "between":
            lines.append(f"between({which!r}, {name}, {second}, {n})")
        elif kind == "line":
            lines.append(LINES[which].format(name=name, n=n))
        else:
            names.append(f"v{len(names)}")
            lists.update(names[-1:] * (what in ("list", "rows")))
            lines.append(f"{names[-1]} = MAKES[{what!r}]({name}, {n})")
    return "\n".join(lines)


def _both(names, number, n):
    return names[number % len(names)], names[(number + n) % len(names)]


def arrays_of(space, names):
    """Arrays by name, those in lists too."""
    found = {name: space[name] for name in names}
    split = {name: value if isinstance(value, list) else [value] for name, value in found.items()}
    return {f"{name} {k}": array for name, arrays in split.items() for k, array in enumerate(arrays)}


@pytest.mark.timeout(3600)
@settings(max_examples=EXAMPLES)
@given(st.sampled_from(STARTS), CELLS)
def test_names_have_what_numpy_gives_after_each_cell(lasting_notebook, start, cells):
    notebook, names, lists = lasting_notebook, ["a", "b", "c"], set()
    notebook.cells.clear()
    notebook.jobs.clear()
    notebook.shell.user_ns["_oh"].clear()  # of the examples before, of which IPython keeps 1000
    for name in [name for name in notebook.shell.user_ns if name[0] == "v" and name[1:].isdigit()]:
        del notebook.shell.user_ns[name]  # of the example before
    expected = {"np": np, "MAKES": MAKES, "write": write, "between": between}
    notebook.shell.user_ns.update(expected)
    exec(start, expected)
    notebook(start)
    for is_lazy, statements in cells:
        text = text_of(statements, names, lists)
        note(("%%jmars\n" if is_lazy else "") + text)
        try:
            exec(text, expected)
        except Exception as error:  # as of a slice of an array without axes
            found = notebook.run(("%%jmars\n" if is_lazy else "") + text).error
            assert same_error(found and public_class(found), public_class(error)), (found, error)
            return  # a cell of jmars takes its writes back
        ran = notebook.run(("%%jmars\n" if is_lazy else "") + text)
        if lists and isinstance(ran.error, ArrayChangedError):
            return  # a list of an earlier cell has NumPy's views: writes to both are refused by their names
        assert ran.error is None, ran.text
        ours, theirs = arrays_of(notebook.shell.user_ns, names), arrays_of(expected, names)
        assert ours.keys() == theirs.keys()
        for name, its in theirs.items():
            mine = ours[name]
            np.testing.assert_array_equal(np.asarray(mine), its, err_msg=name)
            assert mine.dtype == its.dtype and mine.shape == its.shape
    for k, one in enumerate(theirs):
        for two in list(theirs)[:k]:
            mine = np.shares_memory(ours[one], ours[two]) if _alike(ours[one], ours[two]) else False
            assert mine == np.shares_memory(theirs[one], theirs[two]), (one, two)


def _alike(one, two):
    return isinstance(one, Tensor) == isinstance(two, Tensor)
