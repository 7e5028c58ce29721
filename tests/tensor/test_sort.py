"""Sorting, medians and percentiles: NumPy's values for any cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from tests.cases import numpy_before
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


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy warns of infinities and NaN
@pytest.mark.parametrize("name", ["percentile", "quantile", "nanpercentile", "nanquantile"])
@given(mixed(shortest=1), st.data())
def test_some_elements_count_more_than_others(name, pair, data):
    a, x = pair
    axis = data.draw(st.none() | st.integers(-a.ndim, a.ndim - 1) | st.permutations(range(a.ndim)).map(tuple))
    if a.dtype.kind == "b" or axis == ():
        return
    if isinstance(axis, tuple) and numpy_before("2.4.0"):  # in which weights along several axes were mixed up
        return
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    along = a.shape if axis is None else tuple(np.take(a.shape, np.atleast_1d(axis)).tolist())
    shape = data.draw(st.sampled_from([a.shape, along]))
    weights = rng.integers(data.draw(st.sampled_from([0, 1, 1])), 4, size=shape).astype(
        data.draw(st.sampled_from(["f8", "f4", "i8", "u1"]))
    )
    q = data.draw(st.sampled_from([0.25, [0, 0.3, 1], np.array([[0.1, 0.2]])]))
    q = q if "quantile" in name else 100 * np.asarray(q)
    options = {"axis": axis, "method": "inverted_cdf", "keepdims": data.draw(st.booleans())}
    given_ = data.draw(st.sampled_from([weights, mt.asarray(weights, chunk_size=2)]))
    full = weights if weights.shape == a.shape else np.broadcast_to(_spread(weights, a.shape, axis), a.shape)
    try:  # NumPy's nanquantile takes weights of the array's own shape only, where there are several axes
        expected = getattr(np, name)(a, q, weights=full, **options)
    except ValueError:
        with pytest.raises(ValueError):
            getattr(mt, name)(x, q, weights=given_, **options).fetch()
        return
    same(getattr(mt, name)(x, q, weights=given_, **options), expected)


def _spread(weights, shape, axis):
    axes = [i % len(shape) for i in np.atleast_1d(axis)]
    return weights.transpose(np.argsort(axes)).reshape([n if i in axes else 1 for i, n in enumerate(shape)])


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
    with pytest.raises(ValueError, match="Only method 'inverted_cdf' supports weights"):
        mt.quantile(x, 0.5, weights=np.ones(6))
    with pytest.raises(TypeError, match="Axis must be specified"):
        mt.quantile(x, 0.5, weights=np.ones(5), method="inverted_cdf")
    with pytest.raises(ValueError, match="consistent with shape of a along specified axis"):
        mt.quantile(x, 0.5, axis=0, weights=np.ones(5), method="inverted_cdf")
    with pytest.raises(ValueError, match="non-negative"):
        mt.quantile(x, 0.5, weights=-np.ones(6), method="inverted_cdf").fetch()
    with pytest.raises(ValueError, match="no fields"):
        mt.sort(x, order="name")
    with pytest.raises(np.exceptions.AxisError):
        mt.sort(x, axis=1)
