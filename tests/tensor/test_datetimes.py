"""Times: ranges of them, business days, times as text, and what is summed, averaged and put in order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from tests.tensor.cut import cut, same, shapes


@pytest.mark.parametrize(
    "given",
    [
        (np.datetime64("2000-01"), np.datetime64("2000-03-05")),
        (np.datetime64("2000-01-01"), np.datetime64("2000-01-03"), np.timedelta64(5, "h")),
        (np.datetime64("2000-01-03"), np.datetime64("2000-01-01"), np.timedelta64(-5, "h")),
        (np.datetime64("2000-01-03"), np.datetime64("2000-01-01")),
        (np.datetime64("2000-01-01"), 5),
        (np.datetime64("2000-01-01"), np.timedelta64(5, "D"), 2),
        (np.timedelta64(5, "D"),),
        (np.timedelta64(1, "h"), np.timedelta64(2, "D"), np.timedelta64(90, "m")),
        (np.datetime64("2000"), np.datetime64("2001-01"), np.timedelta64(2, "M")),
        (np.datetime64("2000-01-01", "ns"), np.datetime64("2000-01-05"), np.timedelta64(1, "D")),
        (np.datetime64("2000-01-01", "ns"), np.datetime64("2000-01-05"), 86400 * 10**9),
        (np.datetime64("2000-01-01", "ns"), 3, np.timedelta64(3, "h")),
    ],
)
def test_ranges_of_times(given):
    same(mt.arange(*given, chunk_size=3), np.arange(*given))


def test_ranges_of_times_with_a_dtype():
    same(mt.arange("2000-01", "2000-02", dtype="M8[D]", chunk_size=7), np.arange("2000-01", "2000-02", dtype="M8[D]"))
    days = np.datetime64("2000-01-01"), np.datetime64("2000-01-03")
    same(mt.arange(*days, dtype="M8[h]"), np.arange(*days, dtype="M8[h]"))
    daily = (*days, np.timedelta64(1, "D"), "M8[ns]")
    same(mt.arange(*daily), np.arange(*daily))
    with pytest.raises(TypeError, match="incompatible"):
        mt.arange(*days, np.timedelta64(1, "M"))
    with pytest.raises(ValueError, match="step cannot be zero"):
        mt.arange(*days, 0)


@settings(max_examples=30)
@given(shapes(1, 2, 6).filter(all), st.data())
def test_business_days_and_text(shape, data):
    a = np.random.default_rng(0).integers(0, 20000, shape).astype("M8[D]")
    x = data.draw(cut(a))
    same(np.is_busday(x), np.is_busday(a))
    same(np.busday_count(x, np.flip(x)), np.busday_count(a, np.flip(a)))
    same(np.busday_offset(x, 3, roll="forward"), np.busday_offset(a, 3, roll="forward"))
    same(np.datetime_as_string(x), np.datetime_as_string(a))
    same(mt.datetime_as_string(x, unit="M"), np.datetime_as_string(a, unit="M"))
    assert mt.busday_count("2024-01-01", "2024-02-01") == 23


def test_business_days_of_a_calendar_and_of_holidays_that_are_tensors():
    a = np.arange("2024-01-01", "2024-03-01", dtype="M8[D]")
    x, free = mt.asarray(a, chunk_size=13), np.array(["2024-01-01", "2024-02-06"], "M8[D]")
    calendar = mt.busdaycalendar("1111110", mt.asarray(free))
    same(mt.is_busday(x, busdaycal=calendar), np.is_busday(a, busdaycal=calendar))
    same(mt.is_busday(x, "1111110", mt.asarray(free)), np.is_busday(a, "1111110", free))
    same(mt.busday_count("2024-01-01", x, holidays=mt.asarray(free)), np.busday_count("2024-01-01", a, holidays=free))
    same(mt.busday_offset(x, 1, "forward", [1, 1, 1, 1, 1, 0, 0]), np.busday_offset(a, 1, "forward", [1] * 5 + [0] * 2))
    with pytest.raises(ValueError, match="Cannot supply both"):
        mt.is_busday(x, holidays=free, busdaycal=calendar)


@settings(max_examples=30)
@given(shapes(1, 2, 6).filter(all), st.sampled_from(["s", "D", "ns"]), st.booleans(), st.data())
def test_durations_are_summed_averaged_and_ordered(shape, unit, with_nat, data):
    a = np.random.default_rng(0).integers(-9, 99, shape).astype(f"m8[{unit}]")
    if with_nat:
        a.flat[0] = "NaT"
    x = data.draw(cut(a))
    for name in ("sum", "mean", "min", "max", "ptp", "cumsum", "sort", "argsort", "median", "unique", "abs", "sign"):
        options = {"kind": "stable"} if name == "argsort" else {}
        same(getattr(mt, name)(x, **options), getattr(np, name)(a, **options))
    same(x / np.timedelta64(1, "h"), a / np.timedelta64(1, "h"))
    same(np.datetime64("2000-01-01") + x, np.datetime64("2000-01-01") + a)
    for name in ("prod", "var", "sqrt"):
        with pytest.raises(TypeError):
            getattr(mt, name)(x)
