"""The same values from larger or smaller chunks."""

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client.plans import plan_for
from jmars.client.plans.plan_request import largest_source, rechunk_sources, recut_sources
from jmars.errors import ChunkSizeError
from jmars.plan import Profile
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


def plane(chunks=(6, 9), **options):
    return mt.from_blocks(A.__getitem__, A.shape, A.dtype, chunks, name="plane", takes="steps", **options)


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
        "file": plane() - plane().sum(axis=0),
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


def recut(x, chunks):
    (node,), changed = recut_sources([x.data], (), chunks)
    assert np.array_equal(Tensor(node).fetch(), x.fetch())
    return changed


def test_the_user_chooses_the_chunks_of_sources():
    x = plane() + mt.arange(36, chunk_size=9)
    assert recut(x, (24, 4)) == {"plane": (24, 4)}
    assert recut(x, {"plane": -1, "arange": 5}) == {"plane": (24, 36), "arange": (5,)}
    assert recut(x, 12) == {"plane": (12, 12), "arange": (12,)}
    with pytest.raises(ChunkSizeError, match="no source 'plan'; the sources are arange, plane"):
        recut(x, {"plan": 3})
    with pytest.raises(ChunkSizeError, match="no source gets other chunks"):
        recut(x, (6, 9))
    whole = mt.from_blocks(A.__getitem__, A.shape, A.dtype, (6, 9), takes="chunks")
    with pytest.raises(ChunkSizeError, match="no source gets other chunks"):
        recut(whole, 5)


def test_chunks_that_fit_are_those_of_the_rechunk_behind_a_source():
    x = plane()
    assert recut(mt.sort(x, axis=0), "fit") == {"plane": (24, 9)}
    assert recut((x * 2).T.rechunk((36, 4)), "fit") == {"plane": (4, 36)}
    assert recut((x + 1).rechunk((24, 4)), "fit") == {"plane": (24, 4)}
    with pytest.raises(ChunkSizeError):  # they do not agree
        recut(mt.sort(x, axis=0) + mt.sort(x, axis=1), "fit")
    with pytest.raises(ChunkSizeError):
        recut(x + 1, "fit")


def test_chunks_of_files_stay_whole_pieces():
    x = plane((6, 12), pieces=(6, 6))
    assert recut(x.rechunk((24, 4)), "fit") == {"plane": (24, 6)}
    largest = largest_source([x.data], ())
    for factor in (0.1, 0.5, 2, 3, 10):
        chunks = rechunk_sources([x.data], (), int(largest * factor))[0].chunks
        assert all(n % 6 == 0 for axis in chunks for n in axis[:-1])


def test_a_plan_says_which_chunks_fit():
    x = mt.from_blocks(np.zeros, (2000, 2000), float, (200, 200), name="plane")
    plan = plan_for([mt.sort(x, axis=0).data], 2, 2**30, known=Profile().as_data())
    other = plan.what_if(chunks="fit")
    assert other.change == {"chunks": {"plane": (2000, 200)}} and other.operands < plan.operands
    assert "with chunks (2000, 200) of plane: " in repr(other)
    assert "chunk_size=(2000, 200) for plane" in [one.how for one in plan.advice(60)]
    with pytest.raises(ValueError, match="not both"):
        plan.what_if(chunks=5, chunk_size=100)
