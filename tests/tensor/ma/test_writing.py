"""Writing to parts of masked arrays in place, as numpy.ma does, over odd cuts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.tensor import ma
from tests.tensor.ma.compare import masked_arrays, same

WRITES = {
    "a row": "m[0] += 1",
    "a slice": "m[1:] *= 2",
    "a column and an element": "m[:, 0] -= 5; m[2, 3] /= 2",
    "each row": "for i in range(3): m[i] **= 2",
    "masked ones": "m[0] += np.ma.array([1, 2, 3, 4], mask=[0, 0, 0, 1])",
    "a hard mask": "m.harden_mask(); m[0] += 1; m[:2] -= 3",
    "by a mask": "m[m > 5] += 1",
    "its mask": "m.mask[0] |= True",
    "its shape": "m.shape = (4, -1); m[1] += 1",
}


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("cut", [(2, 3), (3, 1), (3, 4)], ids=str)
@pytest.mark.parametrize("text", WRITES.values(), ids=WRITES)
def test_parts_are_written_in_place(text, cut, masked):
    if not masked and "mask" in text:
        text = "m[1] += 1"
    a = np.arange(12.0).reshape(3, 4)
    theirs = np.ma.masked_less(a, 3) if masked else np.ma.array(a.copy())
    ours = ma.masked_less(mt.asarray(a, chunk_size=cut), 3) if masked else ma.array(mt.asarray(a, chunk_size=cut))
    for m in (theirs, ours):
        exec(text, {"m": m, "np": np})
    found = ours.fetch()
    np.testing.assert_array_equal(found.data, theirs.data)
    np.testing.assert_array_equal(np.ma.getmaskarray(found), np.ma.getmaskarray(theirs))


def test_a_part_with_a_name_is_a_part_of_the_whole():
    m, theirs = ma.masked_less(mt.zeros((2, 2)), 0), np.ma.masked_less(np.zeros((2, 2)), 0)
    for one in (m, theirs):
        part, rows = one[0], [one[1]]
        part += 1
        rows[0] += 2
    assert m.fetch().data.tolist() == theirs.data.tolist() == [[1, 1], [2, 2]]


def test_setting_the_shape_leaves_others_as_they_are():
    m = ma.masked_less(mt.arange(4), 2)
    mask = m.mask
    m.shape = (2, 2)
    assert (m.shape, m.mask.shape, mask.shape) == ((2, 2), (2, 2), (4,))


@settings(max_examples=40)  # a second each, most of it to compile
@given(masked_arrays(low=1).filter(lambda pair: pair[0].size > 0), st.data())
def test_put(pair, data):
    a, x = pair
    at = data.draw(st.lists(st.integers(-a.size, a.size - 1), min_size=1, max_size=4))
    v, w = data.draw(masked_arrays((data.draw(st.integers(1, 3)),), [a.dtype.str]))
    number = data.draw(st.sampled_from([None, 1, np.ma.masked]))
    np.ma.put(a, at, v if number is None else number)
    ma.put(x, at, w if number is None else number)
    same(x, a)
    mode = data.draw(st.sampled_from(["wrap", "clip"]))
    a.put([a.size + 1, 0], v[:1].data, mode)
    x.put([a.size + 1, 0], w[:1].data, mode)
    same(x, a)


@given(masked_arrays(low=1), st.data())
def test_putmask(pair, data):
    a, x = pair
    there = np.random.default_rng(data.draw(st.integers(0, 9))).random(a.shape) < 0.5
    shape = data.draw(st.sampled_from([a.shape, a.shape[-1:], ()]))
    v, w = data.draw(masked_arrays(shape, [a.dtype.str])) if shape else (a.dtype.type(1),) * 2
    if data.draw(st.booleans()):
        a.harden_mask()
        x.harden_mask()
    np.ma.putmask(a, there, v)
    ma.putmask(x, there if data.draw(st.booleans()) else mt.asarray(there, chunk_size=2), w)
    same(x, a)


def test_put_into_others():
    x, m = mt.arange(4), ma.array(mt.arange(4), mask=[1, 0, 0, 0], hard_mask=True)
    ma.put(x, [0], [7])
    ma.putmask(x, [0, 1, 0, 0], 9)
    assert x.tolist() == [7, 9, 2, 3]
    with pytest.raises(UnsupportedError, match="soften_mask"):
        ma.put(m, [0], [7])
    with pytest.raises(IndexError):
        ma.put(ma.array(mt.arange(4)), [9], [7])
    soft = ma.array(mt.arange(4))
    part = soft[1:]
    ma.put(soft, [1], [7])
    ma.putmask(part, part > 2, 9)
    assert soft.tolist() == [0, 9, 2, 9] and part.tolist() == [9, 2, 9]


VIEWS = {
    "reshape": lambda m: m.reshape(3, 2),
    "ravel": lambda m: m.ravel(),
    "T": lambda m: m.T,
    "transpose": lambda m: m.transpose(1, 0),
    "swapaxes": lambda m: m.swapaxes(0, 1),
    "squeeze": lambda m: m.squeeze(),
    "a new axis": lambda m: m[None],
    "a row in another shape": lambda m: _shaped(m[0], (3, 1)),
}


def _shaped(m, shape):
    m.shape = shape
    return m


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("mask", [mt.ma.nomask, [[0, 1, 0], [0, 0, 1]]])
def test_a_write_to_whole_or_part_is_a_write_to_both(name, mask):
    ours = mt.ma.array(np.arange(6.0).reshape(2, 3), mask=mask)
    theirs = np.ma.array(np.arange(6.0).reshape(2, 3), mask=mask)
    parts = []
    for whole in (ours, theirs):
        part = VIEWS[name](whole)
        part[0] = 9
        part += 1
        whole[1] = 4
        VIEWS[name](whole)[0] += 1
        parts.append(part)
    same(ours, theirs)
    same(*parts)


OUTS = {  # calls that write to `out`, of the shape of its first argument's reduction
    "sum": "np.ma.sum(x, 1, out=out)", "prod": "np.ma.prod(x, axis=1, out=out)", "mean": "x.mean(1, out=out)",
    "var": "np.ma.var(x, 1, out=out)", "std": "x.std(axis=1, out=out)", "max": "np.ma.max(x, 1, out)",
    "min": "x.min(1, out)", "ptp": "np.ma.ptp(x, 1, out)", "median": "np.ma.median(x, 1, out)",
    "take": "np.ma.take(x[:, 0], [1, 0, 2], out=out)", "choose": "np.ma.choose([0, 1, 0], [x[:, 1], x[:, 0]], out=out)",
    "round": "np.ma.round(x[:, 0], 1, out)", "clip": "np.ma.clip(x[:, 0], 1, 5, out=out)",
    "cumsum": "np.ma.cumsum(x[:, 0], out=out)", "compress": "np.ma.compress([1, 1, 1], x[:, 0], out=out)",
}  # fmt: skip


WITHOUT_MASK = ("take", "clip", "compress")  # numpy.ma writes no mask to a masked `out`
PLAIN = ("sum", "prod", "mean", "max", "min")  # of the others numpy.ma refuses a plain `out`, or leaves what was there


@pytest.mark.parametrize(
    ("name", "masked"), [(name, True) for name in OUTS if name not in WITHOUT_MASK] + [(name, False) for name in PLAIN]
)
def test_out_gets_data_and_mask(name, masked):
    values = np.array([[1.5, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.25]])
    lost = np.array([[0, 1, 0], [1, 1, 1], [0, 0, 0]], bool)
    found = []
    for np_, cut in ((np, lambda x: x), (mt, lambda x: mt.asarray(x, chunk_size=2))):
        x = np_.ma.array(cut(values), mask=cut(lost))
        out = np_.ma.array(cut(np.zeros(3))) if masked else cut(np.full(3, 9.0))
        returned = eval(OUTS[name], {"np": np_, "x": x, "out": out})
        assert returned is out
        found.append(out)
    theirs, ours = found
    value = ours.fetch()
    np.testing.assert_array_equal(np.ma.getmaskarray(value), np.ma.getmaskarray(theirs))
    np.testing.assert_allclose(np.ma.filled(value, -1), np.ma.filled(theirs, -1))


def test_integers_as_out_of_a_masked_extreme_are_refused():
    x = ma.array(mt.asarray([[1.0, 2.0]]), mask=[[True, True]])
    with pytest.raises(np.ma.MaskError, match="information would be lost"):
        ma.max(x, 1, mt.zeros(1, int))
    with pytest.raises(ValueError, match="does not match"):
        ma.sum(x, 1, out=ma.array(mt.zeros(3)))


def test_median_of_masked_lines_gives_no_warning(recwarn):
    x = ma.array(mt.asarray([[1.0, 2.0], [3.0, 4.0]]), mask=[[True, True], [False, True]])
    assert ma.median(x, axis=1).fetch().tolist() == [None, 3.0]
    assert not len(recwarn)


def test_comparison_of_masked_text_has_the_fill_value_of_bools():
    x = ma.array(mt.asarray(["a", "b"]), mask=[False, True], fill_value="N/A")
    assert (x == "a").fetch().tolist() == [True, None]
    assert bool((x == "a").fill_value)


def test_masked_lines_warn_of_an_axis_that_is_ignored():
    with pytest.warns(DeprecationWarning, match="axis argument"):
        ma.mask_rows(ma.array(mt.zeros((2, 2)), mask=mt.eye(2) > 0), axis=0)


def test_allequal_counts_masked_elements_as_fill_value():
    x = ma.array(mt.asarray([1, 2]), mask=[False, False])
    assert bool(ma.allequal(x, x, fill_value=False))
    x.mask = [False, True]
    assert not bool(ma.allequal(x, x, fill_value=False))
    assert bool(ma.allequal(x, x))


@pytest.mark.parametrize(
    "text",
    ["m, 0, 0, m", "m", "1:4, m", "'0,2', m, m", "m[None], m[None]", "0, 5:2:-1", "m[:1], a"],
)
def test_joined_in_brackets_keeps_masks(text):
    given = np.array([1.5, 2.0, 3.0])
    found = []
    for module in (np.ma, ma):
        m = module.array(given if module is np.ma else mt.asarray(given, chunk_size=2), mask=[1, 0, 1])
        found.append(eval(f"mr_[{text}]", {"mr_": module.mr_, "m": m, "a": given}))
    same(found[1], found[0])


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
def test_flat_mask_follows_the_order_of_the_data(order):
    data = np.arange(6.0).reshape(2, 3, order="F")
    lost = np.array([[0, 1, 0], [1, 0, 0]], bool)
    theirs = np.ma.array(data, mask=lost)
    same(ma.array(mt.asarray(data), mask=lost).ravel(order), theirs.ravel(order))


def test_masked_written_to_an_element_without_mask_is_refused_or_nan():
    x = mt.asarray([1, 2, 3])
    with pytest.raises(np.ma.MaskError, match="masked element"):
        x[0] = np.ma.masked
    y = mt.asarray([1.0, 2.0])
    with pytest.warns(UserWarning, match="nan"):
        y[1] = np.ma.masked
    np.testing.assert_array_equal(y.fetch(), [1.0, np.nan])


def test_views_share_data_and_mask():
    x = ma.array(mt.asarray([1.0, 2.0, 3.0]), mask=[True, False, False])
    whole, data = x.view(), x.view(np.ndarray)
    x[2] = np.ma.masked
    x.data[1] = 7
    assert whole.fetch().tolist() == [None, 7.0, None]
    assert data.fetch().tolist() == [1.0, 7.0, 3.0]
    plain = mt.asarray([1.0, 2.0])
    plain.view(np.ma.MaskedArray)[0] = 5
    assert plain.fetch().tolist() == [5.0, 2.0]
    assert x.view(fill_value=-1).fill_value == -1
    with pytest.raises(UnsupportedError, match="another dtype"):
        x.view("f4")


@pytest.mark.parametrize("by_name", [False, True])
def test_the_mask_of_out_is_no_mask_of_an_input(by_name):
    x = ma.array(mt.asarray([1.0, 2.0, 3.0]), mask=[True, False, False])
    out = ma.array(mt.asarray([0.0, 0.0, 0.0]), mask=[False, False, True])
    found = np.add(x, x, out=out) if by_name else np.add(x, x, out)
    assert found is out and out.fetch().tolist() == [None, 4.0, 6.0]


MASKED = ("np.ma.masked", "np.ma.array([1], mask=[True])[0]", "np.ma.array([1], mask=[False])[0]",
          "np.ma.array(3, mask=True)", "[np.ma.masked]")  # fmt: skip


@pytest.mark.parametrize("value", MASKED)
@pytest.mark.parametrize("dtype", ["U4", "S3", "f8", "f2", "i4", "?", "c16", "M8[s]", "m8[s]", "i4,f8"])
@pytest.mark.filterwarnings("ignore:.*masked element")
def test_masked_values_written_to_elements_of_plain_arrays(dtype, value):
    found = []
    for np_, x in ((mt, mt.asarray(np.arange(3).astype(dtype), chunk_size=2)), (np, np.arange(3).astype(dtype))):
        try:
            exec(f"x[{'0:1' if value[0] == '[' else '0'}] = {value}", {"x": x, "np": np_})
            found.append(repr(np.asarray(x)))
        except Exception as error:
            found.append(repr(error))
    assert found[0] == found[1]
