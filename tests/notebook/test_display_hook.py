"""`display(x)` inside a cell shows what `print(x)` prints: values."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def ran(notebook):
    notebook("import numpy as np")
    return lambda text: notebook.run("%%jmars\n" + text)


def test_values_are_displayed_where_the_cell_asks(ran, notebook):
    text = ran("x = np.arange(4.0)\ndisplay(x.sum(keepdims=True), x)\ndisplay({'m': [x[3:]]})\nx = None").text
    assert text == "array([6.])\narray([0., 1., 2., 3.])\n{'m': [array([3.])]}\n"
    assert len(notebook.jobs) == 3


def test_masked_arrays_too(ran):
    text = ran("m = np.ma.masked_less(np.arange(4), 2)\ndisplay(m)").text
    assert text.startswith("masked_array(data=[--, --, 2, 3]")
    text = ran("m = np.ma.masked_less(np.arange(4000), 2)\ndisplay(m)").text
    assert text.startswith("masked_array(data=[--, --, 2, ..., 3997, 3998, 3999]")


def test_of_a_large_array_only_the_corners_are_computed(ran, notebook):
    text = ran("x = np.ones((2000, 5)) * 2\ndisplay(x)\nx = None").text
    with np.printoptions(threshold=100):
        assert text == repr(np.ones((2000, 5)) * 2) + "\n"
    assert all(data.shape[0] < 10 for job in notebook.jobs for data in job)


def test_what_goes_wrong_is_an_error_of_the_cell(ran, notebook):
    caught = ran("try:\n    display(np.linalg.inv(np.zeros((2, 2))))\nexcept np.linalg.LinAlgError:\n    print('no')")
    assert caught.text == "no\n"
    assert isinstance(ran("display(np.linalg.inv(np.zeros((2, 2))))\nx = 1").error, np.linalg.LinAlgError)
    assert "x" not in notebook


@pytest.mark.usefixtures("only_jobs")
def test_outside_a_cell_nothing_is_computed(ran, notebook):

    notebook("%%jmars --lazy\nx = np.arange(4.0) + 1")
    assert notebook.run("display(x)").text.startswith("Tensor(shape=(4,)")
    assert notebook.jobs == []
    assert "format" not in vars(notebook.shell.display_formatter)
