"""Errors that depend on values are raised where a cell handles errors, as NumPy's are."""

from __future__ import annotations

import ast
import subprocess
import sys
import warnings

import cloudpickle
import numpy as np
import pytest

from jmars.config import config
from jmars.notebook.cell_source import computed, with_guards
from tests.notebook.shells import Notebook, new_shell

START = "import numpy as np, warnings, contextlib\nm = np.ones((3, 3))\nx = np.arange(4.0)"


@pytest.fixture
def ready(notebook):
    notebook(START)
    return notebook


@pytest.mark.parametrize(
    "body",
    [
        "    np.linalg.inv(m)",
        "    q = np.linalg.inv(m)",
        "    q = np.linalg.inv(m)\n    r = q + 1",
        "    for turn in range(2):\n        q = np.linalg.inv(m)",
        "    if True:\n        np.linalg.inv(m)",
        "    q, n = np.linalg.inv(m), 3",
        "    q = np.eye(3)\n    q *= np.linalg.inv(m)",
        "    for turn in range(2):\n        q = np.eye(3)\n        q @= np.linalg.inv(m)",
        "    with np.errstate(divide='ignore'):\n        q = np.linalg.inv(m)",
    ],
)
def test_an_error_of_a_value_is_caught(ready, body):
    ready(f"%%jmars\nseen = 0\ntry:\n{body}\nexcept np.linalg.LinAlgError as error:\n    seen = str(error)")
    assert ready["seen"] == "Singular matrix"


def test_functions_of_a_cell_catch_their_errors_also_later(ready):
    ready("""%%jmars
def inverse(a):
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        return None

def solved(a, b):
    try:
        found = np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        return "no"
    return found

first = inverse(m) is None, inverse(np.eye(3) * 2).sum() == 1.5, solved(m, np.ones(3))""")
    assert ready["first"][0] is True and bool(ready["first"][1]) and ready["first"][2] == "no"
    ready("second = inverse(m) is None, solved(m, np.ones(3))")  # NumPy's arrays, in a plain cell
    assert ready["second"] == (True, "no")


def test_guards_of_warnings_and_errors(ready):
    ready("""%%jmars
try:
    with np.errstate(over="raise"):
        np.exp(x * 1000)
except FloatingPointError as error:
    seen = str(error)
with contextlib.suppress(np.linalg.LinAlgError):
    q = np.linalg.inv(m)
with np.testing.assert_raises(np.linalg.LinAlgError):
    np.linalg.inv(m)""")
    assert "overflow" in ready["seen"] and "q" not in ready


def test_warnings_are_seen_by_catch_warnings(ready):
    ready("""%%jmars
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    y = np.log(x - 1)""")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(ready["y"].fetch()[0])


def test_what_the_body_reads_again_is_computed_once_with_its_reader(ready):
    ready("%%jmars\ntry:\n    a = x + 1\n    b = a * 2\n    b = b - 1\nexcept ValueError:\n    pass\nc = b.sum()")
    assert float(ready["c"]) == 16.0
    assert len(ready.jobs[0]) == 1  # b alone


@pytest.mark.parametrize(
    "code",
    [
        "with np.errstate(divide='ignore'):\n    y = 1 / x",
        "with open('f') as file:\n    text = file.read()",
        "@njit\ndef f(x):\n    try:\n        y = 1 / x\n    except ZeroDivisionError:\n        y = 0\n    return y",
        "try:\n    import numba\nexcept ImportError:\n    numba = None",
        "try:\n    raise ValueError('no')\nfinally:\n    print('end')",
        "y = np.linalg.inv(m)",
    ],
)
def test_other_code_stays_as_it_is(code):
    assert ast.unparse(with_guards(ast.parse(code))) == ast.unparse(ast.parse(code))


def test_names_of_branches_that_were_not_taken_are_passed_by(ready):
    ready("%%jmars\ntry:\n    if False:\n        never = x + 1\n    del m\nexcept NameError:\n    never = 5\nkept = 1")
    assert ready["kept"] == 1 and "never" not in ready


def test_a_worker_needs_no_notebook_for_a_function_with_try():
    code = f"import pickle, sys; print(pickle.loads({cloudpickle.dumps(computed)!r})(3), 'jmars' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["3", "False"]


def test_a_function_with_try_runs_on_blocks(ready):
    ready("""%%jmars
def safe(v):
    try:
        w = 1.0 / float(v)
    except ZeroDivisionError:
        w = 0.0
    return w
y = np.vectorize(safe)(x)""")
    assert ready["y"].fetch().tolist() == [0.0, 1.0, 0.5, 1 / 3]


LARGE = "z = np.zeros((900, 900))\nkept = q = 'before'\n"  # 6 MB, beyond small values


@pytest.mark.parametrize(
    "body",
    [
        "    q = np.linalg.inv(z)\n    print(q)",
        "    kept = [np.linalg.inv(z)]\n    q = 1",
        "    found.append(np.linalg.inv(z))\n    q = 1",
        "    q = helper(z)\n    s = float(q.sum())",
        "    table['q'] = helper(z)\n    q = 1",
    ],
)
def test_the_error_of_a_large_value_is_caught_and_over(ready, body):
    ready(
        f"%%jmars\n{LARGE}found, table, seen = [], {{}}, ''\ndef helper(a):\n    return np.linalg.inv(a) * 2\n"
        f"try:\n{body}\nexcept np.linalg.LinAlgError as error:\n    seen = str(error)"
    )
    assert ready["seen"] == "Singular matrix" and ready["kept"] == ready["q"] == "before"
    assert ready["found"] == [] and ready["table"] == {}


def test_a_look_whose_error_was_caught_does_not_fail_the_cell(ready):
    ready(f"%%jmars\n{LARGE}q = np.linalg.inv(z)\ntry:\n    print(q)\nexcept np.linalg.LinAlgError:\n    seen = 'late'")
    assert ready["seen"] == "late"


def test_errors_under_seterr_are_raised_at_the_line(ready):
    ran = ready.run(
        "%%jmars\nold = np.seterr(all='raise')\ntry:\n    y = np.ones(900_000) / np.zeros(900_000)\n"
        "    z = y + 1\nfinally:\n    np.seterr(**old)\n"
    )
    assert isinstance(ran.error, FloatingPointError)
    ready("""%%jmars
reached = []
with np.errstate(divide="raise"):
    try:
        y = np.ones(900_000) + 1
        w = [1 / np.zeros(900_000)]
        reached.append("not here")
    except FloatingPointError:
        reached.append("caught")""")
    assert ready["reached"] == ["caught"]


def test_values_without_errors_of_a_try_stay_lazy_until_its_end(ready):
    before = len(ready.jobs)
    ready(
        "%%jmars\ntry:\n    y = np.ones(900_000) + 1\n    t = y * 2\n    s = t - y\nexcept ValueError:\n    pass\nt = 0"
    )
    assert len(ready.jobs) == before + 2  # `s`, and `y` at the end


def test_a_generator_of_an_earlier_cell_leaves_guards_as_they_are(ready):
    ready("""%%jmars
def numbers():
    try:
        yield 1
    except ValueError:
        pass
it = numbers()
next(it)""")
    ready("%%jmars\ndel it")
    assert computed.depth == 0


WATCHED = """
    y = np.zeros(x.shape); y[1:] = np.sqrt(x[1:] - 10)
    z = np.log(x - 3) + 3
    parts = [np.arccos(x)]
    print(z[9], y[0], parts[0][0])"""


@pytest.mark.parametrize("local", [0.0, 10.0])
@pytest.mark.parametrize("end", ["", "\n    found = z.sum()", "\n    break"])
def test_a_value_of_which_the_body_reads_a_part_warns_in_the_body(local: float, end: str) -> None:
    body = WATCHED + end
    cell = f"""
def f(x):
  for turn in range(1):
   with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always"){body}
  return sorted({{str(one.message) for one in caught}})
seen = f(x)"""
    with new_shell() as shell, config.using(display="none", local_seconds=local), warnings.catch_warnings():
        warnings.simplefilter("error")
        notebook = Notebook(shell)
        notebook("%load_ext jmars\nimport numpy as np, warnings\nx = np.arange(400_000.0)")
        notebook(cell)
        numpys = notebook["seen"]
        notebook("%%jmars -w 1 --memory 400MiB" + cell)
        assert notebook["seen"] == numpys and len(numpys) == 4
        notebook("""%%jmars
try:
    y = np.sqrt(x - 10)
    y[20] == 1
except RuntimeWarning as error:
    seen = str(error)
y = 0""")
        assert notebook["seen"] == "invalid value encountered in sqrt"
        notebook("%jmars stop")


def test_the_end_of_a_body_computes_only_what_may_still_warn(ready):
    ready("""%%jmars
def f():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a = np.ones(900_000) + 1
        b = a * 2
        float(b[3])
    with warnings.catch_warnings():
        c = np.ones(900_000) - 1
        d = c * 2
        e = d.sum()
        f = d[5:]
        g = np.arange(900_000)[4:]
f()""")
    done = [sorted(one.op.line.text[:1] for one in job) for job in ready.jobs]
    assert done == [["f"], ["e"], ["f"], ["g"]]  # b[3], and the names that the body does not read again


@pytest.mark.parametrize("write", ["np.power(a, c, out=b)", "b **= c"])
def test_what_a_failed_call_of_a_try_wrote_is_taken_back(notebook, write):
    notebook("import numpy as np\na = np.arange(40).reshape(4, 10)\nb, c = a + 1, -a")
    with config.using(chunk_size_limit=64):
        notebook(f"%%jmars\ntry:\n    {write}\nexcept ValueError:\n    error = True\ntotal = b.sum()")
    assert notebook["error"] and notebook["total"] == 820 and notebook["b"].tolist() == (notebook["a"] + 1).tolist()
