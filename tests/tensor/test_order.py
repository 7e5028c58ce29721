"""`order=` and its default: results lie in memory as NumPy's, where flags, strides and views show it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt

C = np.arange(12.0).reshape(3, 4)
F = np.asfortranarray(C + 1)
EXPRESSIONS = {
    "C + F": lambda np, c, f: c + f,
    "F + F": lambda np, c, f: f + f * 2,
    "F + a row": lambda np, c, f: f + c[0],
    "F.T + C.T": lambda np, c, f: f.T + c.T,
    "C.T": lambda np, c, f: np.exp(c.T),
    "order C": lambda np, c, f: np.add(f, f, order="C"),
    "order F": lambda np, c, f: np.multiply(c, c, order="F"),
    "order F of one axis": lambda np, c, f: np.multiply(c[0], c[0], order="F"),
    "order A of F": lambda np, c, f: np.add(f, f, order="A"),
    "order A of F and C": lambda np, c, f: np.add(c, f, order="A"),
    "order A of C": lambda np, c, f: np.add(c, c, order="A"),
    "order K of F": lambda np, c, f: np.negative(f, order="K"),
    "a second output": lambda np, c, f: np.modf(c, order="F")[1],
    "clip": lambda np, c, f: np.clip(c, 1, 2, order="F"),
    "matmul": lambda np, c, f: np.matmul(c, f.T, order="F"),
    "einsum": lambda np, c, f: np.einsum("ij,kj->ik", c, f, order="F"),
}


def agree(ours: Any, theirs: Any) -> None:
    """Strides, flags and values are NumPy's."""
    assert ours.strides == theirs.strides
    for name in ("c_contiguous", "f_contiguous"):
        assert getattr(ours.flags, name) == getattr(theirs.flags, name), name
    np.testing.assert_array_equal(ours.fetch(), theirs)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_results_lie_in_memory_as_numpys(name: str) -> None:
    make = EXPRESSIONS[name]
    agree(make(mt, mt.asarray(C, chunk_size=2), mt.asarray(F)), make(np, C, F))


def test_a_view_of_a_result_shares_memory_where_numpys_does() -> None:
    ours, theirs = np.multiply(mt.asarray(C), 1, order="F"), np.multiply(C, 1, order="F")
    for flat in (ours.ravel(), theirs.ravel()):
        flat[:] = 0
    assert ours.sum() == theirs.sum() == C.sum()  # ravel copied
    for flat in (ours.T.ravel(), theirs.T.ravel()):
        flat[:] = 0
    assert ours.sum() == theirs.sum() == 0


def test_a_wrong_order_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"order must be one of 'C', 'F', 'A', or 'K' \(got 'X'\)"):
        np.add(mt.ones(3), 1, order="X")
    with pytest.raises(TypeError, match="'subok' must be a boolean"):
        np.add(mt.ones(3), 1, subok=2)
    with pytest.raises(TypeError, match="unexpected keyword"):
        mt.add(mt.ones(3), 1, axis=0)


def test_a_loop_is_chosen_by_signature_and_casting() -> None:
    x = mt.asarray(C)
    for more in ({"signature": "ff->f", "casting": "unsafe"}, {"sig": ("d", "d", "d")}, {"dtype": "f4"}):
        found, expected = np.add(x, 1, **more), np.add(C, 1, **more)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.fetch(), expected)
    for more in ({"signature": "ii->i"}, {"casting": "no", "dtype": "f4"}):
        with pytest.raises(TypeError, match="Cannot cast"):
            np.add(x, 1, **more)
    with pytest.raises(TypeError, match="cannot specify both"):
        mt.add(x, 1, dtype="f4", sig="dd->d")


def test_where_without_out_warns_as_numpy_and_leaves_zeros() -> None:
    with pytest.warns(UserWarning, match="'where' used without 'out'") as seen:
        found = np.sqrt(mt.asarray(C), where=mt.asarray(C) > 4)
    assert seen[0].filename == __file__
    np.testing.assert_array_equal(found.fetch(), np.where(C > 4, np.sqrt(C), 0))
    np.testing.assert_array_equal(mt.sqrt(mt.asarray(C), where=C > 4, out=None).fetch(), found.fetch())


def test_flags_print_as_numpys():
    a = np.zeros((2, 3))
    for take in (lambda x: x, lambda x: x.T, lambda x: x[:, 0]):
        assert repr(take(mt.zeros((2, 3))).flags) == repr(take(a).flags)
