"""The same values from larger or smaller chunks."""

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client.plans.plan_request import largest_source, rechunk_sources
from jmars.errors import ChunkSizeError
from jmars.tensor.engine import current_engine, set_engine
from jmars.tensor.tensor import Tensor
from tests.tensor.engine import OneByOne


@pytest.fixture(autouse=True)
def here():
    before = current_engine()
    set_engine(OneByOne())
    yield
    set_engine(before)


A = np.arange(24 * 36, dtype=float).reshape(24, 36)


def made():
    """Tensors by name: one for each rule, and some of what has none."""
    a, b = mt.asarray(A, chunk_size=(6, 9)), mt.asarray(A.T.copy(), chunk_size=(12, 6))
    row, square = mt.arange(36, chunk_size=9), mt.asarray(A[:, :24].copy(), chunk_size=(6, 9))
    return {
        "elementwise": a * 2 + mt.ones((24, 36), chunk_size=(6, 9)),
        "broadcast": a + row,
        "broadcast column": a + mt.arange(24, chunk_size=5)[:, None],
        "two cuts": a + mt.ones((24, 36), chunk_size=(8, 12)),
        "sum": a.sum(),
        "sum of an axis": a.sum(axis=0, keepdims=True) + a,
        "transpose": a.T - b,
        "scan": mt.cumsum(a, axis=1),
        "product": a @ b,
        "product with itself": square @ square,
        "einsum": mt.einsum("ij,ji->i", a, b),
        "rechunk": a.rechunk((24, 4)).sum(axis=0),
        "slice": a[3:20, ::2] * 2,
        "concatenate": mt.concatenate([a, a + 1]),
        "reshape": a.reshape(36, 24).sum(axis=1),
        "take": mt.take(a, [3, 1, 30], axis=1),
        "argmax": a.argmax(axis=1),
        "drawn by cells": mt.random.default_rng(3).normal(size=(420, 360), chunk_size=(105, 90)).sum(axis=0),
        "vectors": mt.random.default_rng(3).multinomial(9, [0.2, 0.8], 90_000, chunk_size=(9000, 2)).sum(axis=0),
        "a long order": mt.random.default_rng(3).permutation(140_000, chunk_size=20_000)[::7],
        "random": mt.random.default_rng(3).random((24, 36), chunk_size=(6, 9)).sum(axis=0),
    }


@pytest.mark.long(beyond=40)
@pytest.mark.parametrize("factor", [0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 100.0])
@pytest.mark.parametrize("name", made())
def test_the_values_stay(name, factor):
    x = made()[name]
    largest = largest_source([x.data], ())
    (other,) = rechunk_sources([x.data], (), max(1, int(largest * factor)))
    assert (other.shape, other.dtype) == (x.shape, x.dtype)
    assert np.allclose(Tensor(other).fetch(), x.fetch())


def test_chunks_are_multiples_or_parts_of_what_they_were():
    x = mt.ones((1000, 1000), chunk_size=100)
    chunks = {k: rechunk_sources([x.data], (), 80_000 * k)[0].chunks for k in (1, 2, 4, 16)}
    assert [max(axis) for axis in chunks[1]] == [100, 100]
    assert sorted(max(axis) for axis in chunks[2]) == [100, 200]
    assert [max(axis) for axis in chunks[4]] == [200, 200]
    assert [max(axis) for axis in chunks[16]] == [400, 400]
    assert [max(axis) for axis in rechunk_sources([x.data], (), 20_000)[0].chunks] == [50, 50]


def test_an_axis_that_is_whole_stays_whole():
    x = mt.ones((1000, 50), chunk_size=(100, 50))
    assert [max(axis) for axis in rechunk_sources([x.data], (), 10_000)[0].chunks] == [25, 50]


def test_what_is_made_of_sources_that_are_cut_alike_needs_no_rechunk():
    a, b = mt.ones((100, 100), chunk_size=10), mt.zeros((100, 100), chunk_size=10)
    (other,) = rechunk_sources([(a + b).sum(axis=0).data], (), 3200)
    names, todo = set(), [other]
    while todo:
        node = todo.pop()
        names.add(node.op.label)
        todo += node.op.inputs
    assert names == {"ones", "zeros", "add", "sum"}


def test_the_tensors_of_the_user_stay_as_they_are():
    x = mt.ones(100, chunk_size=10) + 1
    rechunk_sources([x.data], (), 400)
    assert len(x.chunks[0]) == 10


def test_what_is_held_is_not_cut_and_nothing_but_held_is_an_error():
    x = mt.ones(100, chunk_size=10)
    y = (x + 1).sum()
    (whole,) = rechunk_sources([(y + mt.ones((), chunk_size=1)).data], {y.data.key}, 16)
    assert whole.op.inputs[0] is y.data
    with pytest.raises(ChunkSizeError, match="no source to rechunk"):
        rechunk_sources([y.data], {y.data.key}, 400)
