"""Axes moved, added, removed: NumPy's results for any cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.ops.shape import permute
from tests.tensor.cut import cut_arrays, same


@given(st.data())
def test_transposes(data):
    array, x = data.draw(cut_arrays(0, 4, 5))
    order = data.draw(st.permutations(range(array.ndim)))
    same(x.T, array.T)
    same(np.transpose(x, order), np.transpose(array, order))
    same(x.transpose(*order), array.transpose(*order))
    if array.ndim > 1:
        a, b = data.draw(st.integers(-array.ndim, array.ndim - 1)), data.draw(st.integers(0, array.ndim - 1))
        same(np.swapaxes(x, a, b), np.swapaxes(array, a, b))
        same(np.moveaxis(x, a, b), np.moveaxis(array, a, b))
        same(np.rollaxis(x, a, b), np.rollaxis(array, a, b))
        same(x.mT, array.mT)


@pytest.mark.parametrize("shape", [(600, 300), (300, 512), (3, 70, 65), (70, 3, 130), (1, 1), (0, 5)])
def test_a_chunk_is_transposed_square_by_square(shape):
    array = np.arange(np.prod(shape)).reshape(shape)
    order = tuple(range(len(shape)))[::-1]
    out = np.empty(shape[::-1], array.dtype)
    permute(out, [array], order, None)
    np.testing.assert_array_equal(out, array.T)


@given(st.data())
def test_axes_of_length_one(data):
    array, x = data.draw(cut_arrays(0, 3))
    wide, wider = np.expand_dims(array, (0, -1)), np.expand_dims(x, (0, -1))
    same(wider, wide)
    same(np.squeeze(wider), np.squeeze(wide))
    same(np.squeeze(wider, -1), np.squeeze(wide, -1))
    same(wider.squeeze(axis=(0, -1)), wide.squeeze(axis=(0, -1)))
    for least in (np.atleast_1d, np.atleast_2d, np.atleast_3d):
        same(least(x), least(array))


@given(st.data())
def test_broadcasts(data):
    array, x = data.draw(cut_arrays(0, 2))
    shape = (3, *array.shape)
    same(np.broadcast_to(x, shape), np.broadcast_to(array, shape))
    for ours, theirs in zip(np.broadcast_arrays(x, np.ones(shape)), np.broadcast_arrays(array, np.ones(shape))):
        same(ours, theirs)


def test_what_does_not_fit_is_refused_as_numpy_does():
    x = mt.ones((2, 3))
    for call in (
        lambda: np.squeeze(x, 0),
        lambda: np.broadcast_to(x, (2, 4)),
        lambda: x.transpose(0),
        lambda: np.expand_dims(x, 5),
        lambda: np.moveaxis(x, [0, 1], [0]),
    ):
        with pytest.raises(ValueError):
            call()
