"""How far predictions were off, kept between sessions."""

import json
import math

import numpy as np
import pytest

from jmars.plan import Accuracy, Profile
from jmars.plan.costs import KEPT


def run(seen, predicted, measured, peak=(100, 100)):
    seen.observe({"makespan": predicted, "peak": [50, peak[0]]}, {"makespan": measured, "peak": peak[1]})


def test_nothing_is_said_of_two_runs():
    seen = Accuracy()
    for _ in range(2):
        run(seen, 1.0, 2.0)
    assert seen.errors() == {"runs": 2, "makespan": None, "peak": None}
    assert seen.spread == 0.3


def test_the_median_is_told_and_the_spread_follows_the_ratios():
    seen = Accuracy()
    for measured in (0.5, 1.0, 2.0):
        run(seen, 1.0, measured, (100, np.int64(40)))
    assert seen.errors() == {"runs": 3, "makespan": 0.5, "peak": 0.25}
    assert seen.spread == pytest.approx(math.sqrt(2 / 3) * math.log(2))


def test_a_peak_within_its_interval_is_no_error_however_wide_the_interval():
    seen = Accuracy()
    for peak in (60, 100, 999):
        seen.observe({"makespan": 1.0, "peak": [50, 1000]}, {"makespan": 1.0, "peak": peak})
    assert seen.errors()["peak"] == 0
    for peak in (40, 40, 40):  # below the interval
        seen.observe({"makespan": 1.0, "peak": [50, 1000]}, {"makespan": 1.0, "peak": peak})
    for peak in (2000, 2000, 2000):  # above
        seen.observe({"makespan": 1.0, "peak": [50, 1000]}, {"makespan": 1.0, "peak": peak})
    assert sorted(seen.rows)[0] == [1.0, 1.0, 50.0, 40.0] and seen.errors()["peak"] == 0.25


def test_short_runs_and_what_is_no_number_are_passed_over():
    seen = Accuracy()
    run(seen, 1.0, 0.001)
    run(seen, 1.0, math.nan)
    seen.observe({"makespan": "1"}, {"makespan": 1.0})
    seen.observe(None, {"makespan": 1.0})
    assert seen.rows == []


def test_it_is_kept_between_sessions_and_two_sessions_add_up(tmp_path):
    file = tmp_path / "costs.json"
    ours, theirs = Profile(), Profile()
    run(ours.accuracy, 1.0, 1.5)
    run(theirs.accuracy, 1.0, 2.5)
    ours.save(file)
    theirs.save(file)
    ours.save(file)  # nothing new
    assert [row[1] for row in Profile.load(file).accuracy.rows] == [1.5, 2.5]
    found = json.loads(file.read_text())
    file.write_text(json.dumps(found | {"runs": [[1, 2], "x", [1, 2, 3, None], [1.0, 1.0, 1.0, 1.0]]}))
    assert len(Profile.load(file).accuracy.rows) == 1


def test_only_the_newest_runs_count():
    seen = Accuracy()
    for k in range(2 * KEPT):
        run(seen, 1.0, 1.0 + k)
    assert len(seen.rows) == KEPT
    assert seen.rows[-1][1] == 2 * KEPT


def test_a_profile_travels_as_data_with_tuples_for_lists():
    profile = Profile()
    profile.observe("add", 1000, 0.25)
    run(profile.accuracy, 1.0, 1.5)
    data = profile.as_data()
    data |= {"runs": tuple(map(tuple, data["runs"]))}
    there = Profile.of(data)
    assert there.seconds("add", 1000) == 0.25 and there.accuracy.rows == profile.accuracy.rows
