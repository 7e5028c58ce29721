"""NumPy's functions reach ours, and what jmars lacks is refused by name."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import jmars.tensor as jt
from jmars.errors import UnsupportedError
from jmars.tensor.protocols import FUNCTIONS, call, offers, unsupported
from tests.cases import needs_numpy, numpy_before
from tests.house.source import ROOT


def test_numpy_s_functions_give_tensors():
    x = jt.arange(6.0, chunk_size=2)
    for result in (np.sqrt(x), np.sum(x), np.where(x > 1, x, 0), np.linalg.norm(x), np.clip(x, 1, 2)):
        assert isinstance(result, jt.Tensor)


@needs_numpy("2.3", "functions of text ask their arguments")
def test_what_is_missing_is_refused_by_name():
    with pytest.raises(UnsupportedError, match="join is not in jmars yet"):
        np.char.join("-", jt.asarray(["abc", "b"]))


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("lib.stride_tricks.as_strided", "sliding_window_view"),
    ],
)
def test_a_refusal_says_what_to_write_instead(name, instead):
    assert name not in FUNCTIONS
    error = str(unsupported(name))
    assert re.search(rf"np\.{name} is not in jmars yet.*{instead}.*, or compute it in a cell without", error), error


@pytest.mark.parametrize("name", ["unheard", "ma.unheard", "method.unheard"])
def test_a_call_of_an_unknown_name_is_refused(name):
    with pytest.raises(UnsupportedError, match="unheard is not in jmars yet") as caught:
        call(name, 1)
    assert caught.value.__suppress_context__


def test_every_called_name_is_in_the_table():
    """A call by name passes the hooks of the table, and mypy does not check the name."""
    named = [
        node.args[0].value
        for path in (ROOT / "jmars" / "tensor").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "call"
        if node.args and isinstance(node.args[0], ast.Constant)
    ]
    assert len(named) > 200 and {name for name in named if name not in FUNCTIONS} == set()


def test_every_function_has_its_name_and_a_docstring():
    assert jt.ma.sum.__name__ == "sum" and jt.isposinf.__name__ == "isposinf"
    nameless = [name for name, one in FUNCTIONS.items() if getattr(one, "__name__", "") in ("function", "position")]
    assert nameless == [] and [name for name, one in FUNCTIONS.items() if not one.__doc__] == []


def test_methods_of_a_ufunc_reach_ours():
    x = jt.arange(6, chunk_size=2)
    assert jt.maximum.reduce(x).fetch() == np.maximum.reduce(x).fetch() == 5


def test_a_ufunc_has_numpy_s_attributes_pickles_and_is_equal():
    assert (jt.add.nin, jt.divmod.nout, jt.matmul.signature) == (2, 2, np.matmul.signature)
    assert jt.add.resolve_dtypes((np.dtype("i4"), np.dtype("f4"), None))[2] == np.float64
    assert pickle.loads(pickle.dumps(jt.add)) is jt.add
    assert jt.add == np.add and {np.add: 1}[jt.add] == 1 and jt.add != jt.subtract
    if not numpy_before("2.4.0"):
        assert inspect.signature(jt.add) == inspect.signature(np.add)


def test_functions_that_numpy_has_in_c_are_no_methods():
    class Holder:
        array, add, zeros = jt.array, jt.add, jt.zeros

    assert Holder().array([1, 2]).tolist() == [1, 2]
    assert Holder().add(Holder().zeros(2), 1).tolist() == [1, 1]


def test_the_namespace_is_numpy_s():
    assert jt.pi is np.pi and jt.float32 is np.float32 and jt.newaxis is None
    assert jt.add.__name__ == "add"
    assert "add" in dir(jt) and "method.pow" not in dir(jt)
    with pytest.raises(AttributeError, match=r"np.bmat is not in jmars yet.*x.fetch\(\)"):
        jt.bmat
    with pytest.raises(AttributeError, match="neither has NumPy"):
        jt.no_such_name


def test_an_operand_may_be_offered_from_anywhere():
    @offers("example_for_tests")
    def example(x):
        return x + 1

    try:
        assert jt.example_for_tests(jt.ones(2)).tolist() == [2, 2]
    finally:
        del FUNCTIONS["example_for_tests"]


@pytest.mark.parametrize("name", ["strings.lower", "char.upper", "ma.masked_where", "polynomial.polynomial.polyval"])
def test_a_process_finds_functions_of_modules_that_it_has_not_used(name):
    found = f"""from jmars.tensor.protocols import FUNCTIONS, call
assert {name!r} in FUNCTIONS and FUNCTIONS.get({name!r}) is FUNCTIONS[{name!r}]
assert "strings.unheard" not in FUNCTIONS and FUNCTIONS.get("ma.unheard") is None"""
    for line in (f"FUNCTIONS[{name!r}]", found):
        code = f"from jmars.tensor.protocols import FUNCTIONS; {line}"
        subprocess.run([sys.executable, "-c", code], check=True)


@needs_numpy("2.3", "functions of text ask their arguments")
def test_numpys_functions_of_text_reach_ours_at_first_use():
    code = """import numpy as np, jmars.tensor as mt
print(type(np.strings.lower(mt.asarray(["AB"]))).__name__)"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "Tensor\n"
