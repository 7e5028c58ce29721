"""The user's names before, in and after a cell; most of it is promised by test_cell.py."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.notebook.namespace import Namespace, tensors_in
from jmars.notebook.numpy_names import lazy_names, path_of, resolve
from jmars.tensor import Tensor, as_tensor
from jmars.tensor.operand import SourceLine
from jmars.tensor.polynomial import Polynomial


def mentions(name):
    return SourceLine("cell", 1, name)


def test_ipythons_own_names_are_left_alone():
    names = {"_": np.ones(2), "_3": np.ones(2), "Out": {3: np.ones(2)}, "_private": np.ones(2)}
    inside = Namespace.enter(names, mentions)
    assert [name for name in names if type(names[name]) is Tensor] == ["_private"]
    names["_"] = names["_4"] = 1
    assert inside.leave() == {}
    inside.roll_back()
    assert (names["_"], names["_4"]) == (1, 1)


def test_arrays_of_text_and_objects_stay_arrays():
    values = {"t": np.array(["a"]), "o": np.array([None]), "r": np.zeros(2, "i4, O")}
    names = dict(values)
    Namespace.enter(names, mentions)
    assert names == values


def test_tensors_in_finds_each_once_in_order_and_skips_long_lists():
    a, b, c = (as_tensor([float(i)]) for i in range(3))
    assert [id(x) for x in tensors_in([a, [b, {"k": (a, c)}], b])] == [id(a), id(b), id(c)]
    assert tensors_in([[a] * 2000]) == []
    pair = mt.linalg.qr(mt.ones((4, 2)))  # a named tuple
    assert [id(x) for x in tensors_in([pair])] == [id(pair.Q), id(pair.R)]
    loop: list[object] = [a]
    loop.append(loop)
    assert len(tensors_in([loop])) == 1


@pytest.mark.parametrize("name", ["numpy", "numpy.sin", "numpy.linalg.norm", "numpy.random.rand", "numpy.ndarray"])
def test_numpys_modules_and_functions_are_known_by_path(name):
    value = np
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    assert path_of(value) == name


@pytest.mark.parametrize("value", [np.float32, np.matrix, np.pi, 3, len, pytest])
def test_what_is_no_function_or_module_of_numpy_has_no_path(value):
    assert path_of(value) is None


def test_meanings():
    assert resolve("numpy.float32") is np.float32
    assert resolve("numpy.typing") is np.typing and resolve("numpy.exceptions") is np.exceptions
    assert resolve("numpy.errstate") is np.errstate
    assert type(resolve("numpy.ones")(3)) is Tensor
    with pytest.raises(UnsupportedError, match=r"np\.nested_iters is not in jmars"):
        resolve("numpy.nested_iters")
    assert resolve("numpy.typing.NDArray") is np.typing.NDArray and resolve("numpy.__version__") == np.__version__
    assert resolve("numpy.polynomial.Polynomial") is Polynomial
    assert path_of(np.polynomial) is None  # a module that an ordinary cell imported stays NumPy's
    with pytest.raises(AttributeError, match="has no attribute 'sine'"):
        resolve("numpy.sine")


def test_imports_give_numpys_own_while_no_cell_runs():
    import jmars.notebook.numpy_names as names

    assert getattr(names, "numpy.sin") is np.sin
    with lazy_names():
        assert getattr(names, "numpy.sin") is not np.sin
    assert getattr(names, "numpy.sin") is np.sin
    with pytest.raises(AttributeError):
        names.anything


def test_a_module_that_is_no_submodule_travels():
    emath = resolve("numpy.emath")
    assert emath is not np.emath
    assert pickle.loads(pickle.dumps(emath)) is np.emath


def test_a_roll_back_takes_back_writes_through_views():
    x = as_tensor(np.arange(4.0))
    part = x[1:]
    before = x.data, part.data
    inside = Namespace.enter(names := {"x": x, "part": part}, mentions)
    part += 1
    x[0] = 7
    inside.roll_back()
    assert names["x"] is x and (x.data, part.data) == before
    x[1] = 9
    assert part.data is not before[1]


RESULTS = """from collections import namedtuple
Pair = namedtuple("Pair", "low high")
w = np.arange(1e6)
m = again = w.mean()
pair, table, nested, found = Pair(w.min(), [w.max()]), {w.argmax(): w.sum()}, ([{"m": m}],), {w.min()}
history.append(w.std())
history.append(w[3])
kept = np.array(3.0)
w.max(), m"""


def test_results_without_axes_are_numpys_scalars_after_the_cell(notebook):
    notebook("import numpy as np\nhistory = []")
    shown = notebook("%%jmars\n" + RESULTS)
    names = {"np": np, "history": []}
    exec(RESULTS, names)
    for name in ("m", "pair", "table", "nested", "found", "history"):
        assert repr(notebook[name]) == repr(names[name]), name
    assert type(notebook["pair"]) is notebook["Pair"] and notebook["m"] is notebook["again"]
    assert (
        notebook["nested"][0][0]["m"] is notebook["m"] and repr(shown) == "(np.float64(999999.0), np.float64(499999.5))"
    )
    assert isinstance(notebook["m"], np.floating) and json.loads(json.dumps({"m": notebook["m"]}))["m"] == 499999.5
    assert type(notebook["kept"]) is type(notebook["w"]) is Tensor


def test_results_that_are_bools_in_numpy_are_bools_after_the_cell(notebook):
    notebook("import numpy as np")
    notebook(
        "%%jmars\nx = np.arange(1e6)\nr = [np.allclose(x, x), np.array_equal(x, x + 1), np.array_equiv(x, x)]\n"
        "s = (x == x).all()"
    )
    assert [one is True for one in notebook["r"]] == [True, False, True] and notebook["r"][1] is False
    assert type(notebook["s"]) is np.bool_


def test_lazy_results_of_plain_cells_stay_lazy(notebook):
    notebook("import numpy as np\nimport jmars.tensor as mt\nlazy = mt.ones(5).sum()\ninside = [lazy]")
    notebook("%%jmars\ny = np.arange(1e6).sum()")
    assert type(notebook["lazy"]) is Tensor and notebook["inside"][0] is notebook["lazy"]
    assert not notebook.held("lazy")


def test_masked_results_without_axes_are_scalars_or_masked_after_the_cell(notebook):
    notebook("import numpy as np")
    notebook("""%%jmars
m = np.ma.masked_less(np.arange(1e6), 10)
least, none, first, last = m.min(), m[:5].sum(), m[0], m[-1]
is_masked = m[0] is np.ma.masked, m[-1] is np.ma.masked""")
    assert notebook["is_masked"] == (True, False)
    assert notebook["none"] is notebook["first"] is np.ma.masked
    assert repr(notebook["least"]) == "np.float64(10.0)" and repr(notebook["last"]) == "np.float64(999999.0)"
