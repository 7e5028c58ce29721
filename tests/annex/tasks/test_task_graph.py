"""Task graphs run as one graph and fall into parts."""

from __future__ import annotations

import numpy as np
import pytest

from jmars.client import Cluster
from jmars.errors import GraphError, UnsupportedError
from jmars.plan import Workers
from jmars.remote import load_tasks, spawn
from jmars.tensor.tensor_graph import TensorGraph


@pytest.fixture(scope="module")
def cluster():
    with Cluster(n_workers=2) as made:
        yield made


def test_values_and_outputs_go_where_the_document_says(cluster):
    tasks = load_tasks(
        {
            "tasks": {
                "numbers": {"function": "numpy:arange", "args": [10.0]},
                "ends": {"function": "ends", "inputs": ["numbers"], "outputs": ["low", "high"]},
                "width": {"function": "width", "inputs": {"a": "ends.high", "b": "ends.low"}, "params": {"scale": 2}},
                "both": {"function": "builtins:dict", "inputs": {"ends": "ends", "numbers": "numbers"}},
            }
        },
        {"ends": lambda x: (x.min(), x.max()), "width": lambda a, b, scale: (a - b) * scale},
    )
    assert tasks.results == ["width", "both"] and len(tasks) == 4
    found = tasks.fetch()
    assert found["width"] == 18 and found["both"]["ends"] == {"low": 0, "high": 9}
    assert tasks.fetch("ends") == {"low": 0, "high": 9} and np.array_equal(tasks["numbers"].fetch(), np.arange(10.0))
    assert spawn(float, (tasks["ends"].output["high"],)).fetch() == 9.0


def test_all_results_are_one_job(cluster):
    before = len(cluster.jobs())
    load_tasks([{"task": name, "function": "builtins:int"} for name in "abc"]).execute()
    assert len(cluster.jobs()) == before + 1


def test_only_what_is_asked_for_runs():
    tasks = load_tasks([{"task": "a", "function": "builtins:int"}, {"task": "b", "function": "builtins:exit"}])
    assert [op.label for op in TensorGraph.of([tasks["a"].data]).operands] == ["a"]


def test_costs_and_sizes_of_the_document_are_what_planners_see():
    chain = {
        "a": {"function": "builtins:int", "cost": 3, "size": 100, "memory": 7},
        "b": {"function": "builtins:abs", "inputs": ["a"], "cost": 1, "size": 10, "device": "gpu"},
        "c": {"function": "builtins:max", "inputs": ["a", "a", "b"]},
    }
    tasks = load_tasks({"tasks": chain})
    graph = tasks.plan_graph()
    assert (
        graph.cost.tolist() == [3, 1, 1] and graph.nbytes.tolist() == [100, 10, 0] and graph.work.tolist() == [7, 0, 0]
    )
    assert graph.dag.in_degree.tolist() == [0, 1, 2] and graph.result.tolist() == [False, False, True]
    assert tasks["a"].data.op.cost == 3.0 and tasks["a"].data.op.memory == 7
    with pytest.raises(UnsupportedError, match="task 'b' asks for a GPU"):
        tasks.execute()


def test_a_plan_of_the_whole_rests_on_the_costs_that_are_said(cluster):
    def never_ran_before():
        return 1

    chain = [
        {"task": "first one", "function": "f", "cost": 3},
        {"task": "then", "function": "g", "inputs": ["first one"], "cost": 0.5},
    ]
    tasks = load_tasks(chain, {"f": never_ran_before, "g": lambda x: x})
    assert tasks.plan().makespan == pytest.approx(3.5, rel=0.1)
    assert tasks["first one"].plan().makespan == pytest.approx(3, rel=0.1)


def test_every_task_is_in_one_part_and_parts_respect_memory():
    grid = [
        {
            "task": f"t{i}x{j}",
            "function": "builtins:max",
            "inputs": [f"t{i - 1}x{k}" for k in (j, (j + 1) % 4)] if i else [],
            "cost": 1,
            "size": 10,
        }
        for i in range(5)
        for j in range(4)
    ]
    tasks = load_tasks(grid)
    for how in ("merge", "depth-first"):
        for memory in (20, 60, None):
            parts = tasks.parts(3, how, memory=memory)
            assert list(parts) == list(tasks) and set(parts.values()) == set(range(max(parts.values()) + 1))
            if memory:
                assert np.bincount(list(parts.values())).max() * 10 <= memory
    assert len(set(tasks.parts(2, quota=float("inf")).values())) == 1
    assert tasks.parts(Workers.build(2, memory=100), "depth-first")["t4x0"] == 0


def test_what_cannot_be_is_told():
    tasks = load_tasks([{"task": "a", "function": "builtins:int", "size": 100}])
    with pytest.raises(GraphError, match="no partition 'cut'"):
        tasks.parts(how="cut")
    with pytest.raises(GraphError, match="workers is 0; give a number from 1 on"):
        tasks.parts(0)
    with pytest.raises(GraphError):
        tasks.parts(memory=10)
    with pytest.raises(GraphError, match="there is no task 'b'; there are a"):
        tasks.fetch("b")
    with pytest.raises(GraphError, match="'k' among its inputs and its params"):
        load_tasks(
            [
                {"task": "a", "function": "builtins:int"},
                {"task": "b", "function": "builtins:dict", "inputs": {"k": "a"}, "params": {"k": 1}},
            ]
        )
