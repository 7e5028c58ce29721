"""`x[index]` means what NumPy means; what has no known shape says what to do instead."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.config import config
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor.cut import cut, cut_arrays, numbered, same, slices
from tests.tensor.engine import tiled


def positions(length: int, shape) -> st.SearchStrategy[np.ndarray]:
    n = int(np.prod(shape))
    return st.lists(st.integers(-length, length - 1), min_size=n, max_size=n).map(
        lambda values: np.array(values, np.int64).reshape(shape)
    )


@given(st.data())
def test_an_integer_array_beside_slices_and_ints(data):
    array, x = data.draw(cut_arrays(1, 3).filter(lambda pair: pair[0].size))
    at = data.draw(st.integers(0, array.ndim - 1))
    index = [data.draw(slices(n) | st.integers(0, n - 1)) for n in array.shape]
    index[at] = data.draw(positions(array.shape[at], data.draw(st.sampled_from([(3,), (1,), (0,), (2, 2), (9,)]))))
    same(x[tuple(index)], array[tuple(index)])


@given(st.data())
def test_several_integer_arrays_are_taken_together(data):
    array, x = data.draw(cut_arrays(2, 3).filter(lambda pair: pair[0].size))
    index = [data.draw(positions(n, (4,)) | positions(n, (3, 1)) | slices(n)) for n in array.shape]
    try:
        expected = array[tuple(index)]
    except IndexError:
        with pytest.raises((IndexError, ValueError)):
            x[tuple(index)]
        return
    same(x[tuple(index)], expected)


@given(st.data())
def test_a_boolean_array_of_numpys_is_positions(data):
    array, x = data.draw(cut_arrays(1, 3))
    mask = array % 3 == 0
    same(x[mask], array[mask])
    rows = np.arange(array.shape[0]) % 2 == 0
    same(x[rows], array[rows])
    same(x[rows.tolist()] if len(rows) else x[rows], array[rows])


def test_several_lazy_masks_are_computed_first():
    array = np.arange(12).reshape(3, 4)
    x = mt.as_tensor(array, chunk_size=2)
    rows, columns = array[:, 0] != 4, array[0] % 2 == 1
    same(x[mt.as_tensor(rows), mt.as_tensor(columns)], array[rows, columns])
    same(x[mt.as_tensor(rows), [1, 2]], array[rows, [1, 2]])


def test_integer_tensors_are_positions_too():
    x = mt.arange(10, chunk_size=3) * 2
    assert x[mt.asarray([1, 5])].fetch().tolist() == [2, 10]
    assert int(x[mt.asarray(3)]) == 6


@pytest.mark.parametrize("index", [[10], [-11], [[0, 99]], "a", 1.5, np.array([0.5]), np.ones(9, bool)])
def test_wrong_indices_are_refused_as_numpy_does(index):
    with pytest.raises(IndexError):
        np.arange(10)[index]
    with pytest.raises(IndexError):
        mt.arange(10, chunk_size=3)[index]


@given(st.data())
def test_take(data):
    array, x = data.draw(cut_arrays(1, 3).filter(lambda pair: pair[0].size))
    axis = data.draw(st.none() | st.integers(-array.ndim, array.ndim - 1))
    length = array.size if axis is None else array.shape[axis]
    where = data.draw(positions(length, data.draw(st.sampled_from([(), (5,), (2, 3)]))))
    same(np.take(x, where, axis), np.take(array, where, axis))
    for mode in ("wrap", "clip"):
        same(np.take(x, where + length, axis, mode=mode), np.take(array, where + length, axis, mode=mode))


def test_only_ascending_positions_follow_the_chunks():
    x = mt.arange(6, chunk_size=3)
    assert x[[0, 3, 4, 5]].chunks == ((1, 3),)
    assert x[[5, 4, 3, 2]].chunks == ((3, 1),)


def test_many_positions_in_a_short_axis_make_few_chunks(monkeypatch):
    which = np.arange(100_000) % 12
    table = mt.asarray(np.arange(12.0))
    assert table[which].chunks == ((100_000,),)
    assert len(mt.asarray(np.arange(12.0), chunk_size=5)[which].chunks[0]) == 3
    assert np.take(mt.zeros((3, 12)), which, 1).chunks == ((3,), (100_000,))
    monkeypatch.setattr(config, "chunk_size_limit", 80_000)
    assert max(table[which].chunks[0]) == 10_000
    same(table[which], np.arange(12.0)[which])


@given(st.data())
def test_delete(data):
    array, x = data.draw(cut_arrays(1, 3).filter(lambda pair: pair[0].size))
    axis = data.draw(st.none() | st.integers(-array.ndim, array.ndim - 1))
    length = array.size if axis is None else array.shape[axis]
    masks = st.lists(st.booleans(), min_size=length, max_size=length).map(np.array)
    several = st.integers(0, 2 * length).flatmap(lambda n: positions(length, (n,)))
    gone = data.draw(st.integers(-length, length - 1) | slices(length) | positions(length, (2,)) | masks | several)
    same(np.delete(x, gone, axis), np.delete(array, gone, axis))


@pytest.mark.parametrize(
    "gone", [5, -6, [5], [0, 7], [0.5, 1], np.array([]), np.array([0.0]), [True] * 4, [[0, 1], [1, 2]], [], (), True]
)
def test_delete_takes_and_refuses_what_numpy_does(gone):
    array, x = np.arange(5), mt.arange(5, chunk_size=2)
    try:
        expected = np.delete(array, gone)
    except (IndexError, ValueError) as error:
        with pytest.raises(type(error)) as raised:
            np.delete(x, gone)
        assert str(raised.value) == str(error)
    else:
        same(np.delete(x, gone), expected)


@pytest.mark.parametrize("gone", [5, [3, 10_000_000], slice(None, None, 2), slice(19_000_000, 5, -1)])
def test_delete_makes_no_positions_of_what_stays(gone):
    x = mt.arange(20_000_000, dtype="f8", chunk_size=1_000_000)
    tracemalloc.start()
    try:
        left = np.delete(x, gone)
        tiled(TensorGraph.of([left.data]))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**20
    assert max(left.chunks[0]) <= 1_000_000


@given(st.data())
def test_flip_roll_and_rot90(data):
    array, x = data.draw(cut_arrays(2, 3))
    axis = data.draw(st.none() | st.integers(-array.ndim, array.ndim - 1))
    shift = data.draw(st.integers(-9, 9))
    same(np.flip(x, axis), np.flip(array, axis))
    same(np.roll(x, shift, axis), np.roll(array, shift, axis))
    same(np.roll(x, (shift, 1), (0, -1)), np.roll(array, (shift, 1), (0, -1)))
    same(np.rot90(x, shift), np.rot90(array, shift))
    same(np.fliplr(x), np.fliplr(array))
    same(np.flipud(x), np.flipud(array))


@given(st.data())
def test_diagonals(data):
    array, x = data.draw(cut_arrays(2, 3))
    k = data.draw(st.integers(-8, 8))
    same(np.diagonal(x, k), np.diagonal(array, k))
    same(x.diagonal(k, -1, 0), array.diagonal(k, -1, 0))


@given(st.data())
def test_iteration_gives_rows(data):
    array = numbered((4, 3))
    x = data.draw(cut(array))
    for ours, theirs in zip(x, array, strict=True):
        same(ours, theirs)
