"""Imports of a `%%jmars` cell that failed or was cancelled stay; other names do not."""

import json
import math

import numpy as np
import pytest

CELL = """%%jmars
import json, os.path, numpy as xp
from math import sqrt, floor as down
from numpy import sin, linalg
from numpy.fft import *
try:
    import no_such_module
except ImportError:
    import time as no_such_module
def later():
    import heapq
value = 3
array = xp.ones(4) + 1
sqrt = xp.ones(2)
"""


@pytest.mark.parametrize("end", ["1 / 0", "raise KeyboardInterrupt", "from textwrap import wrap, nothing"])
def test_imports_that_ran_stay_after_an_error_and_other_names_do_not(notebook, end):
    ran = notebook.run(CELL + end)
    assert ran.error is not None
    assert (notebook["json"], notebook["xp"], notebook["sin"]) == (json, np, np.sin)
    assert (notebook["linalg"], notebook["fft"], notebook["down"]) == (np.linalg, np.fft.fft, math.floor)
    assert notebook["os"].path and notebook["no_such_module"].__name__ == "time"
    for name in ("value", "array", "sqrt", "later", "heapq", "nothing"):
        assert name not in notebook, name
    assert notebook("json.dumps([1])") == "[1]"
    assert float(notebook("%%jmars\nsin(xp.zeros(2)).sum()")) == 0.0


def test_a_name_of_before_comes_back_unless_the_import_took_it(notebook):
    notebook("json = 'mine'; math = 'mine'")
    notebook.run("%%jmars\nimport json, math\nmath = 3\n1 / 0")
    assert (notebook["json"], notebook["math"]) == (json, "mine")


def test_an_import_that_fails_leaves_its_name_alone(notebook):
    notebook("gone = 'mine'")
    for line in ("import numpy.gone as gone", "from numpy import gone", "from json import gone"):
        ran = notebook.run(f"%%jmars\n{line}")
        assert isinstance(ran.error, (ImportError, AttributeError)), line
        assert notebook["gone"] == "mine"


def test_a_job_that_fails_keeps_imports_too(notebook):
    cell = "%%jmars\nimport json\nimport numpy as xp\nx = xp.linalg.inv(xp.zeros((3, 3)))"
    ran = notebook.run(cell)
    assert ran.error is not None and "x" not in notebook
    assert (notebook["json"], notebook["xp"]) == (json, np)
