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
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from jmars.errors import GraphError
from jmars.graph import Dag
from jmars.plan.plan_graph import ANY, CPU, GPU, UNLIMITED, PlanGraph, Workers
from jmars.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from jmars.client.plans.planned_run import PlannedRun
    from jmars.optimize.sources import SourceRead

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
    if plan.read:
        rows.append(("read", f"{format_bytes(plan.read)} of files and other sources"))
        rows += [("read again", f"{_source_name(plan, one)}: {one.why}") for one in plan.sources if one.why][:_SHOWN]
    if plan.reused:
        rows.append(("earlier runs", plan.reused))
    if plan.waiting:
        rows.append(("waiting outputs", f"{format_bytes(plan.waiting)}·s held for other machines"))
    tried = len(plan.tried)
    best = f"; the best of {tried} tried" if tried > 1 else ""
    rows.append(("policy", f"{plan.policy}{best}, planned in {format_seconds(plan.took)}"))
    error = error_text(plan)
    return [*rows, ("accuracy", error)] if error else rows


def _source_name(plan: PlannedRun, source: SourceRead) -> str:
    """Label and line of the first operand that reads a source."""
    assert plan.compiled is not None
    layer = plan.compiled.before.layers[source.layers[0]]
    return layer.name if layer.line is None else f"{layer.name} of line {layer.line.lineno}"


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
    if plan.read != base.read:
        gains.append(f"read {format_bytes(plan.read)} ({percent(plan.read, base.read)})")
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
    >>> change_text({"chunk_size": 64 * 2**20, "workers": 4}), change_text({"chunks": {"from_zarr": (1000, 250)}})
    ('chunk_size 64.0 MiB, workers 4', 'chunks (1000, 250) of from_zarr')
    """
    sizes = ("memory", "chunk_size", "bandwidth")
    found = []
    for name, value in change.items():
        if name == "chunks":
            found.append("chunks " + " and ".join(f"{lengths} of {label}" for label, lengths in value.items()))
        else:
            found.append(f"{name} {format_bytes(value) if name in sizes and not isinstance(value, str) else value}")
    return ", ".join(found)


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
_Device = Literal["any", "cpu", "gpu"]
_DEVICES: dict[_Device, int] = {"any": ANY, "cpu": CPU, "gpu": GPU}
_NAMES = {number: name for name, number in _DEVICES.items()}
_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Number = Annotated[float, Meta(ge=0, lt=1e19)]


class _Task(Struct, omit_defaults=True, forbid_unknown_fields=True):
    name: str = ""
    seconds: _Number = 0.0
    bytes: _Count = 0
    scratch: _Count = 0
    inputs: list[_Count] = []
    kept: bool = False
    held: bool = False
    device: _Device = "any"
    machine: _Count | None = None


class _Machine(Struct, omit_defaults=True, forbid_unknown_fields=True):
    workers: _Count = 1
    speed: _Number = 1.0
    memory: _Count | None = None
    device: _Device = "cpu"
    disk: _Number = 1e9


class _Links(Struct, frozen=True, forbid_unknown_fields=True):
    latency: _Number = 5e-4
    bandwidth: _Number | list[list[_Number]] = 1.25e9  # a list for each machine: to each machine


class _Plan(Struct):
    format: Literal["jmars-plan-1"]
    tasks: list[_Task]
    machines: list[_Machine]
    links: _Links = _Links()


def as_json(graph: PlanGraph, workers: Workers, names: Sequence[str], held: Sequence[bool]) -> str:
    """Writes tasks and machines as JSON text, a line each; names and whole numbers that are the default are left out.

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
      {"speed": 1.0, "disk": 1000000000.0}],
     "links": {"latency": 0.0005, "bandwidth": 1250000000.0}}
    """
    inputs = [graph.dag.pred_idx[a:b].tolist() for a, b in pairwise(graph.dag.pred_ptr.tolist())]
    columns = graph.cost, graph.nbytes, graph.work, graph.result, graph.device, graph.pin
    tasks = [
        _Task(names[i], cost, nbytes, work, inputs[i], result, bool(held[i]), _NAMES[device], pin if pin >= 0 else None)
        for i, (cost, nbytes, work, result, device, pin) in enumerate(zip(*(column.tolist() for column in columns)))
    ]
    rows = workers.cores, workers.speed, workers.memory, workers.device, workers.disk
    machines = [
        _Machine(cores, speed, memory if memory != UNLIMITED else None, _NAMES[device], disk)
        for cores, speed, memory, device, disk in zip(*(column.tolist() for column in rows))
    ]
    apart = workers.bandwidth[~np.eye(len(workers), dtype=bool)]
    alike = not len(apart) or bool((apart == apart[0]).all())
    bandwidth: Any = float(workers.bandwidth.flat[0] if not len(apart) else apart[0])
    links = _Links(workers.latency, bandwidth if alike else workers.bandwidth.tolist())

    def lines(rows: Sequence[Struct]) -> str:
        return ",\n  ".join(map(_line, rows))

    return (
        f'{{"format": "{FORMAT}",\n "tasks": [\n  {lines(tasks)}],\n'
        f' "machines": [\n  {lines(machines)}],\n "links": {_line(links)}}}'
    )


def _line(row: Struct) -> str:
    return json.dumps(msgspec.to_builtins(row), ensure_ascii=False)


def _parsed(number: str) -> float:
    """A number of JSON, an int where it is whole: bytes may be written as 1e9."""
    value = float(number)
    return int(value) if value.is_integer() else value


def read_json(text: str | bytes) -> tuple[PlanGraph, Workers, list[str], list[bool]]:
    """Reads JSON text from `as_json` or written by hand; returns graph, workers, names and stored flags.

    Raises
    ------
    GraphError
        If the text has another form: the message names the place.
    """
    try:
        plan = msgspec.convert(json.loads(text, parse_float=_parsed), _Plan)
    except (ValueError, RecursionError) as error:
        raise GraphError(f"this is no plan ({error}); give the text of PlannedRun.to_json()") from None
    tasks, machines, bandwidth, n = plan.tasks, plan.machines, plan.links.bandwidth, len(plan.machines)
    if isinstance(bandwidth, list) and [len(row) for row in bandwidth] != [n] * n:
        raise GraphError(f'"bandwidth" must be a number, or {n} lists of {n} numbers: from machine, to machine')
    workers = Workers.build(
        n,
        cores=[one.workers for one in machines],
        speed=[one.speed for one in machines],
        memory=[UNLIMITED if one.memory is None else one.memory for one in machines],
        device=[_DEVICES[one.device] for one in machines],
        disk=[one.disk for one in machines],
        latency=plan.links.latency,
        bandwidth=bandwidth,
    )
    kept = [task.kept for task in tasks]
    edges = [(i, k) for k, task in enumerate(tasks) for i in task.inputs]
    graph = PlanGraph.build(
        Dag.from_edges(len(tasks), [a for a, _ in edges], [b for _, b in edges]),
        [task.seconds for task in tasks],
        [task.bytes for task in tasks],
        work=[task.scratch for task in tasks],
        result=kept if any(kept) else None,
        device=[_DEVICES[task.device] for task in tasks],
        pin=[-1 if task.machine is None else task.machine for task in tasks],
    )
    return graph, workers, [task.name[:200] for task in tasks], [task.held for task in tasks]
