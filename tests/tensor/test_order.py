"""Sorting, medians and percentiles: NumPy's values for any cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from tests.tensor.cut import cut, same, shapes


@st.composite
def mixed(draw, low=1, shortest=0):
    """Arrays with equal values, NaN and infinities in them, and the same as tensors."""
    shape = draw(shapes(low, 3).filter(lambda s: min(s) >= shortest))
    dtype = draw(st.sampled_from(["f8", "f4", "i8", "u1", "?"]))
    values = np.random.default_rng(draw(st.integers(0, 9))).integers(-4, 5, shape).astype(dtype)
    if dtype in ("f8", "f4") and values.size:
        values.reshape(-1)[::5] = draw(st.sampled_from([np.nan, np.inf, -0.0, 1.0]))
    return values, draw(cut(values))


@given(mixed(), st.data())
def test_sorting_along_an_axis(pair, data):
    a, x = pair
    axis = data.draw(st.none() | st.integers(-a.ndim, a.ndim - 1))
    same(mt.sort(x, axis), np.sort(a, axis))
    same(np.argsort(x, axis, kind="stable"), np.argsort(a, axis, kind="stable"))
    for i in [] if axis is None else [axis]:
        assert mt.sort(x, i).chunks[: i % a.ndim] == x.chunks[: i % a.ndim]


@given(mixed(shortest=1), st.data())
def test_partitions_hold_the_same_values_on_each_side(pair, data):
    a, x = pair
    axis = data.draw(st.integers(0, a.ndim - 1))
    k = data.draw(st.integers(0, a.shape[axis] - 1))
    value = np.partition(x, k, axis).fetch()
    where = [slice(None)] * a.ndim
    where[axis] = slice(k, k + 1)
    np.testing.assert_array_equal(value[tuple(where)], np.partition(a, k, axis)[tuple(where)])
    np.testing.assert_array_equal(np.sort(value, axis), np.sort(a, axis))
    found = np.take_along_axis(a, mt.argpartition(x, k, axis).fetch(), axis)
    np.testing.assert_array_equal(found[tuple(where)], value[tuple(where)])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy warns of infinities and NaN
@given(mixed(shortest=1), st.data())
def test_medians_and_quantiles(pair, data):
    a, x = pair
    axis = data.draw(st.none() | st.integers(-a.ndim, a.ndim - 1) | st.just(tuple(range(a.ndim))))
    keepdims = data.draw(st.booleans())
    same(np.median(x, axis, keepdims=keepdims), np.median(a, axis, keepdims=keepdims))
    same(np.nanmedian(x, axis, keepdims=keepdims), np.nanmedian(a, axis, keepdims=keepdims))
    if a.dtype.kind == "b":
        return
    q = data.draw(st.sampled_from([25, [0, 30, 100], [[10.0, 20.0]], []]))
    method = data.draw(st.sampled_from(["linear", "nearest", "hazen"]))
    same(np.percentile(x, q, axis, method=method, keepdims=keepdims),
         np.percentile(a, q, axis, method=method, keepdims=keepdims))  # fmt: skip
    same(np.nanquantile(x, 0.4, axis, keepdims=keepdims), np.nanquantile(a, 0.4, axis, keepdims=keepdims))


def test_a_median_goes_into_a_tensor():
    x, out = mt.arange(12.0, chunk_size=5).reshape(3, 4), mt.zeros(4)
    assert np.median(x, axis=0, out=out) is out
    same(out, np.median(np.arange(12.0).reshape(3, 4), axis=0))


def test_what_cannot_be_is_said():
    x = mt.arange(6.0)
    with pytest.raises(ValueError, match="Percentiles"):
        mt.percentile(x, 101)
    with pytest.raises(ValueError):
        mt.quantile(x, 0.5, method="other")
    with pytest.raises(UnsupportedError, match="weights"):
        mt.quantile(x, 0.5, weights=np.ones(6), method="inverted_cdf")
    with pytest.raises(ValueError, match="no fields"):
        mt.sort(x, order="name")
    with pytest.raises(np.exceptions.AxisError):
        mt.sort(x, axis=1)
