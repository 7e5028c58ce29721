"""The best of what was tried is taken, by what the user prefers, in the time that there is."""

from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings

from jmars.errors import GraphError, MemoryLimitError
from jmars.graph import Dag
from jmars.plan import CPU, GPU, PlanGraph, Workers, choose, lower_bound, simulate, volume
from tests.benchmarks.plan_graphs import SMALL_ONES
from tests.plan.examples import clusters, graphs, tree, unit


@settings(max_examples=30)
@given(graphs(), clusters())
def test_the_choice_is_a_plan_that_runs_as_predicted(graph, workers):
    choice = choose(graph, workers, budget=None)
    plan = choice.plan
    run = simulate(graph, workers, plan.assign, plan.rank)
    assert run.makespan == choice.predicted.makespan >= choice.lower_bound * (1 - 1e-9)
    assert choice.predicted.moved == volume(graph, plan.assign)
    assert choice.best.score == min(one.score for one in choice.tried)
    assert sorted(plan.rank.tolist()) == list(range(graph.n))


@pytest.mark.parametrize("name", SMALL_ONES)
def test_each_preference_is_best_at_what_it_prefers(name):
    graph, workers = SMALL_ONES[name](), Workers.build(4, cores=2)
    fast, lean, memory = (choose(graph, workers, prefer=how, budget=None) for how in ("fast", "lean", "memory"))
    assert fast.predicted.makespan <= min(lean.predicted.makespan, memory.predicted.makespan)
    assert memory.predicted.peak_total <= min(fast.predicted.peak_total, max(lean.predicted.peak_total, 0)) or (
        lean.predicted.makespan > fast.predicted.makespan * 1.1
    )
    assert memory.predicted.makespan <= fast.predicted.makespan * 1.1
    assert lean.predicted.moved <= fast.predicted.moved or lean.predicted.peak_total < fast.predicted.peak_total


def test_when_the_time_is_up_nothing_more_is_tried():
    graph, workers = unit(tree(16)), Workers.build(2)
    seconds = count()
    assert [one.ranked_by for one in choose(graph, workers, budget=0.0).tried] == ["blevel", "dfs"]
    assert len(choose(graph, Workers.build(1), budget=0.0).tried) == 1
    assert len(choose(graph, workers, budget=3.0, clock=lambda: next(seconds)).tried) == 3
    assert len(choose(graph, workers, budget=None).tried) > 3


def test_the_default_takes_a_share_of_time_per_operand_and_tries_several():
    slow = count(0, 1000)  # every look at the clock is a quarter of an hour later
    assert len(choose(unit(tree(64)), Workers.build(4), clock=lambda: next(slow)).tried) == 3
    stopped = count(0, 0)
    everything = len(choose(unit(tree(64)), Workers.build(4), budget=None).tried)
    assert len(choose(unit(tree(64)), Workers.build(4), clock=lambda: next(stopped)).tried) >= everything - 4


def test_plans_are_scored_under_the_memory_that_there_is():
    graph = SMALL_ONES["matmul"]()
    tight = Workers.build(2, cores=2, memory=6 * 100_000_000)
    choice = choose(graph, tight, budget=None)
    assert choice.predicted.peak.max() <= 6 * 100_000_000
    assert all(one.result.peak.max() <= 6 * 100_000_000 for one in choice.tried)


def test_what_fits_no_worker_is_an_error():
    with pytest.raises(MemoryLimitError, match="needs 3 bytes at once and worker 0 has 2"):
        choose(unit(tree(2)), Workers.build(1, memory=2))


def test_chunks_that_are_there_are_used():
    graph, workers = unit(tree(4)), Workers.build(2, bandwidth=1.0)
    placed = np.array([0, 0, 1, 1, -1, -1, -1])
    choice = choose(graph, workers, placed=placed, budget=None)
    assert choice.plan.assign.tolist()[:6] == [-1, -1, -1, -1, 0, 1]
    assert choice.predicted.moved == 1


def test_the_bound_is_the_longest_path_or_all_the_work():
    assert lower_bound(unit(tree(8)), Workers.build(8)) == 4.0
    assert lower_bound(unit(tree(8)), Workers.build(3)) == 5.0
    assert lower_bound(unit(tree(8)), Workers.build(2, speed=[1.0, 4.0])) == 3.0


def test_an_unknown_preference_is_refused():
    with pytest.raises(GraphError, match="choose one of fast, lean, memory"):
        choose(unit(tree(2)), Workers.build(1), prefer="cheap")


def test_unequal_workers_get_their_shares():
    graph = SMALL_ONES["map reduce"]()
    workers = Workers.build(3, cores=[4, 2, 2], speed=[1.0, 2.0, 0.5])
    choice = choose(graph, workers, prefer="fast", budget=None)
    share = np.bincount(choice.plan.assign, graph.cost, 3) / graph.cost.sum()
    assert share == pytest.approx(np.array([4, 4, 1]) / 9, abs=0.12)
    assert choice.predicted.makespan < 1.3 * choice.lower_bound


def test_operands_for_both_go_to_the_fast_gpu_and_the_rest_where_it_must():
    graph = SMALL_ONES["matmul"]()
    device = np.where(graph.dag.in_degree == 0, CPU, 0)  # chunks are loaded on CPUs, the rest may run anywhere
    mixed = PlanGraph.build(graph.dag, graph.cost, graph.nbytes, device=device)
    workers = Workers.build(2, cores=[2, 1], speed=[1.0, 10.0], device=[CPU, GPU], bandwidth=50e9)
    choice = choose(mixed, workers, prefer="fast", budget=None)
    assert not np.any(choice.plan.assign[device == CPU] == 1)
    products = device != CPU
    assert np.bincount(choice.plan.assign[products], graph.cost[products], 2)[1] > 0.7 * graph.cost[products].sum()
    only = choose(mixed, Workers.build(1, cores=2), prefer="fast", budget=None)
    assert choice.predicted.makespan < 0.6 * only.predicted.makespan


@pytest.mark.parametrize("prefer", ["fast", "lean"])
def test_a_plan_that_is_used_again_may_be_improved_and_is_never_worse(prefer):
    graph, workers = SMALL_ONES["shuffle"](), Workers.build(3, cores=2)
    plain = choose(graph, workers, prefer=prefer, budget=None)
    seconds = count()
    better = choose(graph, workers, prefer=prefer, budget=None, improve=500.0, clock=lambda: next(seconds))
    assert better.best.score <= plain.best.score
    assert [one.ranked_by.split(", ")[-1] for one in better.tried[-2:]] == ["refined", "annealed"]
    if prefer == "fast":
        assert better.predicted.makespan < plain.predicted.makespan


def test_no_plan_beats_the_bound_when_chunks_are_there():
    graph, workers = SMALL_ONES["tree"](), Workers.build(2)
    placed = np.where(graph.dag.in_degree == 0, np.arange(graph.n) % 2, -1)
    choice = choose(graph, workers, placed=placed, budget=None)
    assert choice.lower_bound < lower_bound(graph, workers)
    assert choice.predicted.makespan >= choice.lower_bound * (1 - 1e-9)


def test_one_worker_takes_the_best_order():
    graph = SMALL_ONES["stencil"]()
    one = Workers.build(1, cores=2, memory=8 * 100_000_000)
    choice = choose(graph, one, prefer="memory", budget=None)
    assert not choice.plan.assign.any() and choice.best.assigned_by == "one worker"
    assert choice.predicted.spilled <= min(one.result.spilled for one in choice.tried)


def test_scratch_that_every_core_needs_is_no_reason_to_use_one_worker_only():
    graph = PlanGraph.build(Dag.from_edges(65, range(64), [64] * 64), 1.0, 8, work=4 * 2**20)
    choice = choose(graph, Workers.build(8, cores=2), prefer="lean")
    assert choice.predicted.makespan < 6  # four rounds on 16 cores and what reads them, not 65 on one
