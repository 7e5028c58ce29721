"""From events to frames: when, what, and the thread between."""

import json
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from jmars.errors import ClusterLostError
from jmars.model.status import JobState
from jmars.model.status import OperandState as S
from jmars.notebook import sampler
from jmars.notebook.run_state import RunState
from jmars.notebook.sampler import FRAME_LIMIT, FrameBuilder, FrameRate, Sampler, catch_up
from jmars.notebook.tab_states import CellFacts
from jmars.notebook.view import TRAITS
from tests.notebook.events_for_tests import started


def test_the_pace_is_fast_while_the_page_answers():
    pace = FrameRate()
    assert pace.interval(0.0) == 0.25  # nobody has answered yet
    pace.sent(1, 0.0)
    pace.answered(1, hidden=False, now=0.2)
    assert pace.interval(0.3) == 0.1
    assert pace.interval(10.0) == 0.25  # no answers for long: perhaps they cannot come


def test_the_pace_slows_for_late_answers_and_hidden_pages():
    pace = FrameRate()
    pace.sent(1, 0.0)
    pace.answered(1, hidden=False, now=2.0)
    assert pace.interval(2.1) == 1.0
    pace.sent(2, 2.2)
    pace.answered(2, hidden=False, now=2.3)
    assert pace.interval(2.4) == 0.1
    pace.answered(2, hidden=True, now=2.5)
    assert pace.interval(2.6) == 1.0


def test_a_large_graph_gets_five_frames_in_two_seconds():
    pace = FrameRate()
    pace.sent(1, 0.0)
    pace.answered(1, hidden=False, now=0.1)
    assert (pace.interval(0.2), pace.interval(0.2, large=True)) == (0.1, 0.4)


def test_large_traits_rest_in_proportion_to_their_size():
    run, frames, log = RunState(), FrameBuilder(), started(4)
    run.follow("job-1")
    run.fold(log.events)
    frames.frame(run, now=0.0)
    run.trait = lambda name, now: b"x" * (32_000 if name == "lanes" else 10)  # two seconds of its rate
    sent = []
    for now in np.arange(0.25, 6.1, 0.25):
        run.revision["lanes"] += 1
        run.revision["workers"] += 1
        sent += [(name, now) for name in frames.frame(run, now) or ()]
    assert [now for name, now in sent if name == "lanes"] == [0.5, 2.5, 4.5]
    assert len([now for name, now in sent if name == "workers"]) >= 11


def test_unanswered_frames_are_forgotten():
    pace = FrameRate()
    for number in range(1000):
        pace.sent(number, float(number))
    assert len(pace.out) <= 100


def test_the_first_frame_is_the_whole_picture_and_the_next_what_changed():
    run, frames, log = RunState(), FrameBuilder(), started(4)
    run.follow("job-1")
    run.fold(log.events)
    assert set(frames.frame(run, now=0.0) or ()) == set(TRAITS)
    assert frames.frame(run, now=0.05) is None
    run.fold(log.moved(S.READY, [0, 1, 2, 3]).events)
    assert set(frames.frame(run, now=0.1) or ()) == {"snap", "operand_states", "operand_workers"}
    assert set(frames.frame(run, now=0.5) or ()) == {
        "stages",
        "line_costs",
        "workers",
        "lanes",
    }  # tables come less often
    assert set(frames.frame(run, now=1.2) or ()) == {"snap"}  # the time goes on


def test_a_frame_is_bounded_and_what_is_left_comes_next():
    run, frames, log = RunState(), FrameBuilder(), started(4)
    n = 60_000
    graph = log.events[2][4]
    graph |= {
        "stages": [[f"stage {i}", "<cell>", i, "", 20] for i in range(300)],
        "group_labels": [f"label {i}" for i in range(300)],
        "n_before": n,
        "n_after": n,
        "before_stage": (np.arange(n) % 300).astype("<u4").tobytes(),
        "before_group": np.arange(n).astype("<u4").tobytes(),
        "after_group": (np.arange(n) % 300).astype("<u4").tobytes(),
    }
    log.moved(S.READY, range(n))
    for _ in range(300):
        log.memory(2**33, 2**34, 2**35)
    run.follow("job-1")
    run.fold(log.events)
    seen, now = set(), 0.0
    while seen < set(TRAITS) and now < 5:
        frame = frames.frame(run, now) or {}
        seen |= set(frame)
        sizes = {
            k: len(v) if isinstance(v, bytes) else len(json.dumps(v))
            for k, v in frame.items()
            if k not in ("graph", "code")
        }
        assert sum(sizes.values()) <= FRAME_LIMIT
        now += 0.1
    assert seen == set(TRAITS)


def test_the_thread_shows_until_the_job_has_ended():
    log = started(4).moved(S.FINISHED, range(5), 0).add("JobMoved", 0.1, state="succeeded", error=None, elapsed=1.0)
    reads, frames, ends = [], [], []

    def read(since, job):  # a part of the log at a time
        reads.append((since, job))
        events = [event for event in log.events if event[0] > since][:2]
        return events, events[-1][0] if events else since

    sampler = Sampler(read, frames.append, RunState(), ends.append)
    sampler.follow("job-1")
    for _ in range(10):
        sampler._wake.set()
    assert sampler.done.wait(60)
    assert reads[:2] == [(0, "job-1"), (2, "job-1")]
    assert frames[-1]["snap"]["state"] == ends[0]["snap"]["state"] == "succeeded"
    assert frames[-1]["snap"]["counts"][S.FINISHED] == 5
    assert [frame["frame"] for frame in frames] == list(range(1, len(frames) + 1))


def test_the_next_job_of_a_cell_is_read_from_its_first_event():
    log = started(4).add("JobMoved", 0.1, state="succeeded", error=None, elapsed=1.0)
    log.job = "job-2"
    log.add("JobSubmitted", name="second").add("JobMoved", 0.1, state="succeeded", error=None, elapsed=0.1)
    sampler = Sampler(lambda since, job: _part(log, since, job), lambda frame: None, RunState(open=True))
    sampler.follow("job-1")
    sampler.follow("job-2")
    sampler.close()
    assert sampler.done.wait(60)
    parts = sampler.picture()["snap"]["parts"]
    assert [(part["name"], part["state"]) for part in parts] == [("cell 1", "succeeded"), ("second", "succeeded")]


def test_catching_up_reads_part_by_part_until_nothing_is_left():
    log = started(4).memory(1, 2).moved(S.FINISHED, range(5), 0)
    log.job = "job-2"
    log.add("JobSubmitted", name="second").memory(3, 4).add("JobMoved", state="running", error=None, elapsed=0.1)
    run = RunState()
    for job in ("job-1", "job-2"):
        run.follow(job)
        catch_up(lambda since, job: _part(log, since, job), run)
    assert [part["state"] for part in run.snap(log.time)["parts"]] == ["running", "running"]
    assert run.snap(log.time)["name"] == "second"
    catch_up(lambda since, job: _part(log, since, job), RunState())  # nothing is followed


def test_a_lost_cluster_ends_the_thread_and_is_shown():
    def read(since, job):
        raise ClusterLostError("the cluster has gone; start another")

    frames = []
    sampler = Sampler(read, frames.append, RunState(open=True))
    sampler.follow("job-1")
    assert sampler.done.wait(60)
    assert frames[-1]["snap"]["error"] == "the cluster has gone; start another"


def test_a_cell_without_any_job_ends_too():
    sampler = Sampler(lambda since, job: ([], since), lambda frame: None, RunState(open=True))
    sampler.close()
    assert sampler.done.wait(60)


def test_a_cell_of_milliseconds_without_a_job_shows_no_frame():
    frames, ends = [], []
    sampler = Sampler(
        lambda since, job: ([], since),
        frames.append,
        RunState(open=True),
        ends.append,
        on_begin=lambda: frames.append("begun"),
    )
    sampler.begin()
    sampler.close()
    assert sampler.done.wait(60)
    assert (frames, ends) == ([], [])


def test_a_cell_without_a_job_shows_the_line_that_runs_and_how_it_ended():
    frames, ends, shown = [], [], threading.Event()

    def show(frame):
        frames.append(frame)
        shown.set()

    run = RunState(open=True, attached=True, cell=CellFacts("cell-1", 7, time.time()))
    begun = []
    sampler = Sampler(
        lambda since, job: ([], since),
        show,
        run,
        ends.append,
        cell=SimpleNamespace(line=lambda: 3, waits=False),
        on_begin=lambda: begun.append(len(frames)),
    )
    sampler.begin()
    assert shown.wait(60)
    sampler.close(JobState.CANCELLED)
    assert sampler.done.wait(60)
    snap = frames[0]["snap"]
    assert (snap["line"], snap["lines"], snap["state"], frames[0]["job_id"]) == (3, 7, "running", "cell-1")
    assert (ends[0]["snap"]["line"], ends[0]["snap"]["state"], ends[0]["snap"]["live"]) == (0, "cancelled", False)
    assert ends[0]["snap"]["elapsed"] >= 0.2
    assert ends[0]["kernel"][2] == pytest.approx(ends[0]["snap"]["elapsed"], abs=0.2) and ends[0]["kernel"][3] == 0
    assert begun == [0]  # before the first frame


def _part(log, since, job):
    events = [event for event in log.events if event[0] > since and event[3] in ("", job)][:2]
    return events, events[-1][0] if events else max(since, len(log.events))


def test_a_long_job_gets_advice_once_and_a_failure_ends_nothing():
    for answer in ([("workers 4", 0.5)], ZeroDivisionError()):
        log, frames, asked = started(4), [], []  # submitted in 1970

        def advise(job, answer=answer, log=log, asked=asked):
            asked.append(job)
            log.add("JobMoved", state="succeeded", error=None, elapsed=5.0)  # meanwhile
            if isinstance(answer, Exception):
                raise answer
            return answer

        def read(since, job, log=log):
            return log.events[since:], len(log.events)

        sampler = Sampler(read, frames.append, RunState(), None, advise)
        sampler.follow("job-1")
        assert sampler.done.wait(timeout=60)
        assert asked == ["job-1"]
        plan = sampler.picture()["plan"]
        assert plan is None if isinstance(answer, Exception) else plan["advice"] == ["workers 4"]
        assert frames[-1]["snap"]["state"] == "succeeded"


def test_the_view_goes_on_while_advice_is_made():
    log, seen = started(4), threading.Event()

    def advise(job):
        log.moved(S.RUNNING, [0])
        seen.wait(60)
        log.add("JobMoved", state="succeeded", error=None, elapsed=5.0)
        return [("workers 4", 0.5)]

    def show(frame):
        if "snap" in frame and frame["snap"]["counts"][S.RUNNING]:
            seen.set()

    sampler = Sampler(lambda since, job: (log.events[since:], len(log.events)), show, RunState(), None, advise)
    sampler.follow("job-1")
    assert sampler.done.wait(timeout=60)
    assert seen.is_set()
    assert sampler.picture()["plan"]["advice"] == ["workers 4"]


def test_a_job_of_many_operands_is_advised_later(monkeypatch):
    for seconds, times in ((1e-3, 1), (1e9, 0)):  # for each operand; the job was submitted in 1970
        monkeypatch.setattr(sampler, "_PER_OPERAND", seconds)
        log, asked = started(4), []

        def read(since, job, log=log):
            if since:  # the events of the beginning are read
                log.add("JobMoved", state="succeeded", error=None, elapsed=5.0)
            return log.events[since:], len(log.events)

        one = Sampler(read, lambda _: None, RunState(), None, lambda job, asked=asked: asked.append(job) or [])
        one.follow("job-1")
        assert one.done.wait(timeout=60)
        assert len(asked) == times


def test_a_short_job_is_not_advised():
    log = started(4).add("JobMoved", state="succeeded", error=None, elapsed=0.3)
    read = lambda since, job: (log.events[since:], len(log.events))  # noqa: E731
    sampler = Sampler(read, lambda _: None, RunState(), None, lambda _: 1 / 0)
    sampler.follow("job-1")
    assert sampler.done.wait(timeout=60)
    assert sampler.picture()["plan"] is None
