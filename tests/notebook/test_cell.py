"""A `%%jmars` cell behaves as any cell of plain NumPy, and all of it is one graph."""

from __future__ import annotations

import asyncio
import os

import numpy as np
import pytest

from jmars.errors import UnsupportedError
from jmars.tensor import Tensor


def test_a_plain_cell_gives_what_numpy_gives(notebook):
    notebook("import numpy as np\na = np.arange(12.0).reshape(3, 4)")
    value = notebook("%%jmars\nb = a * 2 + 1\nb.sum()")
    assert float(value) == (np.arange(12.0) * 2 + 1).sum()
    assert type(notebook["b"]) is Tensor
    np.testing.assert_array_equal(notebook["b"].fetch(), np.arange(12.0).reshape(3, 4) * 2 + 1)


# names


def test_numpys_names_are_restored(notebook):
    notebook("import numpy as np, numpy\nfrom numpy import sin, linalg\nimport numpy.random as r")
    notebook("%%jmars\nx = np.ones(3); kinds = (type(sin(x)), type(numpy.cos(x)), type(r.default_rng(0).random(3)))")
    assert notebook["kinds"] == (Tensor,) * 3
    assert (notebook["np"], notebook["numpy"], notebook["sin"]) == (np, np, np.sin)
    assert (notebook["linalg"], notebook["r"]) == (np.linalg, np.random)


def test_imports_inside_the_cell_are_lazy_there_and_numpys_afterwards(notebook):
    notebook(
        "%%jmars\nimport numpy as np\nfrom numpy import sin as s\nx = s(np.ones(3))\n"
        "def f():\n    import numpy\n    return numpy"
    )
    assert type(notebook["x"]) is Tensor
    assert notebook["np"] is np
    assert notebook["s"] is np.sin
    assert notebook["f"]() is np


def test_dtypes_and_constants_are_numpys(notebook):
    notebook("import numpy as np")
    assert notebook("%%jmars\nnp.float32, np.pi, np.newaxis, np.nan is np.nan") == (np.float32, np.pi, None, True)


def test_lazy_arrays_are_instances_of_ndarray_in_the_cell(notebook):
    notebook("import numpy as np\nfrom numpy import ndarray\nfrom numpy.ma import MaskedArray\na = np.arange(3)")
    notebook("def kind(x):\n    return isinstance(x, ndarray), isinstance(x, np.ndarray), isinstance(x, MaskedArray)")
    cell = "%%jmars\nx = a + 1; s = x.sum(); kinds = [kind(one) for one in (a, x, np.ma.array(x), s)]"
    notebook(cell)
    assert notebook["kinds"] == [(True, True, False), (True, True, False), (True, True, True), (False, False, False)]
    assert notebook["ndarray"] is np.ndarray and notebook["MaskedArray"] is np.ma.MaskedArray
    assert notebook("kind(a), kind(x)") == ((True, True, False), (False, False, False))


def test_a_function_of_an_earlier_cell_is_lazy_in_the_cell(notebook):
    notebook("import numpy as np\ndef double(x):\n    return np.add(x, x)")
    notebook("%%jmars\nx = double(np.ones(3))")
    assert type(notebook["x"]) is Tensor
    assert type(notebook("double([1.0])")) is np.ndarray


def test_arrays_enter_by_reference_and_stay_arrays(notebook):
    notebook("import numpy as np\na = np.ones(3); same = a")
    notebook("%%jmars\nseen = type(a), a is same\nb = a + same")
    assert notebook["seen"] == (Tensor, True)
    assert type(notebook["a"]) is np.ndarray
    assert notebook["a"] is notebook["same"]


@pytest.mark.usefixtures("only_jobs")
def test_an_array_from_outside_belongs_to_the_line_that_mentions_it(notebook):
    notebook("import numpy as np\na = np.ones(3)")
    notebook("%%jmars\nb = 1\nc = a + b")
    (array,) = notebook["c"].data.op.inputs
    assert array.op.line[1:3] == (3, "c = a + b")


def test_what_the_cell_does_not_mention_stays_as_it_is(notebook):
    notebook("import numpy as np\na = np.ones(3)\nnames = globals()")
    assert notebook("%%jmars\ntype(names['' + chr(97)])") is np.ndarray


def test_an_array_that_the_cell_writes_to_has_the_new_values(notebook):
    notebook("import numpy as np\na = np.zeros(3); b = a")
    before = notebook["a"]
    notebook("%%jmars\na[1] = 5\nb += 1")
    assert notebook["a"] is before and notebook["b"] is before and before.tolist() == [1.0, 6.0, 1.0]


def test_tensors_pass_to_cells_of_either_kind(notebook):
    notebook("import numpy as np")
    notebook("%%jmars\nx = np.arange(4.0)")
    assert float(notebook("(x + 1).sum()")) == 10
    assert notebook("np.asarray(x)").tolist() == [0, 1, 2, 3]
    assert float(notebook("%%jmars\ny = x * 2\ny.sum()")) == 12


# what is computed


@pytest.mark.usefixtures("only_jobs")
def test_results_are_one_job_and_temporaries_are_none_of_them(notebook):
    notebook("import numpy as np")
    notebook("%%jmars\nt = np.ones(4); x = t + 1\nt = t * 2; y = t + x\ndel t\ny.sum()")
    assert len(notebook.jobs) == 1
    assert len(notebook.jobs[0]) == 3  # x, y, the sum
    assert notebook.held("x")
    assert "t" not in notebook


@pytest.mark.usefixtures("only_jobs")
def test_a_value_needed_at_once_is_a_stage(notebook):
    notebook("import numpy as np")
    notebook("%%jmars\nx = np.ones(4)\nif x.sum() > 3:\n    y = x + 1\nelse:\n    y = x - 1")
    assert [len(job) for job in notebook.jobs] == [1, 2]
    assert notebook["y"].fetch().tolist() == [2, 2, 2, 2]


def test_tensors_in_lists_are_computed_too(notebook):
    notebook("import numpy as np")
    notebook("%%jmars\nparts = [np.ones(2) * i for i in range(3)]")
    assert len(notebook.jobs) == 1
    assert [part.fetch().tolist() for part in notebook["parts"]] == [[0, 0], [1, 1], [2, 2]]
    assert len(notebook.jobs) == 1


@pytest.mark.usefixtures("only_jobs")
def test_lazy_computes_only_what_is_shown(notebook):
    notebook("import numpy as np")
    assert float(notebook("%%jmars --lazy\nx = np.ones(4)\nx.sum()")) == 4
    assert [len(job) for job in notebook.jobs] == [1]
    assert not notebook.held("x")


def test_a_cell_without_tensors_needs_no_job(notebook):
    assert notebook("%%jmars\n1 + 1") == 2
    assert notebook.jobs == []


# how it shows


def test_the_last_expression_is_shown_and_kept_as_underscore(notebook):
    notebook("import numpy as np")
    ran = notebook.run("%%jmars\nnp.arange(3) + 1")
    assert "1, 2, 3" in ran.text
    assert notebook("_").fetch().tolist() == [1, 2, 3]


def test_a_semicolon_shows_nothing(notebook):
    notebook("import numpy as np")
    ran = notebook.run("%%jmars\nx = np.ones(3)\nx.sum();")
    assert (ran.value, ran.text) == (None, "")
    assert [len(job) for job in notebook.jobs] == [1]  # x; the sum is not shown


def test_prints_and_magics_work(notebook):
    notebook("import numpy as np\na = np.ones(3)")
    ran = notebook.run("%%jmars\n%time x = a + 1\n!echo from a shell\nprint('sum', float(x.sum()))\nn = %who_ls Tensor")
    assert ran.error is None, ran.text
    assert "Wall time" in ran.text
    assert "from a shell" in ran.text
    assert "sum 6.0" in ran.text
    assert type(notebook["x"]) is Tensor
    assert {"a", "x"} <= set(notebook["n"])


def test_help_works(notebook):
    notebook("import numpy as np")
    assert notebook.run("%%jmars\nx = 1\nx?").error is None


def test_a_cell_may_await(notebook):
    notebook("import numpy as np\nimport asyncio")
    assert float(notebook("%%jmars\nawait asyncio.sleep(0)\nx = np.ones(2)\nawait asyncio.sleep(0, x.sum())")) == 2


def test_a_cell_may_await_inside_a_running_loop(notebook):
    notebook("import numpy as np\nimport asyncio")

    async def run():
        return notebook("%%jmars\nt = asyncio.create_task(asyncio.sleep(0, 3))\nawait t")

    assert asyncio.run(run()) == 3


# errors


def test_an_error_shows_the_users_line_and_none_of_ours(notebook):
    notebook("import numpy as np")
    ran = notebook.run("%%jmars -w 2\nx = np.ones(3)\n\ny = x + np.ones(4)\nz = y")
    assert isinstance(ran.error, ValueError)
    assert f"Cell In[{len(notebook.cells)}], line 4" in ran.text
    assert "y = x + np.ones(4)" in ran.text
    assert "run_cell_magic" not in ran.text
    assert "/jmars/" not in ran.text


def test_an_error_inside_a_function_shows_both_lines(notebook):
    notebook("import numpy as np\ndef f(x):\n    return x + np.ones(4)")
    ran = notebook.run("%%jmars\nf(np.ones(3))")
    assert "Cell In[2], line 2" in ran.text
    assert "Cell In[1], line 3" in ran.text


def test_a_syntax_error_has_the_users_line(notebook):
    ran = notebook.run("%%jmars\na = 1\nb = = 2")
    assert isinstance(ran.error, SyntaxError)
    assert "line 3" in ran.text


def test_what_is_unsupported_raises_by_name_and_line(notebook):
    notebook("import numpy as np\nfrom numpy import nested_iters")
    ran = notebook.run("%%jmars\nx = np.ones(3)\nnp.nested_iters(x, [[0]])")
    assert isinstance(ran.error, UnsupportedError)
    assert "np.nested_iters" in str(ran.error)
    assert "line 3" in ran.text
    ran = notebook.run("%%jmars\nnested_iters(1, 2)")
    assert "np.nested_iters" in str(ran.error)
    assert notebook.run("%%jmars\n1").error is None  # named in the namespace, never called


@pytest.mark.parametrize("end", ["1 / 0", "raise SystemExit", "raise KeyboardInterrupt"])
def test_after_an_error_names_and_tensors_are_as_before(notebook, end):
    notebook("import numpy as np\na = np.ones(2); b = 1; gone = 2")
    notebook("%%jmars\nt = np.zeros(2)")
    notebook.run(f"%%jmars\na = a + 1; b = 3; new = np.ones(2); del gone\nt[0] = 7\nimport os as system\n{end}")
    assert type(notebook["a"]) is np.ndarray
    assert (notebook["b"], notebook["gone"], notebook["np"]) == (1, 2, np)
    assert "new" not in notebook
    assert notebook["system"] is os  # an import that ran stays
    assert notebook["t"].fetch().tolist() == [0, 0]
    assert notebook("%%jmars\nfloat(a.sum())") == 2


def test_a_write_through_a_view_is_a_write_to_the_array(notebook):
    notebook("import numpy as np")
    notebook("%%jmars\nA = np.zeros((2, 3))\nrow = A[1]")
    notebook("%%jmars\nA[0][1] = 1\nrow += 2")
    assert notebook["A"].fetch().tolist() == [[0, 1, 0], [2, 2, 2]]
    notebook("%%jmars\nA[1, 0] = 5")
    assert notebook["row"].fetch().tolist() == [5, 2, 2]
    notebook.run("%%jmars\nrow[:] = 0\n1 / 0")
    assert notebook["A"].fetch().tolist() == [[0, 1, 0], [5, 2, 2]] and notebook["row"].fetch().tolist() == [5, 2, 2]


def test_a_slice_that_a_cell_showed_forbids_no_write(notebook):
    notebook("import numpy as np\nx = np.arange(5)")
    notebook("%%jmars\nx = x * 1\nx[:3]")
    notebook("%%jmars\nx += 1")
    assert notebook["x"].fetch().tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("made_in", ["%%jmars\n", ""])
def test_an_array_of_an_earlier_cell_that_is_only_reshaped_can_be_written(notebook, made_in):
    notebook(f"{made_in}import numpy as np\na = np.arange(6)")
    notebook("%%jmars\na = a.reshape(2, 3)\na[0, 0] = 9\na = a.T\na[2] = 7")
    assert isinstance(notebook["a"], np.ndarray) != bool(made_in)
    assert np.asarray(notebook["a"]).tolist() == [[9, 3], [1, 4], [7, 7]]
    notebook.run("%%jmars\na = a[1:]\na[0, 0] = 5\n1 / 0")
    assert np.asarray(notebook["a"]).tolist() == [[9, 3], [1, 4], [7, 7]]


@pytest.mark.parametrize(("other", "read"), [("b = a", "b[0]"), ("b = [a]", "b[0][0]"), ("b = a[0]", "b")])
def test_other_names_and_lists_see_a_write_through_a_transpose(notebook, other, read):
    notebook("import numpy as np")
    notebook(f"%%jmars\na = np.zeros((2, 3))\n{other}")
    notebook("%%jmars\na = a.T\na[0, 0] = 9")
    assert notebook(f"{read}.fetch().tolist()") == [9, 0, 0]


def test_a_cell_that_failed_keeps_nothing_of_what_names_meant(notebook):
    notebook("import numpy as np\nimport gc, weakref")
    notebook("%%jmars\na = np.zeros(3)")
    notebook("old = weakref.ref(a)")
    notebook.run("%%jmars\nb = a + 1\n1 / 0")
    notebook("a = 0\ngc.collect()")
    assert notebook["old"]() is None


def test_a_function_of_blocks_runs_numpys_own(notebook):
    notebook("import numpy as np\nX = np.array([[3, 1, 2], [6, 5, 4]])")
    notebook(
        "%%jmars\nfrom numpy import linalg\nY = X.map_blocks(lambda b: np.sort(b, axis=1))\n"
        "Z = X.map_blocks(lambda b: (linalg.norm(b), b)[1] if type(np.ones(1)).__name__ == 'ndarray' else 1 / 0)"
    )
    assert notebook["Y"].fetch().tolist() == [[1, 2, 3], [4, 5, 6]]
    assert notebook["Z"].fetch().tolist() == [[3, 1, 2], [6, 5, 4]]
    notebook("from numpy import sqrt, sort\nfrom numpy.linalg import norm, inv")
    notebook("%%jmars\nY = X.map_blocks(lambda b: sqrt(sort(b)) + 0 * norm(b) + 0 * inv([[1, 0], [0, 1]])[0, 0])")
    assert notebook["Y"].fetch().tolist() == np.sqrt([[1, 2, 3], [4, 5, 6]]).tolist()
    notebook("%%jmars\ndef f(b):\n    import numpy as np\n    return np.sort(b)\nY = X.map_blocks(f)")
    assert notebook["Y"].fetch().tolist() == [[1, 2, 3], [4, 5, 6]]


def test_advice_about_what_is_unsupported_works(notebook):
    notebook("import numpy as np\nx = np.array([3, 1, 3])")
    ran = notebook.run("%%jmars\ny = x * 2\nnp.nested_iters(y, [[0]])")
    assert "compute it in a cell without %%jmars, where numpy is NumPy, on the value, x.fetch()" in str(ran.error)
    notebook("%%jmars\ny = x * 2")
    assert notebook("np.require(y.fetch())").tolist() == [6, 2, 6]


# what only the values tell


def test_masks_and_different_elements_are_numpys_and_one_job(notebook):
    notebook("import numpy as np\na = np.arange(20) % 6")
    notebook("%%jmars\ny = a[a > 3]; values, counts = np.unique(y, return_counts=True); z = y[::-1] - y.mean()")
    array = np.arange(20) % 6
    y = array[array > 3]
    np.testing.assert_array_equal(notebook["y"].fetch(), y)
    np.testing.assert_array_equal(notebook["values"].fetch(), [4, 5])
    np.testing.assert_array_equal(notebook["counts"].fetch(), np.unique(y, return_counts=True)[1])
    np.testing.assert_array_equal(notebook["z"].fetch(), y[::-1] - y.mean())
    assert notebook["y"].shape == y.shape


def test_code_of_a_cell_that_asks_for_a_length_gets_it(notebook):
    notebook("import numpy as np\na = np.arange(10)")
    assert notebook("%%jmars\ny = a[a > 6]\n(len(y), y.shape, [int(v) for v in y], y / y.size)[:3]") == (
        3,
        (3,),
        [7, 8, 9],
    )


def test_a_loop_over_all_elements_is_one_job(notebook):
    notebook("import numpy as np\na = np.arange(6).reshape(2, 3)")
    notebook("%%jmars\nodd = [place for place, value in np.ndenumerate(a + 1) if value % 2]\nn = None")
    assert notebook["odd"] == [(0, 0), (0, 2), (1, 1)]
    assert len(notebook.jobs) <= 2


def test_control_flow_that_the_cluster_decides(notebook):
    notebook("import numpy as np\nimport jmars.tensor as mt\na = np.ones(4)")
    notebook("%%jmars\nb = mt.while_loop(lambda v: v.sum() < 50, lambda v: v * 2, a)\nc = mt.cond(b.max() > 10, b, -b)")
    np.testing.assert_array_equal(notebook["c"].fetch(), np.full(4, 16.0))
