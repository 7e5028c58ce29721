"""Masked arrays beside numpy.ma: values, masks, fill values and dtypes, over odd cuts."""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.tensor.ma.handle import MaskedTensor
from jmars.tensor.numpy_modules import as_values
from jmars.tensor.small_values import small_values
from jmars.tensor.tensor import as_tensor
from tests.tensor.cut import basic_indices, shapes
from tests.tensor.ma.compare import ma, masked_arrays, same

warnings.filterwarnings("ignore", message="Warning: 'partition' will ignore")


@pytest.fixture(autouse=True, params=["nodes", "small"])
def _values(request):
    """Each test twice: by nodes, and with small values computed at once, as in a cell."""
    with small_values() if request.param == "small" else nullcontext():
        yield


UNARY = """exp conjugate sin cos arctan arcsinh sinh cosh tanh absolute fabs negative floor ceil logical_not sqrt log
log2 log10 tan arcsin arccos arccosh arctanh""".split()  # noqa: SIM905


@settings(max_examples=15)
@pytest.mark.parametrize("name", UNARY)
@given(masked_arrays(dtypes=["f8", "f4", "i8"], low=1, special=True))
def test_functions_of_one(name, pair):
    a, x = pair
    with np.errstate(all="ignore"):
        same(getattr(ma, name)(x), getattr(np.ma, name)(a), 1e-6)
        same(getattr(np, name)(x), getattr(np, name)(a), 1e-6)


BINARY = """add subtract multiply arctan2 equal not_equal less_equal greater_equal less greater logical_and logical_or
logical_xor hypot divide floor_divide remainder fmod power maximum minimum""".split()  # noqa: SIM905


@settings(max_examples=15)
@pytest.mark.parametrize("name", BINARY)
@given(st.data())
def test_functions_of_two(name, data):
    shape = data.draw(shapes(1, 2, 5))
    a, x = data.draw(masked_arrays(shape, ["f8", "f4", "i8", "i2"], special=True))
    b, y = data.draw(masked_arrays(shape[1:] if data.draw(st.booleans()) else shape, ["f8", "i8"], special=True))
    with np.errstate(all="ignore"):
        if name != "power" or a.dtype.kind == "f":
            same(getattr(ma, name)(x, y), getattr(np.ma, name)(a, b), 1e-6)
            same(getattr(ma, name)(x, 2), getattr(np.ma, name)(a, 2), 1e-6)
            same(getattr(ma, name)(1.5, x), getattr(np.ma, name)(1.5, a), 1e-6)
        if name not in ("power", "fmod", "remainder"):
            same(getattr(np, name)(x, 2), getattr(np, name)(a, 2), 1e-6)


@settings(max_examples=30)
@given(st.data())
def test_operators(data):
    shape = data.draw(shapes(1, 2, 5))
    a, x = data.draw(masked_arrays(shape, ["f8", "f4", "i8", "i2"]))
    b, y = data.draw(masked_arrays(shape, ["f8", "i8"]))
    with np.errstate(all="ignore"):
        for one, other, ours, others in ((a, b, x, y), (a, 2, x, 2), (1.5, a, 1.5, x), (a.data, b, x.data, y)):
            same(ours + others, one + other)
            same(ours - others, one - other)
            same(ours * others, one * other)
            same(ours / others, one / other, 1e-6)
            same(ours // others, one // other)
            for compare in ("__lt__", "__ge__", "__eq__", "__ne__"):
                if hasattr(one, "mask"):
                    same(getattr(ours, compare)(others), getattr(one, compare)(other))
        same(-x, -a)
        same(abs(x), abs(a))
        same(x % 3, a % 3, 1e-6)
        same(x**2, a**2, 1e-6)


def test_operators_of_bits():
    a = np.ma.array([1, 6, 3, 12], mask=[0, 1, 0, 0])
    for name in ("and", "or", "xor", "lshift", "rshift"):
        for form in (f"__{name}__", f"__r{name}__"):
            same(getattr(ma.array(a), form)(2), getattr(a, form)(2))
    x = ma.array(a)
    x <<= 2
    same(x, a << 2)
    same(~x, ~(a << 2))


REDUCED = "sum prod mean var std min max ptp all any count argmin argmax median".split()  # noqa: SIM905


@settings(max_examples=30)
@pytest.mark.parametrize("name", REDUCED)
@given(st.data())
def test_reductions(name, data):
    kinds = {"f4": 1e-4, "f8": 1e-9, "i8": 1e-9, "u1": 1e-9, "?": 1e-9, "c16": 1e-9}
    for wrong, names in {"c16": "min max ptp argmin argmax median", "?": "ptp min max median", "u1": ""}.items():
        kinds = {k: v for k, v in kinds.items() if k != wrong or name not in names.split()}
    a, x = data.draw(masked_arrays(data.draw(shapes(1, 3, 4).filter(lambda s: 0 not in s)), list(kinds)))
    if name == "median" and a.mask is np.ma.nomask:
        a = np.ma.array(a.data, mask=False, fill_value=a._fill_value)
        x = ma.array(x, mask=False)
    axis = data.draw(st.sampled_from([None, *range(-a.ndim, a.ndim)]))
    keepdims = data.draw(st.booleans()) and name not in ("median",)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = getattr(np.ma, name)(a, axis, **({"keepdims": True} if keepdims else {}))
        ours = getattr(ma, name)(x, axis, **({"keepdims": True} if keepdims else {}))
        if name == "median" and np.ndim(theirs):
            theirs.fill_value = ours.fill_value
        same(ours, theirs, kinds[a.dtype.str[1:].replace("b1", "?")])


@given(st.data())
def test_averages(data):
    shape = data.draw(shapes(2, 2, 4).filter(lambda s: 0 not in s))
    a, x = data.draw(masked_arrays(shape, ["f8", "i8"]))
    w = np.random.default_rng(1).random(shape)
    for axis in (None, 0, 1):
        same(ma.average(x, axis), np.ma.average(a, axis), 1e-9)
        same(ma.average(x, axis, w), np.ma.average(a, axis, w), 1e-9)
        ours, theirs = ma.average(x, axis, w, returned=True), np.ma.average(a, axis, w, returned=True)
        same(ours[1], theirs[1], 1e-9)
    same(ma.average(x, 1, w[0]), np.ma.average(a, 1, w[0]), 1e-9)
    same(ma.anom(x, 1), np.ma.anom(a, 1), 1e-9)


@settings(max_examples=40)
@given(st.data())
def test_running_sums_and_order(data):
    shape = data.draw(shapes(1, 2, 6).filter(lambda s: 0 not in s))
    a, x = data.draw(masked_arrays(shape, ["f8", "i8"]))
    axis = data.draw(st.sampled_from([None, 0, -1]))
    same(ma.cumsum(x, axis), np.ma.cumsum(a, axis), 1e-9)
    same(ma.cumprod(x, axis), np.ma.cumprod(a, axis), 1e-6)
    for endwith in (True, False):
        same(ma.sort(x, axis, endwith=endwith), np.ma.sort(a, axis, endwith=endwith))
    b, y = a.copy(), x.copy()
    b.sort(0)
    y.sort(0)
    same(y, b)
    same(ma.compressed(x), a.compressed())
    for one, other in zip(ma.nonzero(x), a.nonzero()):
        same(one, other)
    same(ma.diff(x, axis=0), np.ma.diff(a, axis=0))
    same(ma.ediff1d(x), np.ma.ediff1d(a))


@settings(max_examples=30)
@given(st.data())
def test_shapes(data):
    a, x = data.draw(masked_arrays(data.draw(shapes(2, 3, 5)), low=2))
    axis = data.draw(st.integers(0, a.ndim - 1))
    for name, more in (
        ("ravel", ()), ("transpose", ()), ("squeeze", ()), ("expand_dims", (axis,)), ("repeat", (2, axis)),
        ("swapaxes", (0, axis)), ("diagonal", ()), ("reshape", (-1,)), ("atleast_3d", ()),
    ):  # fmt: skip
        if name == "reshape" and not a.size:
            continue
        same(getattr(ma, name)(x, *more), getattr(np.ma, name)(a, *more))
    same(x.T, a.T)
    same(x.astype("f4" if a.dtype.kind != "c" else "c8"), a.astype("f4" if a.dtype.kind != "c" else "c8"))
    same(ma.concatenate([x, x], axis), np.ma.concatenate([a, a], axis))
    same(ma.stack([x, x.data], axis), np.ma.stack([a, a.data], axis))
    for name in ("vstack", "hstack", "dstack", "column_stack"):
        if name == "column_stack" and a.ndim != 2:
            continue
        same(getattr(ma, name)([x, x]), getattr(np.ma, name)([a, a]))
    same(ma.append(x, x), np.ma.append(a, a))
    wanted = np.arange(a.shape[axis]) % 2 == 0
    same(ma.compress(wanted, x, axis), np.ma.compress(wanted, a, axis))
    if a.size:
        same(ma.take(x, [0, -1, 0], axis), np.ma.take(a, [0, -1, 0], axis))
        same(ma.resize(x, (3, 7)), np.ma.resize(a, (3, 7)))
    for name in ("real", "imag"):
        same(getattr(x, name), getattr(a, name))
    same(ma.filled(x), np.ma.filled(a))
    same(ma.filled(x, 1), np.ma.filled(a, 1))
    same(ma.getmaskarray(x), np.ma.getmaskarray(a))
    same(ma.count_masked(x, axis), np.ma.count_masked(a, axis))


@settings(max_examples=30)
@given(st.data())
def test_conditions(data):
    shape = data.draw(shapes(1, 2, 5))
    a, x = data.draw(masked_arrays(shape, ["f8", "f4", "i8"], special=True))
    b, y = data.draw(masked_arrays(shape, ["f8", "i8"]))
    for name in ("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"):
        same(getattr(ma, f"masked_{name}")(x, 1), getattr(np.ma, f"masked_{name}")(a, 1))
    for name in ("masked_inside", "masked_outside"):
        same(getattr(ma, name)(x, 1, -1), getattr(np.ma, name)(a, 1, -1))
    same(ma.masked_invalid(x), np.ma.masked_invalid(a))
    same(ma.masked_where(y > 0, x), np.ma.masked_where(b > 0, a))
    same(ma.masked_values(x, 1), np.ma.masked_values(a, 1))
    same(ma.where(y > 0, x, y), np.ma.where(b > 0, a, b))
    same(ma.where(y > 0, x, np.ma.masked), np.ma.where(b > 0, a, np.ma.masked))
    if a.dtype.kind == "f":
        same(ma.fix_invalid(x), np.ma.fix_invalid(a))
    same(ma.clip(x, -1, 1), np.ma.clip(a, -1, 1))
    same(ma.round(x, 1), np.ma.round(a, 1))
    at = np.ma.array(np.arange(a.size).reshape(shape) % 2, mask=b.mask)
    same(ma.choose(ma.array(at), [x, y]), np.ma.choose(at, [a, b]))
    same(ma.allequal(x, y), np.bool(np.ma.allequal(a, b)))
    same(ma.allclose(y, y + 1e-9), np.bool(np.ma.allclose(b, b + 1e-9)))


@settings(max_examples=40)
@given(st.data())
def test_reading_and_writing_parts(data):
    shape = data.draw(shapes(1, 3, 5))
    a, x = data.draw(masked_arrays(shape, ["f8", "i8"]))
    same(x[(index := data.draw(basic_indices(shape)))], a[index])
    chosen = np.random.default_rng(0).random(shape) < 0.5
    same(x[chosen], a[chosen])
    for value in (np.ma.masked, 7, np.ma.array(5, mask=True)):
        b, y = a.copy(), x.copy()
        b[chosen], y[chosen] = value, value
        same(y, b)
        b[:1], y[:1] = value, value
        same(y, b)
    c, z = data.draw(masked_arrays(shape, ["f8", "i8"]))
    if np.can_cast(c.dtype, a.dtype, "same_kind"):
        b, y = a.copy(), x.copy()
        b[...], y[...] = c, z
        same(y, b)
        b, y = a.copy().harden_mask(), x.copy().harden_mask()
        b[...], y[...] = c, z
        same(y, b)
        b, y = a.copy(), x.copy()
        b += c
        y += z
        same(y, b)


@given(st.data())
def test_products(data):
    n, m, k = (data.draw(st.integers(1, 4)) for _ in range(3))
    a, x = data.draw(masked_arrays((n, m), ["f8", "i8"]))
    b, y = data.draw(masked_arrays((m, k), ["f8"]))
    for strict in (False, True):
        same(ma.dot(x, y, strict), np.ma.dot(a, b, strict), 1e-12)
    same(ma.outer(x, y), np.ma.outer(a, b), 1e-12)
    same(ma.inner(x, x), np.ma.inner(a, a), 1e-12)
    for name in ("mask_rows", "mask_cols", "mask_rowcols"):
        same(getattr(ma, name)(x), getattr(np.ma, name)(a.copy()))
    same(ma.trace(x), np.ma.trace(a), 1e-12)


@settings(max_examples=30)
@given(st.data())
def test_covariances_fits_and_convolutions(data):
    shape = data.draw(st.tuples(st.integers(1, 3), st.integers(3, 6)))
    a, x = data.draw(masked_arrays(shape, ["f8"]))
    b, y = data.draw(masked_arrays(shape, ["f8"]))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for more in ({}, {"rowvar": False}, {"bias": True}, {"ddof": 2}):
            same(ma.cov(x, **more), np.ma.cov(a, **more), 1e-5)
        same(ma.cov(x, y), np.ma.cov(a, b), 1e-5)
        if shape[0] > 1:
            same(ma.corrcoef(x), np.ma.corrcoef(a), 1e-5)
        if np.ma.count(a[0]) > 2:
            same(ma.polyfit(x[0], np.arange(shape[1]) ** 2, 1), np.ma.polyfit(a[0], np.arange(shape[1]) ** 2, 1), 1e-6)
    same(ma.vander(x[0], 3), np.ma.vander(a[0], 3), 1e-9)
    for name in ("convolve", "correlate"):
        for more in ({}, {"mode": "same"}, {"propagate_mask": False}):
            same(getattr(ma, name)(x[0], y[0, :2], **more), getattr(np.ma, name)(a[0], b[0, :2], **more), 1e-9)


@settings(max_examples=30)
@given(st.data())
def test_what_is_different_and_what_is_whole(data):
    a, x = data.draw(masked_arrays(data.draw(shapes(1, 2, 5)), ["i2"]))
    theirs, ours = np.ma.unique(a), ma.unique(x)
    same(ours, np.ma.array(theirs, fill_value=ours.fill_value))
    both = np.ma.union1d(a, a + 1)
    same(ma.union1d(x, x + 1), np.ma.array(both, fill_value=ma.union1d(x, x).fill_value))
    for name in ("intersect1d", "setxor1d", "setdiff1d"):
        found = getattr(ma, name)(x, x + 1)
        same(found, np.ma.array(getattr(np.ma, name)(a, a + 1), fill_value=found.fill_value))
    if a.ndim == 2:
        same(ma.apply_over_axes(ma.sum, x, [0]), np.ma.apply_over_axes(np.ma.sum, a, [0]))
    assert list(ma.ndenumerate(x)) == list(np.ma.ndenumerate(a))
    same(ma.masked_object(x, 1), np.ma.masked_object(a, 1))
    if a.ndim == 2 and not np.ma.getmaskarray(a).all():
        for name in ("compress_rows", "compress_cols", "compress_rowcols", "compress_nd"):
            same(getattr(ma, name)(x), getattr(np.ma, name)(a))


def test_a_mask_is_made_given_and_taken_away():
    a, x = np.ma.arange(6.0), ma.arange(6.0, chunk_size=4)
    assert x.mask is np.ma.nomask
    for value in ([1, 0, 0, 1, 0, 0], True, np.ma.nomask, np.ma.masked, [[0, 1, 0], [0, 0, 1]]):
        a.mask, x.mask = np.reshape(value, -1) if isinstance(value, list) else value, value
        same(x, a)
    x.mask[0] = True  # the mask is that of the array, as in numpy.ma
    assert x.fetch()[0] is np.ma.masked
    x.data[1] = 9
    assert x.data.fetch()[1] == 9
    with pytest.raises(np.ma.MaskError, match="mask size is 2"):
        ma.array([1, 2, 3], mask=[0, 1])
    with pytest.raises(IndexError, match="Inconsistent shape"):
        ma.masked_where([True, False], [1, 2, 3])


def test_a_numpy_scalar_beside_a_masked_array_compares_as_the_array():
    x, a = ma.array([0, 1], mask=[1, 0]), np.ma.array([0, 1], mask=[1, 0])
    for one, other in ((np.int64(0) == x, np.int64(0) == a), (np.int64(0) != x, np.int64(0) != a)):
        np.testing.assert_array_equal(one.data.fetch(), other.data)
        np.testing.assert_array_equal(one.mask.fetch(), other.mask)


def test_set_fill_value_is_the_setter_as_a_method():
    x = mt.ma.array([1, 2], mask=[True, False])
    x.set_fill_value(7)
    assert x.get_fill_value() == 7 and x.filled().tolist() == [7, 2]
    x.set_fill_value()
    assert x.get_fill_value() == np.ma.array([1]).get_fill_value()


def test_fill_values_are_those_of_numpy():
    a, x = np.ma.array([1, 2, 3], mask=[0, 1, 0]), ma.array([1, 2, 3], mask=[0, 1, 0])
    assert x.fill_value == a.fill_value
    a.fill_value, x.fill_value = 7, 7
    for one, other in ((x + 1, a + 1), (1 - x, 1 - a), (x[:2], a[:2]), (ma.sqrt(x), np.ma.sqrt(a)), (x > 1, a > 1)):
        assert one.fill_value == other.fill_value
    assert x.filled().fetch().tolist() == [1, 7, 3]
    assert ma.masked_equal(x, 3).fill_value == 3
    with pytest.raises(TypeError, match="fill"):
        x.fill_value = "no number"


def test_what_has_no_axes_is_a_number_or_masked():
    x = ma.masked_greater(mt.arange(6, chunk_size=4), 2)
    sums, one = (as_values((x.sum(), x[3:].sum())), as_values(x[4]))
    assert sums[0] == 3 and sums[1] is one is np.ma.masked
    assert float(x.mean()) == 1.0 and int(x.count()) == 3
    assert not x[4] and bool(x[1]) and x.tolist() == [0, 1, 2, None, None, None]
    with pytest.raises(ValueError, match="ambiguous"):
        bool(x)


def test_it_is_printed_as_numpy_prints_it():
    a = np.ma.masked_greater(np.arange(5000.0), 2)
    x = ma.masked_greater(mt.arange(5000.0, chunk_size=1000), 2)
    assert repr(x).startswith("MaskedTensor(shape=(5000,), dtype=float64")
    assert str(x) == str(a)
    assert str(x[:4]) == str(a[:4])
    assert repr(x[:4].execute()) == repr(a[:4])


def test_a_write_to_a_part_is_a_write_to_the_whole():
    x = ma.array(mt.arange(6, chunk_size=3), mask=[0, 0, 1, 0, 0, 0])
    part = x[1:]
    part[0] = np.ma.masked
    part[3:] += 10
    assert x.fetch().tolist() == [0, None, None, 3, 14, 15]


@pytest.mark.parametrize(
    "call",
    [lambda x: np.median(x), lambda x: np.concatenate([x, x]), lambda x: np.where(x > 1, x, 0), lambda x: mt.fft.fft(x),
     lambda x: mt.median(x), lambda x: x @ x, lambda x: mt.average(x)],
)  # fmt: skip
def test_functions_that_forget_masks_are_refused(call):
    x = ma.masked_greater(mt.arange(6, chunk_size=4), 2)
    with pytest.raises(UnsupportedError, match=r"mask"):
        call(x)


def test_numpys_masked_arrays_never_lose_their_mask_without_a_word():
    a = np.ma.masked_greater(np.arange(4.0), 2)
    same(mt.sum(a), a.sum())
    same(mt.ones(4) + ma.array(a), 1 + a)
    with pytest.raises(UnsupportedError, match="ignores the mask"):
        mt.tensor(a.data) @ a
    with pytest.raises(UnsupportedError, match=r"ma\.asarray"):
        as_tensor(a)


def test_where_masked_elements_lie_is_asked_at_once():
    a = np.ma.masked_inside(np.arange(9), 3, 5)
    x = ma.masked_inside(mt.arange(9, chunk_size=4), 3, 5)
    for name in ("clump_masked", "clump_unmasked", "flatnotmasked_contiguous", "notmasked_contiguous"):
        assert getattr(ma, name)(x) == getattr(np.ma, name)(a)
    assert ma.flatnotmasked_edges(x).tolist() == np.ma.flatnotmasked_edges(a).tolist()


def test_lengths_that_only_a_run_can_tell():
    a = np.ma.masked_greater(np.arange(20.0), 12)
    x = ma.masked_greater(mt.arange(20.0, chunk_size=6), 12)
    same(x[x > 4] + 1, a[a > 4] + 1)
    same(x[x > 4].mean(), a[a > 4].mean())
    assert x.compressed().sum().fetch() == a.compressed().sum()


def test_arrays_of_unknown_length():
    a = np.arange(12.0)
    x = mt.asarray(a, chunk_size=5)
    x, a = x[x > 2], a[a > 2]
    same(ma.masked_where(x > 7, x), np.ma.masked_where(a > 7, a))
    same(ma.array(x, mask=x > 9).compressed(), np.ma.array(a, mask=a > 9).compressed())


@pytest.mark.parametrize("name", ["sort", "argsort", "masked_invalid", "median"])
def test_numpy_ma_of_a_program_refuses_what_would_forget_the_mask(name):
    x = ma.masked_array(mt.arange(40.0, chunk_size=10), mask=mt.arange(40, chunk_size=10) % 3 == 0)
    with pytest.raises(UnsupportedError, match=rf"np\.ma\.{name}\(x\.fetch\(\)\)"):
        getattr(np.ma, name)(x)


def test_no_warning_tells_of_the_condition_where_a_function_is_undefined():
    """A divisor counts as 0 beside a dividend times the least number: that product may be below all normal numbers."""
    a = np.ma.array([0.1, 1.0, 2.0], mask=[False, False, True])
    x = ma.array(mt.asarray(a.data, chunks=2), mask=a.mask)
    with np.errstate(all="raise"):
        same(x / 2, a / 2)
        same(ma.log(x), np.ma.log(a))


def test_small_arrays_of_numpy_beside_tensors_compute_no_value(engine):
    """A masked array of NumPy that meets a tensor in NumPy's code would compute the tensor."""
    x = ma.array(mt.ones((4, 6), chunk_size=3), mask=np.zeros((4, 6), bool))
    made = [ma.average(x, 1, np.arange(1.0, 7.0)), ma.cov(x), ma.mask_rows(x), ma.masked_inside(x, 2, np.float64(1))]
    assert not engine.chunks and all(isinstance(one, MaskedTensor) for one in made)
    same(made[0], np.ma.average(np.ma.ones((4, 6)), 1, np.arange(1.0, 7.0)))


def test_asanyarray_keeps_the_mask_and_asarray_takes_the_data():
    a = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    x = ma.array(mt.asarray(a.data, chunks=2), mask=a.mask)
    assert mt.asanyarray(x) is x
    for made in (mt.array(x, subok=True), mt.asanyarray(x, np.float32)):
        same(made, a.astype(made.dtype))
    assert not isinstance(mt.asarray(x), MaskedTensor) and not isinstance(mt.array(x), MaskedTensor)


def test_a_sort_along_an_axis_that_is_not_there_is_numpys_error():
    x = ma.masked_less(mt.arange(12.0, chunk_size=5).reshape(3, 4), 3)
    for axis in (2, -3):
        with pytest.raises(np.exceptions.AxisError, match=f"axis {axis} is out of bounds"):
            ma.sort(x, axis)
        with pytest.raises(np.exceptions.AxisError, match=f"axis {axis} is out of bounds"):
            x.sort(axis)


@pytest.mark.parametrize("mask", [np.ma.nomask, [True, False, False]])
@pytest.mark.parametrize(
    "name", ["sum", "mean", "asarray", "asanyarray", "getmaskarray", "average", "masked_array", "add"]
)
def test_numpys_own_functions_take_tensors_with_and_without_a_mask(name, mask):
    given = np.ma.array([3.0, 1.0, 2.0], mask=mask)
    function = getattr(np.ma, name)
    more = [1] if name == "add" else []
    found = function(mt.ma.asarray(given), *more)
    found = found.fetch() if hasattr(found, "fetch") else found
    assert repr(found) == repr(function(given, *more))
