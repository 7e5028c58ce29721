"""Graphs before and after fusion as text for Graphviz's `dot`, and drawn by Graphviz.

Takes the data of a `GraphBuilt` event, which plans have too. A graph of more than `SMALL` operands is drawn by layers:
a box per tensor operand before fusion, a box per kind of operand after fusion. `OperandFacts` folds state, worker and
seconds of the operands of a job's newest stage from events.

A `Drawing` is shown by notebooks and saved to files. It needs the Python package `graphviz`
(`pip install "jmars[reports]"`) and Graphviz's program `dot`.
Source: https://graphviz.org/doc/info/lang.html; https://graphviz.readthedocs.io/en/stable/api.html.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.errors import JmarsError
from jmars.model import events
from jmars.model.events import Event
from jmars.model.status import STATE_NAMES
from jmars.model.timing import spans
from jmars.tensor.atomic_file import write_atomically
from jmars.units import format_bytes, format_seconds

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


COLOURS = ("kind", "state", "worker", "seconds")


class OperandFacts:
    """Facts of operands after fusion, by number.

    Attributes
    ----------
    graph
        Data of the newest `GraphBuilt` event; None before.
    state, worker, seconds
        Shape (operands,); a worker of -1 is none.
    """

    graph: Mapping[str, Any] | None = None

    def __init__(self) -> None:
        self.state: NDArray[np.int64] = np.zeros(0, np.int64)
        self.worker: NDArray[np.int64] = np.zeros(0, np.int64)
        self.seconds: NDArray[np.float64] = np.zeros(0)

    @classmethod
    def of(cls, log: Iterable[Event], job: str) -> OperandFacts:
        """Facts of a job in a log."""
        facts = cls()
        for _, time, kind, of, data in log:
            if of != job:
                continue
            if kind == events.GRAPH_BUILT:
                n = int(data["n_after"])
                facts.graph = data
                facts.state, facts.worker, facts.seconds = np.zeros(n, np.int64), np.full(n, -1), np.zeros(n)
            elif kind == events.OPERANDS_MOVED:
                ids = np.frombuffer(data["ids"], "<u4").astype(np.int64)
                ids = ids[ids < len(facts.state)]
                facts.state[ids] = int(data["state"])
                if int(data["worker"]) >= 0:
                    facts.worker[ids] = int(data["worker"])
            elif kind == events.OPERANDS_TIMED:
                block = spans(time, data)
                ids = block[:, 5].astype(np.int64)
                inside = ids < len(facts.seconds)
                facts.seconds[ids[inside]] = (block[:, 4] - block[:, 2])[inside]
                facts.worker[ids[inside]] = int(data["worker"])
        return facts

    def colours(self, by: str) -> GraphColours | None:
        """Colours of the operands; None for those of kinds.

        Raises
        ------
        ValueError
            For other names than "kind", "state", "worker" and "seconds".
        """
        if by not in COLOURS:
            raise ValueError(f"colour is {by!r}; choose one of {', '.join(map(repr, COLOURS))}")
        if by == "state":
            return GraphColours.by_state([STATE_NAMES[k] for k in self.state.tolist()])
        if by == "worker":
            names = [str(name) for name in (self.graph or {}).get("workers", ())]
            return GraphColours.by_worker(self.worker.tolist(), names)
        return GraphColours.by_seconds(self.seconds) if by == "seconds" else None


KINDS = ("svg", "png", "pdf", "dot")


class Drawing:
    """A graph as text for `dot`; notebooks show it as SVG.

    Examples
    --------
    >>> Drawing("digraph { a -> b }").dot
    'digraph { a -> b }'
    """

    def __init__(self, dot: str) -> None:
        self.dot = dot

    def __repr__(self) -> str:
        return f"<Drawing of {len(self.dot):,} characters; save(path), or show it in a notebook>"

    def _repr_svg_(self) -> str:
        return self._drawn("svg").decode()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the drawing to a file, atomically: .svg, .png, .pdf, or .dot for the text; returns the path.

        Raises
        ------
        ValueError
            If the file's name ends otherwise.
        JmarsError
            If Graphviz is not installed.
        """
        target = Path(path)
        kind = target.suffix.lstrip(".").lower()
        if kind not in KINDS:
            raise ValueError(f"{target.name!r} has no known ending; name the file .svg, .png, .pdf or .dot")
        return write_atomically(path, self.dot if kind == "dot" else self._drawn(kind))

    def _drawn(self, kind: str) -> bytes:
        graphviz = _graphviz()
        try:
            drawn: bytes = graphviz.Source(self.dot).pipe(format=kind)
        except graphviz.ExecutableNotFound:
            raise JmarsError(
                "drawing needs Graphviz's program dot, which is not in the PATH; install it with apt-get install "
                "graphviz, conda install graphviz or brew install graphviz, or save the drawing as .dot"
            ) from None
        return drawn


def _graphviz() -> Any:
    try:
        return importlib.import_module("graphviz")
    except ImportError as error:
        raise JmarsError(f"drawing needs the package graphviz ({error}); pip install 'jmars[reports]'") from error
