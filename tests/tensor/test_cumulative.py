"""Running sums and differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from tests.tensor.cut import cut_arrays, same


@pytest.mark.parametrize("dtype", ["i8", "i2", "u1", "?", "f4", "f8", "c8"])
@given(data=st.data())
def test_running_sums_and_products(dtype, data):
    array, x = data.draw(cut_arrays(1, 3, 5))
    array, x = (array % 5).astype(dtype), (x % 5).astype(dtype)
    axis = data.draw(st.none() | st.integers(-array.ndim, array.ndim - 1))
    same(np.cumsum(x, axis), np.cumsum(array, axis), rtol=1e-6)
    same(x.cumprod(axis), array.cumprod(axis), rtol=1e-6)
    same(x.cumsum(axis, "c16"), array.cumsum(axis, "c16"), rtol=1e-12)


def test_nan_is_left_out_where_asked():
    array = np.array([1.0, np.nan, 3.0, np.nan, 5.0])
    x = mt.asarray(array, chunk_size=2)
    same(np.cumsum(x), np.cumsum(array))
    same(np.nancumsum(x), np.nancumsum(array))
    same(np.nancumprod(x), np.nancumprod(array))


@given(st.data())
def test_differences(data):
    array, x = data.draw(cut_arrays(1, 3))
    axis, n = data.draw(st.integers(-array.ndim, array.ndim - 1)), data.draw(st.integers(0, 3))
    same(np.diff(x, n, axis), np.diff(array, n, axis))
    same(np.diff(x, axis=axis, prepend=0, append=x), np.diff(array, axis=axis, prepend=0, append=array))
    same(np.diff(x > 3, axis=axis), np.diff(array > 3, axis=axis))
    same(np.ediff1d(x, to_end=[1, 2], to_begin=0), np.ediff1d(array, to_end=[1, 2], to_begin=0))
