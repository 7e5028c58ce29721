"""A result without axes is a scalar in NumPy: `s += 1` rebinds the name; arrays without axes are written."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from tests.cases import needs_numpy
from tests.conformance.halves import in_halves


def scalar_is_rebound(np: Any, x: Any) -> Any:
    s = x.sum()
    t = s
    s += 0.5
    return t, s


def array_is_written(np: Any, x: Any) -> Any:
    z = np.zeros(())
    w, v, u = z, z[...], np.asarray(3.0)
    z += 2
    t = u.copy()
    s = t
    t *= 3
    return w, v, z, s, t


def element_is_written(np: Any, x: Any) -> Any:
    y = x.copy()
    e = y[1, 2]
    e += 100
    y[0, 0] += 7
    return y, e


def copies_in_another_order(np: Any, x: Any) -> Any:
    y = x.copy()
    c, f = np.ascontiguousarray(y.T), np.asfortranarray(y)
    c[0, 0], f[1, 1] = 99, 77
    same = np.ascontiguousarray(y)
    same[2, 2] = 55
    return y, c, f, x.copy("F"), np.copy(f), np.ascontiguousarray(3.0)


@pytest.mark.parametrize("run", [scalar_is_rebound, array_is_written, element_is_written, copies_in_another_order])
def test_names_and_values_are_numpys(run: Any) -> None:
    a = np.arange(12).reshape(3, 4)
    for ours, theirs in zip(run(mt, mt.asarray(a)), run(np, a), strict=True):
        assert (ours.dtype, ours.shape, ours.strides) == (theirs.dtype, theirs.shape, theirs.strides)
        np.testing.assert_array_equal(ours.fetch(), theirs)


@pytest.mark.parametrize("dtype", ["i8", "u1", "f8", "c16", pytest.param("?", marks=needs_numpy("2.3", "an error"))])
@pytest.mark.parametrize("sequence", [[1, 2], (0,), "ab", b"=", []])
def test_a_sequence_is_repeated_by_a_whole_number_as_numpys_scalars_do(sequence: Any, dtype: str) -> None:
    a, x = np.ones(3, dtype).max(), mt.ones(3, dtype=dtype).max()
    for times in (lambda n: sequence * n, lambda n: n * sequence):
        if dtype in ("i8", "u1"):
            assert times(x) == times(a) and type(times(x)) is type(sequence)
        else:
            with pytest.raises(TypeError) as theirs:
                times(a)
            with pytest.raises(TypeError) as ours:
                times(x)
            assert str(ours.value) == str(theirs.value)


def test_an_array_without_axes_is_multiplied_with_a_sequence() -> None:
    assert ([1, 2] * mt.asarray(3)).fetch().tolist() == [3, 6]
    assert (mt.arange(2) * [1, 2]).fetch().tolist() == [0, 2]


@pytest.mark.parametrize("value", [2.5, -3.5, 7])
def test_rounded_to_a_python_number(value: float) -> None:
    for kind in ("f8", "f4", "i8"):
        x, a = mt.asarray([value], dtype=kind).sum(), np.asarray([value], dtype=kind).sum()
        assert round(x) == round(a) and type(round(x)) is int
        assert round(x, 0).dtype == round(a, 0).dtype
        assert (math.floor(x), math.ceil(x)) == (math.floor(a), math.ceil(a))
    assert math.trunc(mt.asarray([value], dtype="f8").sum()) == int(value)


@pytest.mark.parametrize("dtype", ["f8", [("x", "i8"), ("y", "i8")]])
def test_what_is_read_only_says_so_before_any_other_fault(dtype: Any) -> None:
    for one in (np.diagonal(np.zeros((2, 2), dtype)), np.diagonal(mt.asarray(np.zeros((2, 2), dtype)))):
        with pytest.raises(ValueError, match="output array is read-only"):
            one += 0


@pytest.mark.parametrize(
    ("a", "name", "args"),
    [
        (np.array([1.5, 2.0]), "is_integer", ()),
        (np.array([1.5, 2.0]), "as_integer_ratio", ()),
        (np.array([1.5, 2.0]), "hex", ()),
        (np.array([5, 12], "u4"), "is_integer", ()),
        (np.array([5, 12]), "bit_count", ()),
        (np.array(["abc", "d"]), "upper", ()),
        (np.array(["abc", "d"]), "startswith", ("a",)),
        (np.array([b"abc", b"d"]), "decode", ()),
    ],
)
def test_a_scalar_has_the_methods_of_numpys_scalars(a, name, args):
    x = mt.asarray(a, chunk_size=1)
    for i in range(2):
        found, expected = getattr(x[i], name)(*args), getattr(a[i], name)(*args)
        assert found == expected and type(found) is type(expected)


def test_attributes_of_scalars_that_are_no_methods():
    x = mt.arange(3)
    assert (x.max().numerator, x.max().denominator) == (2, 1)
    assert (x.max().real.fetch(), x.max().imag.fetch()) == (2, 0)


def test_an_array_without_axes_has_no_methods_of_scalars():
    for np_ in (np, mt):
        for array in (np_.asarray(2.0), np_.ones(3)):
            assert not hasattr(array, "is_integer") and not hasattr(array, "hex")
            with pytest.raises(TypeError, match="unhashable"):
                hash(array)


def test_a_scalar_is_a_key_by_its_value():
    x = mt.asarray([2.5, 7.0, 2.5])
    table = {x[0]: "a", x.max(): "b"}
    assert table[2.5] == table[x[2]] == "a" and table[7] == "b" and hash(x[1]) == hash(7)
    assert {x[0], x[2]} == {2.5}


def test_predicates_are_bools_where_small_values_are_computed_at_once(engine):
    x = mt.arange(4.0, chunk_size=2)
    assert isinstance(mt.allclose(x, x), mt.Tensor)  # this engine does not
    with in_halves():
        assert mt.allclose(x, x) is True and mt.array_equal(x, x + 1) is False and mt.array_equiv(x, x) is True


def test_isscalar_of_elements_and_reductions_is_numpys(engine):
    x = mt.arange(4.0, chunk_size=2)
    assert mt.isscalar(x.sum()) and mt.isscalar(mt.percentile(x, 50)) and mt.isscalar(3)
    assert not mt.isscalar(x) and not mt.isscalar(mt.asarray(3.0))
