"""Every elementwise function gives NumPy's dtype and values, from jmars.tensor and from numpy itself."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import jmars.tensor as jt
from jmars.errors import UnsupportedError
from jmars.kernels.elementwise import UFUNCS
from jmars.tensor.tensor import Tensor
from tests.cases import case, numpy_before

DTYPES = ["?", "i1", "i4", "i8", "u1", "u8", "f2", "f4", "f8", "c8", "c16", "M8[D]", "m8[s]"]


def sample(dtype: str) -> np.ndarray:
    values = np.array([0, 1, 2, 3, 5, 7, 11, 100, 0, 1])
    if np.dtype(dtype).kind in "iufc":
        values = values - (3 if np.dtype(dtype).kind != "u" else 0)
    x = values.astype(dtype)
    if x.dtype.kind in "fc":
        x[-2:] = [np.nan, np.inf]
    return x


def same(ours, theirs) -> None:
    if isinstance(theirs, tuple):
        for our, their in zip(ours, theirs, strict=True):
            same(our, their)
        return
    assert isinstance(ours, Tensor)
    value = ours.fetch()
    assert ours.dtype == value.dtype == np.asarray(theirs).dtype
    np.testing.assert_array_equal(value, theirs)


@pytest.mark.parametrize("name", UFUNCS)
def test_each_ufunc(name):
    for dtype in DTYPES:
        with case(dtype), np.errstate(all="ignore"):
            check(name, getattr(np, name), sample(dtype))


def check(name, ufunc, x):
    args = [x, x[::-1].copy()][: ufunc.nin]
    try:
        expected = ufunc(*args)
    except TypeError:
        with pytest.raises(TypeError):
            ufunc(*(jt.as_tensor(a, chunk_size=3) for a in args))
    except ValueError as error:
        assert "negative integer powers" in str(error)
    else:
        same(getattr(jt, name)(*(jt.as_tensor(a, chunk_size=3) for a in args)), expected)
        same(ufunc(*(jt.as_tensor(a, chunk_size=4) for a in args)), expected)
        if ufunc.nin == 2:
            same(ufunc(args[0], jt.as_tensor(args[1], chunk_size=3)), expected)  # ndarray first
            same(ufunc(jt.as_tensor(args[0], chunk_size=(5,)), args[1]), expected)


def test_every_elementwise_ufunc_of_numpy_has_a_row():
    rows = {getattr(np, name) for name in UFUNCS}
    theirs = {f for f in vars(np).values() if isinstance(f, np.ufunc) and f.signature is None}
    assert {f.__name__ for f in theirs - rows} == set()


def test_other_names_are_the_same_function():
    for name, op in UFUNCS.items():
        for other in op.others:
            assert getattr(jt, other) is getattr(jt, name)
            assert getattr(np, other, None) in (getattr(np, name), None)


SCALARS = [2, 0, -1, 2.5, -0.0, True, 1j, np.float32(1.5), np.int64(3), np.uint8(200), 300, np.array(2.0)]


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i4", "u8", "f2", "f4", "f8", "c8"])
def test_scalars_promote_as_numpy_has_it(dtype):
    for scalar in SCALARS:
        with case(repr(scalar)):
            promoted(sample(dtype), scalar)


def promoted(a, scalar):
    x = jt.as_tensor(a, chunk_size=4)
    exponent = 3 if isinstance(scalar, np.ndarray) and numpy_before("2.3.0") else scalar  # it kept the dtype of squares
    for operation in (
        lambda v: v + scalar,
        lambda v: scalar - v,
        lambda v: v * scalar,
        lambda v: v / scalar,
        lambda v: v < scalar,
        lambda v: scalar == v,
        lambda v: v & scalar,
        lambda v: v**exponent,
        lambda v: v // scalar,
        lambda v: np.where(v > 1, v, scalar),
        lambda v: np.clip(v, scalar, None),
    ):
        with np.errstate(all="ignore"):
            try:
                expected = operation(a)
            except (TypeError, OverflowError, ValueError) as error:
                with pytest.raises((TypeError, OverflowError, ValueError)):
                    operation(x).fetch()
                assert error
                continue
            same(operation(x), expected)


def test_the_power_operator_takes_numpy_s_shortcuts():
    a = np.array([-np.inf, -2.0, -0.0, 0.0, 3.0, np.nan])
    for exponent in (2, 1, 0.5, -1, 0, 3, 2.0):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal((jt.as_tensor(a) ** exponent).fetch(), a**exponent)
    with pytest.raises(ValueError, match="negative integer powers"):
        jt.arange(4) ** -1


SHAPES = [((6, 4), (4,)), ((6, 1), (1, 4)), ((6, 4), ()), ((1,), (6, 4)), ((2, 3, 4), (3, 1)), ((0, 4), (4,)), ((), ())]


@pytest.mark.parametrize("shapes", SHAPES)
def test_broadcasting(shapes):
    a, b = (np.arange(np.prod(s, dtype=int)).reshape(s) * 1.5 for s in shapes)
    for chunk in (1, 2, 3):
        x, y = jt.as_tensor(a, chunk_size=chunk), jt.as_tensor(b, chunk_size=2)
        same(x - y, a - b)
        same(np.where(x > 2, x, y), np.where(a > 2, a, b))


def test_what_does_not_broadcast_is_refused_at_once():
    with pytest.raises(ValueError, match="broadcast"):
        jt.ones(3) + jt.ones(4)


def test_a_tensor_may_be_used_twice_and_as_equal_pieces():
    x = jt.arange(10.0, chunk_size=3)
    same(x * x, np.arange(10.0) ** 2)
    same(x + x.rechunk(3), np.arange(10.0) * 2)
    same(np.arctan2(x, x), np.arctan2(np.arange(10.0), np.arange(10.0)))


def test_out_rebinds():
    a, b = np.arange(4.0), np.ones(4)
    x, y = jt.as_tensor(a), jt.as_tensor(b)
    kept = y.data
    result = np.add(x, 1, out=y)
    assert result is y and y.data is not kept
    np.testing.assert_array_equal(y.fetch(), a + 1)
    np.testing.assert_array_equal(b, np.ones(4))
    with pytest.raises(TypeError, match="same_kind"):
        np.add(x, 0.5, out=jt.arange(4))
    with pytest.raises(ValueError, match="non-broadcastable"):
        np.add(x, 1, out=jt.ones(3))
    wide = jt.zeros((2, 4), dtype="f4", chunk_size=1)
    np.add(x, 1, out=wide)
    same(wide, np.broadcast_to(a + 1, (2, 4)).astype("f4"))


def test_out_may_be_an_array_of_the_user_s_and_is_computed_at_once():
    a = np.zeros(4)
    a += jt.arange(4)
    assert a.tolist() == [0, 1, 2, 3]


def test_where_writes_to_out():
    x = jt.arange(4.0)
    out = jt.zeros(4)
    np.sqrt(x, out=out, where=np.array([True, False, True, True]))
    same(out, np.sqrt(np.arange(4.0)) * [1, 0, 1, 1])


def test_dtype_says_what_to_compute_in():
    a = np.array([1, 2, 300])
    same(np.add(jt.as_tensor(a), 1, dtype="f4"), np.add(a, 1, dtype="f4"))
    same(np.sqrt(jt.as_tensor(a), dtype="f4"), np.sqrt(a, dtype="f4"))


def test_astype():
    a = np.array([-1.5, 0, 3e5, np.nan])
    x = jt.as_tensor(a, chunk_size=2)
    with np.errstate(all="ignore"):
        for dtype in ("f4", "i4", "?", "c8"):
            same(x.astype(dtype), a.astype(dtype))
    with pytest.raises(TypeError, match="rule 'safe'"):
        x.astype("i4", casting="safe")
    with pytest.warns(np.exceptions.ComplexWarning):
        same(jt.as_tensor(a + 1j).astype("f8"), a)


def test_round_clip_and_the_composed():
    a = np.array([-1.55, 2.5, 1234.567, np.nan, np.inf, -np.inf, -0.0])
    c = a.astype(complex)
    c.imag = a[::-1]
    i = np.array([-151, 7, 250, 1000])
    x, z, k = (jt.as_tensor(v, chunk_size=2) for v in (a, c, i))
    with np.errstate(all="ignore"):
        for decimals in (0, 1, 2, -2):
            same(np.round(x, decimals), np.round(a, decimals))
            same(np.round(k, decimals), np.round(i, decimals))
        same(np.clip(x, -1, 2), np.clip(a, -1, 2))
        same(k.clip(max=100), i.clip(max=100))
        same(np.nan_to_num(x), np.nan_to_num(a))
        same(np.nan_to_num(x, nan=7, posinf=1, neginf=2), np.nan_to_num(a, nan=7, posinf=1, neginf=2))
        same(np.isclose(x, x + 1e-9), np.isclose(a, a + 1e-9))
        same(np.isclose(x, x, equal_nan=True), np.isclose(a, a, equal_nan=True))
        for name in ("isposinf", "isneginf", "fix"):
            same(getattr(np, name)(x), getattr(np, name)(a))
        for name in ("real", "imag", "angle", "isreal", "iscomplex", "conj"):
            same(getattr(np, name)(z), getattr(np, name)(c))
            if name != "conj":
                same(getattr(np, name)(x), getattr(np, name)(a))
        same(np.angle(z, deg=True), np.angle(c, deg=True))
        same(abs(round(x)), abs(np.round(a)))


def test_real_and_imag_are_views():
    z = jt.ones(3, dtype=complex)
    real, imag = z.real, z.imag
    z += 1j
    real[0], imag[1] = 5, 7
    assert z.tolist() == [5 + 1j, 1 + 7j, 1 + 1j] and imag.tolist() == [1, 7, 1]


def test_what_cannot_be_distributed_is_refused_by_name():
    with pytest.raises(UnsupportedError, match="object"):
        jt.map_blocks(np.sqrt, np.array([object(), None]), dtype=float)
    with pytest.raises(TypeError):
        jt.ones(2) + "text"


@pytest.mark.parametrize("number", [-1, 2**40, -(2**70)])
@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
def test_a_number_that_no_element_can_be_is_compared_with_each(name, number):
    compare, array = getattr(np, name), np.arange(6, dtype="u4").reshape(2, 3)
    x = jt.asarray(array, chunk_size=2)
    same(compare(x, number), compare(array, number))
    same(compare(number, x), compare(number, array))
    same(compare(x + 1, number).sum(axis=0), compare(array + 1, number).sum(axis=0))
    same(compare(x, number) & (x > 2), compare(array, number) & (array > 2))


def test_equivalent_casting_of_a_number_is_refused_as_by_numpy() -> None:
    """NumPy 2.4 crashes where the loop's dtypes are asked for in this way."""
    with pytest.raises(TypeError, match="cannot cast Python int to int32 under the casting rule 'equiv'"):
        jt.add(3, jt.ones(2, dtype="i1"), dtype="i4", casting="equiv")


def test_an_array_as_mask_must_be_boolean() -> None:
    for xp, x in (np, np.ones(2)), (jt, jt.ones(2)):
        with pytest.raises(TypeError, match=r"Cannot cast .* to dtype\('bool'\) according to the rule 'safe'"):
            xp.add(x, 1, where=x, out=x)
        assert xp.add(x, 1, where=[0, 1], out=x).tolist() == [1, 2]


def test_values_of_kinds_without_comparison_are_unequal() -> None:
    times = np.arange(6).astype("M8[s]").reshape(2, 3)
    for other in (1j, 3, "a", np.arange(3.0), np.zeros(3, "S2")):
        for compare in operator.eq, operator.ne:
            ours, theirs = compare(jt.array(times, chunk_size=2), other), compare(times, other)
            np.testing.assert_array_equal(ours.fetch(), theirs)
    for name in "isreal", "iscomplex":
        for x in (times, np.array(["a", "b"]), np.arange(3), np.arange(3) + 1j):
            np.testing.assert_array_equal(getattr(jt, name)(jt.array(x)).fetch(), getattr(np, name)(x))


def test_methods_take_where_and_order_none() -> None:
    x = np.arange(6).reshape(2, 3)
    ours = jt.array(x, chunk_size=2)
    assert not ours.all(where=True) and ours.all(where=x > 0) and not ours.any(where=x < 1)
    assert jt.zeros_like(ours, order=None).shape == ours.copy(None).shape == (2, 3)


def test_unsigned_numbers_are_compared_with_a_negative_one() -> None:
    x = np.array([0, 3, 2**63], "u8")
    np.testing.assert_array_equal(jt.isclose(jt.array(x, chunk_size=2), -1).fetch(), np.isclose(x, -1))
    assert not jt.allclose(jt.array(x), -1)


def test_result_larger_than_its_inputs_is_cut_to_default_chunks(engine):
    engine.limit = 16 * 2**20  # chunks of 2 MiB
    x = jt.arange(1200.0)
    made = abs(x[:, None] - x)
    assert len(made.chunks[0]) > 1 and max(made.chunks[0]) * 1200 * 8 <= 2 * 2**20
    assert (x + x[0]).chunks == x.chunks and (made - x).chunks == made.chunks
    values = np.arange(1200.0)
    assert np.array_equal(made.min(axis=1).fetch(), np.zeros(1200))
    assert np.array_equal(np.multiply.outer(x, x).fetch(), np.multiply.outer(values, values))
