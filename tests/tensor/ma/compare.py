"""Masked arrays drawn by Hypothesis, cut anyhow, and the comparison with numpy.ma."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.ma.handle import MaskedTensor
from tests.tensor.cut import shapes, splits

ma = mt.ma
DTYPES = ["f8", "f4", "i8", "i2", "u1", "?", "c16"]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5]


def same(ours, theirs, rtol=0.0):
    """What is not masked, where it is masked, dtype and fill value are numpy.ma's."""
    if ours is np.ma.masked:  # a value of this process
        assert np.ma.getmask(theirs) and not np.ndim(theirs)
        return
    if not isinstance(ours, MaskedTensor):
        value, known = ours.fetch() if isinstance(ours, mt.Tensor) else ours, np.asarray(theirs)
        assert not np.ma.is_masked(theirs)
        np.testing.assert_allclose(value, known, rtol, rtol)
        assert np.asarray(value).dtype == known.dtype
        return
    value = ours.fetch()
    assert ours.shape == np.shape(value) == np.shape(theirs)
    if not np.ndim(theirs) and (value is np.ma.masked or theirs is np.ma.masked):
        assert value is np.ma.masked and np.ma.getmask(theirs)  # its dtype says nothing
        return
    assert ours.dtype == np.asarray(value).dtype == np.asarray(theirs).dtype
    lost = np.ma.getmaskarray(theirs)
    np.testing.assert_array_equal(np.ma.getmaskarray(value), lost)
    left, right = np.ma.getdata(value)[~lost], np.ma.getdata(theirs)[~lost]
    if rtol and left.dtype.kind in "fc":
        np.testing.assert_allclose(left, right, rtol=rtol, atol=rtol)
    else:
        np.testing.assert_array_equal(left, right)
    if isinstance(theirs, np.ma.MaskedArray) and theirs.ndim:
        fills = [np.asarray(one.fill_value).astype(value.dtype) for one in (value, theirs)]
        np.testing.assert_array_equal(*fills)


@st.composite
def masked_arrays(draw, shape=None, dtypes=DTYPES, low=0, special=False):
    """A masked array of numpy.ma's, and the same as ours; now and then without a mask."""
    shape = draw(shapes(low, 3, 5)) if shape is None else shape
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    data = (rng.normal(size=shape) * 3).astype(dtype) if dtype.kind != "c" else rng.normal(size=shape) * (1 + 2j)
    if special and dtype.kind == "f":
        data = np.where(rng.random(shape) < 0.4, rng.choice(SPECIAL, size=shape), data).astype(dtype)
    mask = np.ma.nomask if draw(st.integers(0, 5)) == 0 else rng.random(shape) < draw(st.sampled_from([0.0, 0.4, 1.0]))
    fill = draw(st.sampled_from([None, None, 1])) if dtype.kind not in "cb" else None
    a = np.ma.array(data, mask=mask, fill_value=fill)
    chunks = tuple(draw(splits(n)) for n in shape)
    return a, ma.array(mt.asarray(data, chunks=chunks), mask=mask, fill_value=fill)
