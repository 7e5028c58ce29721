"""Constants, their likenesses, and values of the user's as tensors."""

from __future__ import annotations

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import ChunkSizeError, UnsupportedError
from tests.tensor.cut import same


@pytest.mark.parametrize("shape", [(), 0, 5, (3, 4), (2, 0, 3)])
@pytest.mark.parametrize("dtype", [float, "i2", bool, "c8", "M8[s]"])
def test_constants(shape, dtype):
    for name in ("zeros", "ones"):
        if name == "zeros" or np.dtype(dtype).kind != "M":
            same(getattr(mt, name)(shape, dtype, chunk_size=2), getattr(np, name)(shape, dtype))
    assert (mt.empty(shape, dtype).shape, mt.empty(shape, dtype).dtype) == (np.empty(shape, dtype).shape, dtype)


def test_full_of_numbers_and_of_arrays():
    same(mt.full((2, 3), 7, chunk_size=2), np.full((2, 3), 7))
    same(mt.full((2, 3), 7.5, "i4", chunk_size=2), np.full((2, 3), 7.5, "i4"))
    same(mt.full((2, 3), [1, 2, 3], chunk_size=2), np.full((2, 3), [1, 2, 3]))
    same(mt.full((2, 3), mt.arange(3)), np.full((2, 3), np.arange(3)))


def test_likenesses_take_shape_dtype_and_chunks():
    x = mt.ones((4, 5), "f4", chunk_size=3)
    array = np.ones((4, 5), "f4")
    for name in ("zeros_like", "ones_like"):
        same(getattr(np, name)(x), getattr(np, name)(array))
        same(getattr(np, name)(x, int, shape=(2, 2)), getattr(np, name)(array, int, shape=(2, 2)))
        assert getattr(np, name)(x).chunks == x.chunks
    same(np.full_like(x, 3.7), np.full_like(array, 3.7))
    same(np.full_like(x, 3.7, dtype=int), np.full_like(array, 3.7, dtype=int))
    assert np.empty_like(x).chunks == x.chunks


def test_arrays_lists_and_numbers_become_tensors():
    same(mt.array([[1, 2], [3, 4]], chunk_size=1), np.array([[1, 2], [3, 4]]))
    same(mt.array(3.5), np.array(3.5))
    same(mt.array([1, 2], dtype="f4", ndmin=2), np.array([1, 2], dtype="f4", ndmin=2))
    same(mt.tensor(np.eye(3), chunk_size=2), np.eye(3))
    assert mt.asarray(np.eye(4), chunks=((1, 3), 2)).chunks == ((1, 3), (2, 2))


def test_lists_of_tensors_are_stacked():
    x = mt.arange(3)
    same(mt.array([x, x * 2]), np.array([[0, 1, 2], [0, 2, 4]]))
    same(mt.array([[x.sum(), 1], [2, x.max()]]), np.array([[3, 1], [2, 2]]))


def test_array_gives_a_value_of_its_own_and_asarray_does_not():
    array, x = np.zeros(3), mt.zeros(3)
    copied, same_handle = mt.array(array), mt.asarray(x)
    array[0] = 1
    assert copied.fetch().tolist() == [0, 0, 0]
    assert same_handle is x and mt.array(x) is not x
    other = mt.array(x)
    other[0] = 5
    assert x.fetch().tolist() == [0, 0, 0]


def test_wrong_shapes_and_values_are_refused():
    with pytest.raises(ValueError, match="negative dimensions"):
        mt.ones((2, -1))
    with pytest.raises(ChunkSizeError):
        mt.ones(3, chunk_size=2, chunks=2)
    with pytest.raises(UnsupportedError):
        mt.as_tensor([object()])
