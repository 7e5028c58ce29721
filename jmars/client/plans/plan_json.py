"""Reads and writes a plan as JSON: tasks with costs, and machines with speed, capacity and links.

The text is made to be read and edited: an entry for each task and machine, with names for choices. Costs are those
learnt from earlier runs, until the user writes others.
Source: docs/explanation/seeds.md, "Graph thoughts".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from jmars.errors import GraphError
from jmars.graph.dag import Dag
from jmars.plan.plan_graph import ANY, CPU, GPU, PlanGraph
from jmars.plan.workers import UNLIMITED, Workers

__all__ = ["FORMAT", "as_json", "read_json"]

FORMAT = "jmars-plan-1"
_DEVICES = {"any": ANY, "cpu": CPU, "gpu": GPU}
_NAMES = {number: name for name, number in _DEVICES.items()}
_TASK = {"name": "", "seconds": 0.0, "bytes": 0, "scratch": 0, "inputs": [], "kept": False, "held": False,
         "device": "any", "machine": None}  # fmt: skip
_MACHINE = {"workers": 1, "speed": 1.0, "memory": None, "device": "cpu", "disk": 1e9}


def as_json(graph: PlanGraph, workers: Workers, names: Sequence[str], held: Sequence[bool]) -> str:
    """Writes tasks and machines as JSON text, a line each; default values are left out.

    Parameters
    ----------
    graph, workers
        The tasks and the machines.
    names
        Name of each task.
    held
        Whether the chunk of each task is stored before the run.

    Examples
    --------
    >>> pair = PlanGraph.build(Dag.from_edges(2, [0], [1]), cost=[1.0, 0.5], nbytes=8)
    >>> print(as_json(pair, Workers.build(1), ["load", "sum"], [False, False]))
    {"format": "jmars-plan-1",
     "tasks": [
      {"name": "load", "seconds": 1.0, "bytes": 8},
      {"name": "sum", "seconds": 0.5, "bytes": 8, "inputs": [0], "kept": true}],
     "machines": [
      {}],
     "links": {"latency": 0.0005, "bandwidth": 1250000000.0}}
    """
    inputs = [graph.dag.pred_idx[a:b].tolist() for a, b in pairwise(graph.dag.pred_ptr.tolist())]
    tasks = [
        {
            "name": names[i],
            "seconds": float(graph.cost[i]),
            "bytes": int(graph.nbytes[i]),
            "scratch": int(graph.work[i]),
            "inputs": inputs[i],
            "kept": bool(graph.result[i]),
            "held": bool(held[i]),
            "device": _NAMES[int(graph.device[i])],
            "machine": int(graph.pin[i]) if graph.pin[i] >= 0 else None,
        }
        for i in range(graph.n)
    ]
    machines = [
        {
            "workers": int(workers.cores[w]),
            "speed": float(workers.speed[w]),
            "memory": int(workers.memory[w]) if workers.memory[w] != UNLIMITED else None,
            "device": _NAMES[int(workers.device[w])],
            "disk": float(workers.disk[w]),
        }
        for w in range(len(workers))
    ]
    apart = workers.bandwidth[~np.eye(len(workers), dtype=bool)]
    alike = not len(apart) or bool((apart == apart[0]).all())
    bandwidth: Any = float(workers.bandwidth.flat[0] if not len(apart) else apart[0])
    links = {"latency": workers.latency, "bandwidth": bandwidth if alike else workers.bandwidth.tolist()}

    def lines(rows: Sequence[Mapping[str, Any]], usual: Mapping[str, Any]) -> str:
        short = [{key: value for key, value in row.items() if value != usual[key]} for row in rows]
        return ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in short)

    return (
        f'{{"format": "{FORMAT}",\n "tasks": [\n  {lines(tasks, _TASK)}],\n'
        f' "machines": [\n  {lines(machines, _MACHINE)}],\n "links": {json.dumps(links)}}}'
    )


def read_json(text: str | bytes) -> tuple[PlanGraph, Workers, list[str], list[bool]]:
    """Reads JSON text from `as_json` or written by hand; returns graph, workers, names and stored flags.

    Raises
    ------
    GraphError
        If the text has another form: the message names the entry.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GraphError(f"this is not JSON ({error}); give the text of PlannedRun.to_json()") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise GraphError(f'this is not a plan: it must be an object with "format": "{FORMAT}"')
    tasks = _rows(data, "tasks", _TASK)
    machines = _rows(data, "machines", _MACHINE)
    edges = [(_number(i, f"an input of task {k}"), k) for k, task in enumerate(tasks) for i in task["inputs"]]
    workers = Workers.build(
        len(machines),
        cores=[int(_number(one["workers"], f"workers of machine {k}")) for k, one in enumerate(machines)],
        speed=[_number(one["speed"], f"speed of machine {k}") for k, one in enumerate(machines)],
        memory=[
            UNLIMITED if one["memory"] is None else int(_number(one["memory"], f"memory of machine {k}"))
            for k, one in enumerate(machines)
        ],
        device=[_device(one["device"], f"machine {k}") for k, one in enumerate(machines)],
        disk=[_number(one["disk"], f"disk of machine {k}") for k, one in enumerate(machines)],
        **_links(data.get("links", {}), len(machines)),
    )
    kept = [bool(task["kept"]) for task in tasks]
    graph = PlanGraph.build(
        Dag.from_edges(len(tasks), [int(a) for a, _ in edges], [b for _, b in edges]),
        [_number(task["seconds"], f"seconds of task {k}") for k, task in enumerate(tasks)],
        [int(_number(task["bytes"], f"bytes of task {k}")) for k, task in enumerate(tasks)],
        work=[int(_number(task["scratch"], f"scratch of task {k}")) for k, task in enumerate(tasks)],
        result=kept if any(kept) else None,
        device=[_device(task["device"], f"task {k}") for k, task in enumerate(tasks)],
        pin=[
            -1 if task["machine"] is None else int(_number(task["machine"], f"machine of task {k}"))
            for k, task in enumerate(tasks)
        ],
    )
    return graph, workers, [str(task["name"])[:200] for task in tasks], [bool(task["held"]) for task in tasks]


def _rows(data: Mapping[str, Any], what: str, usual: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Reads the entries of a list and adds default values."""
    found = data.get(what)
    if not isinstance(found, list):
        raise GraphError(f'"{what}" must be a list of objects')
    rows = []
    for k, row in enumerate(found):
        if not isinstance(row, dict) or set(row) - set(usual) or not isinstance(row.get("inputs", []), list):
            odd = ", ".join(sorted(map(str, set(row) - set(usual)))) if isinstance(row, dict) else repr(row)[:40]
            raise GraphError(f'entry {k} of "{what}" has {odd}; it may have {", ".join(usual)}')
        rows.append({**usual, **row})
    return rows


def _links(links: Any, n: int) -> dict[str, Any]:
    """Latency and bandwidth as arguments of `Workers.build`."""
    if not isinstance(links, dict):
        raise GraphError('"links" must be an object with "latency" and "bandwidth"')
    bandwidth = links.get("bandwidth", 1.25e9)
    if isinstance(bandwidth, list):
        if len(bandwidth) != n or any(not isinstance(row, list) or len(row) != n for row in bandwidth):
            raise GraphError(f'"bandwidth" must be a number, or {n} lists of {n} numbers: from machine, to machine')
        rows = [[_number(value, "a bandwidth") for value in row] for row in bandwidth]
        return {"latency": _number(links.get("latency", 5e-4), "latency"), "bandwidth": rows}
    number = _number(bandwidth, "bandwidth")
    return {"latency": _number(links.get("latency", 5e-4), "latency"), "bandwidth": number}


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e19:
        raise GraphError(f"{what} is {value!r}; give a number of 0 or more")
    return float(value)


def _device(value: Any, what: str) -> int:
    if value not in _DEVICES:
        raise GraphError(f"device of {what} is {value!r}; choose one of {', '.join(_DEVICES)}")
    return _DEVICES[value]
