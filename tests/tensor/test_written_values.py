"""Values that do not fit, by every way into an array: value, dtype and error are NumPy's."""

from __future__ import annotations

import copy
import datetime
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from tests.cases import numpy_before

Array = np.ndarray[Any, Any]
Way = Callable[[Any, Any, Any], Any]  # (np or mt, array, value) -> result, or None for the array

NAN = float("nan")
TARGETS: dict[str, Array] = {
    "b": np.array([True, False, True, False]),
    "i1": np.array([1, -2, 3, 100], "i1"),
    "u1": np.array([1, 2, 3, 200], "u1"),
    "i8": np.array([1, -2, 3, 2**40]),
    "f4": np.array([1, -2, 3.5, NAN], "f4"),
    "c8": np.array([1, -2j, 3.5, 1 + 1j], "c8"),
    "M8": np.array(["2020-01-01", "NaT", "1970-01-01", "2000-05-05"], "M8[D]"),
    "m8": np.array([1, 2, -3, 4], "m8[s]"),
    "U": np.array(["ab", "", "5", "xyz"]),
    "V": np.array([(1, 2.5), (3, 4), (5, 6), (7, 8)], "i4,f4"),
}
NUMBERS: list[Any] = [
    True, 5, -1, 300, 2**63, 2**70, -1.5, 1e300, NAN, 3 + 0j, "ab", "abcdef", "5", "2020-02-02", b"5", None, (1, 2),
    np.int64(300), np.uint64(2**63), np.float64(NAN), np.complex128(1 + 2j), np.datetime64("2020-02-02T01"),
    np.timedelta64(5, "s"), datetime.date(2020, 3, 3), np.array(300), np.array(NAN), np.array("abcdef"),
]  # fmt: skip
PAIRS: list[Any] = [
    [300, 300], [-1, 2], [NAN, 1.0], [1.5, 2.5], [2**70, 1], [1j, 1], ["5", "6"], [None, 1], [np.int64(300), 1],
    [np.datetime64("2020-02-02"), np.datetime64("NaT")], [(1, 2), (3, 4)], [300], [[300, 300]], [],
    np.array([300, -1]), np.array([2**63, 1], "u8"), np.array([NAN, 1e300]), np.array([1 + 2j, NAN]),
    np.array(["a", "bcdef"]), np.array(["2020-02-02T03", "NaT"], "M8[s]"), np.array([100_000, -1], "m8[s]"),
]  # fmt: skip
VALUES = NUMBERS + PAIRS
CASES = [(kind, value) for kind in TARGETS for value in VALUES]
MASK = np.array([True, False, True, False])


def _set(index: Any) -> Way:
    def way(xp: Any, a: Any, v: Any) -> None:
        a[index] = v

    return way


def _square(write: Callable[[Any, Any, Any], Any]) -> Way:
    def way(xp: Any, a: Any, v: Any) -> Any:
        b = a.reshape(2, 2)
        write(xp, b, v)
        return b

    return way


def _record(write: Callable[[Any, Any], Any]) -> Way:
    def way(xp: Any, a: Any, v: Any) -> Any:
        r = xp.zeros(4, [("key", "i4"), ("value", a.dtype)])
        r["value"] = a
        write(r, v)
        return r

    return way


def _flat(xp: Any, a: Any, v: Any) -> None:
    a.flat = v


WAYS: dict[str, Way] = {
    "element": _set(0),
    "element by a tuple": _set((1,)),
    "slice": _set(slice(1, 3)),
    "all": _set(...),
    "every second": _set(slice(None, None, -2)),
    "a part without axes": _set((1, ...)),
    "positions": _set([0, 2]),
    "mask": _set(MASK),
    "lazy mask": lambda xp, a, v: _set(xp.array(MASK))(xp, a, v),
    "true": _set(True),
    "view": _square(lambda xp, b, v: b.T.__setitem__(0, v)),
    "column": _square(lambda xp, b, v: b.__setitem__((slice(None), 1), v)),
    "points": _square(lambda xp, b, v: b.__setitem__(([0, 1], [1, 0]), v)),
    "mask of two axes": _square(lambda xp, b, v: b.__setitem__(np.eye(2, dtype=bool), v)),
    "fill_diagonal": _square(lambda xp, b, v: xp.fill_diagonal(b, v)),
    "put_along_axis": _square(lambda xp, b, v: xp.put_along_axis(b, np.array([[0], [1]]), v, 1)),
    "field": _record(lambda r, v: r.__setitem__("value", v)),
    "slice of a field": _record(lambda r, v: r["value"].__setitem__(slice(1, 3), v)),
    "record": _record(lambda r, v: r.__setitem__(1, (5, v))),
    "records": _record(lambda r, v: r.__setitem__(slice(1, 3), [(5, v), (6, v)])),
    "flat": _flat,
    "fill": lambda xp, a, v: a.fill(v),
    "full": lambda xp, a, v: xp.full((3, 2), v, dtype=a.dtype),
    "full_like": lambda xp, a, v: xp.full_like(a.reshape(2, 2), v),
    "pad": lambda xp, a, v: xp.pad(a, 1, constant_values=v),
    "pad ends": lambda xp, a, v: xp.pad(a, 2, constant_values=((v, v),)),
    "insert": lambda xp, a, v: xp.insert(a, 1, v),
    "insert at positions": lambda xp, a, v: xp.insert(a, [0, 2], v),
    "append": lambda xp, a, v: xp.append(a, v),
    "where": lambda xp, a, v: xp.where(MASK, a, v),
    "clip above": lambda xp, a, v: xp.clip(a, None, v),
    "clip below": lambda xp, a, v: xp.clip(a, v, None),
    "put": lambda xp, a, v: xp.put(a, [0, 2], v),
    "place": lambda xp, a, v: xp.place(a, MASK, v),
    "putmask": lambda xp, a, v: xp.putmask(a, MASK, v),
    "copyto": lambda xp, a, v: xp.copyto(a[:2], v),
    "copyto, unsafe": lambda xp, a, v: xp.copyto(a[:2], v, casting="unsafe"),
    "copyto where": lambda xp, a, v: xp.copyto(a[:2], v, where=MASK[:2]),
    "select": lambda xp, a, v: xp.select([MASK[:2]], [a[:2]], v),
    "piecewise": lambda xp, a, v: xp.piecewise(a, [MASK], [v]),
    "asarray": lambda xp, a, v: xp.asarray(v, dtype=a.dtype),
    "nan_to_num": lambda xp, a, v: xp.nan_to_num(a, nan=v),
    "sum, initial": lambda xp, a, v: xp.sum(a, initial=v),
    "max, initial": lambda xp, a, v: xp.max(a, initial=v),
    "ediff1d": lambda xp, a, v: xp.ediff1d(a, to_end=v),
    "masked slice": lambda xp, a, v: _set(slice(1, 3))(xp, xp.ma.array(a), v),
    "add": lambda xp, a, v: xp.add(a[:2], v),
    "maximum": lambda xp, a, v: xp.maximum(v, a[:2]),
    "less": lambda xp, a, v: xp.less(a[:2], v),
    "bitwise_and": lambda xp, a, v: xp.bitwise_and(a[:2], v),
}


def _harms_numpy(name: str, kind: str, value: Any) -> bool:
    """NumPy before 2.4.5 writes past the memory of a text array that is given durations at positions."""
    at_positions = name in ("positions", "points", "insert at positions")
    return numpy_before("2.4.5") and at_positions and kind == "U" and getattr(value, "dtype", None) == np.dtype("m8[s]")


def _result(xp: Any, way: Way, a: Any, v: Any) -> Any:
    """What a way gives: an array, or NumPy's error."""
    try:
        found = way(xp, a, v)
        found = a if found is None else found
        return np.asarray(found.fetch() if hasattr(found, "fetch") else found)
    except Exception as error:
        return error


def _agree(ours: Any, theirs: Any, value: Any) -> bool:
    if isinstance(ours, Exception):
        if isinstance(theirs, np.ndarray):
            return isinstance(ours, UnsupportedError | TypeError) and np.asarray(value).dtype.hasobject
        if numpy_before("2.4.0"):  # it cannot be told how deep a list may be
            return True
        kind = TypeError if isinstance(theirs, TypeError) else type(theirs)
        return isinstance(ours, kind | UnsupportedError)
    if not isinstance(theirs, np.ndarray) or ours.shape != theirs.shape:
        return False
    if ours.dtype.hasobject:  # NaN among objects is equal to nothing
        return repr(ours) == repr(theirs)
    if ours.dtype != theirs.dtype and (ours.ndim or ours.dtype.kind not in "SU"):
        return False
    if theirs.dtype.kind in "fc":
        return bool(np.allclose(ours, theirs, rtol=1e-6, equal_nan=True))
    return bool((ours == theirs).all()) or ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("name", WAYS)
def test_value_written_into_any_kind_is_numpys_or_its_error(name: str) -> None:
    way, wrong = WAYS[name], []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for kind, value in CASES[list(WAYS).index(name) % 3 :: 3]:  # each case by a third of the ways
            if _harms_numpy(name, kind, value):
                continue
            theirs = _result(np, way, TARGETS[kind].copy(), copy.copy(value))
            ours = _result(mt, way, mt.array(TARGETS[kind], chunk_size=3), copy.copy(value))
            if not _agree(ours, theirs, value):
                wrong.append((kind, value, repr(theirs), repr(ours)))
    assert not wrong, (len(wrong), wrong[:5])


LAZY = ("slice", "positions", "mask", "field", "full", "put", "place", "putmask", "copyto", "insert", "where", "select")


@pytest.mark.parametrize("name", LAZY)
def test_lazy_values_are_cast_as_numpys_arrays(name: str) -> None:
    way, wrong = WAYS[name], []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for kind, target in TARGETS.items():
            for value in VALUES:
                if isinstance(value, np.ndarray) and value.ndim and not _harms_numpy(name, kind, value):
                    theirs = _result(np, way, target.copy(), value)
                    ours = _result(mt, way, mt.array(target, chunk_size=3), mt.array(value, chunk_size=1))
                    if not _agree(ours, theirs, value):
                        wrong.append((kind, value, repr(theirs), repr(ours)))
    assert not wrong, (len(wrong), wrong[:5])


def test_refused_write_leaves_the_array_as_it_was() -> None:
    x = mt.array(np.arange(5, dtype="u1"), chunk_size=2)
    for write in (_set(slice(1, 3)), _set([1, 2]), _flat, WAYS["fill"], WAYS["put"], WAYS["copyto"]):
        with pytest.raises(OverflowError):
            write(mt, x, 300)
    assert x.fetch().tolist() == [0, 1, 2, 3, 4]


def test_imaginary_part_of_real_numbers_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        mt.ones(3).imag[1] = 5


@pytest.mark.parametrize("index", [slice(None, None, 2), [0, 1, 3], slice(1, 1), slice(None)])
@pytest.mark.parametrize("value", [[1, 2], [[7, 8], [9, 10]], [], np.arange(3.0), list(range(8))])
def test_parts_of_flat_take_values_in_c_order_cyclically(index, value):
    a = np.arange(6).reshape(2, 3)
    x = mt.array(a, chunk_size=2)
    x.flat[index] = value
    a.flat[index] = value
    assert np.array_equal(x.fetch(), a)


def test_copyto_into_an_array_refuses_a_number_that_does_not_fit():
    with pytest.raises(OverflowError):
        mt.copyto(np.zeros(3, "i1"), 300)


def test_putmask_casts_a_scalar_of_a_tensor_as_numpys_scalar():
    a, numbers = np.arange(4, dtype="f4"), np.arange(3, dtype="i4")
    x = mt.array(a, chunk_size=2)
    mt.putmask(x, x > 1, mt.array(numbers)[2])
    np.putmask(a, a > 1, numbers[2])
    assert x.fetch().tolist() == a.tolist()
