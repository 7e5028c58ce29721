"""States join to what NumPy gives for the whole, in whatever parts it came."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.kernels.reducers import (
    MeanReducer,
    MomentReducer,
    PositionReducer,
    Reducer,
    UfuncReducer,
    state_shape,
    states,
)

F8 = np.dtype("f8")
floats = st.floats(-1e6, 1e6) | st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0])


def joined(reducer: Reducer, parts: list[np.ndarray], dtype: object) -> np.ndarray:
    total, start = None, 0
    for part in parts:
        shape, chunk = state_shape(reducer, (1,))
        state = states(reducer, np.zeros(shape, chunk))
        reducer.leaf(part, (0,), state, (start,))
        start += len(part)
        if total is None:
            total = state
        else:
            reducer.merge(total, state)
    out = np.empty(1, dtype)
    reducer.finish(total, out)
    return out[0]


def parts_of(values: list[float], cuts: list[int]) -> list[np.ndarray]:
    return [part for part in np.split(np.array(values), sorted(set(cuts))) if part.size]


@given(st.lists(floats, min_size=1), st.lists(st.integers(0, 30)))
def test_means_and_moments_with_empty_parts(values, cuts):
    parts = np.split(np.array(values), sorted(cuts))
    with np.errstate(all="ignore"):
        mean, moments = (joined(one, parts, F8) for one in (MeanReducer(F8), MomentReducer(F8, 0, False)))
        np.testing.assert_allclose(mean, np.mean(values), rtol=1e-9, atol=1e-9 * max(map(abs, values)))
        np.testing.assert_equal(moments, joined(MomentReducer(F8, 0, False), [one for one in parts if one.size], F8))


@given(st.lists(floats, min_size=1), st.lists(st.integers(0, 30)))
def test_moments(values, cuts):
    parts = parts_of(values, cuts)
    with np.errstate(all="ignore"):
        ours, theirs = joined(MomentReducer(F8, 0, False), parts, F8), np.var(values)
    largest = max([abs(v) for v in values if np.isfinite(v)], default=0)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-15 * largest**2)


def test_moments_of_three_parts_of_different_lengths():
    parts = [np.zeros(1), np.full(3, 4.0), np.full(2, 9.0)]
    assert joined(MomentReducer(F8, 0, False), parts, F8) == pytest.approx(np.var(np.concatenate(parts)))


@given(st.lists(floats, min_size=1), st.lists(st.integers(0, 30)), st.sampled_from(["argmin", "argmax"]))
def test_positions(values, cuts, name):
    reducer = PositionReducer(name, F8, None, (len(values),))
    assert joined(reducer, parts_of(values, cuts), np.intp) == getattr(np, name)(values)


@given(st.lists(floats, min_size=1), st.lists(st.integers(0, 30)), st.sampled_from(["minimum", "maximum", "fmin"]))
def test_extremes(values, cuts, name):
    np.testing.assert_equal(
        joined(UfuncReducer(name, F8), parts_of(values, cuts), F8), getattr(np, name).reduce(np.array(values))
    )


@pytest.mark.parametrize("reducer", [MomentReducer(np.dtype("c16"), 1, True), PositionReducer("argmin", F8, 0, (3,))])
def test_records_lie_in_chunks_as_bytes(reducer):
    shape, dtype = state_shape(reducer, (2, 1))
    assert dtype == np.dtype("u1") and shape == (2, 1, reducer.state.itemsize)
    view = states(reducer, np.zeros(shape, dtype))
    assert view.shape == (2, 1) and view.dtype == reducer.state
