"""Arrays side by side, in pieces, repeated."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.tensor.engine import set_engine
from jmars.tensor.splits import chunk_bytes
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor.cut import cut, cut_arrays, numbered, same, shapes
from tests.tensor.engine import OneByOne, tiled


@given(st.data())
def test_arrays_are_joined_along_any_axis(data):
    shape = list(data.draw(shapes(1, 3)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    arrays = []
    for dtype in data.draw(st.lists(st.sampled_from(["i4", "f4", "i8"]), min_size=1, max_size=3)):
        shape[axis] = data.draw(st.integers(0, 4))
        arrays.append(numbered(tuple(shape), dtype))
    tensors = [data.draw(cut(a)) for a in arrays]
    same(np.concatenate(tensors, axis), np.concatenate(arrays, axis))
    same(np.concatenate(tensors, None), np.concatenate(arrays, None))
    same(np.concatenate([arrays[0], *tensors], axis), np.concatenate([arrays[0], *arrays], axis))
    same(np.append(tensors[0], tensors[-1], axis), np.append(arrays[0], arrays[-1], axis))


@given(st.data())
def test_stacks(data):
    array, x = data.draw(cut_arrays(0, 3, 4))
    y = data.draw(cut(array * 2.5))
    axis = data.draw(st.integers(-array.ndim - 1, array.ndim))
    same(np.stack([x, y], axis), np.stack([array, array * 2.5], axis))
    for name in ("hstack", "vstack", "dstack", "column_stack"):
        same(getattr(np, name)([x, y]), getattr(np, name)([array, array * 2.5]))


def test_joining_copies_nothing():
    x = mt.ones(100, chunk_size=10)
    assert tiled(TensorGraph.of([np.concatenate([x, x, x]).data])).n == 10
    set_engine(OneByOne(limit=8 * 900))  # of chunks of 900 bytes
    assert tiled(TensorGraph.of([np.tile(x, 4).data])).n == 10


def test_repetitions_of_a_small_array_share_chunks():
    set_engine(OneByOne(limit=8 * 4000))
    x = np.tile(mt.arange(10.0, chunk_size=5), (3, 1000))
    assert x.chunks == ((3,), (500,) * 20) or max(map(max, x.chunks)) <= 500
    same(x, np.tile(np.arange(10.0), (3, 1000)))


@given(st.data())
def test_splits(data):
    array, x = data.draw(cut_arrays(1, 3))
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    sections = data.draw(st.integers(1, 5) | st.lists(st.integers(-3, 9), max_size=3))
    ours, theirs = np.array_split(x, sections, axis), np.array_split(array, sections, axis)
    for our, their in zip(ours, theirs, strict=True):
        same(our, their)


def test_splits_of_one_length():
    x = mt.arange(24, chunk_size=5).reshape(4, 6, 1)
    array = np.arange(24).reshape(4, 6, 1)
    for name, n in (("vsplit", 2), ("hsplit", 3), ("dsplit", 1), ("split", 4)):
        for our, their in zip(getattr(np, name)(x, n), getattr(np, name)(array, n), strict=True):
            same(our, their)
    with pytest.raises(ValueError, match="equal division"):
        np.split(x, 3)


def test_blocks_and_their_parts():
    a, b, c = np.ones((2, 2)), np.zeros((2, 3)), np.arange(5.0)
    x, y, z = (mt.asarray(part, chunk_size=2) for part in (a, b, c))
    same(np.block([[x, y], [z]]), np.block([[a, b], [c]]))
    same(np.block([x, y]), np.block([a, b]))
    same(np.block([1, z, 2]), np.block([1, c, 2]))
    with pytest.raises(ValueError):
        mt.block([[x], y])
    for ours, theirs in zip(np.unstack(y, axis=1), np.unstack(b, axis=1), strict=True):
        same(ours, theirs)


@given(st.data())
def test_tile_and_repeat(data):
    array, x = data.draw(cut_arrays(0, 3, 4))
    reps = tuple(data.draw(st.lists(st.integers(0, 3), max_size=4)))
    same(np.tile(x, reps), np.tile(array, reps))
    axis = data.draw(st.none() | st.integers(-array.ndim, array.ndim - 1)) if array.ndim else None
    n = array.size if axis is None else array.shape[axis]
    counts = data.draw(st.integers(0, 4) | st.lists(st.integers(0, 3), min_size=n, max_size=n))
    same(np.repeat(x, counts, axis), np.repeat(array, np.array(counts, int), axis))


@pytest.mark.parametrize("dtype", [">i4", "f2", "c16", "U3", "S2", "M8[s]", "?", [("a", "i4"), ("b", "f8", 2)]])
@pytest.mark.parametrize("count", [0, 1, 2, [3], np.uint8(5), True])
def test_repeat_by_a_number_keeps_every_dtype(engine, dtype, count):
    array = np.arange(12).astype("i4").view("u1")[::4].reshape(3, 4).astype(np.dtype(dtype))
    x = mt.asarray(array, chunk_size=2)
    for axis in (0, 1, None):
        same(np.repeat(x, count, axis), np.repeat(array, count, axis))
    with pytest.raises(ValueError, match="negative"):
        np.repeat(x, -1)


@pytest.mark.parametrize("length, count", [(20_000_000, 3), (3, 50_000_000), (1000, 100_000)])
def test_repeat_by_a_number_makes_no_positions(length, count):
    x = mt.arange(length, dtype="f8")
    tracemalloc.start()
    try:
        repeated = np.repeat(x, count)
        tiled(TensorGraph.of([repeated.data]))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**20
    assert max(repeated.chunks[0]) * 8 <= chunk_bytes()


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
@given(data=st.data())
def test_pads(mode, data):
    array, x = data.draw(cut_arrays(1, 3, 5).filter(lambda pair: min(pair[0].shape) > 0))
    most = 4 if mode in ("constant", "edge") else min(array.shape) - (mode == "reflect")
    widths = [data.draw(st.tuples(*[st.integers(0, most)] * 2)) for _ in array.shape]
    same(np.pad(x, widths, mode), np.pad(array, widths, mode))


def test_pads_with_given_values():
    array, x = np.ones((3, 4), "i2"), mt.ones((3, 4), "i2", chunk_size=2)
    same(np.pad(x, 2, constant_values=((1, 2), (3, 4))), np.pad(array, 2, constant_values=((1, 2), (3, 4))))
    with pytest.raises(UnsupportedError, match="function"):
        np.pad(x, 2, lambda *_: None)


@pytest.mark.parametrize("arrays", [[], [np.ones(2), np.ones((2, 2))], [np.ones((2, 3)), np.ones((2, 4))], [1, 2]])
def test_what_does_not_fit_is_refused_as_numpy_does(arrays):
    with pytest.raises(ValueError):
        np.concatenate(arrays)
    with pytest.raises(ValueError):
        mt.concatenate([mt.asarray(a) for a in arrays])


def test_a_second_array_in_place_of_the_axis_is_numpys_error() -> None:
    x = np.arange(3)
    for first, second in ((x, x), ([x], 1.0), ([x], "0")):
        with pytest.raises(TypeError) as theirs:
            np.concatenate(first, second)
        with pytest.raises(TypeError) as ours:
            mt.concatenate(mt.asarray(first), mt.asarray(second) if second is x else second)
        assert str(ours.value) == str(theirs.value)
