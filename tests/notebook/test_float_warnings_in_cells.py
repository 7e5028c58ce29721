"""Floating point errors of a `%%jmars` cell are warnings at the lines of the cell, once a line and kind."""

from __future__ import annotations

import warnings

import pytest

from jmars.config import config
from tests.notebook.conftest import CellNotebook
from tests.notebook.shells import Notebook, new_shell

CELL = """%%jmars -w 1 --memory 400MiB
a = np.linspace(-1.0, 1.0, 40_001)
b = 1 / a
for shift in range(3):
    b = b + np.sqrt(a + shift)
with np.errstate(invalid="ignore"):
    c = np.log(a)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    d = np.exp(a * 1000)
e = np.abs(b)
f = np.nanmin(np.where(a > 2, a, np.nan))"""
PLAIN = CELL.partition("\n")[2]
EXPECTED = [(2, "divide by zero encountered in divide"), (4, "invalid value encountered in sqrt")]
EXPECTED += [(6, "divide by zero encountered in log"), (11, "All-NaN slice encountered")]


@pytest.mark.parametrize("local", [0.0, 10.0])
def test_a_cell_warns_at_its_lines(local: float) -> None:
    with new_shell() as shell, config.using(display="none", local_seconds=local):
        notebook = Notebook(shell)
        notebook("%load_ext jmars\nimport numpy as np, warnings")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            notebook(PLAIN)
        assert sorted({(one.lineno, str(one.message)) for one in seen}) == EXPECTED
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            notebook(CELL)
        told = [(one.lineno - 1, str(one.message)) for one in seen]
        assert told == EXPECTED if local == 0 else list(dict.fromkeys(told)) == EXPECTED
        assert {one.category for one in seen} == {RuntimeWarning}
        names = {one.filename for one in seen}
        assert len(names) == 1 and "jmars" not in names.pop()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ran = notebook.run(CELL + "\n1 / 0")  # the cell's own error, before its values are computed
        assert isinstance(ran.error, ZeroDivisionError)
        notebook("%jmars stop")


@pytest.mark.parametrize(
    "line",
    [
        "np.array([]).mean()",
        "np.array([]).var()",
        "np.mean(np.array([]))",
        "np.cov(np.array([]))",
        "np.array([1e300]).astype('f4')",
        "np.asarray([1 + 1j]).astype(float)",
        "np.add.reduce(np.full(3, 1e308))",
        "np.nanmean(np.full(3, np.nan))",
        "(np.zeros(3) / 0) + np.log(np.zeros(2))[0]",
    ],
)
def test_warnings_of_small_values_name_the_places_that_numpys_name(notebook: CellNotebook, line: str) -> None:
    notebook("import numpy as np")
    places = []
    for head in ("#\n", "%%jmars\n"):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            notebook(head + line)
        inside = ["ipython-input" in one.filename for one in seen]
        places.append(
            [(one.lineno, "cell" if own else one.filename, str(one.message)) for one, own in zip(seen, inside)]
        )
    assert places[0] == places[1] != []


@pytest.mark.parametrize("action", ["always", "default"])
def test_a_filter_of_the_cell_keeps_the_places_of_warnings(notebook: CellNotebook, action: str) -> None:
    notebook("import numpy as np, warnings\nzero = np.zeros(3)")
    cell = f"""
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("{action}")
    a = 1 / zero
    b = 1 / zero
    np.log(zero)
    zero[:1] = np.array([1 + 1j])
places = [(one.filename == seen[0].filename, "jmars" in one.filename, one.lineno, str(one.message)) for one in seen]"""
    found = []
    for head in ("#", "%%jmars"):
        notebook(head + cell)
        found.append(notebook.shell.user_ns["places"])
    assert found[0] == found[1] and len(found[0]) == 4
    assert not any("jmars" in str(one) for one in warnings.filters)


def test_a_deprecation_is_told_in_a_cell_as_in_a_plain_cell(notebook: CellNotebook) -> None:
    notebook("import numpy as np\nv = np.ones((4000, 2))")
    for head in ("#\n", "%%jmars\n"):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("ignore")
            warnings.filterwarnings("default", category=DeprecationWarning, module="__main__")
            notebook(head + "c = np.cross(v, v)\nc[0]")
        assert [(one.category, one.lineno) for one in seen] == [(DeprecationWarning, 2)]


def test_the_default_filter_shows_a_line_once_for_each_run_of_a_cell() -> None:
    cell = "%%jmars -w 1 --memory 400MiB\nfor k in range(3):\n    s = float((1 / (np.arange(50_000) - k)).sum())"
    with new_shell() as shell, config.using(display="none", local_seconds=0.0):
        notebook = Notebook(shell)
        notebook("%load_ext jmars\nimport numpy as np")
        for _ in range(2):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("default")
                notebook(cell)
            assert [(one.lineno, str(one.message)) for one in seen] == [(3, "divide by zero encountered in divide")]
        notebook("%jmars stop")


def test_a_large_result_of_small_values_warns() -> None:
    with new_shell() as shell, config.using(display="none"):
        notebook = Notebook(shell)
        notebook("%load_ext jmars\nimport numpy as np")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            notebook("%%jmars -w 1 --memory 400MiB\nx = np.zeros((800, 1))\ny = x / x.T\nz = np.cov(x)")
        assert [(one.lineno, str(one.message)) for one in seen if "invalid" in str(one.message)] == [
            (3, "invalid value encountered in divide"),
            (4, "invalid value encountered in multiply"),
        ]
        notebook("%jmars stop")


def test_a_filter_that_makes_an_error_of_it_ends_the_cell_at_its_line() -> None:
    with new_shell() as shell, config.using(display="none"):
        notebook = Notebook(shell)
        notebook("%load_ext jmars\nimport numpy as np")
        for local in (0.0, 10.0):
            with config.using(local_seconds=local), warnings.catch_warnings():
                warnings.simplefilter("error")
                ran = notebook.run("%%jmars -w 1 --memory 400MiB\nx = np.arange(4000.0)\ny = 1 / x\nz = (y + 1).sum()")
            assert type(ran.error) is RuntimeWarning and "divide by zero" in str(ran.error)
            assert "----> 3 y = 1 / x" in ran.text, ran.text
        notebook("%jmars stop")
