"""Positions, bits, writing by masks, polynomials: NumPy's for any cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.engine import set_engine
from tests.tensor.cut import cut, cut_arrays, numbered, same


@given(st.data(), st.sampled_from(["C", "F"]))
def test_positions(data, order):
    a = np.random.default_rng(1).integers(0, 24, (2, 5))
    x = data.draw(cut(a))
    ours, theirs = np.unravel_index(x, (2, 3, 4), order), np.unravel_index(a, (2, 3, 4), order)
    for one, other in zip(ours, theirs, strict=True):
        same(one, other)
    same(np.ravel_multi_index(ours, (2, 3, 4), order=order), a)
    with pytest.raises(ValueError, match="invalid entry"):
        np.ravel_multi_index((x,), (3,)).fetch()


def test_a_single_position_is_numpys_scalars_where_it_can_be_computed(engine):
    a = np.random.default_rng(1).permutation(12).reshape(3, 4)
    x = mt.asarray(a, chunk_size=2)
    for ours, theirs in ((x.argmax(), a.argmax()), (7, 7), (np.int8(5), np.int8(5))):
        assert repr(np.unravel_index(theirs, a.shape)) == repr(mt.unravel_index(ours, x.shape))
        assert mt.unravel_index(ours, x.shape, "F") == np.unravel_index(theirs, a.shape, "F")
    with pytest.raises(ValueError, match="out of bounds"):
        mt.unravel_index(x.max() + 1, (3, 4))
    with pytest.raises(TypeError, match="only int"):
        mt.unravel_index(2.0, (3, 4))
    set_engine(None)
    lazy = mt.unravel_index(x.argmax(), x.shape)
    set_engine(engine)
    same(lazy[0], np.unravel_index(a.argmax(), a.shape)[0])


@given(cut_arrays(low=1, high=2), st.sampled_from(["big", "little"]), st.data())
def test_bits(pair, bitorder, data):
    a, x = pair
    axis = data.draw(st.none() | st.integers(0, a.ndim - 1))
    same(np.packbits(x % 2, axis, bitorder), np.packbits(a % 2, axis, bitorder))
    b = (a % 251).astype("u1")
    count = data.draw(st.sampled_from([None, 5, -3])) if b.size and b.shape[axis or 0] and axis is not None else None
    same(np.unpackbits(x.astype("u1") if b.size < 251 else mt.asarray(b), axis, count, bitorder),
         np.unpackbits(b, axis, count, bitorder))  # fmt: skip


@given(st.data())
def test_several_keys(data):
    keys = [np.random.default_rng(i).integers(0, 3, (3, 5)) for i in range(2)]
    for axis in (0, -1):
        same(mt.lexsort([data.draw(cut(a)) for a in keys], axis), np.lexsort(keys, axis))


@given(cut_arrays(low=1), st.lists(st.integers(-9, 9), min_size=1, max_size=4))
def test_writing_where_a_mask_holds(pair, values):
    a, x = pair
    y, z = x.copy(), x.copy()
    b, c = a.copy(), a.copy()
    np.putmask(x, a % 3 == 1, values)
    np.putmask(a, a % 3 == 1, values)
    same(x, a)
    np.place(y, y % 2 == 0, values)
    np.place(b, b % 2 == 0, values)
    same(y, b)
    np.putmask(z, z % 2 == 0, z * 10)
    np.putmask(c, c % 2 == 0, c * 10)
    same(z, c)


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (2, 2, 2)])
@pytest.mark.parametrize("wrap", [False, True])
def test_filling_a_diagonal(shape, wrap):
    for value in (7, [1, 2]):
        a = numbered(shape)
        x = mt.asarray(a, chunk_size=2)
        np.fill_diagonal(x, value, wrap)
        np.fill_diagonal(a, value, wrap)
        same(x, a)


@given(st.data())
def test_polynomials(data):
    a = np.random.default_rng(2).uniform(-2, 2, 12)
    x = data.draw(cut(a))
    same(np.polyval([2.0, -1.0, 0.5], x), np.polyval([2.0, -1.0, 0.5], a))
    same(np.vander(x, 4), np.vander(a, 4))
    same(np.vander(x[:3], increasing=True), np.vander(a[:3], increasing=True))
    b = np.stack([a**2 - a, np.sin(a)], 1)
    for right in (b, b[:, 1]):
        y = data.draw(cut(right))
        same(np.polyfit(x, y, 3), np.polyfit(a, right, 3), rtol=1e-9)
        same(np.polyfit(x, y, 1, w=np.arange(12.0)), np.polyfit(a, right, 1, w=np.arange(12.0)), rtol=1e-9)


@pytest.mark.parametrize("cov", [True, "unscaled"])
@pytest.mark.parametrize("w", [None, np.arange(1, 13.0)])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_covariances_and_residuals_of_polynomials(cov, w, columns):
    rng = np.random.default_rng(3)
    a, b = rng.uniform(-2, 9, 12), rng.normal(size=(12, *columns))
    x, y = mt.asarray(a, chunk_size=5), mt.asarray(b, chunk_size=4)
    for ours, theirs in zip(np.polyfit(x, y, 2, w=w, cov=cov), np.polyfit(a, b, 2, w=w, cov=cov), strict=True):
        same(ours, theirs, rtol=1e-9)
    *ours, rank, singular, rcond = np.polyfit(x, y, 2, w=w, full=True)
    *theirs, known, lengths, least = np.polyfit(a, b, 2, w=w, full=True)
    for one, other in zip([*ours, singular], [*theirs, lengths], strict=True):
        same(one, other, rtol=1e-9)
    assert (rank, rcond) == (known, least)
    with pytest.raises(ValueError, match="must exceed order to scale"):
        np.polyfit(x[:3], y[:3], 2, cov=True)


def test_what_concerns_no_tensor_is_numpys():
    assert mt.poly([1, 2]).tolist() == np.poly([1, 2]).tolist()
    assert [i.tolist() for i in mt.tril_indices_from(mt.ones((2, 3)))] == [i.tolist() for i in np.tril_indices(2, m=3)]
    np.testing.assert_allclose(mt.roots(mt.array([1.0, -3.0, 2.0])), [2.0, 1.0])


def test_real_if_close():
    assert np.real_if_close(mt.asarray([1 + 1e-15j])).dtype == np.float64
    assert np.real_if_close(mt.asarray([1 + 1j])).dtype == np.complex128


@pytest.mark.parametrize("position", [6, -7])
def test_a_position_beyond_the_ends_is_refused(position):
    a, x = np.arange(6), mt.arange(6)
    for one in (a, x):
        with pytest.raises(IndexError, match="out of bounds"):
            np.put(one, [0, position], 9)
    np.put(a, [5, -6], 9)
    np.put(x, [5, -6], 9)
    same(x, a)


@pytest.mark.parametrize("name", ["place", "putmask"])
def test_masks_have_as_many_elements_as_the_array(name):
    for xp in np, mt:
        with pytest.raises(ValueError, match="mask and data must be the same size"):
            getattr(xp, name)(xp.ones((2, 3)), [True, False], 1)


def test_arrays_of_numpys_are_written_at_once(engine):
    x = np.array([1, None, "a"], object)
    mt.put(x, [0], ["b"])
    mt.putmask(x, np.array([False, True, False]), [3])
    assert x.tolist() == ["b", 3, "a"]
