"""`order=` and its default: results lie in memory as NumPy's, where flags, strides and views show it."""

from __future__ import annotations

import re
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
    "zeros": lambda np, c, f: np.zeros((3, 4), order="F"),
    "full of an array": lambda np, c, f: np.full((3, 4), c[0], order="F"),
}
MADE = {
    "zeros_like": lambda np, a, order: np.zeros_like(a, order=order),
    "ones_like": lambda np, a, order: np.ones_like(a, order=order),
    "full_like": lambda np, a, order: np.full_like(a, 3, order=order),
    "full_like of an array": lambda np, a, order: np.full_like(a, a[:1], order=order),
    "zeros_like of a shape": lambda np, a, order: np.zeros_like(a, order=order, shape=(4, 2)),
    "asarray": lambda np, a, order: np.asarray(a, order=order),
    "asarray of a dtype": lambda np, a, order: np.asarray(a, np.float32, order=order),
    "array": lambda np, a, order: np.array(a, order=order),
    "copy": lambda np, a, order: np.copy(a, order=order),
}
KEEPING = {  # functions of a new array that keep the order of their argument in memory, or a part of it
    "eye": lambda np, a: np.eye(3, 4, order="F"),
    "sort": lambda np, a: np.sort(a, axis=0),
    "partition": lambda np, a: np.partition(a, 1),
    "cumsum": lambda np, a: np.cumsum(a, axis=1),
    "accumulate": lambda np, a: np.add.accumulate(a, axis=0),
    "sum": lambda np, a: np.sum(a, axis=0),
    "sum of the last axis": lambda np, a: a.sum(-1),
    "std": lambda np, a: np.std(a, axis=-1, keepdims=True),
    "nanmax": lambda np, a: np.nanmax(a, axis=0),
    "median": lambda np, a: np.median(a, axis=0),
    "average": lambda np, a: np.average(a, axis=0),
    "reduceat": lambda np, a: np.add.reduceat(a, [0, 1], axis=1),
    "concatenate": lambda np, a: np.concatenate([a, a], axis=1),
    "concatenate C and the array": lambda np, a: np.concatenate([np.ascontiguousarray(a), a]),
    "stack": lambda np, a: np.stack([a, a], axis=1),
    "append": lambda np, a: np.append(a, a, axis=0),
    "vstack": lambda np, a: np.vstack([a, a]),
    "block": lambda np, a: np.block([[a], [a]]),
    "pad": lambda np, a: np.pad(a, 1, mode="edge"),
    "roll": lambda np, a: np.roll(a, 1, axis=0),
    "diff": lambda np, a: np.diff(a, axis=0),
    "gradient": lambda np, a: np.gradient(a, axis=0),
    "delete": lambda np, a: np.delete(a, 1, axis=0),
    "insert": lambda np, a: np.insert(a, 1, 5.0, axis=0),
    "select": lambda np, a: np.select([a > 3], [a], 0.0),
    "fft": lambda np, a: np.fft.fft(a, axis=0),
    "fftshift": lambda np, a: np.fft.fftshift(a),
    "where": lambda np, a: np.where(a > 3, a, 0.0),
    "take": lambda np, a: np.take(a, [1, 0], axis=0),
    "repeat": lambda np, a: np.repeat(a, 2, axis=0),
    "positions": lambda np, a: a[..., [1, 0]],
}
CUBE = np.arange(24.0).reshape(2, 3, 4)
FROM = {
    "C": lambda np: np.asarray(C),
    "F": lambda np: np.asarray(F),
    "axes moved": lambda np: np.asarray(CUBE).transpose(2, 0, 1),
    "an axis reversed": lambda np: np.asarray(CUBE).transpose(2, 0, 1)[:, ::-1],
}


def agree(ours: Any, theirs: Any) -> None:
    """Strides, flags and values are NumPy's."""
    assert ours.strides == theirs.strides
    for name in ("c_contiguous", "f_contiguous"):
        assert getattr(ours.flags, name) == getattr(theirs.flags, name), name
    np.testing.assert_array_equal(ours.fetch(), theirs)
    for order in "CFA":
        assert ours.tobytes(order) == theirs.tobytes(order)
    np.testing.assert_array_equal(ours.ravel("K"), theirs.ravel("K"))


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_results_lie_in_memory_as_numpys(name: str) -> None:
    make = EXPRESSIONS[name]
    agree(make(mt, mt.asarray(C, chunk_size=2), mt.asarray(F)), make(np, C, F))


@pytest.mark.parametrize("order", ["K", "C", "F", "A"])
@pytest.mark.parametrize("name", MADE)
def test_new_arrays_lie_in_memory_as_numpys(name: str, order: str) -> None:
    for start in FROM.values():
        agree(MADE[name](mt, start(mt), order), MADE[name](np, start(np), order))


def test_asarray_copies_only_what_lies_in_another_order() -> None:
    for order in "KCFA":
        for start in FROM.values():
            ours, theirs = start(mt), start(np)
            shared = np.shares_memory(mt.asarray(ours, order=order), ours)
            assert shared == np.shares_memory(np.asarray(theirs, order=order), theirs)


@pytest.mark.parametrize("make", [lambda np: np.zeros(3, order="K"), lambda np: np.asarray(C, order="X")])
def test_an_order_that_numpy_refuses_is_refused(make: Any) -> None:
    with pytest.raises(ValueError) as theirs:
        make(np)
    with pytest.raises(ValueError) as ours:
        make(mt)
    assert str(ours.value) == str(theirs.value)


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


@pytest.mark.parametrize("source", FROM)
@pytest.mark.parametrize("name", KEEPING)
def test_functions_of_new_arrays_keep_the_order_that_numpys_keep(name: str, source: str) -> None:
    with np.errstate(all="ignore"):
        theirs = KEEPING[name](np, FROM[source](np))
        ours = KEEPING[name](mt, FROM[source](mt))
    assert ours.flags.f_contiguous == theirs.flags.f_contiguous
    assert ours.flags.c_contiguous == theirs.flags.c_contiguous
    np.testing.assert_allclose(ours.ravel("K").fetch(), theirs.ravel("K"))


def test_a_line_of_unknown_length_lies_in_both_orders() -> None:
    found = mt.asarray(C)[mt.asarray(C) > 3]
    assert found.flags.c_contiguous and found.flags.f_contiguous


def test_reshape_in_memory_order_is_refused_as_by_numpy() -> None:
    with pytest.raises(ValueError, match="not permitted"):
        mt.asarray(C).reshape(4, 3, order="K")


@pytest.mark.parametrize("order", ["f", "c", "a", "k", "x", "CF", 3])
def test_letters_of_orders_are_read_as_numpy_s(engine, order):
    for call in ("a.reshape(4, 3, order=order)", "a.ravel(order)", "a.flatten(order)", "a.copy(order)"):
        names = [{"a": a, "order": order} for a in (mt.asarray(F, chunk_size=2), F)]
        try:
            expected = eval(call, names[1])
        except (TypeError, ValueError) as error:
            with pytest.raises(type(error), match=re.escape(str(error))):
                eval(call, names[0])
        else:
            agree(eval(call, names[0]), expected)
