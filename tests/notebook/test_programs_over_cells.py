"""Random programs with views and writes over several cells, plain and `%%jmars`, give what NumPy gives."""

from __future__ import annotations

import copy
import re

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from jmars.errors import UnsupportedError
from jmars.tensor import Tensor
from tests.tensor.test_views import BETWEEN, MAKES, WRITES, between, same_error, write

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
REFUSALS = (
    (UnsupportedError, "shares its memory, but not by slices, transposes or reshapes"),  # by a field, or `.imag`
    (UnsupportedError, "elements share memory with one another"),
)
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
CELLS = st.lists(st.tuples(st.booleans(), st.lists(STATEMENTS, min_size=3, max_size=9)), min_size=5, max_size=5)


def line_of(statement, read, lists, made):
    """The text of a statement, which may make the name `made`; `read` are names to choose from, `lists` lists."""
    number, what, n = statement
    both = read[number % len(read)], read[(number + n) % len(read)]
    name, second = (f"{one}[{n % len(lists[one])}]" if one in lists else one for one in both)
    kind, _, which = what.partition(" ")
    if kind == "write":
        return f"write({which!r}, {name}, {n})"
    if kind == "between":
        return f"between({which!r}, {name}, {second}, {n})"
    if kind == "line":
        return LINES[which].format(name=name, n=n)
    return f"{made} = MAKES[{what!r}]({name}, {n})"


def run_by_numpy(statements, space, names, ends, is_lazy):
    """Runs the statements of a cell in `space`; returns their lines and the error that ended them, or None.

    A statement that NumPy refuses ends the cell if `ends`; else it is left out, for the program to go on. A `%%jmars`
    cell does not follow NumPy's views in a list of an earlier cell, so it takes no arrays from there; nor does any
    statement take one from an empty list.
    """
    lines, before = [], {name for name in names if is_lazy and isinstance(space[name], list)}
    for statement in statements:
        lists = {name: space[name] for name in names if isinstance(space[name], list)}
        read = [name for name in names if name not in before and lists.get(name) != []]
        line = line_of(statement, read, lists, f"v{len(names)}")
        try:
            if not ends:
                exec(line, space | copy.deepcopy({name: space[name] for name in names}))
        except Exception:
            continue
        lines.append(line)
        try:
            exec(line, space)
        except Exception as error:  # as of a slice of an array without axes
            return lines, error
        names += [f"v{len(names)}"] * line.startswith(f"v{len(names)} = ")
    return lines, None


def is_refused(error):
    """Whether an error is how a cell refuses, by names, to write to memory that it cannot follow: decision 0044."""
    return any(isinstance(error, kind) and re.search(words, str(error)) for kind, words in REFUSALS)


def arrays_of(space, names):
    """Arrays by name, those in lists too."""
    found = {name: space[name] for name in names}
    split = {name: value if isinstance(value, list) else [value] for name, value in found.items()}
    return {f"{name} {k}": array for name, arrays in split.items() for k, array in enumerate(arrays)}


@pytest.mark.timeout(3600)
@given(st.sampled_from(STARTS), CELLS, st.booleans())
def test_names_have_what_numpy_gives_after_each_cell(lasting_notebook, start, cells, ends):
    notebook, names = lasting_notebook, ["a", "b", "c"]
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
        lines, error = run_by_numpy(statements, expected, names, ends, is_lazy)
        text = ("%%jmars\n" if is_lazy else "") + "\n".join(lines)
        note(text)
        if not lines:
            continue
        ran = notebook.run(text)
        if error is None and is_refused(ran.error):  # and takes its writes back: all is as before the cell
            ran = notebook.run(text.removeprefix("%%jmars\n"))
        if error is not None:
            assert same_error(ran.error and type(ran.error), type(error)), (ran.error, error)
            return  # a cell of jmars takes its writes back
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
