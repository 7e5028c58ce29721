"""Explains why a data is not ready, by the data and vertices that block it.

Serves error messages and `Graph.why_not_ready`. Reads an `Activation` without changing it, so it may be called during a
run.
Source: baidu/babylon, anyflow, which logs unfinished data at the end of a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jmars.flow.run_time.activation import Activation

__all__ = ["path_to", "why_not_ready"]


def why_not_ready(run: Activation, data: int) -> str:
    """The chain from a data to the data and vertices that it waits for, nearest first."""
    structure, lines = run.structure, []
    stack, seen = [data], {data}
    while stack:
        d = stack.pop()
        name = repr(structure.data[d])
        if run.released[d]:
            continue
        if not run.wanted[d]:
            lines.append(f"data {name} was not asked for")
            continue
        if not structure.producers[d]:
            lines.append(f"data {name} has no producer and was not given")
        for vertex in structure.producers[d]:
            if run.ended[vertex]:
                continue
            left = [t for e in structure.depends[vertex] for t in _awaited(run, e)]
            names = ", ".join(repr(structure.data[t]) for t in left)
            state = f"waits for {names}" if left else "has all that it needs and has not ended"
            lines.append(f"data {name} is made by vertex {structure.vertices[vertex]!r}, which {state}")
            stack += [t for t in left if t not in seen]
            seen.update(left)
    return "; ".join(lines) or f"data {structure.data[data]!r} is ready"


def path_to(run: Activation, data: int) -> str:
    """The chain of vertices that need a data, up to the requested data."""
    structure, seen = run.structure, set[int]()
    words: list[str] = []
    while data not in run.requested and data not in seen:
        seen.add(data)
        edges = [structure.edges[e] for e in (*structure.counted[data], *structure.gates[data])]
        users = [*structure.plain[data], *(edge.vertex for edge in edges)]
        vertex = next((v for v in users if run.active[v]), None)
        if vertex is None:
            break
        data = next((d for d in structure.outputs[vertex] if run.wanted[d]), structure.outputs[vertex][0])
        words.append(f"vertex {structure.vertices[vertex]!r} needs it for {structure.data[data]!r}")
    return ", ".join(words) or "it was requested"


def _awaited(run: Activation, e: int) -> list[int]:
    """Data that a dependency still waits for."""
    edge = run.structure.edges[e]
    if edge.condition >= 0 and not run.released[edge.condition]:
        return [edge.condition]
    return [edge.target] if run.taken(e) and not run.released[edge.target] else []
