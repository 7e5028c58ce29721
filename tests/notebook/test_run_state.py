"""The fold of events to what the notebook shows."""

import json
from base64 import b64decode

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.model.status import JobState
from jmars.model.status import OperandState as S
from jmars.notebook.run_state import RunState
from jmars.notebook.tab_states import CellFacts, MemoryState
from jmars.notebook.view import TRAITS
from tests.notebook.events_for_tests import Log, graph_built, started, u32


def run_of(log, **settings):
    run = RunState(**settings)
    run.follow("job-1")
    run.fold(log.events)
    return run


def test_chunks_that_the_cluster_keeps_count_as_finished():
    log = Log()
    log.add("JobSubmitted", name="")
    log.add("GraphBuilt", **graph_built(4, group_program=u32([0xFFFFFFFF, 3])))  # only the sum has a program
    run = run_of(log)
    assert run.snap(0)["counts"][:5] == [1, 0, 0, 4, 0]
    run.fold(log.moved(S.FREED, [0, 1]).moved(S.FINISHED, [4]).events)
    assert run.snap(0)["counts"][:5] == [0, 0, 0, 3, 2]


@given(st.lists(st.tuples(st.integers(0, 8), st.lists(st.integers(0, 9)), st.integers(-1, 3))))
def test_counts_always_sum_to_the_operands(moves):
    log = started(n_chunks=4)
    for state, ids, worker in moves:
        log.moved(state, ids, worker)
    run = run_of(log)
    table = run.job.table
    assert sum(run.snap(0)["counts"]) == 5
    assert run.snap(0)["counts"] == np.bincount(table.states, minlength=9).tolist()
    assert table.stage_counts.sum(1).tolist() == [4, 4, 1]
    for stage, members in enumerate([[0, 1, 2, 3], [0, 1, 2, 3], [4]]):
        assert table.stage_counts[stage].tolist() == np.bincount(table.states[members], minlength=9).tolist()


def test_an_operand_takes_the_operands_fused_into_it_along():
    run = run_of(started(4).moved(S.RUNNING, [0, 1], worker=1))
    rows = run.picture(0)["stages"]
    assert [row[S.RUNNING] for row in rows] == [2, 2, 0]


def test_a_job_of_stages_shows_the_newest_graph_and_counts_all_operands():
    log = started(4).moved(S.FINISHED, range(5))
    log.add("GraphBuilt", 0.1, **graph_built(2), stage_number=2)
    run = run_of(log.moved(S.RUNNING, [0]))
    snap = run.snap(0)
    assert (snap["n"], sum(snap["counts"])) == (8, 8)
    assert (snap["counts"][S.FINISHED], snap["counts"][S.RUNNING]) == (5, 1)
    graph = run.picture(0)["graph"]
    assert (graph["stage_number"], graph["n_after"]) == (2, 3)
    again = run_of(log.add("GraphBuilt", 0.1, **graph_built(2), stage_number=2))  # told again to who missed some
    assert again.snap(0)["n"] == 8


def test_events_seen_before_change_nothing():
    log = started(4).moved(S.READY, [0, 1, 2, 3])
    run = run_of(log)
    before = run.picture(2000.0), dict(run.revision)
    run.fold(log.events)
    assert (run.picture(2000.0), run.revision) == before


def test_events_of_another_job_change_nothing():
    log = started(4)
    log.add("JobMoved", 1.0, "job-2", state="failed", error="other", elapsed=1.0)
    assert run_of(log).snap(0)["state"] == "running"


def test_pruned_operands_belong_to_no_box():
    group = np.array([0, 1, 2, 3, 0, 1, 2, 3, 4], np.int64)
    group[0] = 0xFFFFFFFF
    log = started(4)
    log.events[2][4] = graph_built(4, before_group=u32(group))
    picture = run_of(log).picture(0)
    assert picture["graph"]["n_pruned"] == 1
    assert picture["graph"]["group"][0] == -1
    assert sum(picture["stages"][0]) == 3


def test_a_graph_without_operands_is_drawn_as_nothing():
    log = started(4)
    log.events[2][4] = {name: type(value)() for name, value in graph_built(4).items()}
    graph = run_of(log).picture(0)["graph"]
    assert (graph["stages"], graph["before"]["n"], graph["after"]["n"]) == ([], 0, 0)


def test_above_1500_operands_a_box_is_a_stage():
    run = run_of(started(1000).moved(S.READY, range(1000)).moved(S.FINISHED, range(10), worker=0))
    picture = run.picture(0)
    assert picture["graph"]["aggregated"]
    assert picture["graph"]["before"]["labels"] == ["rand", "add", "sum"]
    assert picture["graph"]["after"]["labels"] == ["rand+add", "sum"]
    counts = np.frombuffer(picture["operand_states"], "<u4").reshape(5, 9)
    assert counts[:, S.FINISHED].tolist() == [10, 10, 0, 10, 0]
    assert counts.sum(1).tolist() == [1000, 1000, 1, 1000, 1]
    assert picture["operand_workers"] == b""


def test_a_stage_of_a_large_graph_opens_to_its_operands():
    run = run_of(started(1000).moved(S.FINISHED, range(10), worker=1).moved(S.RUNNING, [11], worker=0))
    picture = run.picture(0)
    assert picture["graph"]["marks"] == [1000, 1000, 1, 1000, 1]
    states, workers = np.frombuffer(picture["operand_marks"], np.uint8).reshape(2, 3002)
    for of_box in (slice(0, 1000), slice(1000, 2000), slice(2001, 3001)):  # rand, add, and what they fused to
        assert np.flatnonzero(states[of_box] == S.FINISHED).tolist() == list(range(10))
        assert np.flatnonzero(states[of_box] == S.RUNNING).tolist() == [11]
        assert workers[of_box][:4].tolist() == [2, 2, 2, 2]
        assert workers[of_box][11:14].tolist() == [1, 1, 2]  # who runs it, else whom it was assigned to first
    assert run_of(started(4).moved(S.READY, [0])).picture(0)["operand_marks"] == b""


def test_many_stages_share_rows():
    n = 2000
    names = [[f"add {i}", "<cell>", i, "", 1] for i in range(n)]
    log = started(4)
    log.events[2][4] = graph_built(4) | {
        "stages": names,
        "n_before": n,
        "n_after": n,
        "before_stage": u32(range(n)),
        "before_group": u32(range(n)),
        "after_group": u32(range(n)),
        "group_labels": [f"add {i}" for i in range(n)],
        "stage_edges": [[i, i + 1] for i in range(n - 1)],
        "group_edges": [[i, i + 1] for i in range(n - 1)],
    }
    picture = run_of(log).picture(0)
    assert picture["graph"]["before"]["n"] == len(picture["stages"]) == len(picture["graph"]["stages"]) == 300
    assert sum(map(sum, picture["stages"])) == n
    assert picture["graph"]["before"]["labels"][0] == "add 0 and 6 more"
    assert len(picture["operand_states"]) <= 32 * 1024


@pytest.mark.parametrize("n", [20, 2000])
def test_functions_called_on_one_line_share_a_row(n):
    names = [[("read", "count")[i % 2], "<cell>", 2, "tree.compute()", 1] for i in range(n)]
    log = started(4)
    log.events[2][4] = graph_built(4) | {
        "stages": [*names, ["count", "<cell>", 3, "one.compute()", 1]],
        "n_before": n + 1,
        "n_after": n + 1,
        "before_src": u32([]),
        "before_dst": u32([]),
        "before_stage": u32(range(n + 1)),
        "before_group": u32(range(n + 1)),
        "after_group": u32(range(n + 1)),
        "after_labels": ["count"] * (n + 1),
        "group_labels": [name for name, *_ in names] + ["count"],
        "stage_edges": [[i, i + 1] for i in range(n - 1)],
        "group_edges": [[i, i + 1] for i in range(n - 1)],
    }
    picture = run_of(log.moved(S.FINISHED, [0, n])).picture(0)
    graph = picture["graph"]
    assert [(row["name"], row["line"], row["n"]) for row in graph["stages"]] == [
        ("read", 2, n // 2),
        ("count", 2, n // 2),
        ("count", 3, 1),
    ]
    assert [row[S.FINISHED] for row in picture["stages"]] == [1, 0, 1]
    if graph["aggregated"]:
        assert (graph["before"]["labels"], graph["after"]["labels"]) == (["read", "count", "count"], ["read", "count"])
        assert graph["after"]["size"] == [n // 2, n // 2 + 1]


def test_hostile_names_are_cut_and_carry_no_control_characters():
    log = started(4)
    log.events[2][4]["stages"][0] = ["a\x00\u202e" + "x" * 10**6, "f", 1, "<img onerror=alert(1)>", 4]
    stage = run_of(log).picture(0)["graph"]["stages"][0]
    assert len(stage["name"]) <= 160
    assert stage["name"].isprintable()
    assert stage["text"] == "<img onerror=alert(1)>"  # the page writes it as text, never as HTML


def test_a_cell_of_several_jobs_keeps_a_line_for_each():
    run = RunState(open=True, attached=True)
    run.follow("job-1", "first")
    log = started(4).add("JobMoved", 1.0, state="succeeded", error=None, elapsed=1.2)
    run.fold(log.events)
    assert run.snap(log.time)["state"] == "running"  # the cell goes on
    run.follow("job-2", "second")
    log.job = "job-2"
    log.add("JobSubmitted", 0.5, name="second").add("JobMoved", 0.5, state="succeeded", error=None, elapsed=0.5)
    run.fold(log.events[4:])
    run.close()
    snap = run.snap(log.time + 100)
    assert [(part["name"], part["state"], part["n"]) for part in snap["parts"]] == [
        ("cell 1", "succeeded", 5),
        ("second", "succeeded", 0),
    ]
    assert snap["state"] == "succeeded"
    assert not snap["live"]
    assert snap["elapsed"] == 2.2  # from the first submission to the last end


def test_the_view_of_a_cell_counts_from_its_first_moment_to_its_end():
    log = started(4).memory(10, 100).add("JobMoved", 1.0, state="succeeded", error=None, elapsed=1.2)
    run = run_of(log, open=True, cell=CellFacts("cell-1", 7, log.events[0][1] - 5.0))
    run.at(3)
    assert run.snap(log.time)["line"] == 3
    run.close(JobState.SUCCEEDED, log.time + 2.0)
    snap = run.snap(log.time + 100.0)
    assert (snap["elapsed"], snap["line"]) == (8.3, 0)
    assert run.picture(0)["series"]["t"] == [5.3]


def test_memory_is_kept_from_the_submission_on():
    log = started(4).memory(10, 100, 0).memory(20, 200, 5)
    series = run_of(log).picture(0)["series"]
    assert series["used"] == [10, 20]
    assert series["spilled"] == [0, 5]
    assert series["limit"] == 2**30
    assert series["t"] == [0.3, 0.4]


def test_memory_has_what_jmars_keeps_in_the_kernel_where_the_kernel_draws():
    kept = [70_000]
    run = run_of(started(4).memory(10, 100), memory=MemoryState(lambda: kept[0]))
    assert run.picture(0)["series"]["kernel"] == 70_000
    kept[0] = 0  # at the end of the cell
    assert run.picture(0)["series"]["kernel"] == 0
    assert run_of(started(4).memory(10, 100)).picture(0)["series"]["kernel"] is None  # in the side bar


def test_workers_show_what_was_assigned_runs_and_is_done():
    log = started(4).moved(S.RUNNING, [0, 2], worker=0).moved(S.FINISHED, [1], worker=1).memory(1, 2)
    log.add("WorkerMoved", 0.1, "", worker=1, name="worker-1", pid=7, state="lost")
    first, second = run_of(log).picture(0)["workers"]
    assert (first["assigned"], first["running"], first["done"], first["state"], first["pid"]) == (2, 2, 0, "busy", 100)
    assert (second["assigned"], second["running"], second["done"], second["state"]) == (2, 0, 1, "lost")


def test_a_worker_whose_process_ended_is_told():
    log = started(4)
    for state in ("replaced", "idle", "replaced"):
        log.add("WorkerMoved", 0.1, "", worker=1, name="worker-1", pid=7, state=state)
    assert [row["replaced"] for row in run_of(log).picture(0)["workers"]] == [0, 2]
    log.add("JobMoved", 0.1, state="succeeded", error=None, elapsed=1.0)
    log.add("WorkerMoved", 0.1, "", worker=0, name="worker-0", pid=8, state="replaced")  # after the end
    assert [row["replaced"] for row in run_of(log).picture(0)["workers"]] == [0, 2]


@pytest.mark.parametrize(("state", "left"), [("succeeded", 77), ("failed", 0)])
def test_held_chunks_of_a_worker_are_told_in_mid_run_and_after_success(state, left):
    log = started(4).memory(100, 1000).add("JobMoved", 0.1, state=state, error=None, elapsed=1.0).memory(100, 1000)
    for event, size in zip(log.events[3::2], (77, 0), strict=True):
        event[4]["workers"] = [row | {"bytes": size} for row in event[4]["workers"]]
    assert [row["stored"] for row in run_of(log).picture(0)["workers"]] == [left, left]


def test_the_error_of_a_job_is_shown_as_the_client_explains_it():
    run = run_of(started(4).add("JobMoved", state="failed", error="raise memory_limit", elapsed=1.0))
    assert run.snap(0)["error"] == "raise memory_limit"
    run.explain("job-1", "%%jmars --memory 2GiB")
    assert run.snap(0)["error"] == "%%jmars --memory 2GiB"


def test_the_time_left_follows_the_pace():
    log = started(4).moved(S.RUNNING, [0, 1, 2, 3], worker=0).moved(S.FINISHED, [0, 1], worker=0, after=2.0)
    assert run_of(log).snap(log.time)["eta"] == 3.0  # 2 s for 2 operands, 3 to go


@pytest.mark.parametrize(("outcome", "shown"), [("succeeded", "succeeded"), ("failed", "failed")])
def test_an_error_that_the_cell_caught_is_no_failure(outcome, shown):
    log = started(4).add("JobMoved", state="failed", error="singular matrix", elapsed=1.0)
    run = run_of(log, open=True, cell=CellFacts("cell-1", 7, log.events[0][1]))
    assert (run.snap(log.time)["state"], run.snap(log.time)["error"]) == ("running", None)
    run.close(JobState(outcome), log.time + 1.0)
    assert (run.snap(0)["state"], run.snap(0)["error"]) == (shown, None)  # a traceback below the view tells the error


def test_a_job_that_fails_after_its_cell_has_ended_is_a_failure():
    log = started(4)
    run = run_of(log, open=True, cell=CellFacts("cell-1", 7, log.events[0][1]))
    run.close(JobState.SUCCEEDED, log.time)
    run.fold(log.add("JobMoved", 1.0, state="failed", error="late", elapsed=2.0).events)
    assert (run.snap(0)["state"], run.snap(0)["error"]) == ("failed", "late")


def test_seconds_of_python_are_kept_by_line():
    run = RunState(open=True, cell=CellFacts("cell-1", 3, 1000.0, started=(2, 0.5)))
    for line, seconds in ((2, 0.25), (2, 0.5), (3, 0.0), (0, 1.0)):
        run.at(line, seconds)
    assert run.picture(1001.0)["kernel"] == [0.0, 0.75, 0.0]
    snap = run.snap(1001.0)
    assert (snap["n_started"], snap["started"], snap["line"]) == (2, 0.5, 0)


def test_no_time_left_is_told_before_a_fifth_is_done():
    log = started(9).moved(S.RUNNING, range(9), worker=0).add("Expected", 1.0, left=1300.0)
    assert run_of(log.moved(S.FINISHED, [0], worker=0)).snap(log.time)["eta"] is None
    assert run_of(log.moved(S.FINISHED, [1], worker=0)).snap(log.time)["eta"] is not None


def test_each_trait_is_that_field_of_the_picture():
    run = run_of(started(4).moved(S.RUNNING, [0], worker=0).memory(1, 2))
    assert {name: run.trait(name, 2000.0) for name in TRAITS} == run.picture(2000.0)
    empty = RunState()
    assert {name: empty.trait(name, 0.0) for name in TRAITS} == empty.picture(0.0)


def cell_of(jobs, chunks=4, **settings):
    """A cell of several jobs that have ended, one after the other."""
    run = RunState(**settings)
    measured = {"makespan": 0.5, "peak": 8, "spilled": 10, "moved": 0}
    for number in range(jobs):
        job, predicted = f"job-{number}", {"makespan": 0.25, "peak": [8, 8], "spilled": 0, "moved": 0, "tried": []}
        log = Log(job, 1000.0 + number).add("JobSubmitted", name="In [91]")
        log.add("GraphBuilt", 0.1, **graph_built(chunks), predicted=predicted if number % 2 else None)
        log.moved(S.RUNNING, range(chunks + 1), 0).moved(S.FINISHED, range(chunks + 1), 0)
        log.add("JobMoved", 0.1, state="succeeded", error=None, elapsed=0.4, measured=measured)
        for event in log.events:
            event[0] += 100 * number
        run.follow(job)
        run.fold(log.events)
    return run


def test_the_header_adds_up_all_jobs_of_the_cell_and_the_list_is_bounded():
    run = cell_of(70)
    snap = run.snap(5000.0)
    assert snap["totals"] == {"jobs": 70, "spilled": 700, "read": 0, "to_read": 0}
    assert (snap["n"], snap["counts"][S.FINISHED]) == (350, 350)
    assert snap["elapsed"] == 69.4
    assert [part["number"] for part in snap["parts"]] == list(range(21, 71))
    assert snap["parts"][-1] | {"elapsed": 0} == {
        "number": 70,
        "job": "job-69",
        "name": "In [91]",
        "line": 3,
        "text": "b.sum()",
        "state": "succeeded",
        "n": 5,
        "elapsed": 0,
        "spilled": 10,
    }


def test_graphs_of_the_last_jobs_are_kept_as_far_as_they_are_small():
    run = cell_of(30)
    kept = run.trait("earlier", 5000.0)
    assert [one["job"] for one in kept] == [f"job-{number}" for number in range(28, 8, -1)]
    assert kept[0]["graph"]["job"] == "job-28" and kept[0]["lanes"] is None
    assert b64decode(kept[0]["operand_states"]) == bytes([S.FINISHED] * 5)
    assert run.picture(5000.0)["graph"]["job"] == "job-29"
    many = cell_of(4, chunks=3000).trait("earlier", 5000.0)
    assert [one["job"] for one in many] == ["job-2", "job-1"]
    large = cell_of(12, chunks=600).trait("earlier", 5000.0)
    assert 0 < len(large) < 11 and len(json.dumps(large)) < 160_000


def test_a_scheduler_that_ended_is_told_under_a_running_job() -> None:
    state = RunState()
    state.follow("job-1")
    said = ["job-1", "SchedulerMoved"]
    moves = [
        [1, 0.0, "JobSubmitted", "job-1", {"name": "sum"}],
        [2, 0.0, "JobMoved", "job-1", {"state": "running", "error": None, "elapsed": 0.0}],
        [3, 1.0, said[1], "", {"state": "shards taken over", "pid": 7, "name": "scheduler-1", "why": "it ended"}],
    ]
    for event in moves:
        state.fold([event])
    assert "scheduler-1 has ended; scheduler-0 goes on" in state.snap(2.0)["why"]
    state.fold([[4, 2.0, said[1], "", {"state": "restarted", "pid": 8, "name": "scheduler-0"}]])
    assert "process 8 goes on with the job" in state.snap(2.0)["why"]
    state.fold([[5, 3.0, said[1], "", {"state": "restarted", "pid": 9, "name": "scheduler-1"}]])
    assert "process 8" in state.snap(3.0)["why"], "that one is of no importance to the job"


MOVES = st.tuples(st.integers(0, 9), st.lists(st.integers(0, 6)), st.integers(-1, 3))
TIMES = st.tuples(st.lists(st.integers(0, 5), min_size=1), st.integers(0, 3), st.integers(0, 9))


@given(st.lists(MOVES | TIMES, max_size=30), st.booleans())
def test_events_folded_together_show_what_they_show_one_by_one(steps, large):
    log = started(1000 if large else 4)
    for step in steps:
        if isinstance(step[0], int):
            log.moved(*step)
        else:
            ids, worker, took = step
            micros = [u32([500_000 * took] * len(ids)), b"", u32([250_000] * len(ids)), b""]
            log.add("OperandsTimed", 0.5, ids=u32(ids), worker=worker, microseconds=micros, backends=[])
    together, one_by_one = run_of(log), RunState()
    one_by_one.follow("job-1")
    for event in log.events:
        one_by_one.fold([event])
        one_by_one.picture(0)
    assert one_by_one.picture(0) == together.picture(0)
    assert one_by_one.revision == together.revision


def test_workers_are_counted_by_their_operands():
    log = started(4).moved(S.RUNNING, [0], worker=1).moved(S.FREED, [1, 2], worker=0).moved(S.RUNNING, [3], worker=9)
    rows = run_of(log).picture(0)["workers"]
    assert [(row["assigned"], row["running"], row["done"]) for row in rows] == [(2, 0, 2), (2, 1, 0)]


def test_a_graph_without_stages_counts_its_operands_in_one_row():
    log = Log().add("JobSubmitted", 0.0, name="cell").add("GraphBuilt", 0.1, **(graph_built(2) | {"stages": []}))
    run = run_of(log.moved(S.RUNNING, [0], worker=0))
    assert [sum(row) for row in run.picture(0)["stages"]] == [5]
    assert run.lines.costs()[0, 6:].sum() == 5
