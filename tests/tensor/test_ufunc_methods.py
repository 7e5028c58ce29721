"""Methods of every ufunc of two arguments give what NumPy's give, for any dtype and cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.kernels.elementwise import UFUNCS
from tests.tensor.cut import cut_arrays, same
from tests.tensor.engine import OneByOne
from tests.tensor.table.comparing import agree, arguments, outcome
from tests.tensor.table.draws import Call, Draw, call

BINARY = [name for name in UFUNCS if getattr(np, name).nin == 2 and getattr(np, name).nout == 1]
KINDS = {"ldexp": "f", "gcd": "i", "lcm": "i", "left_shift": "i", "right_shift": "i"}


def _array(d: Draw, name: str, low: int = 1) -> Any:
    return d.array(KINDS.get(name, "biufc"), low=low, shortest=1, longest=5, wild=False)


def _reduce(d: Draw, name: str) -> Call:
    x = _array(d, name)
    return call(x, axis=d.axis(x), **d.some(keepdims=True, initial=1))


def _accumulate(d: Draw, name: str) -> Call:
    x = _array(d, name)
    return call(x, axis=d.axis(x))


def _reduceat(d: Draw, name: str) -> Call:
    x = _array(d, name)
    axis = d.axis(x)
    return call(x, abs(d.positions(x.shape[axis], 3)) % x.shape[axis], axis=axis)


def _outer(d: Draw, name: str) -> Call:
    x = d.array(KINDS.get(name, "biufc"), high=2, longest=4, wild=False)
    return call(x, d.array("i" if name == "ldexp" else KINDS.get(name, "biufc"), high=2, longest=4, wild=False))


def _at(d: Draw, name: str) -> Call:
    x = _array(d, name)
    few = d.positions(x.shape[0], d.int(1, 6))
    where = d.one(few, d.cut(few), slice(None, None, 2), d.cut(d.values(x.shape[:1], "?")),
                  tuple(d.positions(n, 4) for n in x.shape))  # fmt: skip
    return call(x, where, 2)


METHODS = {"reduce": _reduce, "accumulate": _accumulate, "reduceat": _reduceat, "outer": _outer, "at": _at}


def _methods(name: str) -> list[str]:
    # NumPy 2.4's arctan2.reduce of a line gives another value than of a column
    return ["outer", "at"] if name == "arctan2" else list(METHODS)


@pytest.mark.parametrize("name", BINARY)
def test_it_is_numpy_s(name: str, engine: OneByOne) -> None:
    @settings(max_examples=max(1, settings().max_examples // 10))
    @given(st.data())
    def check(data: Any) -> None:
        for method in _methods(name):
            drawn = METHODS[method](Draw(data.draw), name)
            note(f"np.{name}.{method} of {drawn}")
            mine, yours = arguments(drawn)
            ours, theirs = (getattr(getattr(module, name), method) for module in (mt, np))
            agree(outcome(ours, *mine), outcome(theirs, *yours), True, engine)
            engine.chunks.clear()

    check()


@pytest.mark.parametrize("own", UFUNCS)
def test_attributes_are_numpys(own) -> None:
    for name in (own, *UFUNCS[own].others):
        ours, theirs = getattr(mt, name), getattr(np, name)
        for attribute in ("identity", "nin", "nout", "nargs", "ntypes", "types", "signature"):
            assert getattr(ours, attribute) == getattr(theirs, attribute), (name, attribute)


def test_functions_of_one_argument_are_applied_at_positions() -> None:
    a = np.arange(6.0)
    x = mt.asarray(a.copy(), chunk_size=4)
    mt.negative.at(x, [0, 1, 1, 5])
    np.negative.at(a, [0, 1, 1, 5])
    np.testing.assert_array_equal(x.fetch(), a)


def test_an_array_of_the_user_s_is_written_at_once() -> None:
    a = np.zeros(4)
    np.add.at(a, mt.asarray([0, 0, 3]), mt.ones(3))
    assert a.tolist() == [2, 0, 0, 1]


def test_outputs_are_rebound() -> None:
    x, out = mt.arange(4, chunk_size=3), mt.zeros(4, int)
    assert np.add.accumulate(x, out=out) is out
    assert out.fetch().tolist() == [0, 1, 3, 6]


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
@pytest.mark.parametrize("start", [0.0, 2.0, np.nan])
def test_truths_that_begin_with_one(name, start):
    theirs = getattr(np, name)
    for a in (np.ones((3, 4)), np.zeros((3, 4)), np.ones((3, 0))):
        x = mt.asarray(a, chunk_size=2)
        for more in ({}, {"where": np.array([[True], [False], [True]])}):
            for axis in (0, 1, None):
                wanted = theirs.reduce(a, axis=axis, initial=start, **more)
                same(theirs.reduce(x, axis=axis, initial=start, **more), wanted)
        out = np.empty(a.shape[1:], bool)
        assert theirs.reduce(x, initial=start, out=out) is out
        np.testing.assert_array_equal(out, theirs.reduce(a, initial=start))


def test_refused_cast_of_python_number_is_type_error():
    for cast in ({"dtype": "f4", "casting": "equiv"}, {"dtype": int, "casting": "safe"}):
        with pytest.raises(TypeError, match="annot cast"):  # NumPy's resolve_dtypes ends the process
            mt.add(3.0, 4.0, **cast)
    assert mt.add(mt.asarray([3.0]), 3, casting="safe").fetch().tolist() == [6.0]


def test_where_leaves_elements_of_out_as_they_are_in_its_dtype():
    out = mt.asarray([1.5, 2.5, 3.5])
    mt.add(mt.ones(3, "i8"), mt.ones(3, "i8"), out=out, where=[True, False, False])
    assert out.fetch().tolist() == [2.0, 2.5, 3.5]
    with pytest.raises(TypeError, match="Cannot cast"):
        mt.add(1.5, mt.ones(3), out=mt.ones(3, "i8"), where=[True, False, False])


def test_methods_raise_the_errors_that_errstate_raises(engine):
    x = mt.asarray(np.array([5, 0, 2], "i1"), chunk_size=1)
    for reduced in (
        lambda: mt.floor_divide.reduce(x),
        lambda: mt.floor_divide.accumulate(x),
        lambda: mt.floor_divide.reduceat(x, [0]),
    ):
        assert reduced().fetch().max() <= 5
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
            reduced().fetch()


def test_latest_dates_until_now_are_accumulated() -> None:
    dates = np.array(["2001-01-01", "2000-01-01", "NaT", "2002-01-01", "2001-06-01"], "M8[D]")
    for function in ("maximum", "minimum", "fmax"):
        ours = getattr(mt, function).accumulate(mt.asarray(dates, chunk_size=2))
        np.testing.assert_array_equal(ours.fetch(), getattr(np, function).accumulate(dates))


@settings(max_examples=60, deadline=None)
@given(cut_arrays(), st.data())
def test_slices_of_many_chunks_are_reduced_where_they_lie(pair, data):
    a, x = pair
    if not a.size or not a.ndim:
        return
    axis = data.draw(st.integers(0, a.ndim - 1))
    at = data.draw(st.lists(st.integers(0, a.shape[axis] - 1), min_size=1, unique=True).map(sorted))
    for one in (np.add, np.maximum):
        same(one.reduceat(x, at, axis), one.reduceat(a, at, axis))


def test_reduceat_of_ascending_indices_keeps_chunks(engine):
    x = mt.arange(100, chunk_size=10)
    assert len(np.add.reduceat(x, np.arange(3, 100, 4)).chunks[0]) == 10
