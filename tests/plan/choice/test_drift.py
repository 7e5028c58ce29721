"""Workers that are slower than planned are found, and neither noise nor a slow day for all is taken for one."""

import numpy as np
import pytest

from jmars.graph import Dag
from jmars.plan import Observed, PlanGraph, Workers, drift, with_speed


def ran(per_worker, factor, sigma=0.0, seed=0, cost=2.0):
    """A graph of independent operands, and how long each took on its worker."""
    p = len(factor)
    n = per_worker * p
    graph = PlanGraph.build(Dag.from_edges(n, [], []), cost, 8)
    where = np.arange(n) % p
    noise = np.random.default_rng(seed).lognormal(-(sigma**2) / 2, sigma, n) if sigma else np.ones(n)
    return graph, Observed(np.arange(n), where, cost * np.array(factor)[where] * noise)


def test_a_worker_at_half_speed_is_found_after_four_operands():
    graph, observed = ran(4, [1, 2, 1, 1])
    report = drift(graph, Workers.build(4), observed)
    assert report.off and report.workers == (1,) and report.speed.tolist() == [1.0, 0.5, 1.0, 1.0]
    assert "worker 1 runs at 0.50" in report.why
    graph, observed = ran(3, [1, 2, 1, 1])
    assert not drift(graph, Workers.build(4), observed).off


def test_a_faster_worker_is_found_too():
    graph, observed = ran(8, [1, 0.5, 1])
    assert drift(graph, Workers.build(3), observed).speed.tolist() == [1.0, 2.0, 1.0]


def test_speeds_that_the_plan_knew_are_no_drift():
    graph, observed = ran(8, [2.0, 1.0, 1.0])
    report = drift(graph, Workers.build(3, speed=[0.5, 1.0, 1.0]), observed)
    assert not report.off and report.speed.tolist() == [0.5, 1.0, 1.0]
    assert report.why == "every worker is about as fast as planned"


def test_a_slow_day_for_all_is_no_drift():
    graph, observed = ran(8, [3, 3, 3])
    report = drift(graph, Workers.build(3), observed)
    assert not report.off and report.scale == pytest.approx(3.0)


@pytest.mark.parametrize("per_worker", [4, 8, 20, 60])
def test_noise_of_a_third_is_seldom_taken_for_drift(per_worker):
    wrong = 0
    for seed in range(300):
        graph, observed = ran(per_worker, [1.0] * 4, sigma=0.3, seed=seed)
        report = drift(graph, Workers.build(4), observed)
        assert sum(report.ran) == 4 * per_worker
        assert np.all(np.abs(np.log(report.speed)) < 0.9)
        wrong += report.off
    assert wrong <= 6  # of 300 runs


def test_half_speed_is_found_in_noise():
    found = [drift(g, Workers.build(4), o).workers for g, o in (ran(12, [1, 2, 1, 1], 0.3, seed) for seed in range(20))]
    assert sum(workers == (1,) for workers in found) >= 19


def test_operands_that_cost_nothing_say_nothing():
    graph = PlanGraph.build(Dag.from_edges(8, [], []), 0.0, 8)
    report = drift(graph, Workers.build(1), Observed(np.arange(8), np.zeros(8, int), np.full(8, 0.1)))
    assert not report.off and report.ran.tolist() == [0]


def test_the_speeds_found_are_those_of_workers_to_plan_for():
    assert with_speed(Workers.build(2, cores=3), np.array([1.0, 0.5])).rate == 4.5
