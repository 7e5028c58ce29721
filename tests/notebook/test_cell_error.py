"""What an error looks like under a `%%jmars` cell: the user's lines and one message, whatever it went through."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import jmars


def frames(text: str) -> list[str]:
    """The places that a traceback shows."""
    starts = ("Cell ", "File ", "During handling", "The above exception")
    return [line.split(":")[0].split(",")[0] for line in text.splitlines() if line.startswith(starts)]


@pytest.fixture
def ran(notebook):
    notebook("import numpy as np\nimport jmars.tensor as mt")
    return lambda text: notebook.run("%%jmars\n" + text)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("np.random.normal(0, -1, 5)", "ValueError: scale < 0"),
        ("np.random.default_rng(-1)", "ValueError: expected non-negative integer"),
        ("np.random.default_rng(3).integers(5, 2, 3)", "ValueError: low >= high"),
        ("np.ma.array([1, 2, 3], mask=[1, 0])", "MaskError: Mask and data not compatible"),
        ("np.ma.mask_rows(np.ma.array([1]))", "NotImplementedError: mask_rowcols works for 2D arrays only."),
        ("np.nonexistent(3)", "AttributeError: module 'numpy' has no attribute 'nonexistent'"),
        ("np.linalg.nonexistent", "AttributeError: module 'numpy.linalg' has no attribute 'nonexistent'"),
        ("np.float_", "AttributeError: `np.float_` was removed in the NumPy 2.0 release. Use `np.float64` instead."),
        ("from numpy import nonexistent", "ModuleNotFoundError: cannot import name 'nonexistent' from 'numpy'"),
        ("import numpy.fft.gone as q", "ModuleNotFoundError: cannot import name 'gone' from 'numpy.fft'"),
        ("np.nested_iters(np.ones(3), [[0]])", "UnsupportedError: np.nested_iters is not in jmars"),
        ("del np.ones(3)[0]", "ValueError: cannot delete array elements"),
        ("np.ones(3).nonexistent", "AttributeError: 'Tensor' object has no attribute 'nonexistent'"),
        ("mt.nonexistent", "AttributeError: module 'jmars.tensor' has no attribute 'nonexistent'"),
    ],
)
def test_an_error_about_a_line_shows_that_line_and_what_is_wrong(ran, line, error):
    text = ran(line).text
    assert frames(text) == ["Cell In[2]"]
    assert f"----> 2 {line}" in text
    assert error in text


def test_of_a_function_called_through_jmars_its_own_line_is_shown_too(ran):
    text = ran(
        "def f(block):\n    return np.zeros(3)[block.size, 7]\nmt.cond(np.ones(1), lambda: f(np.ones(2)), 1)"
    ).text
    assert frames(text) == ["Cell In[2]"] * 3  # the cell, the lambda, f
    assert "IndexError" in text


def test_what_a_library_raised_below_jmars_is_shown_at_the_users_line(ran, tmp_path):
    text = ran(f"np.load({str(tmp_path / 'gone.npy')!r})").text
    assert frames(text) == ["Cell In[2]"]
    assert "FileNotFoundError" in text


def test_a_folder_beside_ours_whose_name_begins_like_it_is_the_users(ran, notebook):
    code = "def fail(block):\n    raise ValueError('mine')"
    exec(compile(code, f"{Path(jmars.__file__).parent}_mine/lib.py", "exec"), notebook.shell.user_ns)
    text = ran("mt.cond(np.ones(1), lambda: fail(1), 1)").text
    assert frames(text)[-1].endswith("jmars_mine/lib.py") and "ValueError: mine" in text


def test_frames_on_a_worker_are_shown_where_the_users_are_among_them(ran, notebook):
    error = ValueError("bad")
    inside = 'on the worker:\n  File "<ipython-input-9>", line 2, in f\n    raise'
    error.__notes__ = ["in operand f", inside, f'on the worker:\n  File "{np.__file__}", line 2, in f\n    raise']
    notebook.shell.user_ns["error"] = error
    assert ran("raise error").error is error
    assert error.__notes__ == ["in operand f", inside]


def test_what_the_user_caught_is_shown_above_what_came_of_it(ran):
    text = ran("try:\n    1 / 0\nexcept ZeroDivisionError:\n    np.nonexistent").text
    assert frames(text) == ["Cell In[2]", "During handling of the above exception", "Cell In[2]"]


@pytest.mark.usefixtures("only_jobs")
def test_a_fault_of_ours_is_shown_with_every_frame(ran, monkeypatch):
    monkeypatch.setattr("jmars.tensor.ops.constants.decide_splits", lambda *_, **__: None.splits)
    text = ran("np.ones(3)").text
    assert "jmars/tensor/ops/constants.py" in text
    assert "AttributeError: 'NoneType' object has no attribute 'splits'" in text


def test_the_error_is_still_the_one_that_python_raised(ran):
    error = ran("np.linalg.nonexistent").error
    assert type(error) is AttributeError and error.name == "nonexistent"
    assert np.linalg.__name__ in str(error)


def test_names_of_a_star_import_are_lazy_in_the_cell_and_numpys_afterwards(notebook):
    notebook("x = 1")
    assert notebook("%%jmars\nfrom numpy import *\ntype(ones(3)).__name__") == "Tensor"
    assert notebook("ones") is np.ones
    assert notebook("%%jmars\nfrom numpy.linalg import *\nfloat(norm(ones(4)))") == 2.0
