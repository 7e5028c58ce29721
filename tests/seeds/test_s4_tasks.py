"""Seed 004, "Basic Design" and "Graphs": a task is inputs, a function, outputs; a graph of them is cut in subgraphs."""

from __future__ import annotations

import json

import pytest

from jmars.client import Cluster
from jmars.remote import load_tasks

TEN_LINES = """\
tasks:
  task_A: {function: "builtins:divmod", args: [1234, 100], outputs: [output_1, output_2], cost: 2.0, size: 64}
  task_B: {function: "math:sqrt", inputs: [task_A.output_1], cost: 1.0, size: 32}
  task_C: {function: "math:factorial", inputs: [task_A.output_2], cost: 4.0, size: 32}
  task_D: {function: "math:log2", inputs: [task_C], cost: 1.0, size: 32}
  task_E: {function: "builtins:max", inputs: [task_B, task_D], cost: 0.5, size: 32}
  task_F: {function: "builtins:sum", inputs: {iterable: task_A}, cost: 0.5, size: 32, env: {LANG: C}}
  task_G:
    {function: "builtins:round", inputs: [task_E], params: {ndigits: 3}, cost: 0.1, size: 32, memory: 1MiB, device: cpu}
"""


def total(iterable):
    return sum(iterable.values())


def test_s4_9_a_json_task_file_with_inputs_function_and_outputs_runs(tmp_path):
    document = {
        "tasks": [
            {"task": "task_X", "function": "builtins:divmod", "args": [17, 5], "outputs": ["output_1", "output_2"]},
            {"task": "task", "function": "builtins:pow", "inputs": ["task_X.output_1"], "args": [2], "cost": 0.1},
        ]
    }
    (tmp_path / "tasks.json").write_text(json.dumps(document))
    with Cluster(n_workers=2):
        tasks = load_tasks(tmp_path / "tasks.json")
        assert tasks.fetch() == {"task": 9} and tasks["task_X"].output["output_2"].fetch() == 2


@pytest.mark.parametrize("how", ["merge", "depth-first"])
def test_s4_10_a_ten_line_yaml_of_tasks_is_partitioned_and_runs(how):
    pytest.importorskip("yaml")
    text = TEN_LINES.replace('"builtins:sum"', "total")
    assert len(text.splitlines()) <= 10
    tasks = load_tasks(text, {"total": total})
    parts = tasks.parts(workers=2, how=how, memory=192)
    assert list(parts) == list(tasks) and len(set(parts.values())) >= 2
    for part in set(parts.values()):
        assert sum(tasks.tasks[name].size for name in parts if parts[name] == part) <= 192
    with Cluster(n_workers=2):
        found = tasks.fetch()
    assert found == {"task_F": 46, "task_G": 127.795}


@pytest.mark.parametrize("how", ["merge", "depth-first"])
def test_s4_10_each_part_of_a_partition_is_a_process(how):
    pytest.importorskip("yaml")
    tasks = load_tasks(TEN_LINES.replace('"builtins:sum"', "total"), {"total": total}, parts="processes")
    assert tasks.fetch(workers=2, how=how, memory=192) == {"task_F": 46, "task_G": 127.795}
    runs = {name: run for run in tasks.part_runs for name in run.tasks}
    parts = tasks.parts(workers=2, how=how, memory=192)
    assert {name: run.part for name, run in runs.items()} == parts
    assert len({run.process for run in tasks.part_runs}) == len(set(parts.values())) >= 2


def test_s4_8_a_manager_gives_subgraphs_to_processes_that_read_and_send():
    pytest.importorskip("yaml")
    tasks = load_tasks(TEN_LINES.replace('"builtins:sum"', "total"), {"total": total}, parts="processes")
    tasks.fetch(workers=3, memory=128)
    parts = {run.part: run for run in tasks.part_runs}
    crossing = {(parts[b].part, a) for b in parts for a in parts[b].reads}
    assert crossing and crossing == {(b, a) for a in parts for b in parts[a].sends}
    assert all((run.received > 0) == bool(run.reads) and (run.sent > 0) == bool(run.sends) for run in parts.values())
