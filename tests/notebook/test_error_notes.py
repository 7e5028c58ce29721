"""What is said beside errors that a user of NumPy would not expect."""

from __future__ import annotations

import linecache
import sys

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.config import config
from jmars.notebook.cell import note_for_late_error, note_for_lazy, shorten_plain_tracebacks
from jmars.tensor.operand import SourceLine
from tests.notebook.shells import Notebook, new_shell


@pytest.fixture
def line_of(tmp_path):
    """The line with `# here` of a file."""

    def line(text: str) -> SourceLine:
        path = tmp_path / "cell.py"
        path.write_text(text)
        linecache.checkcache()
        at = next(i for i, one in enumerate(text.splitlines(), 1) if one.endswith("# here"))
        return SourceLine(str(path), at, "")

    return line


@pytest.mark.parametrize(
    ("text", "hinted"),
    [
        ("try:\n    a # here\nexcept ValueError:\n    pass", True),
        ("try:\n    a # here\nexcept:\n    pass", True),
        ("try:\n    if a:\n        b # here\nexcept (KeyError, np.linalg.LinAlgError):\n    pass", True),
        ("with contextlib.suppress(Exception):\n    a # here", True),
        ("async def f():\n    pass\nawait f()\ntry:\n    a # here\nexcept Exception: pass", True),
        ("try:\n    a # here\nexcept KeyError:\n    pass", False),
        ("try:\n    a # here\nfinally:\n    pass", False),
        ("try:\n    a\nexcept ValueError:\n    b # here", False),
        ("a # here", False),
        ("no python # here", False),
    ],
)
def test_a_try_that_would_have_caught_it_is_named(line_of, text, hinted):
    hint = note_for_late_error(np.linalg.LinAlgError("singular"), line_of(text))
    assert bool(hint) == hinted
    assert not hint or "try" in hint and ".fetch()" in hint


def test_within_the_try_nothing_is_said(line_of):
    made = line_of("try:\n    a # here\n    ask()\nexcept ValueError:\n    pass")
    said = []
    names = {"a": 1, "ask": lambda: said.append(note_for_late_error(ValueError(), made))}
    exec(compile("".join(linecache.getlines(made.filename)), made.filename, "exec"), names)
    assert said == [None]


def test_where_no_line_is_known_nothing_is_said():
    assert note_for_late_error(ValueError(), None) is None
    assert note_for_lazy(TypeError("unhashable type: 'list'")) is None


def test_an_array_of_numpy_beside_a_tensor_is_told_of_asarray():
    libraries = pytest.importorskip("scipy._lib.array_api_compat")
    with pytest.raises(TypeError) as raised:
        libraries.array_namespace(mt.ones(3), np.ones(3))
    assert "make it a tensor too, jmars.tensor.asarray(x)" in (note_for_lazy(raised.value) or "")
    assert note_for_lazy(TypeError("Multiple namespaces for array inputs: {'numpy', 'torch'}")) is None


def test_json_is_told_of_float(notebook):
    notebook("import json, numpy as np\nx = np.arange(4.0)")
    cell = "%%jmars\nbig = np.zeros((1000, 1000)) + x[0]\njson.dumps({'m': "
    assert notebook.run(f"{cell}big.mean()}})").text.count("float(x), x.item() or x.tolist()") == 1
    assert notebook(f"{cell}float(big.mean()), 'l': [big.sum().item()]}})") == '{"m": 0.0, "l": [0.0]}'


@pytest.mark.parametrize("use", ["frame[MASK]", "frame.loc[MASK]", "frame.groupby(MASK).sum()"])
def test_selections_of_pandas_are_told_of_fetch(notebook, use):
    notebook("import numpy as np, pandas as pd\nframe = pd.DataFrame({'a': range(300_000)})")
    cell = "%%jmars\nx = np.arange(300_000) % 3 > 0\n"
    assert notebook.run(cell + use.replace("MASK", "x")).text.count("frame[x.fetch()]") == 1
    assert len(notebook(cell + use.replace("MASK", "x.fetch()"))) in (200_000, 2)
    assert "frame[" not in notebook.run(f"{cell}x(0)").text


def test_lists_tuples_and_dicts_print_values(notebook):
    notebook("import numpy as np")
    cell = "%%jmars\nbig = np.ones((1000, 1000))\nprint([big.mean()], (big.max(), 3), {'m': big.min()})"
    assert "[np.float64(1.0)] (np.float64(1.0), 3) {'m': np.float64(1.0)}" in notebook.run(cell).text


def test_an_element_is_a_key(notebook):
    notebook("import numpy as np")
    assert notebook("%%jmars\nv = np.arange(4.0)\n{v[0]: 1}[0]") == 1


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="a tensor has a buffer")
def test_a_memoryview_is_told_of_fetch(notebook):
    notebook("import numpy as np")
    assert "memoryview(x.fetch())" in notebook.run("%%jmars\nx = np.arange(4)\nmemoryview(x)").text
    assert "x.tobytes()" in notebook.run("%%jmars\nimport hashlib\nx = np.arange(4)\nhashlib.sha1(x)").text
    assert notebook("%%jmars\nx = np.arange(4)\nmemoryview(x.fetch()).shape") == (4,)
    shorten_plain_tracebacks(notebook.shell)
    for text in ("memoryview(x)", "hashlib.sha1(x)", "io.BytesIO().write(x)"):
        assert "x.tobytes()" in notebook.run(f"import hashlib, io\n{text}").text
    assert "tobytes" not in notebook.run("hashlib.sha1(3)").text


def test_a_function_of_numba_that_writes_is_told_of_fetch(notebook):
    pytest.importorskip("numba")
    notebook("import numpy as np, numba\n@numba.njit\ndef double(x):\n    y = np.zeros_like(x)\n    return y + x * 2")
    assert notebook("%%jmars\nx = np.arange(4.0)\ndouble(x).tolist()") == [0.0, 2.0, 4.0, 6.0]
    assert notebook("%%jmars\n@numba.njit\ndef half(x):\n    return np.sqrt(x) / 2\nhalf(x).tolist()")[1] == 0.5
    ran = notebook.run("%%jmars\n@numba.njit\ndef write(x):\n    x[0] = 1\nwrite(x)")
    assert "give the value, x.fetch()" in ran.text


@pytest.fixture(scope="module")
def cluster():
    """A notebook with a cluster of its own."""
    with new_shell() as shell, config.using(display="none"):
        started = Notebook(shell)
        started("%load_ext jmars\nimport numpy as np")
        started("%%jmars -w 1 --memory 400MiB\nnp.ones(1)")
        yield started
        started("%jmars stop")


SINGULAR = """%%jmars
y = np.ones((3, 3))
try:
    {start}np.linalg.inv(np.zeros((3, 3)))
except np.linalg.LinAlgError:
    y = None
"""


def test_an_error_within_a_try_is_caught(cluster):
    for start in ("y = ", "", "y = 1 + ", "y[:] = "):
        assert cluster.run(SINGULAR.format(start=start)).error is None
        assert cluster["y"] is None


@pytest.mark.usefixtures("only_jobs")
def test_an_error_that_comes_after_a_try_of_a_module_says_so(cluster, tmp_path, monkeypatch):
    text = "import numpy as np\ndef inverse(a):\n    try:\n        return np.linalg.inv(a)\n    except ValueError:\n"
    (tmp_path / "inverses.py").write_text(text + "        return None\n")
    monkeypatch.syspath_prepend(tmp_path)
    ran = cluster.run("%%jmars\nfrom inverses import inverse\ny = inverse(np.zeros((3, 3)))\nfloat(y.sum())")
    assert isinstance(ran.error, np.linalg.LinAlgError)
    assert "line 4 is in a `try` that had ended when its value was computed" in ran.text
    assert "----> 4 float(y.sum())" in ran.text


@pytest.mark.parametrize("raised", ["KeyError('none')", "EOFError('none')", "RuntimeError('none')"])
def test_errors_of_functions_have_no_frames_of_jmars_in_plain_cells(cluster, raised):
    shorten_plain_tracebacks(cluster.shell)
    cluster("import jmars.remote")
    text = cluster.run(f"def fail():\n    raise {raised}\njmars.remote.spawn(fail, retries=0).fetch()").text
    assert "in operand fail of line 3" in text and "session.py" not in text
