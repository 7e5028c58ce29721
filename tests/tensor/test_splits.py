"""Four spellings of a chunk size, and what is wrong with the others."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import ChunkSizeError
from jmars.tensor.engine import set_engine
from jmars.tensor.ops.constants import ones
from jmars.tensor.splits import common_splits, decide_splits, split_axis
from tests.tensor.engine import OneByOne

F8 = np.dtype("f8")


def test_an_int_cuts_every_axis():
    assert decide_splits((100,), F8, 30) == ((30, 30, 30, 10),)
    assert decide_splits((5, 3), F8, 2) == ((2, 2, 1), (2, 1))
    assert decide_splits((5,), F8, 10) == ((5,),)


def test_a_tuple_has_one_entry_per_axis():
    assert decide_splits((100, 8), F8, (30, 4)) == ((30, 30, 30, 10), (4, 4))
    assert decide_splits((100, 8), F8, (30, -1)) == decide_splits((100, 8), F8, (30, None))
    assert decide_splits((10,), F8, (4,)) == ((4, 4, 2),)


def test_splits_can_be_given_as_they_are():
    assert decide_splits((5, 3), F8, ((1, 4), (3,))) == ((1, 4), (3,))
    assert decide_splits((5, 3), F8, ((1, 4), 2)) == ((1, 4), (2, 1))
    assert decide_splits((5,), F8, (1, 4)) == ((1, 4),)


def test_chunks_is_another_name():
    assert ones(10, chunks=4).chunks == ones(10, chunk_size=4).chunks
    with pytest.raises(ChunkSizeError, match="two names"):
        ones(10, chunks=4, chunk_size=4)


@pytest.mark.parametrize("wrong", [0, -2, (3, 3), "big", 2.5, ((3, 3),), ((-1, 11),), ((0, 10),), (2.5,), True and "x"])
def test_what_cuts_no_array_is_refused(wrong):
    with pytest.raises(ChunkSizeError):
        decide_splits((10,), F8, wrong)


def test_texts_are_sizes_in_bytes():
    assert decide_splits((1000,), F8, "2000B") == ((250,) * 4,)
    assert decide_splits((1000, 1000), F8, "1MB") == ((334, 333, 333),) * 2
    assert decide_splits((1000, 50), F8, ("8kB", 10)) == ((100,) * 10, (10,) * 5)
    assert decide_splits((1000, 50), F8, {0: "auto", 1: (20, 30)}) == ((1000,), (20, 30))
    set_engine(OneByOne(limit=8 * 2 * 8000, workers=2))
    assert decide_splits((1000, 50), F8, {0: "auto"}) == ((20,) * 50, (50,))


def test_axes_that_are_not_named_keep_their_cut():
    x = ones((10, 6, 4), chunk_size=(3, 4, 2))
    assert x.rechunk({1: 6}).chunks == ((3, 3, 3, 1), (6,), (2, 2))
    assert x.rechunk((5, None, -1)).chunks == ((5, 5), (4, 2), (4,))
    assert x.rechunk({-1: -1}).chunks == ((3, 3, 3, 1), (4, 2), (4,))
    assert x.rechunk({}).chunks == x.chunks and x.rechunk().chunks == ((10,), (6,), (4,))


def test_empty_axes_have_one_empty_chunk():
    assert decide_splits((0, 4), F8, 3) == ((0,), (3, 1))
    assert decide_splits((), F8, 3) == ()
    assert split_axis(0, 5) == (0,)


def test_small_arrays_stay_whole_and_large_ones_keep_to_the_limit():
    assert decide_splits((1000, 1000), F8) == ((1000,), (1000,))
    set_engine(OneByOne(limit=8 * 2 * 2**20, workers=2))  # one MiB a chunk
    cut = decide_splits((1000, 1000), F8)
    assert max(cut[0]) * max(cut[1]) * 8 <= 2**20
    assert len(cut[0]) * len(cut[1]) <= 16


@pytest.mark.parametrize("kind", ["?", "i1", "u2", "f4", "S3", "S0"])
def test_narrow_elements_are_cut_as_elements_of_eight_bytes(kind):
    set_engine(OneByOne(limit=8 * 2 * 2**20, workers=2))
    shape, dtype = (1000, 1000), np.dtype(kind)
    assert decide_splits(shape, dtype) == decide_splits(shape, F8, "auto") == decide_splits(shape, F8)
    assert decide_splits(shape, dtype, "2MB") == decide_splits(shape, dtype, ("2MB", "2MB"))
    assert len(decide_splits(shape, np.dtype("i1"), "1MB")[0]) == 1  # a size in bytes is what is asked for
    np.testing.assert_array_equal(np.unique(mt.zeros(shape, dtype), return_counts=True)[1], [10**6])


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=4), st.integers(1, 2**20))
def test_automatic_chunks_cover_the_array_within_the_limit(shape, limit):
    set_engine(OneByOne(limit=8 * limit, workers=1))
    cut = decide_splits(tuple(shape), F8)
    assert [sum(axis) for axis in cut] == shape
    assert math.prod(max(axis) for axis in cut) * 8 <= max(limit, 8)


def test_common_splits_cut_inside_no_chunk():
    assert common_splits([(30, 30, 40), (50, 50)]) == (30, 20, 10, 40)
    assert common_splits([(4, 4), (4, 4)]) == (4, 4)
    assert common_splits([(0,), (0,)]) == (0,)


FROM_SMALL = {
    "subtract": lambda xp, a, b: a[:, None] - b,
    "outer": lambda xp, a, b: xp.outer(a, b),
    "add.outer": lambda xp, a, b: xp.add.outer(a, b),
    "meshgrid": lambda xp, a, b: xp.meshgrid(a, b)[0],
    "meshgrid ij": lambda xp, a, b: xp.meshgrid(a, b, indexing="ij")[1],
    "matmul": lambda xp, a, b: a[:, None] @ b[None],
    "einsum": lambda xp, a, b: xp.einsum("i,j->ji", a, b),
    "tensordot": lambda xp, a, b: xp.tensordot(a, b, 0),
    "kron": lambda xp, a, b: xp.kron(a, b),
    "repeat": lambda xp, a, b: xp.repeat(a, 500),
    "tile": lambda xp, a, b: xp.tile(a, 500),
    "tile of columns": lambda xp, a, b: xp.tile(a[:, None], (1, 500)),
    "vander": lambda xp, a, b: xp.vander(a, 500),
    "pad": lambda xp, a, b: xp.pad(a, (5, 400_000)),
    "pad with ramp": lambda xp, a, b: xp.pad(a, (5, 400_000), "linear_ramp", end_values=3.0),
    "pad with mean": lambda xp, a, b: xp.pad(a[None], ((700, 0), (0, 0)), "mean"),
    "broadcast_to": lambda xp, a, b: xp.broadcast_to(a[:, None], (600, 500)),
    "where": lambda xp, a, b: xp.where(a[:, None] > b, a[:, None], b),
    "diag": lambda xp, a, b: xp.diag(a),
}


@pytest.mark.parametrize("name", FROM_SMALL)
def test_results_larger_than_their_inputs_are_cut(name):
    set_engine(OneByOne(limit=8 * 2**20, workers=1))  # one MiB a chunk
    a, b = np.linspace(0, 1, 600), np.linspace(-1, 1, 500)
    expected = FROM_SMALL[name](np, a, b)
    x = FROM_SMALL[name](np, mt.asarray(a), mt.asarray(b))
    assert math.prod(map(max, x.chunks)) * 8 <= 2**20
    assert math.prod(map(len, x.chunks)) <= 9
    np.testing.assert_allclose(x.fetch(), expected)


WIDENED = {
    "divide": lambda xp, a: a / 255,
    "where": lambda xp, a: xp.where(a > 9, 1.0, 0.0),
    "astype": lambda xp, a: a.astype(complex),
    "sort": lambda xp, a: xp.sort(a / 255, axis=0),
    "interp": lambda xp, a: xp.interp(a, [0, 100, 255], [1.0, 2.0, 5.0]),
}


@pytest.mark.parametrize("name", WIDENED)
def test_results_of_wider_elements_are_cut(name):
    set_engine(OneByOne(limit=8 * 2**20, workers=1))  # one MiB a chunk
    a = np.random.default_rng(1).integers(0, 255, (2000, 900), np.uint8)
    x = WIDENED[name](np, mt.asarray(a, chunk_size="1MiB"))
    assert math.prod(map(max, x.chunks)) * x.dtype.itemsize <= 2**20
    np.testing.assert_array_equal(x.fetch(), WIDENED[name](np, a))


def test_results_of_elements_twice_as_wide_keep_their_chunks():
    set_engine(OneByOne(limit=8 * 2**20, workers=1))
    a = mt.zeros((2000, 900), np.float32)
    assert len(a.chunks[0]) > 1 and (a * np.float64(2)).chunks == a.chunks
    assert mt.zeros((2000, 900), np.uint8, chunk_size=200).astype(float).chunks[0] == (200,) * 10  # small as they are


def test_rows_and_columns_meet_in_the_cuts_of_one_of_them():
    a = np.random.default_rng(1).random((60, 60))
    d = mt.asarray(a, chunk_size=(3, 60))
    assert (d + d.T).chunks == d.chunks and (d.T - d).chunks == d.T.chunks
    finer = mt.asarray(a, chunk_size=(60, 2))
    assert (d * finer).chunks == finer.chunks
    np.testing.assert_array_equal((d + d.T * finer).fetch(), a + a.T * a)
    few = mt.asarray(a, chunk_size=(20, 60))
    assert (few + few.T).chunks == ((20,) * 3,) * 2  # nine chunks, of three each
    assert (mt.asarray(a, chunk_size=60) + d).chunks == d.chunks
