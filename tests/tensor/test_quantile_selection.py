"""Quantiles of all elements by ranges: NumPy's values, whatever the values, and a sort where a range was missed."""

from __future__ import annotations

import warnings
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.engine import set_engine
from jmars.tensor.ops import quantiles
from tests.cases import numpy_before
from tests.tensor.cut import same
from tests.tensor.engine import OneByOne
from tests.tensor.test_sample_sort import KINDS, values

ASKED = [
    25,
    99.5,
    0,
    100,
    [0, 30, 100],
    np.array([[10.0, 20.0]]),
    [49, 50, 51],
    *([] if numpy_before("2.4.0") else [np.float32(30)]),  # in float64 before
    [],
    list(range(0, 100, 9)),
]


def long_one(kind, dtype, shape):
    """An array that does not fit one chunk, and the same as a tensor."""
    engine = OneByOne(limit=3200)
    set_engine(engine)
    a = values(kind, int(np.prod(shape)), dtype, 5).reshape(shape)
    x = mt.asarray(a)
    assert max(map(len, x.chunks)) > 1
    return a, x, engine


def all_the_same(a, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy warns of infinities and NaN
        for keepdims in (False, True):
            same(np.median(x, keepdims=keepdims), np.median(a, keepdims=keepdims))
            same(np.nanmedian(x, keepdims=keepdims), np.nanmedian(a, keepdims=keepdims))
        for q in ASKED:
            same(np.percentile(x, q), np.percentile(a, q))
            same(np.nanpercentile(x, q), np.nanpercentile(a, q))
        same(np.quantile(x, 0.3), np.quantile(a, 0.3))
        same(np.nanquantile(x, [0.3, 0.31]), np.nanquantile(a, [0.3, 0.31]))


@settings(deadline=None, max_examples=20)
@given(st.sampled_from(KINDS), st.sampled_from(["f8", "f4", "i4", "u1"]), st.sampled_from([(900,), (15, 60), (901,)]))
def test_quantiles_of_all_elements(kind, dtype, shape):
    a, x, _ = long_one(kind, dtype, shape)
    all_the_same(a, x)


@pytest.mark.parametrize("kind", KINDS)
def test_a_range_that_is_missed_is_found_by_sorting(kind, monkeypatch):
    monkeypatch.setattr(quantiles, "SIGMAS", 0.0)
    a, x, engine = long_one(kind, "f8", (900,))
    all_the_same(a, x)
    same(np.quantile(x, 0.37), np.quantile(a, 0.37))
    if kind == "spread":
        assert len(engine.stages) == 3  # samples, runs, parts


def divided(a, x, kth):
    """NumPy's promise: the element at the position, smaller ones before, all elements there."""
    rank = kth % len(a)
    value, positions = mt.partition(x, kth), mt.argpartition(x, kth)
    assert (value.dtype, positions.dtype, value.shape, positions.shape) == (a.dtype, np.intp, a.shape, a.shape)
    np.testing.assert_array_equal(np.sort(positions.fetch()), np.arange(len(a)))
    for found in (value.fetch(), a[positions.fetch()]):
        np.testing.assert_array_equal(np.sort(found[:rank]), np.sort(a)[:rank])
        np.testing.assert_array_equal(found[rank], np.sort(a)[rank])
        np.testing.assert_array_equal(np.sort(found[rank:]), np.sort(a)[rank:])


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(KINDS),
    st.sampled_from(["f8", "f4", "i4", "u1", "?", ">f8", "f2"]),
    st.integers(-900, 899),
    st.sampled_from([0.0, quantiles.SIGMAS]),
)
def test_a_long_line_is_divided_at_a_position(kind, dtype, kth, sigmas):
    with mock.patch.object(quantiles, "SIGMAS", sigmas):
        a, x, _ = long_one(kind, dtype, (900,))
        divided(a, x, kth)


@pytest.mark.parametrize("kth", [0, 20, 100_000, -20, -1])
def test_a_long_line_is_divided_without_a_sort(kth):
    n = 200_000
    engine = OneByOne(limit=8 * n)
    set_engine(engine)
    a = np.random.default_rng(1).normal(size=n)
    divided(a, mt.asarray(a), kth)
    assert "merge" not in {op.name for stage in engine.stages for op in stage.graph.operands}
    a[::7] = np.round(a[0])
    a[::70] = np.inf
    divided(a, mt.asarray(a), kth)


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_infinities_and_nothing_but_nan(odd):
    a, _x, _ = long_one("spread", "f8", (900,))
    for part in (slice(None), slice(None, None, 2), slice(0, 1)):
        b = a.copy()
        b[part] = odd
        all_the_same(b, mt.asarray(b))


def test_a_range_of_one_value_takes_nothing_of_the_next():
    """Most elements are one value, so it is both ends of the middle quantiles' ranges; others lie around it."""
    n = 200_000
    rng = np.random.default_rng(3)
    a = np.where(rng.random(n) < 0.7, 1.0, rng.normal(1, 1, n))
    set_engine(OneByOne(limit=8 * n))
    for q in ([50, 95], [95, 50, 5], [40, 60, 1, 99, 0, 100], 50):
        same(np.percentile(mt.asarray(a), q), np.percentile(a, q))


def test_few_elements_are_brought_together_and_nothing_is_sorted():
    n = 200_000
    engine = OneByOne(limit=8 * n)
    set_engine(engine)
    a = np.random.default_rng(1).normal(size=n)
    x = mt.asarray(a)
    same(np.percentile(x, [5, 50, 95]), np.percentile(a, [5, 50, 95]))
    assert len(engine.stages) == 1 + 1
    drawn = quantiles.sample(out := np.empty(-(-n // 128)), [a], (128,), 3)
    assert drawn is None and np.isin(out, a).all()
    ranges = quantiles.candidate_ranges(out, (0.05, 0.5), quantiles.SIGMAS)
    told = quantiles.count_ranges(None, [a, ranges], (), None)
    assert told.nbytes < 0.4 * a.nbytes  # of so few elements; the longer the line, the less


@pytest.mark.parametrize("n", [2**18, 2**20])
def test_plans_expect_about_the_bytes_that_lie_within_the_ranges(n):
    fractions, every = (0.05, 0.5, 0.95), quantiles.EVERY
    line = np.random.default_rng(0).random(n)
    samples = np.empty(-(-n // every))
    quantiles.sample(samples, [line], (every,), 0)
    ranges = quantiles.candidate_ranges(samples, fractions, quantiles.SIGMAS)
    written = quantiles.count_ranges(None, [line, ranges], (), None).nbytes
    expected = quantiles.expected_nbytes(n * 8, len(fractions), len(samples))
    assert written < expected < 2 * written
