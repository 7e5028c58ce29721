"""Tensors that share memory in NumPy share a buffer: writes through views, `shares_memory`, memory that is let go."""

from __future__ import annotations

import gc
import operator
import weakref

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.buffers import SmallValues, View, layout_of
from jmars.tensor.engine import set_engine
from jmars.tensor.from_array import FromArray
from jmars.tensor.small_values import small_values
from tests.cases import needs_numpy
from tests.tensor.engine import OneByOne

MAKES = {  # views, or copies where NumPy copies
    "T": lambda a, n: a.T,
    "row": lambda a, n: a[n % len(a)] if a.ndim > 1 and len(a) else a[:],
    "slice": lambda a, n: a[n % 3 :],
    "step": lambda a, n: a[:: 1 + n % 2],
    "backwards": lambda a, n: a[::-1],
    "last axis": lambda a, n: a[..., n % 2 :],
    "new axis": lambda a, n: a[None],
    "ellipsis": lambda a, n: a[...],
    "ravel": lambda a, n: a.ravel(),
    "reshape": lambda a, n: a.reshape(-1),
    "columns": lambda a, n: a.reshape((-1, 2)) if a.size % 2 == 0 else a,
    "Fortran": lambda a, n: a.reshape(-1, order="F"),
    "squeeze": lambda a, n: a.squeeze(),
    "swapaxes": lambda a, n: a.swapaxes(0, -1) if a.ndim else a,
    "moveaxis": lambda a, n: np.moveaxis(a, 0, -1) if a.ndim else a,
    "flip": lambda a, n: np.flip(a),
    "rot90": lambda a, n: np.rot90(a, n) if a.ndim == 2 else a,
    "split": lambda a, n: np.array_split(a, 2)[n % 2] if a.ndim else a,
    "view": lambda a, n: a.view(),
    "bits": lambda a, n: a.view("u8" if a.dtype.kind == "i" else "i8") if a.dtype in (int, "u8") else a,
    "halves": lambda a, n: a.view("i4") if a.dtype == int and a.ndim and a.flags.c_contiguous else a,
    "wholes": lambda a, n: (
        a.view("i8") if a.dtype == "i4" and a.ndim and a.flags.c_contiguous and a.shape[-1] % 2 == 0 else a
    ),
    "at least": lambda a, n: np.atleast_2d(a),
    "copy": lambda a, n: a.copy(),
    "sum": lambda a, n: a + 1,
    "fancy": lambda a, n: a[[0, -1]] if a.ndim and len(a) else a,
    "fancy last": lambda a, n: a[..., [0]] if a.ndim and a.shape[-1] else a,
    "same dtype": lambda a, n: a.astype(a.dtype),
    "copy in order": lambda a, n: np.copy(a),
    "field": lambda a, n: a["xy"[n % 2]] if a.dtype.names else a,
    "some fields": lambda a, n: a[["y"]] if a.dtype.names else a,
    "real": lambda a, n: a.real,
    "imaginary": lambda a, n: a.imag if a.dtype.kind == "c" else a,
    "diagonal": lambda a, n: np.diagonal(a) if a.ndim > 1 else a,
    "broadcast": lambda a, n: np.broadcast_to(a, (2, *a.shape)) if a.size < 100 else a,
    "list": lambda a, n: [a[..., :1], a.T, a] if a.ndim else [a, a],
    "rows": lambda a, n: list(a)[:3] if a.ndim > 1 else [a],
}


def has_gaps(dtype):
    """Whether records have bytes of no field; NumPy's in-place sort of such a view moves these bytes, too."""
    return dtype.names is not None and dtype.itemsize > sum(field[0].itemsize for field in dtype.fields.values())


WRITES = {
    "add": lambda a, n: operator.iadd(a, n),
    "multiply": lambda a, n: operator.imul(a, 2),
    "element": lambda a, n: operator.setitem(a, (n % len(a),), n) if a.ndim and len(a) else None,
    "elements": lambda a, n: [operator.setitem(a, i, a[i] * 2 - n) for i in np.ndindex(a.shape)] if a.ndim else None,
    "slice": lambda a, n: operator.setitem(a, slice(n % 3, None), n) if a.ndim else None,
    "own slice": lambda a, n: operator.setitem(a, slice(1, None), a[:-1]) if a.ndim else None,
    "part": lambda a, n: operator.setitem(a, slice(0, 1), operator.iadd(a[0:1], n)) if a.ndim else None,
    "nested": lambda a, n: operator.setitem(a[n % len(a)], 0, n) if a.ndim > 1 and a.size else None,
    "out": lambda a, n: np.add(a, n, out=a),
    "mask": lambda a, n: operator.setitem(a, a > n, n),
    "fill": lambda a, n: a.fill(n),
    "rows": lambda a, n: [operator.iadd(row, i) for i, row in enumerate(a)] if a.ndim > 1 else None,
    "sort": lambda a, n: a.sort() if a.ndim and not has_gaps(a.dtype) else None,
    "copyto": lambda a, n: np.copyto(a, n),
    "flat": lambda a, n: operator.setitem(a.flat, slice(None, None, 2), n) if a.size else None,
    "subtract its own": lambda a, n: operator.setitem(a, slice(1, None), operator.isub(a[1:], a[:-1])),
    "divide": lambda a, n: operator.itruediv(a, 2),
    "floor": lambda a, n: operator.ifloordiv(a, 2),
    "shift": lambda a, n: operator.ilshift(a, 1),
    "and": lambda a, n: operator.iand(a, 255),
    "power": lambda a, n: operator.ipow(a[..., :1], 1 + n % 2),
    "real": lambda a, n: setattr(a, "real", n),
    "imaginary": lambda a, n: setattr(a, "imag", n),
    "field": lambda a, n: operator.setitem(a, "xy"[n % 2], n),
    "record": lambda a, n: operator.setitem(a, n % 3, (n, n + 1)) if a.dtype.names and a.ndim == 1 else None,
    "field of a record": lambda a, n: operator.setitem(a[n % 2], "x", n) if a.dtype.names else None,
    "fields of records": lambda a, n: [operator.setitem(one, "y", n) for one in a] if a.dtype.names else None,
    "diagonal": lambda a, n: np.fill_diagonal(a, n),
    "put": lambda a, n: np.put(a, [0, -1], n) if not a.dtype.names else None,  # NumPy's also clears other fields
    "list": lambda a, n: [operator.iadd(one, n) for one in [a[:1], a.T, a[..., 1:]]],
    "out of a part": lambda a, n: np.negative(a[:-1], out=a[1:]),
}
BETWEEN = {  # from one array to another
    "out": lambda a, b, n: np.add(a, n, out=b),
    "multiply out": lambda a, b, n: np.multiply(a, b, out=a),
    "sum out": lambda a, b, n: None if a.dtype.names or b.dtype.names else np.sum(a, axis=0, out=b),
    "add": lambda a, b, n: operator.iadd(a, b),
    "all": lambda a, b, n: operator.setitem(a, ..., b),
    "first": lambda a, b, n: operator.setitem(a, 0, b) if a.ndim > 1 else None,
    "part": lambda a, b, n: operator.setitem(a, slice(n % 2, None), b[..., :1]),
    "copyto": lambda a, b, n: np.copyto(a, b),
}
ALLOWED = {  # classes of errors of jmars and of NumPy that may differ
    ("TypeError", "_UFuncNoLoopError"): "a private class of NumPy, which no `except` can name, and a TypeError",
    ("TypeError", "_UFuncOutputCastingError"): "a private class too",
}
RECORDS = np.array([(k, 2 * k) for k in range(6)], [("x", "i8"), ("y", "i8")])
STARTS = (
    (np.arange(24).reshape(4, 6), np.arange(6), np.arange(8).reshape(2, 2, 2)),
    (np.arange(24).reshape(4, 6), RECORDS, np.arange(6).reshape(2, 3) + 1j),
    (np.arange(6.0), RECORDS.reshape(3, 2), np.arange(6, dtype="i4")),
)
STATEMENTS = st.tuples(
    st.integers(0, 50),
    st.sampled_from([*MAKES, "drop", *(f"write {name}" for name in WRITES), *(f"between {name}" for name in BETWEEN)]),
    st.integers(0, 5),
)


def run(names, number, what, n):
    """Runs a statement: makes an array, or a list of arrays, from an earlier array, or writes to it."""

    def chosen(number):
        found = names[number % len(names)]
        return found[n % len(found)] if isinstance(found, list) else found

    kind, _, name = what.partition(" ")
    if what == "drop":  # a name, so that a view may be the last handle of its memory
        if len(names) > 1:
            del names[number % len(names)]
        return
    with np.errstate(all="ignore"):
        if kind == "write":
            write(name, chosen(number), n)
        elif kind == "between":
            between(name, chosen(number), chosen(number + n), n)
        else:
            names.append(MAKES[what](chosen(number), n))


def write(name, one, n):
    """Writes to an array; to a read-only one only what has no other fault: NumPy finds faults in its own order."""
    if one.flags.writeable or (name in ("add", "slice", "fill", "element") and not one.dtype.names):
        WRITES[name](one, n)


def between(name, one, two, n):
    """A statement with two arrays, if there is at most one reason to refuse it."""
    if sum([one.shape != two.shape, one.dtype != two.dtype, not one.flags.writeable, not two.flags.writeable]) < 2:
        BETWEEN[name](one, two, n)


def error_of(names, statement):
    """The class of the error that a statement raises; None for none."""
    try:
        run(names, *statement)
    except Exception as error:
        return type(error)
    return None


def same_error(found, expected):
    """Whether an error of jmars is of NumPy's class, or of one that stands for it in `ALLOWED`; classes or None."""
    return found is expected or bool(found and expected and (found.__qualname__, expected.__qualname__) in ALLOWED)


def flat(names):
    """All arrays, those in lists too."""
    return [array for one in names for array in (one if isinstance(one, list) else [one])]


class KnowsElements(OneByOne):
    """An engine that gives the values of small arrays, as a cell's engine does."""

    def small(self, data, touched):
        if not isinstance(data.op, FromArray) and touched % 3 == 0 and not data.has_unknown_lengths:
            data.op = FromArray(array=self.fetch(data))
        return data.op.array if isinstance(data.op, FromArray) else None


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("limit", [2**22, 50])
@given(st.sampled_from(STARTS), st.lists(STATEMENTS, min_size=30, max_size=30))
def test_programs_with_small_values_give_what_numpy_gives(limit, starts, statements):
    set_engine(OneByOne())
    theirs, ours = [one.copy() for one in starts], [mt.asarray(one) for one in starts]
    with small_values():
        SmallValues.choose(limit)
        for statement in statements:
            note(str(statement))
            found, expected = error_of(ours, statement), error_of(theirs, statement)
            assert same_error(found, expected), (statement, found, expected)
    for one, other in zip(flat(ours), flat(theirs), strict=True):
        np.testing.assert_array_equal(one.fetch() if isinstance(one, mt.Tensor) else one, other)
        assert one.dtype == other.dtype and one.flags.c_contiguous == other.flags.c_contiguous
    for i, (one, other) in enumerate(zip(flat(ours), flat(theirs), strict=True)):
        for second, fourth in zip(flat(ours)[:i], flat(theirs)[:i], strict=True):
            assert np.shares_memory(one, second) == np.shares_memory(other, fourth)


def test_a_write_whose_warning_is_an_error_writes_nothing():
    set_engine(OneByOne())
    with small_values():
        c = mt.asarray(np.arange(3) + 1j)
        with pytest.raises(np.exceptions.ComplexWarning):  # pytest makes warnings errors
            c.real[...] = c + 1
        assert c.tolist() == [1j, 1 + 1j, 2 + 1j]
        with pytest.warns(np.exceptions.ComplexWarning):
            c.real[...] = c + 1
        assert c.tolist() == [1 + 1j, 2 + 1j, 3 + 1j]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("engine", [OneByOne, KnowsElements])
@given(st.sampled_from(STARTS), st.lists(STATEMENTS, min_size=30, max_size=30), st.integers(1, 5))
def test_programs_with_views_give_what_numpy_gives(engine, starts, statements, chunk):
    set_engine(engine())
    theirs, ours = [one.copy() for one in starts], [mt.asarray(one, chunk_size=chunk) for one in starts]
    for statement in statements:
        note(str(statement))
        found, expected = error_of(ours, statement), error_of(theirs, statement)
        assert same_error(found, expected), (statement, found, expected)
    ours, theirs = flat(ours), flat(theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one.fetch(), other)
        assert one.dtype == other.dtype
    for i, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        for second, fourth in zip(ours[:i], theirs[:i], strict=True):
            assert np.shares_memory(one, second) == np.shares_memory(other, fourth)


def test_halves_of_complex_numbers_and_fields_are_written():
    c = mt.zeros(4, complex, chunk_size=2)
    part = c[1:]
    part.imag = 1
    c.real[0] = 5
    c.imag[1:2] += 2
    assert c.tolist() == [5, 3j, 1j, 1j] and part.tolist() == [3j, 1j, 1j]
    records = mt.asarray(np.zeros(3, [("a", "i4"), ("b", "f8")]), chunk_size=2)
    column = records["a"]
    column += 2
    records["b"][0] = 7
    records[1] = (8, 9)
    assert records.tolist() == [(2, 7.0), (8, 9.0), (2, 0.0)] and column.tolist() == [2, 8, 2]


def test_a_record_is_a_view_of_its_array():
    records = mt.asarray(RECORDS, chunk_size=2)
    first = records[0]
    records[0]["x"] = 5
    for record in records[1:3]:
        record["y"] = 9
    assert records.tolist() == [(5, 0), (1, 9), (2, 9), (3, 6), (4, 8), (5, 10)] and first.tolist() == (5, 0)
    assert np.shares_memory(first, records) and not np.shares_memory(records[[0]], records)


def test_transposed_arrays_are_broadcast_and_copied_without_leading_axes():
    x = mt.arange(6, chunk_size=2).reshape(2, 3)
    wide = np.broadcast_to(x.T, (2, 3, 2))
    assert wide.tolist() == [[[0, 3], [1, 4], [2, 5]]] * 2
    np.copyto(x, np.zeros((1, 1, 2, 3), int))
    assert wide.tolist() == [[[0, 0]] * 3] * 2


def test_a_view_of_many_views_reads_each_of_them_once(monkeypatch):
    x = mt.arange(6).reshape(2, 3)
    whole, seen = x, []
    for _ in range(200):  # twice as many reads for each view would not end
        x = x.T
    monkeypatch.setattr(View, "source", property(lambda self, read=View.source.fget: seen.append(1) or read(self)))
    assert x.shape == (2, 3)
    assert len(seen) <= 200
    x[0, 0] = 7
    assert whole[0, 0] == 7


def test_views_in_lists_dicts_and_loops_write_to_the_whole():
    x = mt.zeros((3, 2), chunk_size=2)
    rows, named = [x[0], x[1]], {"last": x[2:]}
    rows[0] += 1
    named["last"] += 2
    for row in x:
        row += 1
    for k, row in enumerate(x):
        x[k] = row + k
    assert x.tolist() == [[2, 2], [2, 2], [5, 5]] and rows[0].tolist() == [2, 2]


def test_read_only_views_see_writes_and_refuse_them():
    x = mt.arange(9, chunk_size=2).reshape(3, 3)
    diagonal, wide = np.diagonal(x), np.broadcast_to(x[0], (2, 3))
    x[0, 0] = 7
    assert diagonal.tolist() == [7, 4, 8] and wide.tolist() == [[7, 1, 2], [7, 1, 2]]
    for view in (diagonal, wide, wide[0]):
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1
        with pytest.raises(ValueError, match="read-only"):
            view += 1
    np.fill_diagonal(x.T, 0)
    assert diagonal.tolist() == [0, 0, 0]


def test_the_shape_of_a_handle_is_its_own():
    x = mt.arange(6, chunk_size=4)
    y = x[:]
    y.shape = (2, 3)
    y[1] = 0
    assert x.tolist() == [0, 1, 2, 0, 0, 0] and x.shape == (6,)
    turned = y.T
    with pytest.raises(AttributeError, match="Incompatible shape"):
        turned.shape = (6,)


def test_a_part_lets_go_of_the_whole_when_no_other_handle_is_left():
    x = mt.ones((4, 4), chunk_size=2)
    part = x[0]
    x += 1
    whole = weakref.ref(x._place)
    del x
    assert part.tolist() == [2, 2, 2, 2]
    gc.collect()
    assert whole() is None
    part += 1
    assert part.tolist() == [3, 3, 3, 3]


def test_a_copy_is_kept_apart_from_what_numpy_copies():
    x = mt.arange(4, chunk_size=2)
    turned = x.reshape(2, 2).T.astype(int)
    turned.ravel()[1] = 9  # NumPy copies: the order in memory is that of the transpose
    assert turned.tolist() == [[0, 2], [1, 3]]
    kept = [x.copy(), x[[0, 1]], x[x > 1], x + 0, x.astype(int), np.array(x), x.reshape(2, 2).T.ravel()]
    x += 1
    assert [one.tolist() for one in kept] == [
        [0, 1, 2, 3], [0, 1], [2, 3], [0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3], [0, 2, 1, 3]
    ]  # fmt: skip


def test_a_view_of_a_single_element_is_let_go():
    array = np.array(3)
    for x in (mt.flip(mt.asarray(array)[()]), mt.asarray(array)[()]):
        assert x.fetch() == 3 and x.flags.c_contiguous
    assert layout_of(mt.arange(5)[2]._place).shape == layout_of(mt.asarray(array)[()]._place).shape == ()


@needs_numpy("2.4", "it took some of them, with a warning")
def test_an_element_takes_no_array_with_axes_where_numpy_takes_none():
    for kind in ("i8", "f8", "c16", "M8[s]", "U3"):
        for value in (np.ones(1), np.ones((1, 1)), np.ones(2)):
            given, theirs = value.astype("i8").astype(kind), np.zeros(3, kind)
            with pytest.raises((ValueError, TypeError)) as expected:
                theirs[0] = given
            for mine in (given, mt.asarray(given)):
                x = mt.zeros(3, kind)
                with pytest.raises(expected.type):
                    x[0] = mine
    x, records = mt.zeros(3, bool), mt.asarray(RECORDS, chunk_size=2)
    x[0] = mt.ones(1)
    records[0] = records[2:3]
    x[1, ...] = mt.ones((1, 1))
    assert x.tolist() == [True, True, False] and records[0].tolist() == (2, 4)


def test_diagonals_of_records_and_unsigned_numbers_are_filled():
    records = mt.asarray(RECORDS.reshape(3, 2), chunk_size=1)
    np.fill_diagonal(records, (8, 9))
    assert records.tolist() == [[(8, 9), (1, 2)], [(2, 4), (8, 9)], [(4, 8), (5, 10)]]
    large = mt.full((2, 2), 2**64 - 1, dtype="u8", chunk_size=1)
    np.fill_diagonal(large, mt.arange(2) + 3)
    assert large.tolist() == [[3, 2**64 - 1], [2**64 - 1, 4]]  # by float64, 2**64 would be what is left


def test_faults_are_found_in_the_order_of_numpy():
    x = mt.arange(6, chunk_size=2).reshape(2, 3)
    with pytest.raises(ValueError, match="could not broadcast"):  # before the warning of discarded imaginary parts
        x[0] = mt.zeros((2, 3), complex)
    with pytest.raises(IndexError, match="index 6 is out of bounds"):
        mt.asarray(RECORDS)[["y"]][6] = (1, 2)
    with pytest.raises(IndexError, match="index 2 is out of bounds"):
        x[2] = "no number"
    with pytest.raises(ValueError, match="output array is read-only"):
        np.add(x, 1.5, out=np.broadcast_to(x, (2, 3)))
    with pytest.raises(TypeError, match="Cannot cast"):
        np.copyto(mt.asarray(RECORDS), 0)
    with pytest.raises(ValueError, match="non-broadcastable output"):
        np.multiply(mt.ones((1, 3)), 2, out=np.zeros(3))


def test_a_broadcast_axis_is_the_last_in_memory_of_a_copy_alone():
    wide = np.broadcast_to(mt.arange(6).reshape(2, 3), (2, 2, 3))
    theirs = np.broadcast_to(np.arange(6).reshape(2, 3), (2, 2, 3))
    for function in (np.negative, np.copy, lambda a: a.astype("f4"), lambda a: a.astype(a.dtype), lambda a: a + 1):
        assert function(wide).strides == function(theirs).strides


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
@pytest.mark.parametrize("to", ["u1", "f4", "c16", "S3", "S24", "i8,f4,f4", "M8[s]"])
def test_a_view_of_another_size_has_numpys_elements_and_writes(to, chunk):
    a = np.arange(18.0).reshape(3, 6)
    x = mt.asarray(a.copy(), chunk_size=chunk)
    for ours, theirs in ((x, a), (x[1:], a[1:]), (x[:, None], a[:, None])):
        try:
            expected = theirs.view(to)
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)[:30]):
                ours.view(to)
            continue
        found = ours.view(to)
        assert found.dtype == expected.dtype and found.shape == expected.shape
        assert found.fetch().tobytes() == expected.tobytes()
    small, theirs = x.view("u1"), a.view("u1")
    small[1, 3:9] = theirs[1, 3:9] = 7
    assert x.fetch().tobytes() == a.tobytes()
    x[2] = a[2] = -1
    assert small.fetch().tolist() == theirs.tolist()


def test_a_view_of_another_size_is_refused_where_numpy_refuses_it():
    x, a = mt.ones((4, 6), chunk_size=2), np.ones((4, 6))
    for view in (lambda y: y.T.view("f4"), lambda y: y[:, ::2].view("c16"), lambda y: y[:, :3].view("c16"),
                 lambda y: y[0, :1].reshape(()).view("f4"), lambda y: y.view("S3")):  # fmt: skip
        with pytest.raises(ValueError) as expected:
            view(a)
        with pytest.raises(ValueError) as found:
            view(x)
        assert str(found.value) == str(expected.value)


def test_bytes_are_viewed_as_records_and_back():
    x = mt.asarray(np.arange(24, dtype="u1"), chunk_size=5)
    records = x.view([("a", "i2"), ("b", "u1", 2)])
    expected = np.arange(24, dtype="u1").view([("a", "i2"), ("b", "u1", 2)])
    assert records.fetch().tobytes() == expected.tobytes() and records.shape == (6,)
    records["a"] = 0
    expected["a"] = 0
    assert x.fetch().tolist() == expected.view("u1").tolist()
    assert x[x > 3].view("u2").shape == (5,)
