"""A worker that is slower than the others is found while the job runs, and what is left is planned for it."""

from dataclasses import replace

import numpy as np
import pytest

from jmars.graph import Dag
from jmars.model.status import OperandState as S
from jmars.plan import PlanGraph, Workers
from jmars.scheduler.replanning import LOOK_SECONDS, MOST_PLANS, JobProgress, PlanMonitor, plan_anew


def graph(n=100, cost=0.1):
    """n operands of two programs, each of which costs twice what was thought, and their sum."""
    dag = Dag.from_edges(n + 1, list(range(n)), [n] * n)
    return PlanGraph.build(dag, cost=[cost] * n + [0.0], nbytes=8, op=[i % 2 for i in range(n)] + [2])


def ran(watch, n, slow=3.0):
    """The first operands ended in turn on two workers, one of them slow."""
    for operand in range(n):
        worker = operand // 2 % 2
        watch.ended([operand], worker, [int(2e5 * (1 + operand % 2) * (slow if worker else 1.0))])


def test_a_slow_worker_is_found_and_misjudged_programs_are_not_blamed():
    watch = PlanMonitor(graph(), 2, 10**9)
    ran(watch, 24)
    report = watch.look(1.0)
    assert report is not None and report.workers == (1,)
    assert 0.25 < report.speed[1] / report.speed[0] < 0.45
    even = PlanMonitor(graph(), 2, 10**9)
    ran(even, 24, slow=1.0)
    assert even.look(1.0) is None


def test_operands_of_workers_that_came_after_the_plan_are_left_out():
    watch = PlanMonitor(graph(), 2, 10**9)
    ran(watch, 24)
    for operand in range(24, 40):
        watch.ended([operand], 3, [10])
    assert watch.rows_of(np.array([-1, 0, 1, 3])).tolist() == [-1, 0, 1, -1]
    report = watch.look(1.0)
    assert report is not None and report.workers == (1,)


def test_it_looks_now_and_then_while_there_is_enough_left_and_not_for_ever():
    watch = PlanMonitor(graph(), 2, 10**9)
    ran(watch, 24)
    assert watch.look(LOOK_SECONDS / 2) is None  # too early
    assert watch.look(LOOK_SECONDS) is not None
    assert watch.look(1.5 * LOOK_SECONDS) is None
    watch.plans = MOST_PLANS
    assert watch.look(100.0) is None
    late = PlanMonitor(graph(), 2, 10**9)
    ran(late, 100)
    assert late.look(1.0) is None  # less is left than a plan is worth


def test_what_was_planned_for_is_no_drift_any_more():
    watch = PlanMonitor(graph(), 2, 10**9)
    ran(watch, 24)
    report = watch.look(1.0)
    watch.planned(report.speed)
    assert watch.plans == 1 and watch.look(2.0) is None


def test_the_new_plan_gives_the_slow_worker_less_and_keeps_what_runs():
    watch = PlanMonitor(graph(), 2, 10**9)
    ran(watch, 24)
    report = watch.look(1.0)
    n = 101
    state = np.full(n, S.READY, np.uint8)
    state[:24], state[24:26], state[100] = S.FINISHED, S.RUNNING, S.UNSCHEDULED
    worker = np.where(np.arange(n) < 26, np.arange(n) // 2 % 2, -1)
    assign = np.where(np.arange(n) < 100, np.arange(n) % 2, -1)
    now = JobProgress(state, worker, assign, np.arange(n))
    new = plan_anew(watch.costs(), watch.workers, report, now, budget=1.0)
    assert sorted(new.rank) == list(range(n))
    assert new.assign[:24] == [-1] * 24 and new.assign[24:26] == worker[24:26].tolist()
    left = new.assign[26:100]
    assert left.count(0) + left.count(1) == 74 and left.count(0) > 1.8 * left.count(1) > 0
    assert new.makespan < new.before and "worker 1" in new.why


def test_chunks_that_lay_there_before_the_job_stay_readable():
    dag = Dag.from_edges(6, [0, 0, 0, 0, 0], [1, 2, 3, 4, 5])
    watch = PlanMonitor(PlanGraph.build(dag, cost=[0.0] + [1.0] * 5, nbytes=8, op=[-1] + [0] * 5), 2, 10**9)
    watch.ended([1], 0, [1_000_000])
    state = np.array([S.FINISHED, S.FINISHED, S.READY, S.READY, S.READY, S.RUNNING], np.uint8)
    now = JobProgress(state, np.array([-1, 0, -1, -1, -1, 1]), np.array([-1, 0, 0, 1, 0, 1]), np.arange(6))
    report = type("Report", (), {"speed": np.array([1.0, 0.5]), "why": "because"})()
    new = plan_anew(watch.costs(), watch.workers, report, now, budget=1.0)
    assert new.assign[:2] == [-1, -1] and new.assign[5] == 1 and min(new.assign[2:5]) >= 0


def test_operands_stay_where_the_kept_chunks_that_they_read_lie():
    n = 20  # kept chunks of 100 MB on host 1, and an operand on each
    dag = Dag.from_edges(2 * n, list(range(n)), list(range(n, 2 * n)))
    costs = PlanGraph.build(dag, cost=[0.0] * n + [0.01] * n, nbytes=10**8, op=[-1] * n + [0] * n)
    hosts = Workers.build(3, memory=10**11, bandwidth=1e8)
    watch = PlanMonitor(costs, 3, 10**11, (hosts, [0, 1, 2]))
    state = np.array([S.FINISHED] * n + [S.READY] * n, np.uint8)
    nobody, stored = np.full(2 * n, -1), np.array([1] * n + [-1] * n)
    now = JobProgress(state, nobody, np.array([-1] * n + [0] * n), np.arange(2 * n), stored)
    available = np.array([False, True, True])  # host 0 is lost
    new = plan_anew(costs, hosts, watch.speeds(), now, 1.0, available)
    assert new.assign == [-1] * n + [1] * n and new.makespan == pytest.approx(0.2)  # no byte moves
    unknown = plan_anew(costs, hosts, watch.speeds(), replace(now, stored=nobody), 1.0, available)
    assert unknown.assign[:n] == [-1] * n  # they are not computed again


def test_a_large_operand_keeps_nobody_from_planning_anew():
    watch = PlanMonitor(replace(graph(), nbytes=np.full(101, 6 * 10**8)), 2, 10**9)  # it runs beside nothing else
    ran(watch, 24)
    state = np.full(101, S.READY, np.uint8)
    state[:24], state[100] = S.FINISHED, S.UNSCHEDULED
    worker = np.where(np.arange(101) < 24, np.arange(101) // 2 % 2, -1)
    now = JobProgress(state, worker, np.arange(101) % 2, np.arange(101))
    new = plan_anew(watch.costs(), watch.workers, watch.look(1.0), now, budget=1.0)
    assert sorted(new.rank) == list(range(101)) and 0 < new.makespan < 1e3


def test_workers_of_hosts_are_rows_of_their_host():
    hosts = Workers.build(2, cores=[2, 3])
    monitor = PlanMonitor(graph(), 5, 1000, (hosts, [0, 4]))  # workers 2 and 3 were of a host that is gone
    assert monitor.rows_of(np.array([-1, 0, 1, 2, 4, 6, 7])).tolist() == [-1, 0, 0, -1, 1, 1, -1]
    assert monitor.workers_of(np.array([-1, 0, 1])).tolist() == [-1, 0, 4]
    monitor.ended([0, 1, 2], 5, [10, 10, 10])
    monitor.ended([3], 3, [99])
    assert monitor.observed().worker.tolist() == [1, 1, 1]


def test_a_new_host_gets_a_row_and_a_lost_host_no_work():
    two = Workers.build(2, cores=2, memory=10**9)
    watch = PlanMonitor(graph(), 4, 10**9, (two, [0, 2]))
    watch.planned(np.array([1.0, 0.5]))
    watch.machines(Workers.build(2, cores=[2, 4], memory=10**9, bandwidth=7e9), [2, 4])  # 0 is gone, 4 came
    assert watch.hosts == [2, 4] and watch.available.tolist() == [False, True, True]
    assert watch.workers.cores.tolist() == [2, 2, 4] and watch.workers.speed.tolist() == [1.0, 0.5, 1.0]
    assert watch.workers.bandwidth[1, 2] == 7e9
    assert watch.rows_of(np.array([0, 3, 4, 7, 8, -1])).tolist() == [0, 1, 2, 2, -1, -1]
    n = watch.graph.n
    state = np.array([S.READY] * (n - 1) + [S.UNSCHEDULED], np.uint8)
    now = JobProgress(state, np.full(n, -1), np.zeros(n, np.int64), np.arange(n))
    new = plan_anew(watch.graph, watch.workers, watch.speeds(), now, 0.0, watch.available)
    assert set(new.assign) == {1, 2}


def test_a_host_of_a_lower_number_that_stays_after_all_is_found():
    watch = PlanMonitor(graph(), 2, 10**9, (Workers.build(1, cores=2, memory=10**9), [2]))
    watch.machines(Workers.build(2, cores=2, memory=10**9), [0, 2])
    assert watch.rows_of(np.array([0, 1, 2, 3])).tolist() == [1, 1, 0, 0] and watch.hosts == [0, 2]
