"""Seed 004 on costs: what a user sees of a schedule before it runs, and both graphs as text."""

import json

import pytest

import jmars.tensor as mt
from jmars.client.plans import PlannedRun, plan_for
from jmars.plan import Profile

MB = 2**20


def planned(hosts: int = 1) -> PlannedRun:
    """Rows become columns, so every machine waits for every other."""
    x = mt.ones((1024, 1024), chunk_size=256)
    plan = plan_for([(x + 1).rechunk((1024, 64)).sum(axis=1).data], 2, 512 * MB, known=Profile().as_data())
    return plan if hosts == 1 else plan.what_if(hosts=hosts)


def test_s4_15_what_if_shows_the_byte_seconds_that_outputs_wait():
    near, far = (planned(2).what_if(bandwidth=speed, policy="cascade-merge") for speed in ("1GiB", "1MiB"))
    assert planned().waiting == 0 < near.waiting < far.waiting
    assert "B·s (+" in repr(far) and "waiting outputs" in far._repr_html_()


def test_s4_17_tasks_with_costs_and_contexts_with_links_are_json_for_both():
    plan = planned(3)
    data = json.loads(plan.to_json())
    assert sum(task["seconds"] for task in data["tasks"]) == pytest.approx(plan.graph.cost.sum())
    assert [machine["workers"] for machine in data["machines"]] == [2, 2, 2]
    for task in data["tasks"]:
        task["seconds"] *= 3  # somebody knows better
    assert PlannedRun.from_json(json.dumps(data)).lower_bound == pytest.approx(3 * plan.lower_bound)


def test_s4_17_the_costs_are_those_measured_in_earlier_runs():
    plan = planned()
    assert plan.request is not None
    knows = plan.request.profile
    before = plan.request.costs(plan.compiled).cost.sum()
    knows.scale *= 2  # runs took twice what was thought
    assert plan.request.costs(plan.compiled).cost.sum() > 1.5 * before


def test_s4_18_total_and_idle_time_come_from_the_whole_timeline():
    plan = planned(2)
    busy = sum(one["busy"] for one in plan.picture["workers"])
    idle = sum(one["idle"] for one in plan.picture["workers"])
    assert busy + idle == pytest.approx(4 * plan.makespan)  # two machines of two workers
    assert busy == pytest.approx(plan.graph.cost.sum())


def test_s4_18_predictions_are_told_with_their_median_error():
    plan = planned()
    assert plan.request is not None
    for measured in (0.8, 1.0, 1.25):
        plan.request.profile.accuracy.observe({"makespan": 1.0, "peak": 1}, {"makespan": measured, "peak": 1})
    assert "predictions here were off by 20 % of time" in repr(plan)
