"""Dask's and Mars's names do what Dask and Mars do; docs/reference/spellings.md lists what there is."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars
import jmars.tensor as mt
from jmars.errors import UnsupportedError
from tests.tensor.cut import cut, same

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "spellings.md"
ARRAY = np.arange(60.0).reshape(10, 6)
dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")


@pytest.fixture(autouse=True)
def no_threads():
    """Dask's own pool of threads would outlive the test."""
    with dask.config.set(scheduler="synchronous"):
        yield


def both():
    """The same array as Dask's and ours, cut alike."""
    return da.from_array(ARRAY, chunks=(4, 4)), mt.asarray(ARRAY, chunks=(4, 4))


def test_every_name_of_the_page_is_there():
    x = mt.ones((4, 4), chunk_size=2)
    found = 0
    for row in PAGE.read_text().splitlines():
        if not row.startswith("| `"):
            continue
        for module, name in re.findall(r"`(x|da|mt|jmars)\.([a-z_A-Z.]+)", row.split("|")[1]):
            place = {"x": x, "da": mt, "mt": mt, "jmars": jmars}[module]
            for part in name.split("."):
                place = getattr(place, part)
            found += 1
    assert found > 30


def test_what_is_told_of_the_chunks():
    theirs, ours = both()
    for name in ("chunks", "numblocks", "npartitions", "chunksize", "nbytes", "itemsize", "ndim", "shape", "size"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.nsplits == ours.chunks
    assert (ours.blocks.shape, ours.blocks.size) == (theirs.blocks.shape, theirs.blocks.size)


@pytest.mark.parametrize("index", [0, -1, slice(1, 3), (slice(None), 1), (0, 1), [2, 0], (slice(1), [1, 0]), (..., 0)])
def test_blocks_are_dasks(index):
    theirs, ours = both()
    assert ours.blocks[index].chunks == theirs.blocks[index].chunks
    same(ours.blocks[index], theirs.blocks[index].compute())
    same(ours.partitions[index], theirs.partitions[index].compute())


@given(st.data())
def test_all_blocks_are_the_whole(data):
    x = data.draw(cut(ARRAY))
    assert sum(one.size for one in x.blocks.ravel()) == x.size
    same(x.blocks[...], ARRAY)
    same(x.blocks[::-1, 0], np.concatenate([b.fetch() for b in x.blocks[:, 0].blocks.ravel()[::-1]]))


def test_blocks_that_are_not_there():
    x = mt.asarray(ARRAY, chunks=(4, 4))
    for wrong in (3, (0, 2), (0, 0, 0), ([0], [1])):
        with pytest.raises(IndexError):
            x.blocks[wrong]


@pytest.mark.parametrize("index", [([0, 1], [2, 3]), ([9, 0],), (slice(2, 8), [1, 2, 0]), ([1], slice(None))])
def test_points_are_dasks(index):
    theirs, ours = both()
    same(ours.vindex[index], theirs.vindex[index].compute())


def test_points_of_nothing_else():
    x = mt.asarray(ARRAY)
    for wrong in (slice(None), ARRAY > 3, 0.5):
        with pytest.raises(IndexError):
            x.vindex[wrong]


def test_several_are_computed_together():
    theirs, ours = both()
    values = mt.compute(ours.sum(), 3, ours.mean(axis=0))
    expected = (theirs.sum().compute(), 3, theirs.mean(axis=0).compute())
    for one, other in zip(values, expected, strict=True):
        np.testing.assert_array_equal(one, other)
        assert type(one) is type(other)
    assert type(ours.sum().compute()) is np.float64
    (kept,) = mt.persist(ours)
    assert kept is ours and ours.persist() is ours
    pair = mt.ExecutableTuple((ours.sum(), ours.max()))
    assert pair.execute() is pair
    assert [float(one) for one in pair.fetch()] == [ARRAY.sum(), ARRAY.max()]
    same(ours, ours.to_numpy())


@pytest.mark.parametrize(
    "chunks", [3, -1, {0: 2}, {1: -1}, (None, 2), ((3, 7), None), "auto", {0: "auto"}, (5, "auto")]
)
def test_rechunk_is_dasks(chunks):
    theirs, ours = both()
    assert ours.rechunk(chunks).chunks == theirs.rechunk(chunks).chunks
    same(ours.rechunk(chunks), ARRAY)


@pytest.mark.parametrize("chunks", [3, -1, (4, -1), ((4, 6), 3), (4, None)])
def test_creation_takes_dasks_chunks(chunks):
    assert mt.ones((10, 6), chunks=chunks).chunks == da.ones((10, 6), chunks=chunks).chunks
    assert mt.normalize_chunks(chunks, (10, 6)) == da.core.normalize_chunks(chunks, (10, 6))
    with pytest.raises(UnsupportedError, match="64MiB"):
        mt.normalize_chunks(chunks, (10, 6), limit=100)


def test_neighbours_are_dasks():
    theirs, ours = both()

    def smooth(block):
        return block + np.roll(block, 1, 0) + np.roll(block, -1, 0)

    for more in ({}, {"boundary": "reflect"}, {"boundary": 0.0}, {"boundary": "periodic"}, {"boundary": "nearest"}):
        same(ours.map_overlap(smooth, {0: 1}, **more), theirs.map_overlap(smooth, {0: 1}, **more).compute())


def test_coarser_arrays_are_dasks():
    theirs, ours = both()
    for reduction in (np.sum, np.max):
        same(mt.coarsen(reduction, ours, {0: 2, 1: 3}), da.coarsen(reduction, theirs, {0: 2, 1: 3}).compute())
        same(
            mt.coarsen(reduction, ours, {0: 4}, trim_excess=True),
            da.coarsen(reduction, theirs, {0: 4}, trim_excess=True).compute(),
        )
    with pytest.raises(ValueError, match="trim_excess"):
        mt.coarsen(np.sum, ours, {0: 4})


def test_lengths_behind_a_mask():
    x = mt.asarray(ARRAY, chunks=(4, 4))
    assert x[x > 10].compute_chunk_sizes().shape == (49,)


@given(st.data())
def test_the_largest_are_dasks(data):
    array = np.random.default_rng(data.draw(st.integers(0, 9))).integers(0, 9, (7, 6)).astype(float)
    x, k, axis = data.draw(cut(array)), data.draw(st.integers(1, 8)), data.draw(st.integers(-2, 1))
    theirs = da.from_array(array, chunks=x.chunks)
    same(x.topk(k, axis), theirs.topk(min(k, array.shape[axis]), axis).compute())
    same(x.topk(-k, axis), theirs.topk(-min(k, array.shape[axis]), axis).compute())


def test_the_largest_of_lines_that_hold_nothing_or_nan():
    same(mt.topk([1.0, np.nan, 3.0, -np.inf], 2), np.array([np.nan, 3.0]))
    same(mt.topk(mt.asarray(np.arange(5)[::-1], chunk_size=2), -5), np.arange(5))
    same(mt.topk(np.empty((0, 3)), 2, 0), np.empty((0, 3)))
    same(mt.topk(np.ones((2, 3)), 0), np.empty((2, 0)))
    with pytest.raises(np.exceptions.AxisError):
        mt.topk(np.ones(3), 1, 1)
