"""Dtypes that a user leaves partly open: text without a length, times without a unit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import UnsupportedError

Array = np.ndarray[Any, Any]

VALUES: dict[str, Array] = {
    "floats": np.array([1.5, -2e-300, np.nan]),
    "halves": np.array([1.5, 0.1], "f2"),
    "ints": np.array([1, -(2**60)]),
    "bytes": np.array([1, 255], "u1"),
    "bools": np.array([True, False]),
    "complex": np.array([1 + 2.5j, -1j]),
    "days": np.array(["2020-01-01", "NaT"], "M8[D]"),
    "seconds": np.array(["2020-01-01", "1969-12-31T23:59:59"], "M8[s]"),
    "durations": np.array([5, -7], "m8[ms]"),
    "text": np.array(["ab", "", "1.5"]),
    "byte text": np.array([b"ab", b"c"]),
    "none": np.zeros(0),
}


def assert_same(ours: Any, theirs: Any) -> None:
    value = ours.fetch() if isinstance(ours, mt.Tensor) else ours
    assert np.asarray(value).dtype == np.asarray(theirs).dtype
    np.testing.assert_array_equal(value, theirs)


@pytest.mark.parametrize("kind", [str, "U", "S", bytes, "<U0", np.str_])
@pytest.mark.parametrize("name", VALUES)
def test_text_without_a_length_has_the_width_of_its_source(name: str, kind: Any) -> None:
    value = VALUES[name]
    x = mt.array(value, chunk_size=1)
    wanted = value.astype(kind)
    for made in (x.astype(kind), mt.asarray(x, dtype=kind), mt.array(x, kind), mt.concatenate([x], dtype=kind,
                 casting="unsafe")):  # fmt: skip
        assert made.dtype == wanted.dtype
        assert_same(made, wanted)


@pytest.mark.parametrize("name", VALUES)
def test_text_of_numbers_goes_on_into_where_and_strings(name: str) -> None:
    value = VALUES[name]
    x, text = mt.array(value, chunk_size=1), value.astype(str)
    assert_same(mt.where(x == x, x.astype(str), "none"), np.where(value == value, text, "none"))
    assert_same(mt.strings.add(x.astype(str), "!"), np.strings.add(text, "!"))
    assert_same(mt.unique(x.astype(str)), np.unique(text))


@pytest.mark.parametrize("kind", [str, "S"])
def test_new_text_without_a_length_has_one_character(kind: Any) -> None:
    x, like = mt.ones(2), np.ones(2)
    for ours, theirs in (
        (mt.zeros(3, kind), np.zeros(3, kind)),
        (mt.ones(3, kind), np.ones(3, kind)),
        (mt.full(3, "abc", dtype=kind), np.full(3, "abc", dtype=kind)),
        (mt.full(2, ["abc", "de"], dtype=kind), np.full(2, ["abc", "de"], dtype=kind)),
        (mt.full_like(x, 12345, dtype=kind), np.full_like(like, 12345, dtype=kind)),
        (mt.zeros_like(x, dtype=kind), np.zeros_like(like, dtype=kind)),
        (mt.eye(2, dtype=kind), np.eye(2, dtype=kind)),
        (mt.tri(2, dtype=kind), np.tri(2, dtype=kind)),
        (mt.linspace(0, 1, 3, dtype=kind), np.linspace(0, 1, 3, dtype=kind)),
    ):
        assert_same(ours, theirs)
    assert mt.empty(0, kind).dtype == np.empty(0, kind).dtype


def test_eye_of_text_and_times_has_ones_of_that_dtype() -> None:
    for kind in ("U3", "S2", "m8[s]", "M8[D]"):
        assert_same(mt.eye(3, k=1, dtype=kind), np.eye(3, k=1, dtype=kind))


def test_parts_of_a_list_are_cast_before_they_are_joined() -> None:
    x, i = np.array([1.5, 2.0]), np.array([2**53 + 1, 7])
    assert_same(mt.array([mt.array(x), mt.array(i)], dtype=str), np.array([x, i], dtype=str))
    assert_same(mt.array([mt.array(x), mt.array(i)], dtype=int), np.array([x, i], dtype=int))


def test_times_without_a_unit_keep_the_unit_of_their_source() -> None:
    days = np.array(["2020-01-01"], "M8[D]")
    assert_same(mt.array(days).astype("M8"), days.astype("M8"))
    assert_same(mt.array(days - days).astype("m8"), (days - days).astype("m8"))


def test_times_read_from_text_need_a_unit() -> None:
    text = mt.array(np.array(["2020-01-01", "2020-01-01T12"]))
    with pytest.raises(UnsupportedError, match="give the unit"):
        text.astype("M8")
    assert text.astype("M8[h]").fetch()[1] == np.datetime64("2020-01-01T12")


def test_array_of_text_without_axes_keeps_its_length_in_where() -> None:
    wide = np.array("ab", "U5")
    assert_same(mt.where(mt.array([True, False]), wide, "x"), np.where([True, False], wide, "x"))


def test_cast_to_text_obeys_the_casting_rule() -> None:
    for value in VALUES.values():
        for kind in ("U", "S", "U3"):
            for casting in ("no", "safe", "same_kind"):
                try:
                    wanted = value.astype(kind, casting=casting)  # type: ignore[call-overload]
                except TypeError as error:
                    with pytest.raises(TypeError) as ours:
                        mt.array(value).astype(kind, casting=casting)
                    assert str(ours.value) == str(error)
                else:
                    assert_same(mt.array(value).astype(kind, casting=casting), wanted)
