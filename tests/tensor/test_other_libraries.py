"""Pillow and numba take the value of a tensor, as `np.asarray` gives it."""

from __future__ import annotations

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.config import config


@pytest.mark.parametrize("kind", ["f8", "u1", "?", "c8", "M8[s]", "U3", "i4,f8"])
def test_the_array_interface_is_that_of_the_value(kind):
    a = np.zeros((2, 3), kind)
    found, expected = mt.asarray(a, chunk_size=2).__array_interface__, a.__array_interface__
    assert all(found[name] == expected[name] for name in ("shape", "typestr", "descr", "version"))
    assert bytes(found["data"]) == a.tobytes() and found["data"].readonly and found["strides"] == a.strides


def test_numpy_converts_by_its_own_protocol():
    found = np.asarray(mt.ones(3))
    assert found.flags.writeable and not isinstance(found.base, memoryview)
    assert np.array([mt.ones(2), mt.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    assert not hasattr(mt.ones(3), "__array_struct__")


def test_an_image_is_made_of_a_tensor():
    image = pytest.importorskip("PIL.Image")
    a = np.arange(48, dtype="u1").reshape(4, 4, 3)
    for ours, theirs in ((mt.asarray(a, chunk_size=3), a), (mt.asarray(a)[::2, ::-1] + 1, a[::2, ::-1] + 1),
                         (mt.ones((2, 2), "f4"), np.ones((2, 2), "f4"))):  # fmt: skip
        found, expected = image.fromarray(ours), image.fromarray(theirs)
        assert (found.size, found.mode, found.tobytes()) == (expected.size, expected.mode, expected.tobytes())


def test_a_question_about_a_tensor_that_is_gone_concerns_no_other():
    gone = mt.ones(3)
    assert not hasattr(gone, "__array_struct__")
    del gone
    for other in [mt.ones(3) for _ in range(100)]:  # one has the address of the first
        assert other.__array_interface__["shape"] == (3,)


def test_a_large_tensor_is_told():
    with config.using(array_warning=100), pytest.warns(UserWarning, match="takes a tensor of shape"):
        mt.ones(100).__array_interface__


@pytest.fixture(scope="module")
def numba():
    return pytest.importorskip("numba")


def test_a_function_of_numba_takes_the_value(numba):
    @numba.njit
    def several(x, y):
        total = 0.0
        for i in range(x.shape[0]):
            total += x[i]
        return total, x[1:].sum(), np.sort(x), x * 2 + y, x

    a = np.arange(4.0)
    found, expected = several(mt.asarray(a, chunk_size=3), mt.ones(4).sum()), several(a, 4.0)
    for one, other in zip(found, expected, strict=True):
        assert type(one) is type(other)
        np.testing.assert_array_equal(one, other)
    with config.using(array_warning=10), pytest.warns(UserWarning, match="takes a tensor of shape"):
        several(mt.asarray(a), 1.0)


def test_a_function_of_numba_does_not_write_to_a_tensor(numba):
    @numba.njit
    def write(x):
        x[0] = 1

    x = mt.zeros(3)
    with pytest.raises(numba.core.errors.TypingError, match=r"setitem\(tensor\(float64, 1d\)"):
        write(x)
    assert x.tolist() == [0, 0, 0]


def test_the_error_of_a_value_arrives_through_numba(numba):
    def fails(block):
        raise KeyError("no")

    @numba.njit
    def total(x):
        return x.sum()

    with pytest.raises(KeyError, match="no"):
        total(mt.ones(4).map_blocks(fails, dtype=float))
    assert total(mt.ones(4)) == 4


def test_the_buffer_is_its_value():
    assert mt.arange(6, chunk_size=4).__buffer__(0).tolist() == list(range(6))
