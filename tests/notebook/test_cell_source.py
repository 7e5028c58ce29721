"""A cell's text: line numbers are the user's, NumPy's imports are redirected, the last value is caught."""

from __future__ import annotations

import inspect

import pytest

from jmars.notebook.cell_source import LAST_VALUE, CellSource
from jmars.tensor.operand import SourceLine
from tests.notebook.shells import new_shell


@pytest.fixture
def shell():
    with new_shell() as started:
        yield started


def read(shell, body, line="", raw=None):
    """The source of a cell that was typed as `raw`."""
    shell.history_manager.input_hist_raw.append(raw if raw is not None else f"%%jmars {line}\n{body}")
    return CellSource.read(shell, line, body)


def value(source, names=None):
    names = names if names is not None else {}
    exec(source.code, names)
    return names.get(LAST_VALUE)


def test_the_last_expression_is_caught(shell):
    assert value(read(shell, "x = 2\nx + 1\n")) == 3
    assert value(read(shell, "x = 2\n")) is None
    assert not read(shell, "x = 2\n").shows


def test_a_semicolon_at_the_end_shows_nothing(shell):
    assert not read(shell, "1 + 1;").shows
    assert not read(shell, "1 + 1;  # quiet").shows
    assert read(shell, "';'").shows


def test_interactivity_is_the_shells(shell):
    shell.ast_node_interactivity = "last_expr_or_assign"
    assert value(read(shell, "x = 2")) == 2
    shell.ast_node_interactivity = "none"
    assert not read(shell, "1 + 1").shows


def test_lines_count_from_the_magic(shell):
    source = read(shell, "a = 1\nb = a / 0\n", "-w 2")
    with pytest.raises(ZeroDivisionError) as error:
        value(source)
    assert error.traceback[-1].lineno == 2  # pytest counts from 0: the third line of the cell
    number = len(shell.history_manager.input_hist_raw) - 1
    assert shell.compile.format_code_name(source.filename) == ("Cell", f"In[{number}]")


def test_lines_count_from_the_top_under_another_magic(shell):
    body = "1 / 0"
    with pytest.raises(ZeroDivisionError) as error:
        value(read(shell, body, raw=f"%%time\n%%jmars\n{body}"))
    assert error.traceback[-1].lineno == 2


def test_a_syntax_error_has_the_users_line(shell):
    with pytest.raises(SyntaxError) as error:
        read(shell, "a = 1\nb = = 2\n")
    assert error.value.lineno == 3


def test_words_are_all_identifiers_also_in_magics_and_strings(shell):
    source = read(shell, "%time a\nprint(f'{b}')\n!ls {größe}\nc + b")
    assert {"a": 2, "b": 3, "größe": 4, "c": 5}.items() <= source.words.items()
    assert source.line_of("c") == SourceLine(source.filename, 5, "c + b")
    assert source.line_of("jmars") is None


def test_ipythons_magics_are_transformed(shell):
    source = read(shell, "%time x = 1\n!true\nint?\n")
    assert source.code.co_names.count("get_ipython") == 1


def test_a_cell_may_await(shell):
    source = read(shell, "import asyncio\nawait asyncio.sleep(0)\n1")
    assert source.code.co_flags & inspect.CO_COROUTINE


@pytest.mark.parametrize(
    ("written", "bound"),
    [
        ("import numpy", "numpy"),
        ("import numpy as np", "np"),
        ("import numpy.linalg", "numpy"),
        ("import numpy.linalg as la", "la"),
        ("from numpy import sin", "sin"),
        ("from numpy import sin as s, cos", "s"),
        ("from numpy.linalg import norm", "norm"),
        ("import os, numpy as np", "np"),
        ("def f():\n    import numpy as np\n    return np\nnp = f()", "np"),
    ],
)
def test_numpy_is_imported_from_where_names_are_decided(shell, written, bound):
    names: dict[str, object] = {}
    code = read(shell, written).code
    asked = []

    def import_(name, globals=None, locals=None, fromlist=(), level=0):
        asked.append((name, fromlist))
        return __import__(name, globals, locals, fromlist, level) if name == "os" else _Anything()

    exec(code, {"__builtins__": {"__import__": import_}}, names)
    assert bound in names
    assert "jmars.notebook.numpy_names" in {name for name, _ in asked}
    assert "numpy" not in {name for name, _ in asked}


class _Anything:
    def __getattr__(self, name):
        return name


def test_other_imports_are_left_alone(shell):
    names: dict[str, object] = {}
    value(read(shell, "import os.path, json as j\nfrom math import sin"), names)
    assert {"os", "j", "sin"} <= names.keys()
