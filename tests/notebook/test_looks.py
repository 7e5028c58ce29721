"""The values that a `print` or an f-string shows are computed by one job."""

from __future__ import annotations

import ast
import pickle

import pytest

from jmars.notebook.cell_source import LOOKED, looked, with_looks

START = "import numpy as np\nbig = np.random.default_rng(0).random(900_000)"


def texts_of(notebook, text):
    """What a cell prints lazily, the number of jobs, and what NumPy prints."""
    notebook(START)
    plain = notebook.run(text).text
    notebook.jobs.clear()
    return notebook.run("%%jmars\n" + text).text, len(notebook.jobs), plain


@pytest.mark.parametrize(
    "text",
    [
        "print(big[:3], big.max())",
        "print(*[big.min(), big.max()], 'end', sep='; ')",
        "print(f'{big.min():.3f} to {big.max()!r:>20} of {len(big):,}')",
        "def show(a):\n    return f'{a.min():{8}.3f}|{a.max()}'\nprint(show(big))",
        "t = f'{big.argmin()}', f'{big.min()}{big.max()}'\nprint(t[1])",
    ],
)
def test_looks_of_a_statement_are_one_job(notebook, text):
    shown, jobs, plain = texts_of(notebook, text)
    assert shown == plain and jobs == 1 + text.startswith("t = ")


def test_texts_are_pythons(notebook):
    text = (
        "a, w, name = 1.5, 8, 'x'\nprint(f'{a:>{w}.{2}f}{name!r}{{}}{name=}{a!s:>5}', f'{a}', f'{name}{f\"{a}{w}\"}')\n"
        "print()\nprint(a, w, end='!\\n', flush=True)\nclass C:\n    n = 3\n    t = f'{n}{n + 1}'\n"
        "print(C.t, [f'{i}{j}' for i, j in [(1, 2)]])"
    )
    shown, jobs, plain = texts_of(notebook, text)
    assert shown == plain and jobs == 0


def test_a_text_of_numpys_is_a_text(notebook):
    text = (
        "for name, n in zip(*np.unique(np.array(['index.html', 'b']), return_counts=True)):\n"
        "    print(f'{name:>8} {n:5d}', f'{name}{name}')"
    )
    shown, _, plain = texts_of(notebook, text)
    assert shown == plain


def test_fields_show_values_before_later_fields_change_them(notebook):
    text = (
        "names = ['a', 'b']\nprint(f'{names} without {names.pop()}')\nv = np.arange(3)\n"
        "print(f'{v} {v.fill(7)} {v}')\nw = big[:3].copy()\nprint(f'{w} {w.fill(2)} {w}')"
    )
    shown, _, plain = texts_of(notebook, text)
    assert shown == plain


def test_functions_for_workers_and_of_decorators_stay_as_they_are():
    code = "@njit\ndef f(a, b):\n    print(a, b)\n    return f'{a}{b}'"
    assert ast.unparse(with_looks(ast.parse(code))) == ast.unparse(ast.parse(code))
    there = pickle.loads(pickle.dumps(looked))
    assert there(1, 2) == (1, 2) and there.text((there.field("a", 114, ""), "-", there.field(2, -1, "03"))) == "'a'-002"
    assert LOOKED.startswith("__jmars_")
