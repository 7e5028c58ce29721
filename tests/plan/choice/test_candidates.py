"""What is tried: cheap ways first, other programs last and only where they are installed, orders only on one worker."""

import numpy as np
import pytest
from hypothesis import given, settings

from jmars.graph import Dag
from jmars.plan import CPU, GPU, PlanGraph, Workers, choose, rank_by, simulate
from jmars.plan import best_plan as module
from jmars.plan.best_plan import candidates
from tests.benchmarks.plan_graphs import SMALL_ONES
from tests.plan.examples import clusters, graphs, tree, unit


def names(graph, workers, **options):
    return list(dict.fromkeys(name for name, *_ in candidates(graph, workers, None, **options)))


@settings(max_examples=40)
@given(graphs(), clusters())
def test_every_candidate_is_a_plan(graph, workers):
    for name, ordered, assign, rank in candidates(graph, workers, None, prefer="memory"):
        assert np.all((assign >= 0) & (assign < len(workers))), name
        assert sorted(rank.tolist()) == list(range(graph.n)), ordered


def test_other_programs_come_last_and_only_where_they_are(monkeypatch):
    graph, workers = SMALL_ONES["stencil"](), Workers.build(3)
    ours = [name for name in names(graph, workers) if name not in ("km1", "metis, 4 bands")]
    assert names(graph, workers)[: len(ours)] == ours and ours[0] == "eft 3"
    monkeypatch.setattr(module, "suits_metis", lambda *_, **__: False)
    monkeypatch.setattr(module, "has_km1", lambda: False)
    assert names(graph, workers) == ours


def test_a_large_graph_is_not_given_to_them(monkeypatch):
    monkeypatch.setattr(module, "_MAX_PARTITIONED_OPERANDS", 10)
    assert not {"km1", "metis, 4 bands"} & set(names(unit(tree(8)), Workers.build(2)))


def test_on_one_worker_only_orders_are_tried():
    graph, one = SMALL_ONES["matmul"](), Workers.build(1, cores=2)
    tried = list(candidates(graph, one, None))
    assert {name for name, *_ in tried} == {"one worker"} and all(not assign.any() for _, _, assign, _ in tried)
    assert [ordered for _, ordered, _, _ in tried] == ["dfs", "blevel", "wave", "mars", "level"]
    held = np.where(graph.dag.in_degree == 0, 0, -1)
    for _, _, assign, _ in candidates(graph, one, held):
        assert np.array_equal(assign, np.where(held == 0, -1, 0))


def test_where_not_all_chunks_fit_an_order_of_least_memory_is_tried():
    graph = SMALL_ONES["tree"]()
    tight = Workers.build(2, memory=int(graph.nbytes.sum()) // 4)
    assert "backwards" in {ordered for _, ordered, _, _ in candidates(graph, tight, None)}
    assert "backwards" not in {ordered for _, ordered, _, _ in candidates(graph, Workers.build(2), None)}
    assert "backwards" in {ordered for _, ordered, _, _ in candidates(graph, Workers.build(2), None, prefer="memory")}


def test_wishes_are_kept_by_every_way():
    dag = Dag.from_edges(12, [0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11])
    graph = PlanGraph.build(dag, 1.0, 8, device=[GPU] * 3 + [CPU] * 3 + [0] * 6, pin=[-1] * 11 + [2])
    workers = Workers.build(3, cores=[4, 1, 4], device=[CPU, GPU, CPU], speed=[1.0, 8.0, 0.5])
    for name, _, assign, _ in candidates(graph, workers, None):
        assert set(assign[:3].tolist()) == {1} and not np.any(assign[3:6] == 1) and assign[11] == 2, name


def test_an_operand_that_the_one_worker_may_not_run_is_an_error():
    with pytest.raises(ValueError, match="add such a worker"):
        list(candidates(PlanGraph.build(tree(2), 1.0, 8, device=GPU), Workers.build(1), None))


def everyone_reads_everything(n):
    src, dst = np.repeat(np.arange(n), n), n + np.tile(np.arange(n), n)
    return PlanGraph.build(Dag.from_edges(2 * n, src, dst), 0.04, 35_000_000)


@pytest.mark.parametrize("bandwidth", [1.25e9, 1.25e8, 1.25e7])
def test_no_plan_is_worse_than_one_worker_alone(bandwidth):
    for graph in (everyone_reads_everything(16), SMALL_ONES["shuffle"](), SMALL_ONES["layered"]()):
        workers = Workers.build(8, cores=2, bandwidth=bandwidth)
        alone = simulate(graph, workers, [3] * graph.n, rank_by("dfs", graph))
        assert choose(graph, workers, prefer="fast", budget=None).predicted.makespan <= alone.makespan


def test_over_slow_links_few_workers_are_tried_early():
    graph = everyone_reads_everything(8)
    slow, quick = Workers.build(8, bandwidth=1e6), Workers.build(8, bandwidth=1e12)
    pairs = [(one.removesuffix(" on few"), order) for one, order, *_ in candidates(graph, slow, None)]
    assert pairs[:4] == [("eft 3", "blevel"), ("eft 3", "dfs"), ("alone", "dfs"), ("eft 3", "blevel")]
    assert names(graph, slow)[:3] == ["eft 3", "alone", "eft 3 on few"]
    assert "alone" not in names(graph, quick)[:4] and "alone" in names(graph, quick)


def test_placement_by_bytes_is_tried_but_for_large_graphs_in_little_time():
    dag = Dag.from_edges(6, [0, 1, 2, 3], [4, 4, 5, 5])
    graph = PlanGraph.build(dag, cost=1.0, nbytes=[100, 1, 1, 100, 1, 1])
    pair = Workers.build(2)
    found = {name: assign for name, _, assign, _ in candidates(graph, pair, None)}
    assign = found["follow inputs"]
    assert assign[4] == assign[0] and assign[5] == assign[3]
    placed = np.array([1, -1, -1, -1, -1, -1])
    found = {name: assign for name, _, assign, _ in candidates(graph, pair, placed)}
    assert found["follow inputs"][0] == -1 and found["follow inputs"][4] == 1
    assert "follow inputs" not in {name for name, *_ in candidates(graph, pair, None, seconds=1e-6)}
