"""What is rolled, joined or shifted in a loop stays cut as it was, and its graph grows by as much each step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.optimize import compile_graph
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor.cut import cut_arrays, same
from tests.tensor.engine import tiled


def rolled(u, axis, by):
    return np.roll(u, by, axis)


def joined(u, axis, by):
    v = np.moveaxis(u, axis, 0)
    return np.moveaxis(np.concatenate([v[-by:], v[:-by]]), 0, axis)


def appended(u, axis, by):
    v = np.moveaxis(u, axis, 0)
    return np.moveaxis(np.append(v[-by:], v[:-by], axis=0), 0, axis)


def wrapped(u, axis, by):
    v = np.moveaxis(u, axis, 0)
    wide = np.pad(v, [(1, 1), (0, 0)], mode="wrap")
    return np.moveaxis(wide[: len(v)] if by > 0 else wide[2:], 0, axis)


def inserted(u, axis, by):
    v = np.moveaxis(u, axis, 0)
    wide = np.insert(v, 0, v[-1], axis=0)[:-1] if by > 0 else np.insert(v, len(v), v[0], axis=0)[1:]
    return np.moveaxis(wide, 0, axis)


def differed(u, axis, by):
    if by > 0:
        first = np.take(u, [-1], axis)
        return u - np.diff(u, axis=axis, prepend=first)
    last = np.take(u, [0], axis)
    return u + np.diff(u, axis=axis, append=last)


WAYS = [rolled, joined, appended, wrapped, inserted, differed]


def steps(u, shift, count):
    for _ in range(count):
        around = shift(u, 0, 1) + shift(u, 0, -1) + shift(u, 1, 1) + shift(u, 1, -1) - 4 * u
        u = u + 0.2 * around
    return u


@pytest.mark.parametrize("chunk", [200, 50])
@pytest.mark.parametrize("shift", WAYS)
def test_steps_leave_the_chunks_as_they_were(shift, chunk):
    u = mt.ones((200, 200), chunk_size=chunk)
    assert steps(u, shift, 40).chunks == u.chunks


@pytest.mark.parametrize("chunk", [200, 50])
@pytest.mark.parametrize("shift", WAYS)
def test_operands_grow_with_the_steps_and_no_faster(shift, chunk):
    u = mt.ones((200, 200), chunk_size=chunk)
    counts = [compile_graph(TensorGraph.of([steps(u, shift, n).data]), {}).tiled.n for n in (4, 8, 12)]
    assert counts[2] - counts[1] == counts[1] - counts[0]


@pytest.mark.parametrize("shift", WAYS)
def test_steps_give_what_numpy_gives(shift):
    a = np.random.default_rng(0).random((70, 50))
    np.testing.assert_allclose(steps(mt.asarray(a, chunk_size=20), shift, 3).fetch(), steps(a, rolled, 3))


@pytest.mark.parametrize("way", [joined, appended])
def test_joins_alone_settle_too(way):
    for chunk in (200, 50):
        v = u = mt.ones((200, 3), chunk_size=chunk)
        for by in (1, 70, 3) * 15:
            v = way(v, 0, by)
        assert v.chunks == u.chunks


def test_what_grows_element_by_element_is_not_a_chunk_for_each():
    v = w = x = y = mt.ones(400, chunk_size=100)
    for i in range(50):
        v, w, x, y = np.append(v, i), np.insert(w, (37 * i) % len(w), i), np.pad(x, 1), np.diff(y, prepend=0.0)
    assert len(v.chunks[0]) == len(w.chunks[0]) == len(x.chunks[0]) == len(y.chunks[0]) == 4
    assert v.shape == w.shape == (450,)


@given(st.data())
def test_rolls_keep_every_cut(data):
    a, x = data.draw(cut_arrays(1, 3))
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1) | st.lists(st.integers(0, a.ndim - 1), max_size=3).map(tuple))
    by = data.draw(st.integers(-9, 9))
    result = np.roll(x, by, axis)
    assert result.chunks == x.chunks
    same(result, np.roll(a, by, axis))


def test_whole_chunks_that_change_places_are_not_copied():
    x = mt.ones((40, 40), chunk_size=10)
    assert tiled(TensorGraph.of([np.roll(x, 20, 0).data])).n == 16
    assert tiled(TensorGraph.of([np.roll(x, 3, 0).data])).n == 16 + 16


def test_cuts_that_differ_by_slivers_do_not_cut_each_other():
    x = mt.ones(400, chunk_size=100)
    assert (x[1:] - x[:-1]).chunks == ((99, 100, 100, 100),)
    assert (x[50:] - x[:-50]).chunks == ((50,) * 7,)
