"""`x[index] = value` gives what NumPy gives, and touches only the chunks that are written."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.ops import setitem as setitem_module
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor.cut import basic_indices, cut, cut_arrays, same
from tests.tensor.engine import tiled


@given(st.data())
def test_any_basic_part_is_written(data):
    array, x = data.draw(cut_arrays())
    index = data.draw(basic_indices(array.shape))
    part = array[index].shape
    shape = part[data.draw(st.integers(0, len(part))) :]
    shape = tuple(1 if data.draw(st.booleans()) else n for n in shape)
    value = -1 - np.arange(np.prod(shape, dtype=int)).reshape(shape)
    given_value = data.draw(st.sampled_from([value, value.astype("f4")]))
    x[index] = data.draw(st.sampled_from([given_value, data.draw(cut(given_value))]))
    array[index] = value
    same(x, array)


@given(st.data())
def test_a_number_is_written(data):
    array, x = data.draw(cut_arrays())
    index = data.draw(basic_indices(array.shape))
    x[index] = array[index] = -7
    same(x, array)


@given(st.data())
def test_masks_choose_elements(data):
    array, x = data.draw(cut_arrays(1, 3))
    mask = array % 3 == 0
    x[x % 3 == 0] = -1
    array[mask] = -1
    same(x, array)
    rows = np.arange(array.shape[0]) % 2 == 0
    value = np.arange(array.shape[-1]) if array.ndim > 1 else -2
    for given_rows in (rows, mt.asarray(rows)):
        x[given_rows] = value
        array[rows] = value
        same(x, array)


def test_a_mask_of_numpys_takes_one_value_for_each_true_element():
    array, x = np.arange(10), mt.arange(10, chunk_size=3)
    mask = array % 3 == 0
    x[mask] = array[mask] = [40, 30, 20, 10]
    same(x, array)
    lazy = x > 20
    x[lazy] = array[array > 20] = mt.asarray([1, 2])
    same(x, array)
    with pytest.raises(ValueError, match="could not broadcast"):
        x[x > 4] = [1, 2, 3, 4, 5, 6, 7, 8, 9]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_large_mask_takes_one_row_for_each_true_element(monkeypatch, data):
    monkeypatch.setattr(setitem_module, "MANY", -1)
    array, x = data.draw(cut_arrays(1, 3).filter(lambda pair: pair[0].size))
    ndim = data.draw(st.integers(1, array.ndim))
    mask = array.reshape(*array.shape[:ndim], -1).sum(-1) % data.draw(st.sampled_from([1, 2, 3])) == 0
    rows = -1.0 - np.arange(array[mask].size).reshape(array[mask].shape)
    lazy, value = data.draw(cut(mask)), data.draw(cut(rows))
    array[mask] = rows
    x[lazy] = value
    assert not x.data.has_unknown_lengths
    assert not {op.name for op in TensorGraph.of([x.data]).operands} & {"nonzero", "take", "mask"}  # no positions
    same(x, array)


@pytest.mark.parametrize("chunk_size", [4, 20])
def test_rows_for_another_number_of_true_elements_are_refused(chunk_size, monkeypatch):
    monkeypatch.setattr(setitem_module, "MANY", 5)
    array = np.arange(40).reshape(20, 2)
    mask = array[:, 0] > 4
    for ours, value in [(array[:, 0], np.zeros(9, int)), (array, np.zeros((9, 2)))]:
        with pytest.raises(ValueError) as theirs:
            ours.copy()[mask] = value
        x = mt.asarray(ours, chunk_size=chunk_size)
        x[mt.asarray(mask, chunk_size=chunk_size)] = mt.asarray(value)
        with pytest.raises(ValueError) as mine:
            x.fetch()
        assert str(mine.value) == str(theirs.value)
        with pytest.raises(ValueError, match="could not broadcast"):
            mt.asarray(array)[mt.asarray(mask)] = np.zeros((17, 3))


@given(st.data())
def test_an_integer_array_is_written(data):
    array, x = data.draw(cut_arrays(1, 3).filter(lambda pair: pair[0].size))
    axis = data.draw(st.integers(0, array.ndim - 1))
    n = array.shape[axis]
    where = np.array(data.draw(st.lists(st.integers(-n, n - 1), max_size=6)), np.int64)
    index = (slice(None),) * axis + (where,)
    value = -1 - np.arange(array[index].size).reshape(array[index].shape)
    x[index] = array[index] = data.draw(st.sampled_from([value, -5]))
    same(x, array)


@st.composite
def indices_with_arrays(draw, shape):
    """Slices, ints and at least one integer array, all arrays of shapes that broadcast."""
    common = draw(st.sampled_from([(3,), (2, 2), (1,), (0,)]))
    which = draw(st.integers(0, len(shape) - 1))
    entries = []
    for axis, n in enumerate(shape):
        kind = "array" if axis == which else draw(st.sampled_from(["array", "slice", "int", "whole"]))
        if kind == "array":
            own = draw(st.sampled_from([common, common[-1:]]))
            size = int(np.prod(own))
            at = draw(st.lists(st.integers(-n, n - 1), min_size=size, max_size=size))
            entries.append(np.array(at, int).reshape(own))
        else:
            entries.append({"slice": slice(None, None, 2), "int": n - 1, "whole": slice(None)}[kind])
    return tuple(entries)


@given(st.data())
def test_integer_arrays_anywhere_are_written(data):
    array, x = data.draw(cut_arrays(low=1).filter(lambda pair: pair[0].size))
    index = data.draw(indices_with_arrays(array.shape))
    part = array[index].shape
    shape = part[data.draw(st.integers(0, len(part))) :]
    value = -1 - np.arange(np.prod(shape, dtype=int)).reshape(shape)
    chunks = x.chunks
    x[index] = data.draw(st.sampled_from([-7, value, data.draw(cut(value))])) if part else -7
    array[index] = x.fetch()[index]
    same(x, array)
    assert x.chunks == chunks


@given(st.data())
def test_each_element_gets_its_value(data):
    array, x = data.draw(cut_arrays(low=1).filter(lambda pair: pair[0].size))
    index = data.draw(indices_with_arrays(array.shape))
    places = np.arange(array.size).reshape(array.shape)[index]
    assume(len(np.unique(places)) == places.size)  # else the last one wins, by an order that NumPy leaves open
    value = -1 - np.arange(places.size).reshape(places.shape)
    if value.size and data.draw(st.booleans()):
        value = value.reshape(-1)[0]
    x[index] = data.draw(cut(value))
    array[index] = value
    same(x, array)


def test_what_stands_on_the_right_may_be_a_part_of_the_same_array():
    array, x = np.arange(12.0).reshape(4, 3), mt.arange(12.0, chunk_size=5).reshape(4, 3)
    x[:, 0] = x[:, 1]
    array[:, 0] = array[:, 1]
    x[1:] = x[:-1]
    array[1:] = array[:-1].copy()
    x[::-1] = x
    array[::-1] = array.copy()
    x[2] += 5
    array[2] += 5
    x[0, 1:] *= x[1, :-1]
    array[0, 1:] *= array[1, :-1]
    same(x, array)


def test_a_part_with_a_name_changes_with_the_whole():
    x = mt.arange(6, chunk_size=4)
    part = x[1:]
    x[:-1] = part
    assert x.fetch().tolist() == [1, 2, 3, 4, 5, 5] and part.fetch().tolist() == [2, 3, 4, 5, 5]


def test_only_written_chunks_are_made_and_whole_ones_are_not_read():
    x = mt.zeros((100, 100), chunk_size=10)
    x[:10] = 1
    x[95] = 2
    graph = tiled(TensorGraph.of([x.data]))
    assert graph.n == 100 + 10 + 10
    assert np.diff(graph.input_ptr)[100:110].tolist() == [0] * 10


@pytest.mark.parametrize(
    ("index", "value", "error"),
    [
        (slice(0, 3), [1, 2], ValueError),
        (7, 1, IndexError),
        (slice(None), np.ones((2, 6)), ValueError),
        (0, "a", ValueError),
        (0, float("nan"), ValueError),
        ([9], 1, IndexError),
    ],
)
def test_what_does_not_fit_is_refused_as_numpy_does(index, value, error):
    with pytest.raises(error):
        np.arange(6)[index] = value
    with pytest.raises(error):
        mt.arange(6, chunk_size=4)[index] = value


def test_values_are_cast_as_by_assignment():
    array, x = np.zeros(4, "i2"), mt.zeros(4, "i2", chunk_size=3)
    x[1:] = array[1:] = [1.9, -2.7, 3]
    same(x, array)
    with pytest.raises(OverflowError):
        x[0] = 2**20
    with pytest.warns(np.exceptions.ComplexWarning):
        x[:2] = np.array([1j, 2])


def test_copyto_writes_a_whole_tensor():
    x = mt.zeros((2, 3), chunk_size=2)
    np.copyto(x, [1, 2, 3], where=[True, False, True])
    assert x.fetch().tolist() == [[1, 0, 3], [1, 0, 3]]


def test_an_array_whose_length_only_a_run_tells_is_written():
    array = np.arange(7)
    x = mt.arange(7, chunk_size=3)
    array, x = array[array > 1], x[x > 1]
    for index, value in ((slice(0, 1), 9), (slice(-2, None), [7, 8]), (1, 5)):
        array[index] = value
        x[index] = value
    same(x, array)


@pytest.mark.parametrize("dtype", ["S3", "U3"])
@pytest.mark.parametrize("index", [slice(1, 3), slice(None), 2])
@pytest.mark.parametrize("value", ["", "x", "long text"])
def test_text_of_any_length_is_written(dtype, index, value):
    array = np.full(6, "abc", dtype)
    x = mt.asarray(array.copy(), chunk_size=4)
    x[index] = array[index] = value
    same(x, array)


@given(st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_reads_between_writes_have_numpys_values(monkeypatch, data):
    monkeypatch.setattr(setitem_module, "FEW_SHARE", data.draw(st.sampled_from([1, 4])))
    monkeypatch.setattr(setitem_module, "MAX_SKIPPED_WRITES", data.draw(st.integers(1, 4)))
    a = np.arange(30.0).reshape(6, 5)
    x = mt.asarray(a, chunk_size=data.draw(st.integers(1, 6)))
    a = a.copy()
    for number in range(data.draw(st.integers(1, 6))):
        read, write = data.draw(basic_indices(a.shape)), data.draw(basic_indices(a.shape))
        same(x[read] + 0, a[read] + 0)
        if data.draw(st.booleans()) and a[write].size:
            value = np.random.default_rng(number).random(a[write].shape)
            x[write], a[write] = mt.asarray(value), value
        else:
            x[write], a[write] = number, number
        same(x[write] + 0, a[write] + 0)
    same(x, a)


def test_a_row_after_the_write_of_a_row_is_read_from_its_value(engine):
    a = mt.zeros((1000, 10))
    for k in range(1, 200):
        a[k] = a[k - 1] + 1
    graph = TensorGraph.of([a[199].data])
    assert all(math.prod(meta.shape) <= 10 for meta, read in zip(graph.metas, graph.inputs, strict=True) if read)
    same(a[199], np.full(10, 199.0))


def test_elements_that_a_number_was_written_to_are_read_from_the_number():
    x = mt.zeros((200, 4), chunk_size=50)
    for k in range(200):
        x[k] = k
    for read, expected in ((x[7, 1], 7), (x[199, ::-1], [199] * 4), (x[5:6, 1:3], [[5, 5]])):
        assert {operand.label for operand in TensorGraph.of([read.data]).operands}.isdisjoint({"setitem", "zeros"})
        assert read.fetch().tolist() == expected
