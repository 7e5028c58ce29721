"""NumPy arrays as leaves: one copy for each content, as long as a leaf has it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from jmars.tensor import from_array
from jmars.tensor.from_array import FromArray


def leaf(array):
    return FromArray.take(array, owned=False)


def test_equal_arrays_have_one_copy():
    array = np.random.default_rng(0).random((100, 200))
    first, again, other = leaf(array), leaf(array.copy()), leaf(array + 1)
    assert first.array is again.array is not array and first.array is not other.array
    assert leaf(array.reshape(200, 100)).array.shape == (200, 100)
    assert leaf(array.view("i8")).array.dtype == np.int64
    assert np.array_equal(leaf(array.T).array, array.T) and leaf(array[::2]).array.flags.c_contiguous
    array[0] = 0
    assert (leaf(array).array[0] == 0).all() and (first.array[0] != 0).all() and first.is_unchanged(again.array)
    assert not first.is_unchanged(array)


def test_a_copy_goes_with_its_last_leaf_and_nobody_writes_to_it():
    before = len(from_array._copies)
    one = leaf(np.arange(20_000.0))
    with pytest.raises(ValueError, match="read-only"):
        one.array[0] = 1
    assert len(from_array._copies) == before + 1
    del one
    gc.collect()
    assert len(from_array._copies) == before


def test_small_arrays_are_copied_each():
    array = np.arange(5)
    assert leaf(array).array is not leaf(array).array
