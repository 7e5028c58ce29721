"""`x.resize(...)` changes an array in place, as NumPy's does, and `np.ix_` takes tensors."""

from __future__ import annotations

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from tests.tensor.cut import same


@pytest.mark.parametrize("lengths", [(3, 4), ((3, 4),), (2,), (0,), (4, 4, 1), (np.int64(5),), (None,), ()])
def test_resize_keeps_elements_and_adds_zeros(lengths):
    array, x = np.arange(6.0).reshape(2, 3).copy(), mt.asarray(np.arange(6.0).reshape(2, 3), chunk_size=2)
    other = x
    array.resize(*lengths, refcheck=False)
    assert x.resize(*lengths) is None
    assert other.shape == array.shape
    same(x, array)


def test_resize_refuses_what_numpy_refuses():
    x = mt.arange(6)
    with pytest.raises(ValueError, match="does not own its data"):
        x[1:].resize(3)
    part = x[1:]
    with pytest.raises(ValueError, match="references or is referenced"):
        x.resize(3)
    x.resize(3, refcheck=False)
    same(x, np.arange(3))
    same(part, np.arange(1, 6))
    with pytest.raises(ValueError, match="negative dimensions"):
        x.resize(-1)
    with pytest.raises(TypeError):
        x.resize(2.5)
    with pytest.raises(UnsupportedError, match="Fortran"):
        mt.asarray(np.asfortranarray(np.ones((2, 3)))).resize(3)


@pytest.mark.parametrize("indices", [([0, 2], [1, 3, 1]), ([True, False, True], [2]), ([2], [0], [1])])
def test_an_open_mesh_of_tensors(indices):
    arrays = [np.asarray(one) for one in indices]
    expected = np.ix_(*arrays)
    found = mt.ix_(*[mt.asarray(one) for one in arrays])
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        same(one, other)
    a = np.arange(60).reshape(3, 4, 5)
    same(mt.asarray(a)[found], a[expected])


def test_an_open_mesh_refuses_what_numpy_refuses():
    with pytest.raises(ValueError, match="Cross index must be 1 dimensional"):
        mt.ix_(mt.ones((2, 2), dtype=int))
    assert isinstance(mt.ix_([0], [1])[0], np.ndarray)
