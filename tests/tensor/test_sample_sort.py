"""A line of many chunks in order: NumPy's values, whatever the values, and never all in one chunk."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.engine import set_engine
from jmars.tensor.ops import sort as module
from jmars.tensor.ops.sort import FINE, MergeParts, sort_long_axis, sorted_records
from tests.tensor.cut import cut, same
from tests.tensor.engine import OneByOne

KINDS = ["spread", "equal", "few", "rising", "falling", "nan"]


def values(kind, n, dtype, seed):
    draw = np.random.default_rng(seed)
    a = {
        "spread": draw.integers(-100, 100, n),
        "equal": np.full(n, 7),
        "few": draw.integers(0, 2, n),
        "rising": np.arange(n),
        "falling": -np.arange(n),
        "nan": draw.integers(0, 9, n),
    }[kind].astype(dtype)
    if kind == "nan" and a.dtype.kind == "f":
        a[::3] = np.nan
    return a


@settings(deadline=None)
@given(st.sampled_from(KINDS), st.integers(2, 60), st.sampled_from(["f8", "i4", "u1", "?", "M8[s]"]), st.data())
def test_any_line_in_order(kind, n, dtype, data):
    a = values(kind, n, "i8" if dtype.startswith("M") else dtype, n).astype(dtype)
    x = data.draw(cut(a))
    result = sort_long_axis(x)
    assert result.chunks == x.chunks
    same(result, np.sort(a))


def test_equal_elements_are_divided_among_equal_splitters():
    run, cuts = np.repeat([1, 7], [2, 12]), np.array([3, 7, 7, 7])
    assert module._count_below(run, cuts).tolist() == [2, 5, 8, 11]


@pytest.fixture
def tight():
    """An engine whose chunks are 400 bytes at most."""
    engine = OneByOne(limit=3200)
    set_engine(engine)
    return engine


@settings(deadline=None)
@given(st.sampled_from(KINDS), st.sampled_from(["f8", "f4", "i4"]), st.sampled_from([(300,), (15, 20), (301,)]))
def test_long_lines_are_sorted_and_cut_by_samples(kind, dtype, shape):
    engine = OneByOne(limit=3200)
    set_engine(engine)
    a = values(kind, int(np.prod(shape)), dtype, 5).reshape(shape)
    x = mt.asarray(a)
    assert max(map(len, x.chunks)) > 1
    same(mt.sort(x, None), np.sort(a, None))
    assert len(engine.stages) == 2


@settings(deadline=None)
@given(
    st.sampled_from(KINDS),
    st.sampled_from(["f8", "f4", "i4", "u1", ">i2", "M8[s]"]),
    st.sampled_from([(300,), (15, 20)]),
)
def test_positions_of_a_long_line_are_in_stable_order(kind, dtype, shape):
    set_engine(OneByOne(limit=800))
    a = values(kind, 300, "i8" if dtype.startswith("M") else dtype, 5).astype(dtype).reshape(shape)
    b = values("few", 300, "i4", 6).reshape(shape)
    x, y = mt.tensor(a, chunk_size=17), mt.tensor(b, chunk_size=13)
    same(mt.argsort(x, None), np.argsort(a, None, kind="stable"))
    if len(shape) == 1:
        same(mt.lexsort((x, y)), np.lexsort((a, b)))
        np.testing.assert_array_equal(a[mt.argpartition(x, (7, 9)).fetch()], np.sort(a))
    elements, positions = sorted_records(x.ravel().astype(a.dtype.newbyteorder("=")))
    same(positions, np.argsort(a, None, kind="stable"))
    np.testing.assert_array_equal(elements.fetch(), np.sort(a, None))


@pytest.mark.parametrize("kind", [*"bBhHiIlL", "f8"])
@pytest.mark.parametrize("span", [1, 7, 2**31, 2**61])
def test_equal_elements_keep_their_order(kind, span):
    line = np.random.default_rng(span).integers(0, span, 3000).astype(kind)
    for one in (line, line.max() - line, line[:1], line[:0]):
        np.testing.assert_array_equal(module._order([one]), np.argsort(one, kind="stable"))
    packed = module._packed_order(line)
    assert (packed is None) == (kind == "f8" or int(line.max()) - int(line.min()) >= 2**52)  # 12 bits are positions


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("count", [7, 700])
@pytest.mark.parametrize("kind", KINDS)
def test_elements_are_searched_in_a_long_line(tight, kind, count, side):
    a, b = np.sort(values(kind, 1000, "f8", 5)), values("nan", count, "f4", 7).reshape(7, -1)
    x, y = mt.tensor(a, chunk_size=50), mt.tensor(b, chunk_size=(3, 40))
    same(np.searchsorted(x, y, side), np.searchsorted(a, b, side))
    order = np.random.default_rng(0).permutation(1000)
    mixed, sorter = mt.tensor(a[np.argsort(order)], chunk_size=50), mt.tensor(order, chunk_size=90)
    same(np.searchsorted(mixed, y, side, sorter), np.searchsorted(a, b, side))


def test_no_chunk_of_a_sorted_line_is_much_larger_than_the_others(tight):
    x = mt.random.default_rng(1).normal(size=5000, chunk_size=100)
    same(np.sort(x), np.sort(x.fetch()))
    largest = max(chunk.nbytes for held in tight.chunks.values() for chunk in held.values())
    assert largest <= 5000 * 8  # the samples of 50 chunks are the largest


@pytest.mark.parametrize("kind", ["spread", "equal", "few"])
def test_a_merge_reads_little_more_than_it_writes(tight, kind):
    a = values(kind, 5000, "f8", 1)
    same(np.sort(mt.asarray(a).rechunk(100)), np.sort(a))
    (merge,) = [op for op in tight.stages[-1].graph.operands if isinstance(op, MergeParts)]
    starts, stops = (np.frombuffer(one, np.int64).reshape(50, 50) for one in (merge.starts, merge.stops))
    assert (stops - starts).sum(axis=1).max() <= 100 * (
        1 + 4 / FINE
    )  # a part more at both ends, of up to twice its size


@pytest.mark.parametrize("cut", [(3, 0, 4), (0, 7), (0, 2, 0, 5, 0)])
def test_empty_chunks_bring_nothing(cut):
    a = np.array([5, 1, 4, 1, 5, 9, 2])
    result = sort_long_axis(mt.asarray(a).rechunk((cut,)))
    assert result.chunks == (cut,)
    same(result, np.sort(a))
