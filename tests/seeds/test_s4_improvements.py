"""Seed 004, "Graph Optimization" and "READ THIS": stealing, copies, least memory, METIS, annealing; and cascade."""

import numpy as np
import pytest

from jmars.annex.planners import duplicate, steal
from jmars.graph import Dag
from jmars.optimize.passes import mars
from jmars.plan import PlanGraph, Workers, assign_initial, choose, make_plan, rank_by, simulate
from jmars.plan.improve import MOVES, anneal, refine, solve_exactly
from jmars.plan.initial import assign_ncd, distances, values
from jmars.plan.order import rank_backwards, rank_min_memory, sequential_peak
from jmars.plan.partition import assign_metis, has_metis, metis_groups
from jmars.switches import checked
from tests.benchmarks.plan_graphs import SMALL_ONES, layered

PAIR = Workers.build(2, cores=2)


@pytest.mark.parametrize("name", ["tree", "map reduce", "tsqr", "matmul"])
def test_s4_19_a_planted_imbalance_loses_a_fifth_of_its_time_by_stealing(name):
    graph = SMALL_ONES[name]()
    rank = rank_by("blevel", graph)
    planted = np.zeros(graph.n, np.int16)
    planted[-1] = 1
    before = simulate(graph, PAIR, planted, rank).makespan
    assert simulate(graph, PAIR, steal(graph, PAIR, planted, rank), rank).makespan <= 0.8 * before


@pytest.mark.parametrize("name", SMALL_ONES)
def test_s4_19_stealing_is_never_worse_than_the_start(name):
    graph, workers = SMALL_ONES[name](), Workers.build(3, cores=2)
    plan = choose(graph, workers).plan
    found = steal(graph, workers, plan.assign, plan.rank)
    before, after = (simulate(graph, workers, assign, plan.rank).makespan for assign in (plan.assign, found))
    assert after <= before


def test_s4_20_what_is_cheap_to_make_and_dear_to_send_is_made_twice():
    # a generator of 1 GB that takes 0.1 s, read on two workers; the link takes 0.8 s
    graph = PlanGraph.build(Dag.from_edges(3, [0, 0], [1, 2]), [0.1, 1.0, 1.0], [10**9, 8, 8])
    workers = Workers.build(2)
    assign, rank = np.array([0, 0, 1], np.int16), np.arange(3)
    sent = simulate(graph, workers, assign, rank)
    better = duplicate(graph, workers, assign, rank)
    twice = simulate(better.graph, workers, better.assign, better.rank)
    assert better.copies == [(0, 1)]
    assert twice.makespan == 1.1 < sent.makespan == pytest.approx(1.9, abs=0.01)
    assert (sent.moved, twice.moved) == (10**9, 0)


def test_s4_20_what_is_dear_to_make_is_sent():
    graph = PlanGraph.build(Dag.from_edges(3, [0, 0], [1, 2]), [1.0, 1.0, 1.0], [10**9, 8, 8])
    assert duplicate(graph, Workers.build(2), np.array([0, 0, 1], np.int16), np.arange(3)).copies == []


@pytest.mark.parametrize("name", SMALL_ONES)
def test_s4_21_least_memory_backwards_from_the_longest_critical_path(name):
    graph = SMALL_ONES[name]()
    held = {order: sequential_peak(graph, rank_by(order, graph)) for order in ("dfs", "level", "blevel")}
    rank = rank_min_memory(graph)
    assert sequential_peak(graph, rank) <= min(held.values())
    src, dst = graph.dag.edges()
    assert np.all(rank[src] < rank[dst])
    assert rank_backwards(graph).argmax() in np.flatnonzero(graph.result)  # the last operand is an output


@pytest.mark.skipif(not has_metis(), reason="needs pymetis: pip install jmars[plan]")
def test_s4_22_metis_parts_are_balanced_in_time_and_memory():
    graph = layered(8, 16)
    label = metis_groups(graph, 4, memory=True, slack=1.1)
    for weight in (graph.cost, graph.nbytes):
        share = np.bincount(label, weight, 4) / weight.sum()
        assert share.max() < 0.25 * 1.25
    drawn = np.random.default_rng(0).integers(0, 4, graph.n)
    src, dst = graph.dag.edges()
    cut = {name: graph.nbytes[src][p[src] != p[dst]].sum() for name, p in {"metis": label, "drawn": drawn}.items()}
    assert cut["metis"] < 0.7 * cut["drawn"]


@pytest.mark.skipif(not has_metis(), reason="needs pymetis: pip install jmars[plan]")
def test_s4_22_time_bands_give_every_worker_its_share_of_every_stretch():
    graph, workers = layered(8, 16), Workers.build(4)
    plain, banded = (assign_metis(graph, workers, bands=bands) for bands in (1, 4))
    took = [simulate(graph, workers, assign, rank_by("blevel", graph)).makespan for assign in (plain, banded)]
    assert took[1] < took[0]


@pytest.mark.parametrize("name", SMALL_ONES)
def test_s4_22_from_large_chunks_to_small_ones_the_cost_never_rises(name):
    graph = SMALL_ONES[name]()
    start = np.random.default_rng(1).integers(0, 2, graph.n).astype(np.int16)
    rank = rank_by("blevel", graph)
    found = refine(graph, PAIR, start, rank)
    costs = [simulate(graph, PAIR, start, rank).makespan, *(cost for _, cost in found.levels)]
    assert costs == sorted(costs, reverse=True)
    assert found.levels[0][0] <= 8 < found.levels[-1][0] == graph.n


def test_s4_22_the_coarsest_level_is_solved_directly():
    # eight groups of unlike weight: exactly half of the work each is possible, a greedy way misses it
    eight = PlanGraph.build(Dag.from_edges(8, [], []), [9.0, 8.0, 7.0, 5.0, 4.0, 3.0, 3.0, 1.0], 8)
    where = solve_exactly(eight, Workers.build(2), np.arange(8))
    assert np.bincount(where, eight.cost).tolist() == [20.0, 20.0]


def test_s4_23_annealing_with_four_moves_and_the_curve_of_the_best():
    graph = SMALL_ONES["cholesky"]()
    start, rank = np.zeros(graph.n, np.int16), rank_by("dfs", graph)
    assert MOVES == ("move", "swap", "reorder", "duplicate")
    found = anneal(graph, PAIR, start, rank, tries=400, seed=5)
    tries, costs = zip(*found.curve)
    assert list(tries) == sorted(tries) and list(costs) == sorted(costs, reverse=True)
    assert costs[0] == simulate(graph, PAIR, start, rank).makespan and costs[-1] == found.cost < 0.8 * costs[0]
    assert simulate(found.plan.graph, PAIR, found.plan.assign, found.plan.rank).makespan == found.cost


def test_s4_23_a_button_stops_it_with_the_best_plan_until_then():
    graph, pressed = SMALL_ONES["tree"](), iter([False] * 10 + [True])
    found = anneal(graph, PAIR, np.zeros(graph.n, np.int16), rank_by("dfs", graph), stop=lambda: next(pressed))
    assert found.tries == 11 and found.cost <= found.curve[0][1]


def test_s4_24_cascades_values_and_distances():
    seven = Dag.from_edges(7, [0, 1, 3, 4, 5, 4], [1, 2, 1, 5, 2, 6])
    assert values(seven).tolist() == [1, 2, 3, 1, 2, 2, 3]
    between = distances(seven)
    assert (between[0, 3], between[0, 4], between[4, 6], between[5, 6]) == (1, 2, 1, 3)


def test_s4_24_the_assigner_ncd_keeps_near_operands_together():
    assert checked({"assigner": "ncd"}) == {"assigner": "ncd"}
    graph = SMALL_ONES["map reduce"]()
    plan = make_plan(graph.dag, mars(graph.dag, graph.nbytes), [2, 2], search="ncd")
    assert np.array_equal(plan.assign >= 0, graph.dag.in_degree == 0)

    def bytes_moved(where):
        return simulate(graph, PAIR, where, rank_by("dfs", graph)).moved

    drawn = [np.random.default_rng(seed).integers(0, 2, graph.n) for seed in range(5)]
    assert bytes_moved(assign_ncd(graph.dag, [2, 2])) < min(bytes_moved(where) for where in drawn)
    assert assign_initial(graph.dag, [0, 1], [1], "ncd")[:2].tolist() == [0, 0]
