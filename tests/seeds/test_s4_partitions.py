"""Seed 004, "Graph Partitioning for Scheduling": by merging, by depth first, and between both."""

import numpy as np
import pytest

from jmars.graph import Dag, levels
from jmars.plan import (
    PlanGraph,
    Workers,
    as_assignment,
    as_labels,
    choose,
    contract,
    depth_first,
    merge,
    picture,
    rank_by,
    waiting,
)
from jmars.plan import simulate as run_in_virtual_time
from tests.benchmarks.plan_graphs import CHUNK, SMALL_ONES


def twelve() -> PlanGraph:
    """Three lines of three under two sums and an output, each chunk 10 bytes; the middle line is the dearest."""
    src = [0, 1, 3, 4, 6, 7, 2, 5, 5, 8, 9, 10]
    dst = [1, 2, 4, 5, 7, 8, 9, 9, 10, 10, 11, 11]
    return PlanGraph.build(Dag.from_edges(12, src, dst), [1, 1, 1, 3, 3, 3, 2, 2, 2, 1, 1, 1], 10)


SLOW_FAST = Workers.build(2, speed=[1.0, 2.0], memory=40)


def test_s4_12_partition_by_merging_takes_fastest_context_first():
    parts = merge(twelve(), SLOW_FAST)
    # 9 is as good as 10 and has the lower name; then 11 ends the longest path that is left
    assert [part.operands for part in parts] == [(3, 4, 5, 9), (6, 7, 8, 10), (0, 1, 2), (11,)]
    assert [part.worker for part in parts] == [1, 0, 1, 1]
    assert [part.seconds for part in parts] == [5.0, 7.0, 1.5, 0.5]
    assert max(part.nbytes for part in parts) <= 40
    levels(contract(twelve(), as_labels(parts, 12)).dag)  # no part waits for itself


@pytest.mark.parametrize("name", SMALL_ONES)
def test_s4_12_partition_by_merging_gives_parts_that_fit_without_deadlock(name):
    graph, workers = SMALL_ONES[name](), Workers.build(3, memory=int(8 * CHUNK))
    parts = merge(graph, workers)
    assert sorted(v for part in parts for v in part.operands) == list(range(graph.n))
    assert max(part.nbytes for part in parts) <= 8 * CHUNK
    levels(contract(graph, as_labels(parts, graph.n)).dag)


def test_s4_13_same_input_same_parts():
    for make in SMALL_ONES.values():
        graph, workers = make(), Workers.build(3, speed=[1.0, 2.0, 1.0], memory=int(9 * CHUNK))
        assert merge(graph, workers) == merge(graph, workers)


def test_s4_14_the_assigned_time_of_a_context_is_the_sum_of_its_parts():
    graph = twelve()
    parts = merge(graph, SLOW_FAST)
    where = as_assignment(parts, graph.n)
    for w, speed in enumerate(SLOW_FAST.speed):
        total = sum(part.seconds for part in parts if part.worker == w)
        assert total == pytest.approx(graph.cost[where == w].sum() / speed)
    # a context is free or ends first when it is chosen
    total = [0.0, 0.0]
    for k, part in enumerate(parts):
        assert k < 2 or total[part.worker] == min(total)
        total[part.worker] += part.seconds


@pytest.mark.parametrize("name", SMALL_ONES)
def test_s4_16_partition_depth_first_then_expansion_gives_parts_that_fit(name):
    graph, workers = SMALL_ONES[name](), Workers.build(3, memory=int(8 * CHUNK))
    parts = depth_first(graph, workers)
    assert sorted(v for part in parts for v in part.operands) == list(range(graph.n))
    assert max(part.nbytes for part in parts) <= 8 * CHUNK


ENDLESS = Workers.build(2, cores=2)  # where nothing is spilled, a plan's peak is what it needs


def test_s4_11_without_running_out_of_memory_where_depth_first_does_not():
    would_not = 0
    for name in ("tree", "map reduce", "matmul", "stencil", "layered"):
        graph = SMALL_ONES[name]()
        for limit in (8 * CHUNK, 12 * CHUNK, 20 * CHUNK):
            choice = choose(graph, Workers.build(2, cores=2, memory=int(limit)), budget=None)
            needs = {
                order: run_in_virtual_time(graph, ENDLESS, choice.plan.assign, rank).peak.max()
                for order, rank in [("ours", choice.plan.rank), *((o, rank_by(o, graph)) for o in ("dfs", "level"))]
            }
            if needs["dfs"] <= limit:
                assert needs["ours"] <= limit and choice.predicted.spilled == 0
                would_not += needs["level"] > limit
    assert would_not >= 4, "breadth first must not fit, else this shows nothing"


def test_s4_11_as_breadth_first_as_the_memory_allows():
    graph = SMALL_ONES["tree"]()
    three = [Workers.build(2, cores=2, memory=int(n * CHUNK)) for n in (8, 12, 20)]
    choices = [choose(graph, workers, prefer="fast", budget=None) for workers in three]
    needs = [run_in_virtual_time(graph, ENDLESS, one.plan.assign, one.plan.rank).peak.max() for one in choices]
    depth, breadth = (
        run_in_virtual_time(graph, ENDLESS, choices[0].plan.assign, rank_by(order, graph)) for order in ("dfs", "level")
    )
    assert depth.peak.max() <= needs[0] <= 8 * CHUNK < needs[1] <= 12 * CHUNK < needs[2] == breadth.peak.max()
    times = [one.predicted.makespan for one in choices]
    assert times[0] > times[1] > times[2] and times[2] <= breadth.makespan < depth.makespan


@pytest.mark.parametrize("name", ["tree", "map reduce", "matmul", "stencil", "layered"])
@pytest.mark.parametrize("chunks", [8, 12, 20])
def test_s4_11_its_run_is_no_longer_than_that_of_parts_depth_first(name, chunks):
    graph, workers = SMALL_ONES[name](), Workers.build(2, cores=2, memory=int(chunks * CHUNK))
    choice = choose(graph, workers, prefer="fast", budget=None)
    parts = as_assignment(depth_first(graph, workers, quota=graph.cost.sum() / 2), graph.n)
    pure = run_in_virtual_time(graph, workers, parts, rank_by("dfs", graph))
    assert choice.predicted.makespan <= pure.makespan


def test_s4_17_tasks_with_costs_and_contexts_with_speeds_and_links():
    graph = PlanGraph.build(Dag.from_edges(2, [0], [1]), [4.0, 2.0], [100, 1])
    bandwidth = np.array([[1.0, 50.0], [10.0, 1.0]])
    workers = Workers.build(2, speed=[1.0, 2.0], bandwidth=bandwidth, latency=0.0)
    there = run_in_virtual_time(graph, workers, [0, 1], [0, 1])
    back = run_in_virtual_time(graph, workers, [1, 0], [0, 1])
    assert (there.makespan, back.makespan) == (4.0 + 100 / 50 + 1.0, 2.0 + 100 / 10 + 2.0)


def test_s4_18_a_schedule_is_judged_by_its_whole_timeline():
    graph, workers = SMALL_ONES["cholesky"](), Workers.build(2, cores=2)
    choice = choose(graph, workers, budget=None)
    run = run_in_virtual_time(graph, workers, choice.plan.assign, choice.plan.rank, trace=True)
    idle = run.makespan * workers.cores - run.busy
    assert run.makespan == run.trace.end.max() and np.all(idle >= -1e-9)


def test_s4_21_depth_from_the_longest_path_holds_less_than_by_level():
    held = {"dfs": 0, "level": 0}
    for make in SMALL_ONES.values():
        graph, one = make(), Workers.build(1)
        for name in held:
            held[name] += run_in_virtual_time(graph, one, [0] * graph.n, rank_by(name, graph)).peak_total
    assert held["dfs"] < 0.6 * held["level"]


def test_s4_15_waiting_outputs_are_a_number_beside_the_makespan():
    # 0 is read at once here and after 3 s there: 10 bytes wait 3 s; 1 s of it is the way
    graph = PlanGraph.build(Dag.from_edges(4, [0, 0], [1, 2]), [1.0, 1.0, 1.0, 4.0], [10, 1, 1, 1])
    workers = Workers.build(2, bandwidth=10.0, latency=0.0)
    run = run_in_virtual_time(graph, workers, [0, 0, 1, 1], [0, 1, 3, 2], trace=True)
    assert run.trace.start.tolist() == [0.0, 1.0, 4.0, 0.0]
    assert waiting(graph, [0, 0, 1, 1], run.trace, 2).tolist() == [30.0, 0.0]
    shown = picture(graph, workers, run)
    assert [worker["waiting"] for worker in shown["workers"]] == [30.0, 0.0]
    # cascade's own partition lets outputs wait, one context for all does not
    graph = SMALL_ONES["matmul"]()
    parts = as_assignment(merge(graph, Workers.build(2, memory=int(8 * CHUNK)), convex=False), graph.n)
    apart, alone = (
        run_in_virtual_time(graph, Workers.build(2, cores=2), where, rank_by("dfs", graph), trace=True)
        for where in (parts, parts * 0)
    )
    assert waiting(graph, parts, apart.trace, 2).sum() > waiting(graph, parts * 0, alone.trace, 2).sum() == 0


@pytest.mark.parametrize("name", SMALL_ONES)
def test_s4_16_parts_as_processes_never_wait_for_each_other(name):
    graph, workers = SMALL_ONES[name](), Workers.build(3, memory=int(8 * CHUNK))
    parts = depth_first(graph, workers, convex=True)
    assert sorted(v for part in parts for v in part.operands) == list(range(graph.n))
    assert max(part.nbytes for part in parts) <= 8 * CHUNK
    levels(contract(graph, as_labels(parts, graph.n)).dag)


def test_s4_16_at_an_input_node_the_deepest_open_sibling_is_next():
    # two lines of three into 6; from it back along the dear line to its input, then the other line, from its end
    graph = PlanGraph.build(Dag.from_edges(7, [0, 1, 2, 3, 4, 5], [1, 2, 6, 4, 5, 6]), [1, 1, 1, 2, 2, 2, 1], 10)
    assert [part.operands for part in depth_first(graph, Workers.build(1))] == [(6, 5, 4, 3, 2, 1, 0)]
    assert [part.operands for part in depth_first(graph, Workers.build(2, memory=40))] == [(6, 5, 4, 3), (2, 1, 0)]


# After operand 0 of 5 s the part of worker 0 (CPU, speed 2, room for 30 bytes, 11 s) takes one more; who, and why.
# Edges, costs, bytes, devices (0 any, 1 CPU, 2 GPU), the one that joins.
TIES = {
    "a context that may not run it is out": ([0, 0], [1, 2], [5, 2, 1], [5, 1, 1], [1, 2, 1], 2),
    "what exceeds the capacity is out": ([0, 0], [1, 2], [5, 2, 1], [5, 26, 1], [0, 0, 0], 2),
    "most bytes shared": ([0, 1, 0], [2, 2, 3], [9, 1, 1, 1], [5, 20, 1, 1], [0, 0, 0, 0], 2),
    "then the longest path through it": ([0, 0, 2], [1, 2, 3], [5, 1, 1, 3], [5, 1, 1, 1], [0, 0, 0, 0], 2),
    "then most bytes": ([0, 0], [1, 2], [5, 2, 2], [5, 1, 3], [0, 0, 0], 2),
    "then the highest cost": ([0, 0, 1], [1, 2, 3], [5, 1, 2, 1], [5, 1, 1, 1], [0, 0, 0, 0], 2),
    "then the first by name": ([0, 0], [1, 2], [5, 2, 2], [5, 1, 1], [0, 0, 0], 1),
}


@pytest.mark.parametrize("rule", TIES)
def test_s4_13_which_neighbour_joins(rule):
    src, dst, cost, nbytes, device, joins = TIES[rule]
    graph = PlanGraph.build(Dag.from_edges(len(cost), src, dst), cost, nbytes, device=device)
    workers = Workers.build(2, speed=[2.0, 1.0], memory=30, device=[1, 2])
    first = merge(graph, workers, quota=cost[0] + 0.5)[0]
    assert first.worker == 0 and first.operands[:2] == (0, joins)


def test_s4_13_an_inefficient_context_weighs_less():
    # on the slow GPU operand 2 could run four times faster elsewhere; 1, which may run nowhere else, joins before it
    graph = PlanGraph.build(Dag.from_edges(3, [0, 0], [1, 2]), [5, 1, 2], [5, 1, 1], device=[2, 2, 0])
    assert merge(graph, Workers.build(2, speed=[4.0, 1.0], device=[1, 2], memory=6))[0].operands == (0, 1)


def test_s4_14_the_next_root_is_that_of_the_critical_path_of_the_rest():
    graph = twelve()
    parts, stored = merge(graph, SLOW_FAST), set()
    for part in parts:
        left = [v for v in range(12) if v not in stored]
        roots = [v for v in left if not set(graph.dag.preds(v).tolist()) - stored]

        def path(v, left=left):
            return graph.cost[v] + max([path(u) for u in graph.dag.succs(v).tolist() if u in left], default=0)

        assert part.operands[0] == min(roots, key=lambda v: (-path(v), v))
        stored |= set(part.operands)


@pytest.mark.parametrize("name", ["tree", "stencil", "layered"])
def test_s4_11_one_picture_with_pure_breadth_first_and_depth_first(name):
    graph = SMALL_ONES[name]()
    tight = Workers.build(2, cores=2, memory=int(10 * CHUNK))
    choice = choose(graph, tight, prefer="fast", budget=None)
    spilled, times = {}, {"ours": choice.predicted.makespan}
    for order in ("dfs", "level"):
        run = run_in_virtual_time(graph, tight, choice.plan.assign, rank_by(order, graph), trace=True)
        shown = picture(graph, tight, run)
        assert [w["memory"] for w in shown["workers"]] == [10 * CHUNK] * 2
        assert all(held <= 10 * CHUNK for w in shown["workers"] for _, held in w["curve"])
        spilled[order], times[order] = run.spilled, run.makespan
    assert times["ours"] <= 1.01 * min(times.values()) and times["ours"] <= times["dfs"]
    assert choice.predicted.spilled <= max(spilled.values())
