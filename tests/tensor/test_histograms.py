"""Counts: NumPy's for any cut."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.engine import set_engine
from tests.tensor.cut import cut, same, shapes
from tests.tensor.engine import OneByOne


@st.composite
def samples(draw, low=0, high=3):
    shape = draw(shapes(low, high))
    a = np.random.default_rng(draw(st.integers(0, 9))).integers(-5, 9, shape) * draw(st.sampled_from([1, 0.25]))
    a = a.astype(draw(st.sampled_from(["f8", "f4", "i4"])))
    return a, draw(cut(a))


@given(st.data())
def test_bincount(data):
    a = np.random.default_rng(1).integers(0, 6, data.draw(st.integers(0, 12)))
    a = a.astype(data.draw(st.sampled_from(["l", "B", "?", ">u2"])))
    x, least = data.draw(cut(a)), data.draw(st.integers(0, 9) | st.just(300))
    same(np.bincount(x, minlength=least), np.bincount(a, minlength=least))
    same(np.bincount(x, weights=a * 0.5), np.bincount(a, weights=a * 0.5))


def test_bytes_are_counted_in_one_pass(engine):
    a = np.random.default_rng(1).integers(0, 200, 300_000).astype(np.uint8)
    x = mt.tensor(a, chunk_size=140_000)
    with mock.patch.object(engine, "execute", wraps=engine.execute) as runs:
        same(np.bincount(x), np.bincount(a))
    assert runs.call_count == 2  # the result, an array of this process, is the second


@given(samples(), st.sampled_from([1, 3, 10, [0, 1, 5], np.array([-9.0, 0.1, 4.0])]), st.booleans())
def test_histogram(pair, bins, density):
    a, x = pair
    for options in ({}, {"range": (-2, 4)}, {"weights": np.ones(a.shape, "f4") * 2}):
        if density and not np.histogram(a, bins, **options)[0].sum():
            continue
        ours, theirs = (
            np.histogram(x, bins, density=density, **options),
            np.histogram(a, bins, density=density, **options),
        )
        same(ours[0], theirs[0], rtol=1e-12 if density else 0)
        same(ours[1], theirs[1])
        same(
            np.histogram_bin_edges(x, bins, options.get("range")), np.histogram_bin_edges(a, bins, options.get("range"))
        )


@given(st.data())
def test_histograms_of_points(data):
    n, d = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 3))
    a = np.random.default_rng(n).normal(size=(n, d))
    x = data.draw(cut(a))
    bins = data.draw(st.sampled_from([3, [2] * d, [np.linspace(-2, 2, 4)] * d]))
    weights = data.draw(st.none() | st.just(np.arange(n, dtype=float) + 1))
    density = data.draw(st.booleans())
    if density and not np.histogramdd(a, bins, weights=weights)[0].sum():
        return
    ours = np.histogramdd(x, bins, density=density, weights=weights)
    theirs = np.histogramdd(a, bins, density=density, weights=weights)
    same(ours[0], theirs[0], rtol=1e-12)
    for one, other in zip(ours[1], theirs[1]):
        same(one, other)
    if d == 2:
        ours, theirs = np.histogram2d(x[:, 0], x[:, 1], 4), np.histogram2d(a[:, 0], a[:, 1], 4)
        for one, other in zip(ours, theirs):
            same(one, other)


def test_edges_of_one_axis_beside_the_number_of_the_other():
    a = np.random.default_rng(3).normal(size=(20, 2))
    x = mt.asarray(a, chunk_size=6)
    bins = [[-1.0, 0.0, 1.0], 3]
    for one, other in zip(np.histogram2d(x[:, 0], x[:, 1], bins), np.histogram2d(a[:, 0], a[:, 1], bins)):
        same(one, other)
    same(np.histogramdd(x, bins)[0], np.histogramdd(a, bins)[0])


@given(samples(), st.booleans(), st.booleans())
def test_places_among_edges(pair, right, falling):
    a, x = pair
    bins = np.array([-2.0, 0.0, 0.0, 3.5])[:: -1 if falling else 1]
    same(np.digitize(x, bins, right), np.digitize(a, bins, right))
    side = "right" if right else "left"
    same(mt.searchsorted(np.sort(bins), x, side), np.searchsorted(np.sort(bins), a, side))
    same(
        mt.searchsorted(bins, x, side, sorter=np.argsort(bins)), np.searchsorted(bins, a, side, sorter=np.argsort(bins))
    )


def test_what_cannot_be_is_said():
    x = mt.asarray([1, -1])
    with pytest.raises(ValueError, match="negative"):
        np.bincount(x)
    with pytest.raises(TypeError, match="safe"):
        np.bincount(mt.ones(3))
    with pytest.raises(ValueError, match="estimator"):
        np.histogram(x, "other")
    with pytest.raises(ValueError, match="weights"):
        np.histogram(x, 3, weights=np.ones(3))
    with pytest.raises(ValueError, match="monoton"):
        np.digitize(x, [1, 0, 1])
    with pytest.raises(ValueError, match="side"):
        mt.searchsorted(x, x, "middle")


@pytest.mark.filterwarnings("ignore:The number of bins")
@pytest.mark.parametrize("rule", ["stone", "doane"])
def test_rules_that_read_the_data_again(rule):
    rng = np.random.default_rng(3)
    for a in (rng.gamma(2, size=900), rng.integers(0, 50, 300), np.ones(5), np.array([2.0, 3.0])):
        for more in ({}, {"range": (0, 6)}):
            ours, theirs = np.histogram(mt.asarray(a, chunks=100), rule, **more), np.histogram(a, rule, **more)
            np.testing.assert_array_equal(ours[0].fetch(), theirs[0])
            np.testing.assert_allclose(ours[1].fetch(), theirs[1], rtol=1e-14)


def test_the_rule_of_stone_warns_where_numpy_warns():
    a = np.repeat([0.0, 0.001, 1.0], 40)
    with pytest.warns(RuntimeWarning, match="suboptimal"):
        expected = np.histogram(a, "stone")
    with pytest.warns(RuntimeWarning, match="suboptimal") as seen:
        np.testing.assert_array_equal(np.histogram(mt.asarray(a), "stone")[0].fetch(), expected[0])
    assert seen[0].filename == __file__


@pytest.mark.parametrize("weights", [None, "f8", "f4"])
def test_histograms_with_more_cells_than_a_chunk_are_counted_by_cells(weights):
    set_engine(OneByOne(limit=3200))
    a = np.random.default_rng(0).integers(0, 900, 1000)
    more = () if weights is None else (np.random.default_rng(1).random(1000).astype(weights),)
    found = np.bincount(mt.tensor(a, chunk_size=40), *more, minlength=1200)
    assert len(found.chunks[0]) > 1
    same(found, np.bincount(a, *more, minlength=1200))
