"""NumPy arrays as leaves: one copy for each content, as long as a leaf has it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import ArrayChangedError
from jmars.tensor import from_array
from jmars.tensor.from_array import FromArray
from jmars.tensor.tensor import as_tensor


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
    one = leaf(np.random.default_rng().random(20_000))  # no other test has such an array
    with pytest.raises(ValueError, match="read-only"):
        one.array[0] = 1
    (key,) = (key for key, copy in from_array._copies.items() if copy is one.array)  # others go at any time
    del one
    gc.collect()
    assert key not in from_array._copies


def test_small_arrays_are_copied_each():
    array = np.arange(5)
    assert leaf(array).array is not leaf(array).array


def test_small_parts_of_a_large_array_are_leaves(monkeypatch):
    monkeypatch.setattr(from_array, "COPIED", 1000)
    monkeypatch.setattr(from_array, "PARTS", 2000)
    array = np.arange(1000.0).reshape(10, 100)
    x = as_tensor(array, lazily=True)
    row, columns = x[3], x[:, [1, 2]]
    assert not row.data.op.inputs and not columns.data.op.inputs
    array[3, 0] = -1  # NumPy would have copied the columns, and shown the write in the row: parts are taken at once
    assert row.data.op.array[0] == 300 and columns.data.op.array.shape == (10, 2)
    assert sum(not x[k].data.op.inputs for k in range(10)) == 1  # the copies have a bound
    assert x[:5].data.op.inputs


@pytest.mark.parametrize("lazily", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.copy(),
        lambda x: x.astype("f8"),
        lambda x: x.flatten(),
        lambda x: mt.concatenate([x]),
        lambda x: mt.roll(x, 0),
        lambda x: mt.pad(x, 0),
        lambda x: copied_to(x),
    ],
)
def test_a_copy_of_a_large_array_shows_no_later_write(engine, monkeypatch, lazily, make):
    monkeypatch.setattr(from_array, "COPIED", 1000)
    array = np.zeros(1000)
    copy = make(as_tensor(array, lazily=lazily))
    assert copy[5].fetch() == 0
    array[5] = 99
    for read in (lambda: copy[5].fetch(), lambda: copy[[5]].fetch(), lambda: copy.sum().fetch()):
        with pytest.raises(ArrayChangedError):
            read()


def copied_to(x):
    made = mt.zeros(x.shape)
    mt.copyto(made, x)
    return made


def test_an_array_is_taken_lazily_by_its_first_reader(monkeypatch):
    monkeypatch.setattr(from_array, "COPIED", 1000)
    array = np.arange(1000.0)
    x = as_tensor(array, lazily=True)
    assert x.data.op.checksum == from_array.PENDING and x[0].data.op.array == 0
    assert x.data.op.checksum == from_array.PENDING
    array[0] = 5
    y = x + 1
    array[0] = 6
    assert x.data.op.checksum != from_array.PENDING and y.data.op.inputs == (x.data,)
    with pytest.raises(ArrayChangedError):
        x.data.op.check()


def test_a_write_beside_the_part_that_is_sent_is_no_error(monkeypatch):
    monkeypatch.setattr(from_array, "COPIED", 1000)
    monkeypatch.setattr(from_array, "_CHECKSUM_BYTES", 800)
    array = np.arange(1000.0).reshape(100, 10)
    x = as_tensor(array).data
    part = x.op.part((range(40, 60, 3), np.array([1, 2, 9])), [], x.meta).operand
    array[[0, 39, 60]] = -1
    part.check()
    assert np.array_equal(part.value, np.arange(1000.0).reshape(100, 10)[40:60:3, [1, 2, 9]])
    array[50, 5] = -1
    with pytest.raises(ArrayChangedError):
        part.check()
