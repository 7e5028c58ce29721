"""Arrays of records: fields read and written, records moved, compared, sorted, saved; text, which moves like them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.config import config
from jmars.errors import UnsupportedError
from tests.tensor.cut import basic_indices, cut, same, shapes

KIND = np.dtype([("a", "i4"), ("b", "f8"), ("c", "U3"), ("d", "i2", (2,))])


def records(shape, kind=KIND, seed=0):
    rng = np.random.default_rng(seed)
    x = np.zeros(shape, kind)
    x["a"] = rng.integers(0, 4, shape)
    if "b" in kind.names:
        x["b"] = rng.normal(size=shape).round(1)
        x["c"] = rng.choice(["", "ab", "xyz"], shape)
        x["d"] = rng.integers(0, 9, (*shape, 2))
    return x


@settings(max_examples=40)
@given(shapes(1, 3, 5), st.data())
def test_fields_are_read_and_written(shape, data):
    a = records(shape)
    x = data.draw(cut(a))
    for name in ("a", "b", "c", "d", ["a", "c"], ["d"]):
        same(x[name], a[name])
    for name, value in (("a", 7), ("b", a["b"] * 2), ("c", "zz"), ("a", mt.asarray(a["a"]) + 1)):
        b, y = a.copy(), x.copy()
        b[name], y[name] = (value.fetch() if isinstance(value, mt.Tensor) else value), value
        same(y, b)
    same(x["a"] + x["b"], a["a"] + a["b"])
    same(x["b"].mean(), a["b"].mean(), 1e-12) if a.size else None


def test_whole_records_are_written():
    one = (7, 2.5, "new", (1, 2))
    for value in (one, np.array(one, KIND), [one] * 4):
        a = records((5, 4))
        x = mt.asarray(a, chunk_size=3)
        a[0], x[0] = value, value
        same(x, a)
        a[:, 1:3], x[:, 1:3] = one, one
        same(x, a)
    a[a["a"] > 1] = one
    x[x["a"] > 1] = one
    same(x, a)
    a[a["a"] < 1], x[x["a"] < 1] = a[-1, -1], x[-1, -1]
    same(x, a)
    with pytest.raises(ValueError, match="length 2"):
        x[0] = (1, 2.0)


@settings(max_examples=40)
@given(shapes(1, 3, 5), st.data())
def test_records_move_like_any_other_elements(shape, data):
    a = records(shape)
    x = data.draw(cut(a))
    index = data.draw(basic_indices(shape))
    same(x[index], a[index])
    same(x.T, a.T)
    same(x.ravel(), a.ravel())
    same(mt.concatenate([x, x]), np.concatenate([a, a]))
    same(mt.flip(x), np.flip(a))
    same(mt.where(x["a"] > 1, x, x), a)
    same(x[x["a"] > 1], a[a["a"] > 1])
    same(x[x["a"] > 1]["b"], a[a["a"] > 1]["b"])
    same(x == x, a == a)
    same(x != mt.flip(x), a != np.flip(a))
    same(x.rechunk(2), a)
    same(mt.take(x, [0, -1], 0), np.take(a, [0, -1], 0)) if shape[0] else None


@settings(max_examples=30)
@given(shapes(1, 2, 6), st.data())
def test_records_are_put_in_order(shape, data):
    a = records(shape)
    x = data.draw(cut(a))
    for order in (None, "a", ["b", "a"]):
        kind = np.dtype([("a", "i4"), ("b", "f8"), ("c", "U3")])
        b, y = a[["a", "b", "c"]].astype(kind), x[["a", "b", "c"]].astype(kind)
        same(mt.sort(y, order=order), np.sort(b, order=order))
        same(mt.argsort(y, order=order, kind="stable"), np.argsort(b, order=order, kind="stable"))


def test_they_are_made_as_numpy_makes_them(tmp_path):
    same(mt.zeros((2, 3), KIND, chunk_size=2), np.zeros((2, 3), KIND))
    same(mt.ones(3, [("a", "i4"), ("b", "f8")]), np.ones(3, [("a", "i4"), ("b", "f8")]))
    same(mt.array([(1, 2.0), (3, 4.0)], "i4, f8"), np.array([(1, 2.0), (3, 4.0)], "i4, f8"))
    kind = np.dtype([("a", "i4"), ("b", "f8")])
    same(mt.full(4, np.array((1, 2.5), kind), chunk_size=3), np.full(4, np.array((1, 2.5), kind)))
    x = mt.asarray(records((7,)), chunk_size=3)
    mt.save(tmp_path / "x.npy", x)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), records((7,)))
    same(mt.load(tmp_path / "x.npy", chunk_size=2), records((7,)))
    assert str(x[:3]) == str(records((7,))[:3])


def test_what_cannot_be_is_said():
    x = mt.asarray(records((4,)), chunk_size=3)
    with pytest.raises(ValueError, match="no field of name z"):
        x["z"]
    with pytest.raises(KeyError):
        x[["a", "z"]]
    with pytest.raises(IndexError, match="valid indices"):
        mt.ones(3)["a"]
    with pytest.raises(ValueError, match="broadcast"):
        x["d"] = [1, 2, 3]
    with pytest.raises(UnsupportedError, match="convert it with astype"):
        mt.as_tensor(np.array([(1, None)], "i4, O"))
    for call in (lambda: x + 1, lambda: x.sum(), lambda: x.mean(), lambda: x.std(), lambda: x.max(), lambda: mt.sqrt(x),
                 lambda: x.cumsum(), lambda: mt.matmul(x, x), lambda: mt.median(x), lambda: x < x):  # fmt: skip
        with pytest.raises((TypeError, UnsupportedError)):
            call()
    y = x.copy()
    y["a"] = 0
    assert x["a"].fetch().tolist() == records((4,))["a"].tolist()


@settings(max_examples=40)
@given(shapes(1, 2, 6), st.sampled_from(["U4", "S4"]), st.data())
def test_text_is_moved_compared_and_sorted(shape, kind, data):
    a = np.random.default_rng(0).choice(["", "b", "abc", "zz"], shape).astype(kind)
    x = data.draw(cut(a))
    same(x.T, a.T)
    same(x[::-1], a[::-1])
    same(x == a.dtype.type("abc" if kind[0] == "U" else b"abc"), a == a.dtype.type("abc" if kind[0] == "U" else b"abc"))
    same(x < mt.flip(x), a < np.flip(a))
    same(x == ("abc" if kind[0] == "U" else b"abc"), a == ("abc" if kind[0] == "U" else b"abc"))
    same(mt.ones(3, chunk_size=2) == "a", np.ones(3) == "a")
    same(mt.sort(x, axis=0), np.sort(a, axis=0))
    same(mt.concatenate([x, x]), np.concatenate([a, a]))
    same(mt.unique(x), np.unique(a))
    same(x.astype("U8"), a.astype("U8"))
    same(x[x != a.dtype.type("" if kind[0] == "U" else b"")], a[a != a.dtype.type("" if kind[0] == "U" else b"")])
    for call in (lambda: x.sum(), lambda: x.mean(), lambda: mt.sqrt(x), lambda: x.std()):
        with pytest.raises((TypeError, UnsupportedError)):
            call()


@pytest.mark.parametrize("local_seconds", [0, 1])
def test_elements_of_text_are_formatted_and_converted(local_seconds):
    a = records((3,))
    a["c"] = "12", "7", "345"
    with config.using(local_seconds=local_seconds):
        for ours, theirs in zip(mt.asarray(a), a, strict=True):
            assert f"{ours['c']:>5}|{ours['a']:3d}" == f"{theirs['c']:>5}|{theirs['a']:3d}"
            assert int(ours["c"]) == int(theirs["c"])
            assert ours["c"].compute() == theirs["c"]


WRITES = {
    "several fields, a number": lambda r: r.__setitem__(["a", "b"], 5),
    "several fields, a record": lambda r: r.__setitem__(["a", "b"], (5, 6)),
    "several fields, records": lambda r: r.__setitem__(["a", "b"], [(5, 6), (7, 8), (9, 10)]),
    "several fields, by position": lambda r: r.__setitem__(["a", "b"], np.ones(3, [("x", "i8"), ("y", "f4")])),
    "several fields with arrays": lambda r: r.__setitem__(["b", "d"], (2.5, [3, 4])),
    "a record of several fields": lambda r: r[["a", "d"]].__setitem__(1, (3, [4, 5])),
    "arrays, a number": lambda r: r.__setitem__("d", 7),
    "arrays, one for all": lambda r: r.__setitem__("d", [7, 8]),
    "arrays, a column": lambda r: r.__setitem__("d", np.arange(3)[:, None]),
    "arrays, each": lambda r: r.__setitem__("d", np.arange(6.0).reshape(3, 2)),
    "one of the arrays": lambda r: r["d"].__setitem__(1, [5, 6]),
    "an element of each": lambda r: r["d"].__setitem__((slice(None), 0), 9),
    "matrices": lambda r: r["e"].__setitem__((slice(1, None), 1), np.arange(3)),
    "arrays of a record": lambda r: r[1].__setitem__("d", 4),
    "a record with arrays": lambda r: r.__setitem__(1, (1, 2, "x", [3, 4], np.eye(2, 3))),
    "arrays in place": lambda r: r["d"].__iadd__(1),
    "arrays of several records": lambda r: r[::2].__setitem__("e", 1),
}


@pytest.mark.parametrize("chunk", [1, 2, 5])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_fields_are_written_as_in_numpy(write, chunk):
    kind = np.dtype([*KIND.descr, ("e", "f4", (2, 3))])
    a = records((3,), KIND).astype(KIND)
    a = np.array([(*one, np.full((2, 3), i)) for i, one in enumerate(a.tolist())], kind)
    x = mt.asarray(a.copy(), chunk_size=chunk)
    write(x)
    write(a)
    assert x.fetch().tobytes() == a.tobytes()


def test_a_record_has_length_fields_and_positions():
    a = records((3,))
    x = mt.asarray(a, chunk_size=2)
    assert len(x[1]) == 4 and x[1][0] == a[1][0] and x[1][-1].tolist() == a[1][-1].tolist()
    assert [np.asarray(one).tolist() for one in x[1]] == [np.asarray(one).tolist() for one in a[1]]
    assert x[mt.argmax(x["b"])]["a"] == a[a["b"].argmax()]["a"]
    with pytest.raises(IndexError):
        x[1][4]


def test_an_element_of_text_is_text():
    x = mt.asarray(["ab", "c"], chunk_size=1)
    assert (len(x[0]), list(x[0]), x[0][1], x[1][-1:], "b" in x[0]) == (2, ["a", "b"], "b", "c", True)
    with pytest.raises(TypeError, match="has no len"):
        len(mt.ones(3)[0])


def test_view_that_leaves_bytes_out_is_read_only(engine):
    x = mt.asarray(np.array([(1, 2), (3, 4)], "i8,i8"), chunk_size=1)
    second = x.view({"names": ["f1"], "formats": ["i8"], "offsets": [8], "itemsize": 16})
    assert second["f1"].fetch().tolist() == [2, 4]
    with pytest.raises(ValueError, match="read-only"):
        second[:] = 4


def test_a_field_of_a_record_is_a_scalar_and_a_copy():
    array = np.array([("a", 1, (1, 2)), ("b", 2, (3, 4))], dtype=[("n", "U3"), ("i", "i4"), ("v", "i4", (2,))])
    x = mt.asarray(array.copy())
    record, expected = x[0], array[0]
    number, pair, fields = record["i"], record["v"], list(record)
    assert [type(one.fetch()) for one in fields] == [type(one) for one in expected]
    record["i"], expected["i"] = 7, 7
    pair[0], expected["v"][0] = 9, 9
    assert number.fetch() == 1 and record["i"].fetch() == record[1].fetch() == 7
    np.testing.assert_array_equal(x.fetch(), array)
