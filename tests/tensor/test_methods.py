"""Methods of tensors are those of NumPy's arrays."""

from __future__ import annotations

import datetime
import operator
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from tests.tensor.engine import OneByOne
from tests.tensor.table.comparing import agree, arguments, outcome
from tests.tensor.table.draws import Call, Draw, Given, call

# What memory looks like, which a tensor has none of; see docs/reference/numpy.md
MEMORY = {"ctypes", "data", "getfield", "setfield"}
TOLD = {"base", "flags", "setflags", "strides"}  # below
ELSEWHERE = {"tofile", "resize", "byteswap", "dump", "dumps"}  # tests/tensor/files, test_resize_in_place.py, below


def test_all_methods_are_there_but_those_of_memory() -> None:
    gone = {"itemset", "newbyteorder", "ptp", "tostring"}  # by NumPy 2.4; some refuse since NumPy 2
    theirs = {name for name in dir(np.ndarray) if not name.startswith("_")} - gone
    assert {name for name in theirs if not hasattr(mt.Tensor, name)} == MEMORY - {"data"}
    assert theirs - MEMORY - TOLD - set(ROWS) == ELSEWHERE
    assert not hasattr(mt.ones(3), "ctypes") and not hasattr(mt.ma.array([1]), "strides")
    with pytest.raises(UnsupportedError, match=r"MaskedArray.strides is not in jmars"):
        mt.ma.array([1]).strides
    with pytest.raises(UnsupportedError, match=r"ndarray.ctypes is not in jmars"):
        mt.ones(2).ctypes


def test_memory_is_told_as_numpy_would_have_it() -> None:
    for make in (lambda a: a, lambda a: a.T, lambda a: a[:, 1:], lambda a: a[::-1].T + 1, lambda a: a[:, [0, 2]]):
        theirs = make(np.arange(12.0).reshape(3, 4))
        ours = make(mt.asarray(np.arange(12.0).reshape(3, 4), chunk_size=2))
        assert ours.strides == theirs.strides
        assert ours.flags.c_contiguous == theirs.flags.c_contiguous and ours.flags["F"] == theirs.flags["F"]
    x = mt.zeros(4)
    part = x[1:]
    assert part.base is x and x.base is None and part.flags.writeable and not part.flags.owndata
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 1
    part[0] = 1  # NumPy, too, keeps a flag for each array
    with pytest.raises(ValueError, match="WRITEABLE"):
        x[:].flags.writeable = True
    x.setflags(write=True)
    x += 1
    assert x.tolist() == [1, 2, 1, 1]


def test_a_view_of_an_array_without_a_name_does_not_own_its_memory() -> None:
    for module in (np, mt):
        x = module.arange(12).reshape(3, 4)
        for _ in range(2):
            assert not x.flags.owndata and not x.T.flags.owndata
            with pytest.raises(ValueError, match="does not own its data"):
                x.resize(2, 2)
            assert x.ravel(order="F")[1] == 4 and x.sum() == 66  # computed
        x.shape = (4, 3)
        assert not x.flags.owndata
        y = module.arange(12)
        y.shape = (3, 4)
        assert y.flags.owndata and y.sum() == 66 and y.flags.owndata
        row, last = y[0], y[2, 3:]
        assert row.base is not None
        del y, last
        assert row.sum() == 6 and not row.flags.owndata and row.copy().flags.owndata


def _line(d: Draw) -> Given:
    """Numbers in order, each once."""
    return d.cut(np.cumsum(abs(d.values((d.int(1, 6),), "f8", wild=False)) + 1))


def _any(d: Draw, kinds: str = "biuf", low: int = 1) -> Given:
    return d.array(kinds, low=low, shortest=1, wild=False)


ROWS: dict[str, Callable[[Draw], Call]] = {
    "all": lambda d: call(x := _any(d), d.axis(x)),
    "any": lambda d: call(x := _any(d), d.axis(x)),
    "argmin": lambda d: call(x := _any(d), d.axis(x)),
    "astype": lambda d: call(_any(d), "c8"),
    "conjugate": lambda d: call(_any(d, "fc")),
    "cumprod": lambda d: call(x := _any(d, "biu"), d.axis(x)),
    "device": lambda d: call(_any(d)),
    "dtype": lambda d: call(_any(d)),
    "flat": lambda d: call(_any(d, low=0)),
    "imag": lambda d: call(_any(d, "fc")),
    "itemsize": lambda d: call(_any(d)),
    "mT": lambda d: call(_any(d, low=2)),
    "mean": lambda d: call(x := _any(d, "iu"), d.axis(x)),
    "min": lambda d: call(x := _any(d), d.axis(x)),
    "nbytes": lambda d: call(_any(d)),
    "ndim": lambda d: call(_any(d)),
    "prod": lambda d: call(x := _any(d, "iu"), d.axis(x)),
    "real": lambda d: call(_any(d, "fc")),
    "shape": lambda d: call(_any(d)),
    "size": lambda d: call(_any(d)),
    "sum": lambda d: call(x := _any(d, "iu"), d.axis(x)),
    "T": lambda d: call(_any(d)),
    "to_device": lambda d: call(_any(d), "cpu"),
    "var": lambda d: call(x := _any(d, "iu"), d.axis(x)),
    "argmax": lambda d: call(x := _any(d), d.axis(x)),
    "argpartition": lambda d: call(_line(d), 0),
    "argsort": lambda d: call(x := _any(d), d.axis(x), "stable"),
    "choose": lambda d: call(x := _any(d, "b"), [x, 3]),
    "clip": lambda d: call(_any(d), 0, 2),
    "compress": lambda d: call(x := _any(d), [True], d.axis(x)),
    "conj": lambda d: call(_any(d)),
    "copy": lambda d: call(_any(d)),
    "cumsum": lambda d: call(x := _any(d, "biu"), d.axis(x)),
    "diagonal": lambda d: call(_any(d, low=2), 1),
    "dot": lambda d: call(_any(d, "iu"), 2),
    "fill": lambda d: call(_any(d), 1),
    "flatten": lambda d: call(_any(d)),
    "item": lambda d: call(_any(d), 0),
    "max": lambda d: call(x := _any(d), d.axis(x)),
    "nonzero": lambda d: call(_any(d)),
    "partition": lambda d: call(_line(d), 0),
    "put": lambda d: call(x := _any(d), [0, -1, x.array.size // 2], [1, 0]),
    "ravel": lambda d: call(_any(d)),
    "repeat": lambda d: call(x := _any(d), 2, d.axis(x)),
    "reshape": lambda d: call(_any(d), -1),
    "round": lambda d: call(_any(d, "f"), 1),
    "searchsorted": lambda d: call(_line(d), 1.0, "right"),
    "sort": lambda d: call(x := _any(d), d.axis(x)),
    "squeeze": lambda d: call(_any(d)),
    "std": lambda d: call(x := _any(d, "iu"), d.axis(x)),
    "swapaxes": lambda d: call(x := _any(d), 0, d.axis(x)),
    "take": lambda d: call(x := _any(d), [0], d.axis(x)),
    "tobytes": lambda d: call(_any(d)),
    "tolist": lambda d: call(_any(d)),
    "trace": lambda d: call(_any(d, "iu", low=2)),
    "transpose": lambda d: call(x := _any(d), *d.order(x)),
    "view": lambda d: call(_any(d)),
}


@pytest.mark.parametrize("name", ROWS)
def test_they_do_what_numpy_s_do(name: str, engine: OneByOne) -> None:
    @settings(max_examples=max(1, settings().max_examples // 10))
    @given(st.data())
    def check(data: Any) -> None:
        drawn = ROWS[name](Draw(data.draw))
        note(f"x.{name} of {drawn}")
        ours, theirs = arguments(drawn)

        def method(x: Any, *args: Any) -> Any:
            found = getattr(x, name)
            if isinstance(found, np.flatiter):
                return x.ravel()
            return found(*args) if callable(found) else found

        agree(outcome(method, *ours), outcome(method, *theirs), name in ("mean", "std", "var"), engine)

    check()


def test_the_same_bytes_as_another_dtype() -> None:
    a = np.array([[1.5, -2.0], [0.0, np.nan]], "f4")
    x = mt.asarray(a, chunk_size=1)
    np.testing.assert_array_equal(x.view("i4").fetch(), a.view("i4"))
    np.testing.assert_array_equal(x.view("f8").fetch(), a.view("f8"))
    x.view()[0] = 1
    assert x[0].tolist() == [1, 1]


def test_pairs_as_records_of_two() -> None:
    a = np.arange(3) * (1 + 2j)
    pairs = mt.asarray(a, chunk_size=2).view([("x", "f8"), ("y", "f8")])
    np.testing.assert_array_equal(pairs["y"].fetch(), a.imag)


def test_shape_and_dtype_are_set_in_place() -> None:
    a = np.arange(6.0)
    x = mt.asarray(a.copy(), chunk_size=4)
    a.shape = x.shape = (2, -1)
    np.testing.assert_array_equal(x.fetch(), a)
    x.dtype = "i8"
    np.testing.assert_array_equal(x.fetch(), a.view("i8"))
    with pytest.raises(ValueError, match="cannot reshape"):
        x.shape = 5
    assert x.shape == (2, 3)


@pytest.mark.parametrize("kind", ["c16", "c8", "f4", "i8"])
@pytest.mark.parametrize("value", [7, [1.0, np.inf, -0.0, np.nan, 3]], ids=["number", "array"])
def test_real_and_imaginary_parts_are_written(kind, value) -> None:
    a = (np.arange(5) * (1 + 2j)).real.astype(kind) if kind in ("f4", "i8") else (np.arange(5) * (1 + 2j)).astype(kind)
    x = mt.asarray(a.copy(), chunk_size=2)
    value = 7 if kind == "i8" else value
    a.real = x.real = value
    np.testing.assert_array_equal(x.fetch(), a)
    if kind in ("c16", "c8"):
        a.imag = x.imag = value
        np.testing.assert_array_equal(x.fetch(), a)
    else:
        with pytest.raises(TypeError, match="imaginary part to set"):
            x.imag = value


def test_all_elements_in_turn() -> None:
    a = np.arange(6).reshape(2, 3)
    x = mt.asarray(a.copy(), chunk_size=2)
    assert x.flat[4].fetch() == 4
    assert [int(one) for one in x.flat] == list(range(6))
    x.flat = [7, 8]
    a.flat = [7, 8]
    np.testing.assert_array_equal(x.fetch(), a)


def test_bytes_are_swapped() -> None:
    a = np.arange(6, dtype="i4").reshape(2, 3)
    x = mt.asarray(a, chunk_size=2)
    assert x.byteswap().tolist() == a.byteswap().tolist()
    assert x.byteswap(inplace=True) is x and x.tolist() == a.byteswap().tolist()


def test_a_value_is_dumped(tmp_path: Path) -> None:
    x = mt.arange(5, chunk_size=2)
    assert pickle.loads(x.dumps()).tolist() == [0, 1, 2, 3, 4]
    x.dump(tmp_path / "x")
    assert pickle.loads((tmp_path / "x").read_bytes()).tolist() == [0, 1, 2, 3, 4]


def test_python_dates_are_compared_as_in_numpy() -> None:
    days = np.array(["2024-01-01", "2023-01-01"], "M8[D]")
    x, date = mt.asarray(days), datetime.date(2023, 6, 1)
    for compare in (operator.gt, operator.le, operator.eq):
        assert np.asarray(compare(x, date)).tolist() == compare(days, date).tolist()
