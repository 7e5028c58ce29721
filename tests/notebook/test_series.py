"""A bounded series keeps its span and its peaks."""

from hypothesis import given
from hypothesis import strategies as st

from jmars.notebook.tab_states import BoundedSeries


@given(st.lists(st.integers(0, 1000), max_size=400), st.integers(2, 9))
def test_it_is_bounded_and_keeps_first_time_and_peak(values, limit):
    series = BoundedSeries(limit)
    for t, value in enumerate(values):
        series.add(t, [value])
    assert len(series.times) == len(series.values) <= limit
    assert series.times == sorted(set(series.times))
    if values:
        assert series.times[0] == 0
        assert max(row[0] for row in series.values) == max(values)
        assert series.times[-1] > len(values) - 1 - series.stride
