"""Elements put in, repeated, trimmed: NumPy's for any cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from tests.tensor.cut import cut, cut_arrays, same, shapes


@given(cut_arrays(), shapes(0, 3, 4))
def test_resize(pair, shape):
    a, x = pair
    same(np.resize(x, shape), np.resize(a, shape))


@given(cut_arrays(low=1, high=2, longest=5), st.data())
def test_insert(pair, data):
    a, x = pair
    axis = data.draw(st.none() | st.integers(0, a.ndim - 1))
    n = a.size if axis is None else a.shape[axis]
    at = data.draw(st.integers(-n, n) | st.lists(st.integers(0, n), min_size=1, max_size=3) | st.just(slice(0, n, 2)))
    same(np.insert(x, at, -7, axis), np.insert(a, at, -7, axis))
    if axis == 0 and isinstance(at, list) and a.ndim == 2:
        rows = np.arange(len(at) * a.shape[1]).reshape(len(at), a.shape[1])
        same(np.insert(x, at, rows, 0), np.insert(a, at, rows, 0))
    if axis == a.ndim - 1 and isinstance(at, int) and a.ndim == 2:
        same(np.insert(x, at, np.arange(a.shape[0]), 1), np.insert(a, at, np.arange(a.shape[0]), 1))


@given(st.lists(st.integers(0, 1), max_size=8), st.sampled_from(["fb", "f", "b"]), st.data())
def test_trim_zeros(values, trim, data):
    a = np.array(values)
    same(np.trim_zeros(data.draw(cut(a)), trim), np.trim_zeros(a, trim))


@given(cut_arrays(low=1), st.booleans(), st.data())
def test_cumulative(pair, initial, data):
    a, x = pair
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    same(
        mt.cumulative_sum(x, axis=axis, include_initial=initial),
        np.cumulative_sum(a, axis=axis, include_initial=initial),
    )
    same(mt.cumulative_prod(x, axis=axis, include_initial=initial),
         np.cumulative_prod(a, axis=axis, include_initial=initial))  # fmt: skip


@given(cut_arrays(high=2, longest=4), st.integers(-2, 2))
def test_diagflat_and_equivalence(pair, k):
    a, x = pair
    same(np.diagflat(x, k), np.diagflat(a, k))
    assert bool(np.array_equiv(x, a)) and bool(np.array_equiv(x, np.stack([a, a])))
    assert not np.array_equiv(mt.ones(3), np.ones(4))


def test_what_cannot_be_is_said():
    with pytest.raises(IndexError, match="out of bounds"):
        np.insert(mt.ones(3), 4, 1)
    with pytest.raises(ValueError, match="axis"):
        mt.cumulative_sum(mt.ones((2, 2)))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("at", [[0, 3, 3, 9], [9, 0, 5], [-1, 2], slice(0, 9, 2), []])
def test_insert_before_several_positions_is_an_operand_per_chunk(engine, axis, at):
    x = np.arange(90.0).reshape(9, 10)
    count = len(range(9)[at]) if isinstance(at, slice) else len(at)
    rows = np.arange(count * 10.0).reshape(count, 10)[:, : x.shape[1 - axis]]
    put = rows if axis == 0 else rows.T
    ours = np.insert(mt.tensor(x, chunk_size=(4, 3)), at, put, axis)
    assert np.array_equal(ours.fetch(), np.insert(x, at, put, axis))


@pytest.mark.parametrize("dtype", ["U3", "S2", "M8[D]", [("a", "i4"), ("b", "U2")]])
def test_what_is_missing_is_the_zero_of_the_dtype(dtype):
    nothing, some = np.zeros(0, dtype), np.zeros(3, dtype)
    same(mt.resize(mt.asarray(nothing), (2, 2)), np.resize(nothing, (2, 2)))
    x = mt.asarray(some, chunk_size=2)
    x.resize(5)
    same(x, np.zeros(5, dtype))
