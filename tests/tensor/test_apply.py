"""Functions of lines, matrices and neighbourhoods."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.tensor.engine import with_placeholders
from tests.tensor.cut import cut, cut_arrays, same, shapes


@given(cut_arrays(low=1).filter(lambda pair: pair[0].size), st.data())
def test_along_an_axis(pair, data):
    a, x = pair
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    for function in (np.ptp, lambda v: v[::-1] * 2.5, lambda v: v[:1]):
        same(np.apply_along_axis(function, axis, x), np.apply_along_axis(function, axis, a))


@given(cut_arrays(low=1), st.data())
def test_over_axes(pair, data):
    a, x = pair
    axes = data.draw(st.lists(st.integers(0, a.ndim - 1), unique=True, max_size=2))
    same(np.apply_over_axes(np.sum, x, axes), np.apply_over_axes(np.sum, a, axes))


@given(st.data())
def test_functions_of_the_last_axes(data):
    batch = data.draw(shapes(0, 2, 4))
    a = np.random.default_rng(0).normal(size=(*batch, 3, 4))
    b = np.random.default_rng(1).normal(size=(*batch[len(batch) // 2 :], 4))
    x, y = data.draw(cut(a)), data.draw(cut(b))
    product = mt.apply_gufunc(lambda m, v: np.einsum("...ij,...j->...i", m, v), "(i,j),(j)->(i)", x, y)
    same(product, np.einsum("...ij,...j->...i", a, b), rtol=1e-12)
    same(mt.apply_gufunc(lambda m: m.sum((-2, -1)), "(i,j)->()", x), a.sum((-2, -1)), rtol=1e-12)
    each = np.vectorize(np.outer, otypes="d", signature="(i),(j)->(i,j)")
    if b.size:
        same(mt.apply_gufunc(np.outer, "(i),(j)->(i,j)", y, y, vectorize=True), each(b, b))
    doubled = mt.apply_gufunc(lambda v: np.concatenate([v, v], -1), "(i)->(k)", y, output_sizes={"k": 8})
    same(doubled, np.concatenate([b, b], -1))


@given(st.data())
def test_functions_of_several_outputs(data):
    batch = data.draw(shapes(0, 2, 4))
    a = np.random.default_rng(0).normal(size=(*batch, 5)).round(1)
    x = data.draw(cut(a))

    def ends(v):
        return v.min(-1), np.sort(v, -1)[..., :2], v.argmax(-1)

    for one, other in zip(mt.apply_gufunc(ends, "(i)->(),(k),()", x, output_sizes={"k": 2}), ends(a)):
        same(one, other)
    for one, other in zip(mt.apply_gufunc(np.divmod, "(),()->(),()", x, 2.0), np.divmod(a, 2.0)):
        same(one, other)
    low, high = mt.apply_gufunc(
        lambda v: (v.min(), v.max()), "(i)->(),()", x, vectorize=True, output_dtypes=["f4", "f8"]
    )
    same(low, a.min(-1).astype("f4"))
    same(high, a.max(-1))
    if batch:
        each = np.vectorize(lambda v: (v.mean(), v[::-1]), signature="(i)->(),(i)")
        if a.size:
            for one, other in zip(mt.vectorize(each.pyfunc, signature="(i)->(),(i)")(x), each(a)):
                same(one, other, rtol=1e-12)


def test_vectorize_is_numpys():
    a = np.arange(12).reshape(3, 4)
    x = mt.asarray(a, chunk_size=2)

    def both(v, w=1):
        return v // w, float(v % w)

    for one, other in zip(mt.vectorize(both)(x, w=5), np.vectorize(both)(a, w=5)):
        same(one, other)
    for one, other in zip(mt.vectorize(both, otypes=["i4", "f4"])(x, 3), np.vectorize(both, otypes=["i4", "f4"])(a, 3)):
        same(one, other)
    poly = {"excluded": ["p"]}
    same(mt.vectorize(lambda p, v: np.polyval(p, v), **poly)(p=[1, 2, 3], v=x),
         np.vectorize(lambda p, v: np.polyval(p, v), **poly)(p=[1, 2, 3], v=a))  # fmt: skip
    first = {"excluded": {0}}
    same(mt.vectorize(lambda p, v: p[v % 3], **first)(mt.asarray([5, 6, 7]), x),
         np.vectorize(lambda p, v: p[v % 3], **first)([5, 6, 7], a))  # fmt: skip

    @mt.vectorize(otypes=[float])
    def halved(v):
        """Half of it."""
        return v / 2

    same(halved(x), a / 2)
    assert halved.__doc__ == "Half of it." and halved.__name__ == "halved"
    same(mt.vectorize(lambda v: v + 0.5)(x[x > 4]), a[a > 4] + 0.5)
    same(mt.vectorize(lambda v: v * 2)(3), np.vectorize(lambda v: v * 2)(3))
    same(mt.vectorize(lambda v: v.mean(), signature="(n)->()")(x), a.mean(-1))
    with pytest.raises(KeyError):
        mt.vectorize(lambda v: {}[v])(x)
    with pytest.raises(ValueError, match="wrong number of outputs: 3 dtypes are given for 2"):
        mt.apply_gufunc(both, "(),()->(),()", x, x, output_dtypes=["f8"] * 3)


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (lambda v: 1 if v > 0.5 else v * 0.3, [0.1, 0.2, 0.9]),
        (lambda v: 1 if v > 0.5 else v * 0.3, [0.9, 0.1, 0.2]),  # whole numbers, from the first one
        (lambda v: 1 / (v - 1) if v != 1 else 0, [0.0, 1.0, 2.0, 3.0]),
        (lambda n: "*" * int(n), [1.0, 5.0, 0.0]),
        (lambda n: b"ab"[: int(n)], [0.0, 2.0]),
    ],
)
def test_vectorize_learns_the_dtype_from_the_first_element(function, values):
    same(mt.vectorize(function)(mt.asarray(values, chunk_size=2)), np.vectorize(function)(values))


def test_vectorize_finds_the_width_of_text():
    a, x = np.arange(1, 30), mt.arange(1, 30, chunk_size=7)
    same(mt.vectorize(lambda n: "x" * n, otypes=[str])(x), np.vectorize(lambda n: "x" * n, otypes=[str])(a))
    same(mt.vectorize(lambda n: "x" * n)(x[x > 20]), np.vectorize(lambda n: "x" * n)(a[a > 20]))
    with pytest.raises(ValueError, match="with widths"):
        mt.vectorize(lambda n: ("x" * n, n))(x)


def test_vectorize_with_a_signature_learns_the_dtype_from_the_first_part():
    a = np.array([[0.0, 0.2], [0.5, 0.9]])

    def mean(v):
        return 0 if v.mean() > 0.5 else v.mean()

    theirs = np.vectorize(mean, signature="(n)->()")
    same(mt.vectorize(mean, signature="(n)->()")(mt.asarray(a, chunk_size=1)), theirs(a))


def test_without_an_element_vectorize_asks_for_dtypes():
    for module, x in ((np, np.zeros(0)), (mt, mt.zeros(0))):
        with pytest.raises(ValueError, match="size 0"):
            module.vectorize(lambda v: v)(x)
        assert module.vectorize(lambda v: v, otypes=[float])(x).shape == (0,)


def test_along_an_axis_the_function_is_tried_with_the_first_line():
    a = np.array([[2.0, 3.0], [1.0, 1.0], [4.0, 9.0]])
    x = mt.asarray(a, chunk_size=2)

    def spread(v):
        return 0 if v.std() == 0 else v.std() / v.mean()

    same(np.apply_along_axis(spread, 1, x), np.apply_along_axis(spread, 1, a))
    with np.errstate(all="raise"):  # no error of a trial with other numbers
        same(np.apply_along_axis(lambda v: v / v.std(), 0, x), np.apply_along_axis(lambda v: v / v.std(), 0, a))
    with pytest.raises(ValueError, match="any iteration dimensions are 0"):
        np.apply_along_axis(spread, 1, mt.zeros((0, 3)))
    with pytest.raises(KeyError):
        np.apply_along_axis(lambda v: {}[0], 1, x)
    with with_placeholders(), pytest.raises(ValueError, match="apply_along_axis dtype="):
        np.apply_along_axis(lambda v: {}[0], 1, x)


def test_along_an_axis_a_function_may_give_any_array():
    a = np.arange(24.0).reshape(2, 3, 4)
    for axis in range(3):
        for function in (np.diag, lambda v: np.outer(v, v)[:, :2], lambda v: np.zeros((2, 1, 3)) + v.sum()):
            same(
                np.apply_along_axis(function, axis, mt.asarray(a, chunk_size=2)), np.apply_along_axis(function, axis, a)
            )


@given(cut_arrays(), st.integers(-3, 3))
def test_functions_of_numbers(pair, n):
    a, x = pair

    def more(v, w):
        return v * 2 if v > w else w

    if a.size:
        same(mt.vectorize(more)(x, n), np.vectorize(more)(a, n))
    same(mt.vectorize(more, otypes=[float])(x, n), np.vectorize(more, otypes=[float])(a, n))


@given(st.data())
def test_neighbours(data):
    shape = data.draw(st.tuples(st.integers(4, 12), st.integers(4, 9)))
    a = np.random.default_rng(2).normal(size=shape)
    rows = data.draw(st.sampled_from([-1, 2, 3]))
    if rows > 0 and shape[0] % rows == 1:
        rows = -1
    x = mt.asarray(a, chunks=(rows, -1))
    boundary = data.draw(st.sampled_from(["reflect", "periodic", "nearest", 7.0]))

    def mean3(block):
        return (np.roll(block, 1, 0) + block + np.roll(block, -1, 0) + np.roll(block, 1, 1)) / 4

    mode = {"reflect": "symmetric", "periodic": "wrap", "nearest": "edge"}.get(boundary, "constant")
    wide = np.pad(a, 2, mode, **({"constant_values": boundary} if mode == "constant" else {}))
    same(mt.map_overlap(mean3, x, 2, boundary), mean3(wide)[2:-2, 2:-2], rtol=1e-12)
    ours = mt.map_overlap(mean3, x, {0: 1, 1: 1}, "none")
    np.testing.assert_allclose(ours.fetch()[1:-1, 1:-1], mean3(a)[1:-1, 1:-1])


def test_what_cannot_be_is_said():
    x = mt.ones((4, 4), chunk_size=1)
    with pytest.raises(ValueError, match="boundary"):
        mt.map_overlap(np.abs, x, 1, "other")
    with pytest.raises(ValueError, match="signature"):
        mt.apply_gufunc(np.sum, "i->", x)
    with pytest.raises(ValueError, match="does not fit"):
        mt.apply_gufunc(np.sum, "(i)->(k)", x)
    with pytest.raises(ValueError, match="promises"):
        mt.apply_gufunc(lambda v: v, "(i)->()", x).fetch()


def test_a_function_of_one_line_alone_is_told_to_be_so():
    x = mt.ones((4, 4), chunk_size=2)
    with pytest.raises(ValueError, match="vectorize=True"):
        mt.apply_gufunc(lambda v: v.sum(), "(i)->()", x, output_dtypes=float).fetch()
    with pytest.raises(ZeroDivisionError) as failed:
        mt.apply_gufunc(lambda v: 1 / (v.ndim == 1), "(i)->()", x, output_dtypes=float).fetch()
    assert "vectorize=True" in failed.value.__notes__[0]
    with pytest.raises(ValueError, match="promises") as alone:
        mt.apply_gufunc(lambda v: v, "(i)->()", mt.ones(4), output_dtypes=float).fetch()
    assert "vectorize" not in str(alone.value)


@given(cut_arrays(low=1, high=2, longest=9).filter(lambda pair: min(pair[0].shape) > 1), st.data())
def test_windows(pair, data):
    a, x = pair
    axis = data.draw(st.integers(0, a.ndim - 1))
    size = data.draw(st.integers(1, a.shape[axis]))
    view = np.lib.stride_tricks.sliding_window_view
    same(view(x, size, axis), view(a, size, axis))
    if a.ndim == 2:
        same(view(x, (2, 2)), view(a, (2, 2)))


def test_windows_are_a_read_only_view():
    view = np.lib.stride_tricks.sliding_window_view
    a = np.arange(20).reshape(4, 5)
    x = mt.asarray(a.copy(), chunk_size=2)
    ours, theirs = view(x, (2, 3)), view(a, (2, 3))
    assert ours.strides == theirs.strides and not ours.flags.writeable and not ours.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        ours[0, 0] = 1
    x[1, 1], a[1, 1] = 100, 100
    same(ours, theirs)
    same(ours * 2 + view(x, (2, 3))[::-1], theirs * 2 + theirs[::-1])
    del x
    same(ours.reshape(3, -1), theirs.reshape(3, -1))
    assert not ours.flags.writeable
    with pytest.raises(UnsupportedError, match="write to the array"):
        view(mt.ones(4), 2, writeable=True)


def test_apply_gufunc_keeps_widths_of_text_and_units_of_times():
    names = np.array(["st-9", "st-10", "x"])
    x = mt.tensor(names, chunk_size=2)
    same(mt.apply_gufunc(str.upper, "()->()", x, vectorize=True, output_dtypes="U5"), np.char.upper(names))
    joined = mt.apply_gufunc(lambda v: "".join(v), "(i)->()", x.reshape(1, 3), vectorize=True, output_dtypes="U12")
    assert joined.fetch().tolist() == ["st-9st-10x"]
    for function, alone in (str.upper, True), (np.char.upper, False):
        with pytest.raises(TypeError, match="gave <U5 and <U1 was promised"):
            mt.apply_gufunc(function, "()->()", x, vectorize=alone, output_dtypes="U1").fetch()
    days = np.array(["2001-01-01", "2001-01-02"], "M8[ns]")
    later = np.vectorize(lambda v: v + np.timedelta64(1, "h"), signature="()->()", otypes=["M8[ns]"])
    same(mt.apply_gufunc(later.pyfunc, "()->()", mt.tensor(days), vectorize=True), later(days))
