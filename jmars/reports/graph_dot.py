"""Graphs before and after fusion as text for Graphviz's `dot`.

Pure: takes the data of a `GraphBuilt` event, which plans have too. A graph of more than `SMALL` operands is drawn by
layers: a box per tensor operand before fusion, a box per kind of operand after fusion.
Source: https://graphviz.org/doc/info/lang.html.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.units import format_bytes, format_seconds

__all__ = ["SMALL", "GraphColours", "graph_dot"]

SMALL = 300  # operands before fusion
# Brewer's "Set3" (Brewer 2003): light fills that dark text is read on.
FILLS = (
    "#8dd3c7", "#ffffb3", "#bebada", "#fb8072", "#80b1d3", "#fdb462", "#b3de69", "#fccde5", "#d9d9d9", "#bc80bd",
    "#ccebc5", "#ffed6f",
)  # fmt: skip
STATES = {
    "unscheduled": "#eeeeee", "ready": "#ffffb3", "running": "#80b1d3", "finished": "#b3de69", "freed": "#d9ead3",
    "spilled": "#fdb462", "cancelling": "#fccde5", "cancelled": "#d9d9d9", "fatal": "#fb8072",
}  # fmt: skip


@dataclass(frozen=True)
class GraphColours:
    """Colours of the operands after fusion, and their legend.

    Attributes
    ----------
    fills
        A colour per operand; "" for white.
    notes
        A line per operand below the name; "" for none.
    legend
        (Text, colour).
    """

    fills: Sequence[str]
    notes: Sequence[str]
    legend: Sequence[tuple[str, str]]

    @classmethod
    def by_state(cls, states: Sequence[str]) -> GraphColours:
        """Colours of names of states."""
        found = [name for name in STATES if name in states]
        return cls([STATES[one] for one in states], list(states), [(name, STATES[name]) for name in found])

    @classmethod
    def by_worker(cls, workers: Sequence[int], names: Sequence[str]) -> GraphColours:
        """Colours of workers by number; -1 for operands that no worker has."""
        told = [names[k] if 0 <= k < len(names) else "" for k in workers]
        fills = [FILLS[k % len(FILLS)] if k >= 0 else "" for k in workers]
        legend = [(names[k], FILLS[k % len(FILLS)]) for k in sorted(set(workers)) if 0 <= k < len(names)]
        return cls(fills, told, legend)

    @classmethod
    def by_seconds(cls, seconds: NDArray[np.float64]) -> GraphColours:
        """White for no time, red for the longest operand."""
        most = float(seconds.max(initial=0.0))
        shares = seconds / most if most else seconds
        fills = [f"0.03 {share:.3f} 1.0" for share in shares.tolist()]
        legend = [(f"longest: {format_seconds(most)}", "0.03 1.000 1.0")] if most else []
        return cls(fills, [format_seconds(one) if one else "" for one in seconds.tolist()], legend)


def graph_dot(graph: Mapping[str, Any], fusion: str = "both", colours: GraphColours | None = None) -> str:
    """The text of a graph.

    Parameters
    ----------
    graph
        Data of a `GraphBuilt` event; docs/reference/events.md has the fields.
    fusion
        "before", "after" or "both".
    colours
        Of the operands after fusion; kinds have colours by default. Large graphs have colours of kinds always.
    """
    small = int(graph["n_before"]) <= SMALL and len(graph["after_labels"]) == int(graph["n_after"])
    lines = ["digraph jmars {", '  rankdir="TB"; compound=true; newrank=true; fontname="sans-serif"; bgcolor="white";']
    lines += ['  node [shape=box style="filled,rounded" fillcolor=white fontname="sans-serif" fontsize=10];']
    lines += ['  edge [color="#777777" arrowsize=0.6];']
    if fusion in ("before", "both"):
        lines += _cluster("before", f"before fusion: {_count(graph['n_before'])}", *_before(graph, small))
    if fusion in ("after", "both"):
        lines += _cluster("after", f"after fusion: {_count(graph['n_after'])}", *_after(graph, small, colours))
        lines += _legend(colours if small else None)
    return "\n".join([*lines, "}\n"])


Boxes = list[tuple[str, str]]  # label, fill
Edges = list[tuple[int, int]]


def _before(graph: Mapping[str, Any], small: bool) -> tuple[Boxes, Edges]:
    stages = graph["stages"]
    if not small:
        layers = [(_about(one, one[4]), _fill(k)) for k, one in enumerate(stages)]
        return layers, [tuple(edge) for edge in graph["stage_edges"]]
    boxes = [(_about(stages[k], 1), _fill(k)) for k in _numbers(graph["before_stage"])]
    return boxes, list(zip(_numbers(graph["before_src"]), _numbers(graph["before_dst"])))


def _after(graph: Mapping[str, Any], small: bool, colours: GraphColours | None) -> tuple[Boxes, Edges]:
    groups = _numbers(graph["after_group"])
    types = list(graph.get("group_types") or [])
    if not small:
        counts = np.bincount(groups, minlength=len(graph["group_labels"])).tolist()
        boxes = [
            (_lines(str(name), _type(types, k), _count(counts[k])), _fill(k))
            for k, name in enumerate(graph["group_labels"])
        ]
        return boxes, [tuple(edge) for edge in graph["group_edges"]]
    nbytes = np.frombuffer(graph["after_nbytes"], "<i8").tolist() if graph.get("after_nbytes") else []
    found: Boxes = []
    for k, name in enumerate(graph["after_labels"]):
        size = format_bytes(nbytes[k]) if k < len(nbytes) else ""
        note = colours.notes[k] if colours and k < len(colours.notes) else ""
        fill = colours.fills[k] if colours and k < len(colours.fills) else _fill(groups[k])
        found.append((_lines(str(name), _type(types, groups[k]), size, note), fill))
    return found, list(zip(_numbers(graph["after_src"]), _numbers(graph["after_dst"])))


def _cluster(name: str, title: str, boxes: Boxes, edges: Edges) -> list[str]:
    lines = [f"  subgraph cluster_{name} {{", f'    label={_quoted(title)}; color="#bbbbbb"; fontsize=12;']
    for k, (label, fill) in enumerate(boxes):
        lines.append(f"    {name}{k} [label={_quoted(label)}" + (f' fillcolor="{fill}"];' if fill else "];"))
    lines += [f"    {name}{a} -> {name}{b};" for a, b in edges]
    return [*lines, "  }"]


def _legend(colours: GraphColours | None) -> list[str]:
    if colours is None or not colours.legend:
        return []
    boxes = [
        f'    legend{k} [label={_quoted(text)} fillcolor="{fill}"];' for k, (text, fill) in enumerate(colours.legend)
    ]
    return ["  subgraph cluster_legend {", '    label="colours"; color="#bbbbbb"; fontsize=12;', *boxes, "  }"]


def _about(stage: Sequence[Any], count: int) -> str:
    """Label of a tensor operand: name, line of the user, number of operands."""
    text = str(stage[3])
    line = f"line {stage[2]}: {text if len(text) <= 40 else f'{text[:38]}…'}" if stage[2] else ""
    return _lines(str(stage[0]), line, _count(count) if count > 1 else "")


def _count(operands: int) -> str:
    return f"{operands:,} operand" + ("" if operands == 1 else "s")


def _type(types: Sequence[Any], kind: int) -> str:
    known = types[kind] if kind < len(types) else None
    if known is None:
        return ""
    return f"{known[0]} {' × '.join('?' if one is None else f'{one:,}' for one in known[1]) or 'scalar'}"


def _lines(*texts: str) -> str:
    return "\n".join(text for text in texts if text)


def _fill(number: int) -> str:
    return FILLS[number % len(FILLS)]


def _numbers(packed: bytes) -> list[int]:
    return [int(one) for one in np.frombuffer(packed, "<u4").tolist()]


def _quoted(text: str) -> str:
    """A string of the language, in which no character of a user ends the string."""
    safe = "".join(c if c.isprintable() or c == "\n" else " " for c in text)
    return '"' + safe.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
