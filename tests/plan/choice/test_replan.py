"""Planned anew in the middle of a run: what runs stays, what is there is used, what is lost is made again."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.errors import GraphError
from jmars.graph import Dag
from jmars.plan import Plan, PlanGraph, Workers, choose, rank_by, remaining, replan, simulate
from jmars.plan.revision import DONE, READY, RUNNING, WAITS
from tests.benchmarks.plan_graphs import SMALL_ONES
from tests.plan.examples import clusters, graphs, tree, unit


def halfway(graph, workers, plan, share):
    """State, holders and elapsed seconds at a part of the makespan of a run."""
    run = simulate(graph, workers, plan.assign, plan.rank, trace=True)
    now = run.makespan * share
    state = np.where(run.trace.end <= now, DONE, np.where(run.trace.start < now, RUNNING, WAITS))
    placed = np.where(state == DONE, plan.assign, -1)
    elapsed = np.where(state == RUNNING, (now - run.trace.start) * workers.speed[plan.assign], 0.0)
    return state, placed, elapsed


@settings(max_examples=40)
@given(graphs(), clusters(), st.floats(0, 1), st.data())
def test_the_new_plan_runs_what_is_left_and_nothing_else(graph, workers, share, data):
    old = choose(graph, workers, budget=0.0).plan
    state, placed, elapsed = halfway(graph, workers, old, share)
    p = len(workers)
    usable = np.array(data.draw(st.lists(st.booleans(), min_size=p, max_size=p)))
    usable[data.draw(st.integers(0, p - 1))] = True
    now = replan(graph, workers, old, state, placed, elapsed=elapsed, available=usable, budget=None)
    assign, rank = now.plan.assign, now.plan.rank
    assert sorted(rank.tolist()) == list(range(graph.n))
    assert set(np.flatnonzero(state != DONE)) <= set(np.flatnonzero(assign >= 0))
    assert usable[assign[assign >= 0]].all()
    runs = (state == RUNNING) & usable[old.assign]
    assert np.array_equal(assign[runs], old.assign[runs])
    src, dst = graph.dag.edges()
    for a, b in zip(src.tolist(), dst.tolist()):
        if assign[b] >= 0 and not runs[b]:  # each input is made again, or there on a usable worker
            assert assign[a] >= 0 or (placed[a] >= 0 and usable[placed[a]])
    assert now.predicted.makespan >= now.lower_bound * (1 - 1e-9)
    again = replan(graph, workers, old, state, placed, elapsed=elapsed, available=usable, budget=None)
    assert np.array_equal(again.plan.assign, assign) and np.array_equal(again.plan.rank, rank)


@pytest.mark.parametrize("name", SMALL_ONES)
@pytest.mark.parametrize("speed", [1.0, 0.5, 0.1])
def test_the_new_plan_is_no_worse_than_going_on(name, speed):
    graph, workers = SMALL_ONES[name](), Workers.build(3, cores=2)
    really = Workers.build(3, cores=2, speed=[speed, 1.0, 1.0])
    old = choose(graph, workers).plan
    state, placed, elapsed = halfway(graph, workers, old, 0.3)
    rest = remaining(graph, state, placed, np.where(state == RUNNING, old.assign, -1), elapsed=elapsed)
    goes_on = np.where(rest.placed >= 0, -1, old.assign[rest.operands])
    first = np.where(rest.fixed >= 0, -1, old.rank[rest.operands])
    rank = np.argsort(np.argsort(first, kind="stable"), kind="stable")
    kept = simulate(rest.graph, really, goes_on, rank, placed=rest.placed)
    now = replan(graph, really, old, state, placed, elapsed=elapsed, budget=None)
    assert now.best.score <= kept.makespan / now.lower_bound + 0.3 * kept.moved / rest.graph.nbytes.sum() + 1e-9
    if speed < 0.5:
        assert now.predicted.makespan < kept.makespan
    if speed == 1.0:
        assert now.predicted.makespan <= kept.makespan * 1.1


def test_what_a_lost_worker_held_is_made_again_as_far_back_as_needed():
    # 0 -> 1 -> 2 -> 3 -> 4; 0 and 2 were on the lost worker, 1 lies on the other one
    graph = unit(Dag.from_edges(5, [0, 1, 2, 3], [1, 2, 3, 4]))
    old = Plan(graph.dag, np.array([0, 1, 0, 0, 0], np.int16), np.arange(5))
    state, placed = [DONE, DONE, DONE, RUNNING, WAITS], [0, 1, 0, -1, -1]
    now = replan(graph, Workers.build(2), old, state, placed, available=[False, True])
    assert now.plan.assign.tolist() == [-1, -1, 1, 1, 1]
    rest = remaining(graph, [DONE, DONE, DONE, WAITS, WAITS], [-1, -1, -1, -1, -1])
    assert rest.operands.tolist() == [0, 1, 2, 3, 4] and rest.placed.tolist() == [-1] * 5


def test_a_worker_that_has_come_is_used():
    graph = unit(tree(16))
    old = Plan(graph.dag, np.zeros(graph.n, np.int16), rank_by("dfs", graph))
    state, placed = np.full(graph.n, WAITS), np.full(graph.n, -1)
    now = replan(graph, Workers.build(3), old, state, placed, budget=None)
    assert set(now.plan.assign.tolist()) == {0, 1, 2}
    assert now.predicted.makespan < 0.5 * graph.n


def test_ready_operands_may_move_and_running_ones_may_not():
    graph = PlanGraph.build(Dag.from_edges(4, [], []), 4.0, 8)
    old = Plan(graph.dag, np.zeros(4, np.int16), np.arange(4))
    now = replan(graph, Workers.build(2), old, [RUNNING, READY, READY, READY], [-1] * 4, elapsed=[3.0, 0, 0, 0])
    assert now.plan.assign[0] == 0 and now.plan.rank[0] == 0
    assert sorted(np.bincount(now.plan.assign[1:], minlength=2).tolist()) == [1, 2]
    assert now.predicted.makespan == 8.0  # the running one ends in a second, not in four


def test_pins_are_kept_and_a_pin_on_a_lost_worker_is_an_error():
    graph = PlanGraph.build(Dag.from_edges(2, [], []), 1.0, 8, pin=[2, -1])
    old = Plan(graph.dag, np.array([2, 0], np.int16), np.arange(2))
    waits, nowhere = [WAITS, WAITS], [-1, -1]
    now = replan(graph, Workers.build(3), old, waits, nowhere, available=[False, True, True])
    assert now.plan.assign[0] == 2 and now.plan.assign[1] in (1, 2)
    with pytest.raises(GraphError, match="wants worker"):
        replan(graph, Workers.build(3), old, waits, nowhere, available=[True, True, False])


def test_without_workers_or_with_operands_that_run_nowhere_no_plan():
    graph, old = unit(tree(2)), Plan(unit(tree(2)).dag, np.zeros(3, np.int16), np.arange(3))
    with pytest.raises(GraphError, match="no worker is left"):
        replan(graph, Workers.build(1), old, [0] * 3, [-1] * 3, available=[False])
    with pytest.raises(GraphError, match="operand 1 runs on no worker"):
        remaining(graph, [DONE, RUNNING, WAITS], [0, -1, -1])


def test_after_the_end_nothing_is_left():
    graph, old = unit(tree(2)), Plan(unit(tree(2)).dag, np.zeros(3, np.int16), np.arange(3))
    now = replan(graph, Workers.build(1), old, [DONE] * 3, [0] * 3)
    assert now.plan.assign.tolist() == [-1] * 3 and now.predicted.makespan == 0
