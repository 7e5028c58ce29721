"""Ranges and matrices made from positions equal NumPy's to the last bit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from tests.tensor.cut import cut, numbered, same, splits

NUMBERS = st.integers(-9, 9) | st.floats(-9, 9, allow_nan=False).map(lambda x: round(x, 3))


@given(st.data())
def test_arange(data):
    start, stop = data.draw(NUMBERS), data.draw(NUMBERS)
    step = data.draw(NUMBERS.filter(lambda x: abs(x) > 0.05))
    for args in ((start, stop, step), (start, stop), (stop,)):
        expected = np.arange(*args)
        same(mt.arange(*args, chunk_size=data.draw(st.integers(1, 9))), expected)
        same(mt.arange(*args, chunk_size=4) + 1, expected + 1)


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8", "f2", "f4", "f8", "c8"])
def test_arange_of_a_dtype(dtype):
    same(mt.arange(1, 20, 3, dtype=dtype, chunk_size=4), np.arange(1, 20, 3, dtype=dtype))
    same(mt.arange(7, dtype=dtype, chunk_size=4), np.arange(7, dtype=dtype))


@pytest.mark.parametrize("dtype", ["u1", "u8"])
def test_arange_downwards_of_an_unsigned_dtype_gives_no_warning(dtype):
    same(mt.arange(59, 24, -5, dtype=dtype, chunk_size=4), np.arange(59, 24, -5, dtype=dtype))
    same(mt.arange(250, 255, dtype=dtype, chunk_size=2), np.arange(250, 255, dtype=dtype))


def test_arange_of_large_unsigned_numbers_is_exact():
    start = 2**63 + 1
    same(mt.arange(start, start + 70, 7, dtype="u8", chunk_size=4), np.arange(start, start + 70, 7, dtype="u8"))


def test_arange_of_numpys_numbers():
    for args in [(np.int8(5),), (np.float32(2), np.float32(9)), (np.uint8(3), 9.5), (0, True)]:
        same(mt.arange(*args, chunk_size=4), np.arange(*args))
    with pytest.raises(UnsupportedError):
        mt.arange(1j, 5)


@given(st.data())
def test_linspace(data):
    start, stop, num = data.draw(NUMBERS), data.draw(NUMBERS), data.draw(st.integers(0, 30))
    endpoint, dtype = data.draw(st.booleans()), data.draw(st.sampled_from([None, int, "f4", complex]))
    ours, step = mt.linspace(start, stop, num, endpoint, retstep=True, dtype=dtype, chunk_size=7)
    theirs, their_step = np.linspace(start, stop, num, endpoint, retstep=True, dtype=dtype)
    same(ours, theirs)
    np.testing.assert_equal(step, their_step)
    same(mt.linspace(start, stop, num, endpoint, chunk_size=7) * 2, np.linspace(start, stop, num, endpoint) * 2)


@given(st.data())
def test_linspace_between_arrays(data):
    kinds = st.sampled_from(["f8", "f4", "i4", "c16", "?"])
    shape = data.draw(st.sampled_from([(3,), (2, 3), (1,), (0,)]))
    numbers = st.integers(0, 3)
    start, stop = (np.array(data.draw(st.lists(numbers, min_size=n, max_size=n)), data.draw(kinds)).reshape(one)
                   for one in (shape, shape[-1:]) for n in [int(np.prod(one))])  # fmt: skip
    if data.draw(st.booleans()):
        stop = data.draw(st.sampled_from([5, 2.5, 1j, np.float32(1)]))
    num, endpoint, axis = data.draw(st.integers(0, 5)), data.draw(st.booleans()), data.draw(st.sampled_from([0, -1]))
    is_complex = "c" in (start.dtype.kind, np.asarray(stop).dtype.kind)
    dtype = None if is_complex else data.draw(st.sampled_from([None, int, "f4"]))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, their_step = np.linspace(start, stop, num, endpoint, True, dtype, axis)
    x = mt.asarray(start, chunk_size=2)
    ours, step = mt.linspace(x, stop, num, endpoint, True, dtype, axis)
    same(ours, theirs, rtol=1e-6 if theirs.dtype == "f4" else 1e-12)
    np.testing.assert_allclose(np.asarray(step), their_step, rtol=1e-6)
    assert mt.linspace(x, 9, num, chunk_size=1).chunks[0] in ((1,) * num, (0,))


def test_logspace_between_arrays_and_of_several_bases():
    for ends in (([0.0, 1], 3), (0, [1.0, 2])):
        same(mt.logspace(*ends, 4), np.logspace(*ends, 4), rtol=1e-12)
    bases = np.array([2.0, 10])
    same(mt.logspace(0, 3, 4, base=mt.asarray(bases)), np.logspace(0, 3, 4, base=bases), rtol=1e-12)
    same(mt.logspace(0, 3, 4, base=mt.asarray(bases), axis=-1), np.logspace(0, 3, 4, base=bases, axis=-1), rtol=1e-12)
    with pytest.raises(np.exceptions.AxisError):
        mt.linspace(0, 1, 3, axis=1)


def test_linspace_of_narrow_numbers_is_narrow():
    for start, stop in ((np.float32(0), 1), (0, np.float16(2)), (np.float32(0), 1j), (np.int8(1), np.float32(5))):
        same(mt.linspace(start, stop, 5), np.linspace(start, stop, 5))


def test_logspace():
    same(mt.logspace(0, 3, 10, chunk_size=4), np.logspace(0, 3, 10), rtol=1e-14)
    same(mt.logspace(0, 3, 4, base=2, dtype=int), np.logspace(0, 3, 4, base=2, dtype=int))


@given(st.integers(0, 7), st.none() | st.integers(0, 7), st.integers(-8, 8), st.integers(1, 5))
def test_unit_matrices_and_triangles(n, m, k, chunk_size):
    same(mt.eye(n, m, k, chunk_size=chunk_size), np.eye(n, m, k))
    same(mt.tri(n, m, k, int, chunk_size=chunk_size), np.tri(n, m, k, int))
    same(mt.identity(n, chunk_size=chunk_size), np.identity(n))


@given(st.data())
def test_parts_of_matrices(data):
    array = numbered(data.draw(st.sampled_from([(4, 5), (5, 3), (2, 4, 4), (6,)])), "f4")
    x, k = data.draw(cut(array)), data.draw(st.integers(-6, 6))
    same(np.tril(x, k), np.tril(array, k))
    same(np.triu(x, k), np.triu(array, k))
    if array.ndim < 3:
        same(np.diag(x, k), np.diag(array, k))


@given(st.data())
def test_grids_of_positions(data):
    lines = [np.arange(n) * 1.5 for n in data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))]
    tensors = [data.draw(cut(line)) for line in lines]
    for indexing in ("xy", "ij"):
        for sparse in (False, True):
            ours = mt.meshgrid(*tensors, indexing=indexing, sparse=sparse)
            theirs = np.meshgrid(*lines, indexing=indexing, sparse=sparse)
            for our, their in zip(ours, theirs, strict=True):
                same(our, their)


def test_indices_and_functions_of_them():
    same(mt.indices((3, 4), chunk_size=2), np.indices((3, 4)))
    same(
        mt.fromfunction(lambda i, j: i * 10 + j, (3, 4), chunk_size=2), np.fromfunction(lambda i, j: i * 10 + j, (3, 4))
    )


@given(st.integers(0, 20).flatmap(lambda n: st.tuples(st.just(n), splits(n))))
def test_explicit_splits_are_kept(case):
    n, lengths = case
    assert mt.arange(n, chunks=(lengths,)).chunks == (lengths,)


def test_a_range_that_begins_at_minus_zero_does_so():
    for found, expected in (
        (mt.arange(-0.0, 5.0, chunk_size=2), [-0.0, 1.0, 2.0, 3.0, 4.0]),
        (mt.arange(0.0, 1), [0.0]),
    ):
        assert found.fetch().tobytes() == np.array(expected).tobytes()


@pytest.mark.parametrize("k", [-(2**63) - 1, -(2**62), -5, 5, 2**62, 2**63 - 1, 2**70])
@pytest.mark.parametrize(("n", "m"), [(0, 0), (3, 5), (5, 3)])
def test_a_diagonal_far_beyond_the_matrix(n, m, k):
    same(mt.eye(n, m, k, chunk_size=2), np.eye(n, m, k))
    x, near = np.arange(1.0, n * m + 1).reshape(n, m), min(max(k, -n), m)  # NumPy's others have no room for such k
    same(mt.tri(n, m, k, chunk_size=2), np.tri(n, m, near))
    same(mt.tril(mt.asarray(x, chunk_size=2), k), np.tril(x, near))
    same(mt.triu(mt.asarray(x, chunk_size=2), k), np.triu(x, near))
