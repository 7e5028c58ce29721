"""Values chosen: NumPy's for any cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from tests.tensor.cut import cut, cut_arrays, same


@given(cut_arrays(), st.data())
def test_select_and_piecewise(pair, data):
    a, x = pair
    y = data.draw(cut(a % 3))
    same(np.select([x < 4, y == 1], [x, y * 2.5], -1), np.select([a < 4, a % 3 == 1], [a, a % 3 * 2.5], -1))
    half, b = x / 2, a / 2
    same(np.piecewise(half, [half < 2, half > 4], [lambda v: -v, 7, np.sqrt]),
         np.piecewise(b, [b < 2, b > 4], [lambda v: -v, 7, np.sqrt]))  # fmt: skip


@given(cut_arrays(low=1).filter(lambda pair: pair[0].size))
def test_functions_of_piecewise_get_the_elements_of_their_condition(pair):
    a, x = pair
    for condition in (a < 3, a % 2 == 0, a >= 0):
        if condition.any() and not condition.all():
            same(np.piecewise(x / 2, [mt.asarray(condition)], [lambda v: v - v.mean(), lambda v: v.max()]),
                 np.piecewise(a / 2, [condition], [lambda v: v - v.mean(), lambda v: v.max()]))  # fmt: skip


@given(cut_arrays(low=1), st.data())
def test_choose_and_isin(pair, data):
    a, x = pair
    b = a % 3
    y = data.draw(cut(b))
    same(mt.choose(y, [x, 5, x * 10]), np.choose(b, [a, 5, a * 10]))
    same(np.isin(x, [3, 5, 100]), np.isin(a, [3, 5, 100]))
    same(np.isin(x, y, invert=True), np.isin(a, b, invert=True))


@given(cut_arrays(low=1, high=3), st.data())
def test_positions_along_an_axis(pair, data):
    a, x = pair
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    at = np.argsort(-a % 5, axis, kind="stable")
    same(np.take_along_axis(x, data.draw(cut(at)), axis), np.take_along_axis(a, at, axis))
    if a.ndim > 1:
        few = np.take(at, range(min(1, a.shape[axis])), axis)
        same(np.take_along_axis(x, few, axis), np.take_along_axis(a, few, axis))
    np.put_along_axis(x, at, -a, axis)
    np.put_along_axis(a, at, -a.copy(), axis)
    same(x, a)


@pytest.mark.parametrize("chunk", [1, 2, 9])
def test_positions_and_values_that_are_written_broadcast(chunk):
    for at, put in (([[0, 3]], 9), ([[1], [2], [0]], [7]), ([[2]], [[1], [2], [3]]), ([[0, 1]], [[0, 1]] * 3)):
        a = np.zeros((3, 4))
        x = mt.asarray(a.copy(), chunk_size=chunk)
        mt.put_along_axis(x, mt.asarray(at), put, 1)
        np.put_along_axis(a, np.array(at), np.array(put), 1)
        same(x, a)


def test_a_numpy_array_of_this_process_is_written():
    a = np.zeros((2, 3))
    mt.put_along_axis(a, mt.asarray([[1], [2]]), mt.asarray([5.0]), 1)
    assert a.tolist() == [[0, 5, 0], [0, 0, 5]]


@pytest.mark.parametrize(
    ("at", "put", "axis"),
    [([[0, 1], [1, 0]], 1, 1), ([[0, 1]], [1, 2, 3], 1), ([0, 1], 1, 1), ([[0.0]], 1, 1), ([[0]], 1, None)],
)
def test_positions_that_do_not_fit_raise_numpys_error(at, put, axis):
    with pytest.raises((IndexError, ValueError)) as expected:
        np.put_along_axis(np.zeros((3, 4)), np.array(at), put, axis)
    with pytest.raises(expected.type):
        mt.put_along_axis(mt.zeros((3, 4), chunk_size=2), mt.asarray(at), put, axis)


@given(st.integers(0, 9), st.data())
def test_extremes_without_nan(seed, data):
    a = np.random.default_rng(seed).integers(0, 4, (3, 5)).astype(float)
    a[:, seed % 5] = np.nan
    x = data.draw(cut(a))
    for axis in (None, 0, 1):
        if axis == 0:
            with pytest.raises(ValueError, match="All-NaN"):
                np.nanargmax(x, 0)
            continue
        same(np.nanargmin(x, axis), np.nanargmin(a, axis))
        same(np.nanargmax(x, axis), np.nanargmax(a, axis))


def test_what_cannot_be_is_said():
    x = mt.arange(4)
    with pytest.raises(ValueError, match="same length"):
        np.select([x > 1], [])
    with pytest.raises(TypeError, match="boolean"):
        np.select([x], [x])
    with pytest.raises(ValueError, match="clipmode"):
        mt.choose(x, [x], mode="other")
    with pytest.raises(ValueError, match="functions are expected"):
        np.piecewise(x, [x > 1], [1, 2, 3])
    with pytest.raises(ValueError, match="invalid entry"):
        mt.choose(x, [x, x]).fetch()


def test_conditions_of_piecewise_are_not_fetched(engine, monkeypatch):
    x = mt.arange(100.0, chunk_size=10)
    fetched = []
    monkeypatch.setattr(engine, "fetch", lambda data, copy=True: fetched.append(data.shape))
    np.piecewise(x, [x < 50], [lambda v: v * 2, 1.0])
    assert not fetched
