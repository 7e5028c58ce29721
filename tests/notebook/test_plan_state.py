"""What a job was predicted to cost, beside what it took."""

import math

import pytest

from jmars.notebook.run_state import RunState
from jmars.notebook.tab_states import PlanState
from tests.notebook.events_for_tests import graph_built, started

COSTS = {"makespan": 2.0, "peak": [10, 20], "spilled": 3, "moved": 4}
TOLD = COSTS | {"lower_bound": 1.5, "chosen": "eft 3, dfs", "tried": [["eft 3, dfs", 2.0, 20, 3, 4]]}


def test_nothing_is_shown_while_nothing_is_told():
    assert PlanState().part() is None
    run = RunState()
    assert run.picture(0.0)["plan"] is None
    run.follow("job-1")
    run.fold(started().events)  # a cluster that predicts nothing
    assert run.picture(0.0)["plan"] is None and run.trait("plan", 0.0) is None


def test_a_prediction_is_shown_first_and_the_measurement_at_the_end():
    run, log = RunState(), started()
    log.events[2][4]["predicted"] = TOLD
    run.follow("job-1")
    run.fold(log.events)
    before = run.revision["plan"]
    plan = run.picture(log.time)["plan"]
    assert plan["predicted"] == COSTS and plan["measured"] is None
    assert plan["chosen"] == "eft 3, dfs" and plan["lower_bound"] == 1.5
    assert plan["tried"] == [{"name": "eft 3, dfs", "makespan": 2.0, "peak": 20, "spilled": 3, "moved": 4}]
    run.fold(log.add("JobMoved", state="succeeded", error=None, elapsed=2.5, measured=COSTS | {"peak": 15}).events)
    assert run.trait("plan", log.time)["measured"] == COSTS | {"peak": [15, 15]}
    assert run.revision["plan"] > before


def test_stages_add_up_and_a_stage_that_is_told_twice_counts_once():
    run, log = RunState(), started()
    log.events[2][4].update(predicted=TOLD, stage_number=1)
    again = COSTS | {"makespan": 1.0, "peak": [50, 60], "chosen": "dfs", "lower_bound": 1.0, "tried": []}
    for _ in range(2):
        log.add("GraphBuilt", **graph_built(3), stage_number=2, predicted=again)
    run.follow("job-1")
    run.fold(log.events)
    plan = run.picture(log.time)["plan"]
    assert plan["predicted"] == {"makespan": 3.0, "peak": [50, 60], "spilled": 6, "moved": 8}
    assert (plan["stage"], plan["chosen"], plan["tried"], plan["lower_bound"]) == (2, "dfs", [], 2.5)


def test_advice_belongs_to_a_job():
    run = RunState()
    run.follow("job-1")
    run.advise("job-2", [("other", 1.0)])
    assert run.picture(0.0)["plan"] is None
    run.advise("job-1", [("workers 4", 1.0)])
    assert run.picture(0.0)["plan"]["advice"] == ["workers 4"]
    run.follow("job-2")
    assert run.picture(0.0)["plan"] is None


def test_advice_that_saves_less_than_the_prediction_error_is_not_told():
    plan = PlanState(advice=[("chunks: −6 % time", 0.06), ("workers: −60 % time", 0.6), ("memory", 1.0)])
    plan.built({"predicted": TOLD | {"makespan": 3.0}})
    assert len(plan.part()["advice"]) == 3
    plan.moved({"measured": TOLD | {"makespan": 6.0}})
    assert plan.part()["advice"] == ["workers: −60 % time", "memory"]


@pytest.mark.parametrize("odd", [None, "x", math.nan, math.inf, -1, {}, []])
def test_odd_values_become_zero(odd):
    plan = PlanState()
    told = dict.fromkeys(("makespan", "peak", "spilled", "moved", "lower_bound", "chosen"), odd)
    plan.built({"predicted": told | {"tried": [[odd] * 5, []]}})
    part = plan.part()
    assert part["predicted"] == {"makespan": 0.0, "peak": [0, 0], "spilled": 0, "moved": 0}
    assert len(part["tried"]) == 1 and part["tried"][0]["peak"] == 0


def test_texts_and_lists_are_bounded():
    plan = PlanState(advice=[("a" * 10_000, 1.0)] * 100)
    plan.built({"predicted": TOLD | {"chosen": "b" * 10_000, "tried": [["c" * 10_000, 1, 1, 1, 1]] * 500}})
    part = plan.part()
    assert len(str(part)) < 6_000


def test_a_plan_that_was_made_anew_is_told_with_the_reason():
    run, log = RunState(), started()
    run.follow("job-1")
    for why in ("worker-0 is slow", "worker-1 is <slow>\x00"):
        log.add("Replanned", why=why, speed=[1.0, 0.5], makespan=1.0, before=2.0, slow=[1])
    run.fold(log.events)
    plan = run.picture(log.time)["plan"]
    assert (plan["replans"], plan["why"], plan["predicted"]) == (2, "worker-1 is <slow>\N{REPLACEMENT CHARACTER}", None)


def test_what_gpus_could_not_run_is_listed_and_bounded():
    plan = PlanState()
    for number in range(9):
        plan.gpu_refused({"why": f"operand sort {number}: gpu-0 cannot run it"})
    refused = plan.part()["refused"]
    assert len(refused) == 6 and refused[0] == "operand sort 0: gpu-0 cannot run it"
