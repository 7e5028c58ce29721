import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jmars.model.timing import spans
from jmars.notebook.run_state import RunState
from jmars.notebook.tab_states import MAX_PIECES, LaneState
from tests.notebook.events_for_tests import Log, started, u32


def timed(log: Log, ids: list[int], worker: int, *took: list[int], after: float = 1.0) -> Log:
    return log.add("OperandsTimed", after, ids=u32(ids), worker=worker, microseconds=[u32(row) for row in took])


def lanes_of(log: Log) -> dict:
    run = RunState()
    run.follow("job-1")
    run.fold(log.events)
    return run.picture(0)["lanes"]


def test_an_operand_has_all_four_states_in_the_lane_of_its_worker():
    log = timed(started(4), [2], 1, [100_000], [200_000], [300_000], [50_000])
    found = lanes_of(log)
    (lane,) = found["lanes"]
    end = round(log.time - 1000.0, 4)
    assert (lane["worker"], lane["n"], lane["end"]) == (1, [1], [end])
    assert lane["begin"] == [round(end - 0.35, 4)]
    assert lane["took"] == [[0.1, 0.2, 0.3, 0.05]]
    assert found["labels"][lane["label"][0]] == "rand+add"


def test_operands_of_a_batch_follow_each_other_without_overlap():
    log = timed(started(4), [0, 1, 2], 0, [0] * 3, [0] * 3, [100_000, 200_000, 300_000], [0] * 3)
    (lane,) = lanes_of(log)["lanes"]
    assert lane["begin"][1:] == lane["end"][:-1]
    assert [round(end - begin, 3) for begin, end in zip(lane["begin"], lane["end"])] == [0.1, 0.2, 0.3]


def test_a_long_run_stays_small_and_its_shares_stay_true():
    log = started(4)
    for number in range(3_000):
        timed(log, [number % 4], number % 3, [10], [20], [700], [30], after=0.001)
    found = lanes_of(log)
    assert sum(len(lane["begin"]) for lane in found["lanes"]) <= MAX_PIECES
    assert len(json.dumps(found)) < 30_000
    for lane in found["lanes"]:
        assert sum(lane["n"]) == 1000
        assert np.allclose(np.sum(lane["took"], axis=0), [0.01, 0.02, 0.7, 0.03], rtol=0.05)
        sizes = lane["n"][:-1]
        assert max(sizes) <= 2 * min(sizes)  # as fine at the begin as at the end


def test_running_operands_are_an_open_piece_behind_the_last_one():
    log = started(4).moved(2, [0, 1], 0).moved(2, [2], 1, after=0.2)
    first, second = lanes_of(log)["lanes"]
    assert (first["begin"], first["open"]) == ([], {"begin": 0.3, "n": 2, "label": 1})
    assert second["open"] == {"begin": 0.5, "n": 1, "label": 1}
    timed(log, [0], 0, [], [], [900_000], []).moved(3, [0], 0, after=0)
    lane = lanes_of(log)["lanes"][0]
    assert lane["open"] == {"begin": lane["end"][0], "n": 1, "label": 1}
    log.add("JobMoved", 1.0, state="failed", error="it failed", elapsed=2.0)
    assert [lane["open"] for lane in lanes_of(log)["lanes"]] == [None]


def test_running_operands_of_different_kinds_have_no_common_label():
    log = started(4).moved(2, [0, 4], 1)
    (lane,) = lanes_of(log)["lanes"]
    assert lane["open"] == {"begin": 0.3, "n": 2, "label": 0}


def test_a_frame_of_lanes_is_shown_only_when_something_ran():
    assert lanes_of(started(4)) is None


@given(st.lists(st.tuples(*[st.integers(0, 10**6)] * 4), min_size=1, max_size=20), st.floats(0, 100))
def test_states_follow_each_other_and_the_last_operand_ends_with_the_event(rows, time):
    packed = [u32([row[k] for row in rows]) for k in range(4)]
    found = spans(time, {"ids": u32(range(len(rows))), "microseconds": packed})
    assert found[-1, 4] == time
    assert (np.diff(found[:, :5], axis=1) >= -1e-9).all()
    assert np.allclose(found[1:, 2], found[:-1, 4])
    assert np.allclose(np.diff(found[:, :5], axis=1), np.array(rows) * 1e-6)
    lanes = LaneState()
    lanes.add(0, found, 0.0, ["sin"] * len(found))
    assert sum(lanes.part({})["lanes"][0]["n"]) == len(rows)


def test_why_nothing_moves_is_shown_until_it_does():
    log = started(4).add("Stalled", 6.0, kind="memory", text="waits for memory", seconds=6.0, calm=False)
    run = RunState()
    run.follow("job-1")
    run.fold(log.events)
    snap = run.picture(0)["snap"]
    assert (snap["why"], snap["calm"]) == ("waits for memory", False)
    run.fold(log.add("Stalled", 1.0, kind="moves", text="", seconds=0.0, calm=True).events)
    assert run.picture(0)["snap"]["why"] == ""
    run.fold(log.add("Stalled", 6.0, kind="runs", text="runs: it", seconds=6.0, calm=True).events)
    run.fold(log.add("JobMoved", 1.0, state="succeeded", error=None, elapsed=1.0).events)
    assert run.picture(0)["snap"]["why"] == ""


def test_what_the_cluster_expects_is_counted_down():
    log = started(4).moved(2, [0, 1]).moved(3, [0]).add("Expected", 0.5, left=12.0)
    run = RunState()
    run.follow("job-1")
    run.fold(log.events)
    assert run.snap(log.time + 2)["eta"] == 10.0
    assert run.snap(log.time + 20)["eta"] == 0.0
