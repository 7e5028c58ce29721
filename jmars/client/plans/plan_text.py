"""A plan as text: the output of `print(plan)`, and the difference between two plans.

Reads and writes a plan as JSON: tasks with costs, and machines with speed, capacity and links.

The text is made to be read and edited: an entry for each task and machine, with names for choices. Costs are those
learnt from earlier runs, until the user writes others.
Source: docs/explanation/seeds.md, "Graph thoughts".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from jmars.errors import GraphError
from jmars.graph import Dag
from jmars.plan.plan_graph import ANY, CPU, GPU, UNLIMITED, PlanGraph, Workers
from jmars.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from jmars.client.plans.planned_run import PlannedRun

_SHOWN = 5  # kinds of fused operands, links of the critical path


def percent(new: float, old: float) -> str:
    """The difference of `new` from `old` in percent: "−38 %".

    Examples
    --------
    >>> percent(62, 100), percent(1, 0), percent(0, 0)
    ('−38 %', 'new', '±0 %')
    """
    if not old:
        return "new" if new else "±0 %"
    share = round(100 * (new / old - 1))
    return f"{'−' if share < 0 else '+' if share else '±'}{abs(share)} %"


def facts(plan: PlannedRun) -> list[tuple[str, str]]:
    """The lines about a plan: (name, text)."""
    low, high = int(plan.peak[:, 0].max()), int(plan.peak[:, 1].max())
    between = format_bytes(high) if low == high else f"{format_bytes(low)} to {format_bytes(high)}"
    each = " on one machine" if len(plan.workers) > 1 else ""
    rows = [
        ("time", f"{format_seconds(plan.makespan)}; no plan can beat {format_seconds(plan.lower_bound)}"),
        ("peak memory", f"{between} of {_room(plan)} for chunks{each}"),
        ("spilled", format_bytes(plan.spilled)),
        ("moved", format_bytes(plan.moved) + (" between machines" if len(plan.workers) > 1 else ", one machine")),
    ]
    if plan.waiting:
        rows.append(("waiting outputs", f"{format_bytes(plan.waiting)}·s held for other machines"))
    tried = len(plan.tried)
    best = f"; the best of {tried} tried" if tried > 1 else ""
    rows.append(("policy", f"{plan.policy}{best}, planned in {format_seconds(plan.took)}"))
    error = error_text(plan)
    return [*rows, ("accuracy", error)] if error else rows


def summary(plan: PlannedRun) -> str:
    """A plan as several lines of text."""
    lines = [headline(plan)]
    lines += [f"  {what:16s}{text}" for what, text in facts(plan)]
    groups = [f"{n} × {name} ({members} in 1)" for n, members, name in plan.groups]
    if groups:
        lines.append(f"  {'fused':16s}{_some(groups, ', ')}")
    path = _path(plan)
    if path:
        lines.append(f"  {'critical path':16s}{_some(path, ' → ')}")
    return "\n".join(lines)


def headline(plan: PlannedRun) -> str:
    """Number of operands and workers."""
    before = f" ({plan.operands_before} before fusion)" if plan.compiled is not None else ""
    operands = f"{plan.operands} operand{'s' * (plan.operands != 1)}{before}"
    cores = plan.workers.cores.tolist()
    workers = f"{cores[0]} worker{'s' * (cores[0] != 1)}"
    if len(cores) > 1:
        workers = f"{len(cores)} machines of {workers}" if len(set(cores)) == 1 else f"machines of {cores} workers"
    part = "" if plan.complete else "the first stage: "  # what comes behind it is known when that has run
    return f"plan of {part}{operands} on {workers}"


def comparison(plan: PlannedRun, base: PlannedRun) -> str:
    """Describes the effect of a change: Δ time, peak, spill, moved bytes, and outputs waiting for other machines."""
    gains = [
        f"{format_seconds(plan.makespan)} ({percent(plan.makespan, base.makespan)})",
        f"peak {format_bytes(peak_of(plan))} ({percent(peak_of(plan), peak_of(base))})",
        f"spilled {format_bytes(plan.spilled)} ({_difference(plan.spilled, base.spilled)})",
        f"moved {format_bytes(plan.moved)} ({_difference(plan.moved, base.moved)})",
    ]
    if plan.waiting or base.waiting:
        gains.append(f"waiting {format_bytes(plan.waiting)}·s ({percent(plan.waiting, base.waiting)})")
    note = ""
    if "bandwidth" in plan.change and len(plan.workers) == 1:
        note = "; nothing moves on one machine: give hosts=2 too"
    return f"with {change_text(plan.change)}: {', '.join(gains)}{note}"


def change_text(change: Mapping[str, Any]) -> str:
    """The change in the user's notation.

    Examples
    --------
    >>> change_text({"chunk_size": 64 * 2**20, "workers": 4})
    'chunk_size 64.0 MiB, workers 4'
    """
    sizes = ("memory", "chunk_size", "bandwidth")
    return ", ".join(
        f"{name} {format_bytes(value) if name in sizes and not isinstance(value, str) else value}"
        for name, value in change.items()
    )


def peak_of(plan: PlannedRun) -> int:
    """Predicted peak bytes in memory, of all machines together."""
    return int(plan.predicted.peak_total)


def _difference(new: int, old: int) -> str:
    """The difference in bytes, with its sign."""
    return f"{'−' if new < old else '+' if new > old else '±'}{format_bytes(abs(new - old))}"


def _room(plan: PlannedRun) -> str:
    room = int(plan.workers.memory.min())
    return "unlimited memory" if room >= 2**62 else format_bytes(room)


def error_of_time(plan: PlannedRun) -> float | None:
    """Median error of earlier predictions of the time on this machine, as a share; None if unknown."""
    seen = plan.request.profile.accuracy.errors() if plan.request is not None else {"runs": 0}
    return seen["makespan"] if seen["runs"] else None


def error_text(plan: PlannedRun) -> str:
    """Errors of earlier predictions on this machine; "" if unknown."""
    if plan.request is None:
        return ""
    seen = plan.request.profile.accuracy.errors()
    if not seen["runs"]:
        return ""
    parts = [f"{100 * seen[name]:.0f} % of {word}" for name, word in _MEASURED if seen[name] is not None]
    return f"predictions here were off by {' and '.join(parts)}, median of {seen['runs']} runs" if parts else ""


_MEASURED = (("makespan", "time"), ("peak", "peak memory"))


def _path(plan: PlannedRun) -> list[str]:
    """The critical path, with equal neighbours merged."""
    found: list[tuple[str, int, float]] = []
    for name, seconds, _ in plan.critical_path:
        if found and found[-1][0] == name:
            found[-1] = name, found[-1][1] + 1, found[-1][2] + seconds
        else:
            found.append((name, 1, seconds))
    return [f"{f'{n} × ' if n > 1 else ''}{name} {format_seconds(seconds)}" for name, n, seconds in found]


def _some(parts: list[str], between: str) -> str:
    """Joins the parts; of many, the first and the last."""
    if len(parts) > _SHOWN:
        parts = [*parts[: _SHOWN - 1], f"… {len(parts) - _SHOWN} more …", parts[-1]]
    return between.join(parts)


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
