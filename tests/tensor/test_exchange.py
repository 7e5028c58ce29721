"""Reads and writes at positions that a tensor holds, by few chunks and by an exchange."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.engine import current_engine, set_engine
from jmars.tensor.ops import indexing
from jmars.tensor.ops.indexing import JoinLines, TakeFew, scatter_by_tensor, take_by_tensor
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor.cut import splits
from tests.tensor.engine import OneByOne

DTYPES = ["f8", "i1", "c16", "U3", "M8[s]", "f4", "?"]


@pytest.fixture
def small(engine):
    """An engine with chunks of 160 bytes, where positions of more than three chunks are exchanged."""
    before = current_engine()
    set_engine(OneByOne(limit=8 * 160))
    yield current_engine()
    set_engine(before)


@st.composite
def cases(draw):
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    axis = draw(st.integers(0, len(shape) - 1))
    values = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 100, shape)
    x = values.astype(draw(st.sampled_from(DTYPES)))
    n = shape[axis]
    at = np.array(draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=14)), draw(st.sampled_from(["i8", "i1"])))
    cut = tuple(draw(splits(n)) for n in shape)
    return x, cut, at, draw(splits(len(at))), axis


@given(cases())
def test_take_by_a_tensor_of_positions_equals_numpy(case):
    x, cut, at, at_cut, axis = case
    before = current_engine()
    set_engine(OneByOne(limit=64))
    for held in (0, indexing.HELD):
        with mock.patch.object(indexing, "HELD", held):
            ours = take_by_tensor(mt.tensor(x, chunks=cut), mt.tensor(at, chunks=(at_cut,)) + 0, axis)
        found = ours.fetch()
        assert found.dtype == x.dtype and np.array_equal(found, np.take(x, at, axis))
    set_engine(before)


@given(cases(), st.data())
def test_writes_by_a_tensor_of_positions_equal_numpy(case, data):
    x, cut, at, at_cut, axis = case
    rows = len(at) if data.draw(st.booleans()) else 1
    shape = tuple(rows if i == axis else data.draw(st.sampled_from([1, n])) for i, n in enumerate(x.shape))
    value = np.random.default_rng(1).integers(0, 100, shape)
    value = value.astype(x.dtype)
    value_cut = tuple(data.draw(splits(n)) for n in shape)
    expected = x.copy()
    expected[(slice(None),) * axis + (at,)] = value
    before = current_engine()
    set_engine(OneByOne(limit=64))
    positions = mt.tensor(at, chunks=(at_cut,)) + 0
    ours = scatter_by_tensor(mt.tensor(x, chunks=cut), positions, axis, mt.tensor(value, chunks=value_cut))
    assert np.array_equal(ours.fetch(), expected)
    set_engine(before)


@given(cases())
def test_ufunc_at_a_tensor_of_positions_repeats_as_numpy(case):
    x, cut, at, at_cut, _ = case
    if x.dtype.kind not in "fic":
        return
    before = current_engine()
    set_engine(OneByOne(limit=64))
    given_ = np.arange(len(at)).astype(x.dtype).reshape(-1, *[1] * (x.ndim - 1))
    at = at % len(x) if x.ndim else at
    expected = x.copy()
    np.add.at(expected, at, given_)
    positions = mt.tensor(at, chunks=(at_cut,))
    ours = scatter_by_tensor(mt.tensor(x, chunks=cut), positions, 0, mt.tensor(given_), "add")
    assert np.array_equal(ours.fetch(), expected)
    set_engine(before)


def test_positions_of_few_chunks_read_these_and_others_are_exchanged(small):
    x = mt.arange(400, chunk_size=20)
    at = np.random.default_rng(0).integers(0, 400, 400)
    near, far = (take_by_tensor(x, mt.tensor(one, chunk_size=20), 0) for one in (np.sort(at), at))
    for ours, one, kind in ((near, np.sort(at), TakeFew), (far, at, JoinLines)):
        assert ours.fetch().tolist() == one.tolist()
        assert kind in {type(op) for stage in small.stages for op in stage.graph.operands}


def test_tables_of_few_chunks_are_read_and_written_without_counts(small):
    x, at = np.arange(24.0), np.random.default_rng(0).integers(-24, 24, 400).astype(np.int8)
    for cut in (12, 24):
        ours = take_by_tensor(mt.tensor(x, chunk_size=cut), mt.tensor(at, chunk_size=20), 0)
        assert not ours.data.op.dynamic and ours.fetch().tolist() == x[at].tolist()
    positions = mt.tensor(at, chunk_size=20)
    ours = scatter_by_tensor(mt.tensor(x, chunk_size=24), positions, 0, mt.tensor([0.5]), "add")
    assert not ours.data.op.dynamic
    np.add.at(x, at, 0.5)
    assert ours.fetch().tolist() == x.tolist()


def test_a_row_for_all_positions_is_not_repeated(engine):
    table, at = np.zeros((300, 4)), mt.tensor(LONG, chunk_size=50_000)
    ours = mt.tensor(table, chunk_size=300)
    np.add.at(ours, at, np.arange(4.0))
    np.add.at(table, LONG, np.arange(4.0))
    assert max(meta.shape for meta in TensorGraph.of([ours.data]).metas if meta.dtype == float) == (300, 4)
    assert np.array_equal(ours.fetch(), table)


def test_many_positions_of_one_chunk_are_served_in_groups(small):
    x, at = np.arange(24.0), np.r_[np.full(50, 3), np.arange(24)]
    with mock.patch.object(indexing, "HELD", 0):
        ours = take_by_tensor(mt.tensor(x, chunk_size=4), mt.tensor(at, chunk_size=4), 0)
    assert ours.fetch().tolist() == x[at].tolist()
    assert max(chunk.nbytes for chunks in small.chunks.values() for chunk in chunks.values()) <= 2 * 20 * 8


@pytest.mark.parametrize("wrong", [24, -25])
def test_position_out_of_bounds_raises_index_error_when_computed(small, wrong):
    ours = take_by_tensor(mt.arange(24, chunk_size=4), mt.tensor([1, wrong, 3]), 0)
    with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for axis 0 with size 24"):
        ours.fetch()


N = 2**17 + 5
LONG = np.random.default_rng(3).integers(-300, 300, N)
STATEMENTS = {
    "x[t]": lambda x, t: x[t],
    "x[t, 1]": lambda x, t: x[t, 1],
    "x[:, t % 4]": lambda x, t: x[:5, t % 4],
    "x[t, t % 4]": lambda x, t: x[t, t % 4],
    "take": lambda x, t: np.take(x, t, axis=0),
    "take of the flat array": lambda x, t: np.take(x, t),
    "take with wrap": lambda x, t: np.take(x, t * 7, axis=0, mode="wrap"),
    "take with clip": lambda x, t: np.take(x, t * 7, axis=0, mode="clip"),
    "take of a table of positions": lambda x, t: np.take(x, t[:-5].reshape(2, -1), axis=0),
    "repeat": lambda x, t: np.repeat(x[:, 0], abs(t[:300]) % 3),
    "repeat by many counts": lambda x, t: np.repeat(t, abs(t) % 3),
}
WRITES = {
    "x[t] = number": lambda x, t: x.__setitem__(t, 7),
    "x[t] = values": lambda x, t: x.__setitem__(t, np.arange(4 * N).reshape(N, 4)),
    "x[t, 1] = values": lambda x, t: x.__setitem__((t, 1), np.arange(N)),
    "x[t, t % 4] = values": lambda x, t: x.__setitem__((t, t % 4), np.arange(N)),
    "add.at": lambda x, t: np.add.at(x, t, 2),
    "add.at of a row": lambda x, t: np.add.at(x, t, np.arange(4)),
    "negative.at": lambda x, t: np.negative.at(x, t),
    "subtract.at": lambda x, t: np.subtract.at(x, (t, t % 4), np.arange(N)),
    "put": lambda x, t: np.put(x, t, [1, 2, 3]),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_statement_with_many_positions_of_a_tensor_equals_numpy(engine, name):
    x = np.arange(1200).reshape(300, 4)
    ours = STATEMENTS[name](mt.tensor(x, chunk_size=(70, 3)), mt.tensor(LONG, chunk_size=50_000))
    assert np.array_equal(ours.fetch(), STATEMENTS[name](x, LONG))


@pytest.mark.parametrize("chunk_size", [(70, 3), (300, 3)])
@pytest.mark.parametrize("name", WRITES)
def test_write_at_many_positions_of_a_tensor_equals_numpy(engine, name, chunk_size):
    x = np.arange(1200).reshape(300, 4)
    ours = mt.tensor(x.copy(), chunk_size=chunk_size)
    WRITES[name](ours, mt.tensor(LONG, chunk_size=50_000))
    WRITES[name](x, LONG)
    assert np.array_equal(ours.fetch(), x)


def test_values_of_many_true_elements_are_written_as_numpy(engine):
    x, mask = np.arange(N), LONG > 0
    ours = mt.tensor(x, chunk_size=40_000)
    ours[mt.tensor(mask, chunk_size=50_000)] = mt.arange(int(mask.sum()))
    x[mask] = np.arange(mask.sum())
    assert np.array_equal(ours.fetch(), x)


@pytest.mark.parametrize("axis", [0, 1])
def test_large_permutations_hold_all_rows(engine, axis):
    x = mt.arange(2 * N).reshape((N, 2) if axis == 0 else (2, N))
    found = np.sort(mt.random.default_rng(1).permutation(x, axis=axis).fetch(), axis=axis)
    assert np.array_equal(found, x.fetch())


@pytest.mark.parametrize("of", ["tensor", "array"])
@pytest.mark.parametrize("gone", [LONG > 0, LONG, LONG[LONG > 295]], ids=["mask", "many", "few"])
def test_delete_of_many_elements_equals_numpy(engine, gone, of):
    x = np.arange(2.0 * N).reshape(N, 2)
    ours = np.delete(mt.tensor(x, chunk_size=(30_000, 1)), mt.tensor(gone) if of == "tensor" else gone, axis=0)
    assert np.array_equal(ours.fetch(), np.delete(x, gone, axis=0))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("is_even", [True, False])
def test_gradient_by_many_coordinates_of_a_tensor_equals_numpy(engine, is_even, order):
    values = np.sin(np.arange(N))
    t = np.arange(N) * 0.5 if is_even else np.cumsum(np.abs(LONG) + 1)
    ours = np.gradient(mt.tensor(values, chunk_size=40_000), mt.tensor(t, chunk_size=50_000), edge_order=order)
    expected = np.gradient(values, t, edge_order=order)
    assert ours.dtype == expected.dtype and np.array_equal(ours.fetch(), expected)
