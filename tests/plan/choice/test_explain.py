"""The explanation of a plan adds up: every operand once, no bar over another, and a chain that reaches the end."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.errors import GraphError
from jmars.graph import Dag
from jmars.plan import PlanGraph, Workers, choose, explain, picture, rank_by, simulate, volume
from tests.benchmarks.plan_graphs import CHUNK, SMALL_ONES
from tests.plan.examples import clusters, graphs, tree, unit


def traced(graph, workers, assign, order="dfs"):
    return simulate(graph, workers, assign, rank_by(order, graph), trace=True)


@settings(max_examples=60)
@given(graphs(), clusters(), st.data())
def test_lanes_chain_curve_and_cut_agree_with_the_run(graph, workers, data):
    p = len(workers)
    assign = data.draw(st.lists(st.integers(0, p - 1), min_size=graph.n, max_size=graph.n))
    run = traced(graph, workers, assign)
    shown = json.loads(json.dumps(picture(graph, workers, run)))
    bars = [(w, bar) for w, worker in enumerate(shown["workers"]) for lane in worker["lanes"] for bar in lane]
    assert sorted(bar[0] for _, bar in bars) == list(range(graph.n))
    assert all(assign[v] == w and (a, b) == (run.trace.start[v], run.trace.end[v]) for w, (v, a, b, _) in bars)
    for w, worker in enumerate(shown["workers"]):
        assert len(worker["lanes"]) == workers.cores[w]
        for lane in worker["lanes"]:
            assert all(one[2] <= two[1] + 1e-9 for one, two in zip(lane, lane[1:]))
        assert max([held for _, held in worker["curve"]], default=0) <= worker["peak"] == run.peak[w]
    assert shown["cut"]["bytes"] == volume(graph, assign) == sum(pair[2] for pair in shown["cut"]["pairs"])
    chain = shown["critical"]
    if graph.n:
        assert chain[-1]["end"] == run.makespan and chain[0]["after"] == -1 and chain[0]["start"] == 0
        assert [link["after"] for link in chain[1:]] == [link["operand"] for link in chain[:-1]]
        assert {link["why"] for link in chain} <= {"start", "input", "transfer", "core", "disk"}


def test_the_chain_names_what_each_operand_waited_for():
    # 0 runs, 1 waits for the core, 2 reads 1, 3 reads 2 on the other worker
    graph = PlanGraph.build(Dag.from_edges(4, [1, 2], [2, 3]), 1.0, 10)
    run = traced(graph, Workers.build(2, bandwidth=10.0, latency=0.0), [0, 0, 0, 1], "level")
    chain = picture(graph, Workers.build(2, bandwidth=10.0), run)["critical"]
    assert [(link["operand"], link["why"]) for link in chain] == [
        (0, "start"),
        (1, "core"),
        (2, "input"),
        (3, "transfer"),
    ]


def test_what_is_read_back_from_disk_is_said():
    graph = PlanGraph.build(Dag.from_edges(6, [0, 2, 1], [3, 4, 5]), 1.0, [10, 10, 10, 0, 0, 0])
    tight = Workers.build(1, memory=20, disk=10.0)
    run = simulate(graph, tight, [0] * 6, range(6), trace=True)
    assert "disk" in [link["why"] for link in picture(graph, tight, run)["critical"]]


def test_a_choice_is_explained_beside_what_was_tried():
    graph, workers = SMALL_ONES["matmul"](), Workers.build(3, cores=2, memory=int(20 * CHUNK))
    choice = choose(graph, workers, budget=None)
    shown = explain(graph, workers, choice)
    assert json.loads(json.dumps(shown)) == shown
    assert shown["makespan"] == choice.predicted.makespan and shown["moved"] == choice.predicted.moved
    assert shown["tried"][0][:2] == [shown["chosen"], choice.predicted.makespan]
    assert [one[5] for one in shown["tried"]] == sorted(one[5] for one in shown["tried"])
    assert shown["chosen"] in shown["why"] and f"of {len(choice.tried)}" in shown["why"]


def test_a_large_run_is_explained_in_little():
    graph, workers = SMALL_ONES["stencil"](), Workers.build(2, cores=2)
    shown = explain(graph, workers, choose(graph, workers), most=40)
    lanes = [lane for worker in shown["workers"] for lane in worker["lanes"]]
    assert sum(len(lane) for lane in lanes) <= 44 < graph.n
    assert sum(bar[3] for lane in lanes for bar in lane) == graph.n == shown["operands"]
    assert all(len(worker["curve"]) <= 20 for worker in shown["workers"])
    assert all(max(held for _, held in worker["curve"]) == worker["peak"] for worker in shown["workers"])


def test_chunks_that_are_there_run_nowhere():
    graph, workers = unit(tree(4)), Workers.build(2, bandwidth=1.0)
    placed = np.array([0, 0, 1, 1, -1, -1, -1])
    shown = explain(graph, workers, choose(graph, workers, placed=placed), placed=placed)
    assert shown["operands"] == 3 and shown["cut"]["bytes"] == 1


def test_an_empty_graph_has_an_empty_picture():
    nothing, one = unit(Dag.from_edges(0, [], [])), Workers.build(1)
    assert explain(nothing, one, choose(nothing, one))["critical"] == []


def test_a_run_without_times_is_refused():
    graph, one = unit(tree(2)), Workers.build(1)
    with pytest.raises(GraphError, match="trace=True"):
        picture(graph, one, simulate(graph, one, [0] * 3, range(3)))
