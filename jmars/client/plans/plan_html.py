"""A plan as HTML: costs, two pictures, and the plans tried.

Pictures are `<img>` with the SVG inside, which notebooks show trusted or not; every text of a user is escaped.

Pictures of a plan: the graph before and after fusion, and a time line of the workers with memory below.

SVG texts without styles or scripts, so that they show as `<img>` in every notebook, trusted or not. All texts of users
are escaped. An operation has one hue in all pictures of a plan. The ground is transparent, and lines and words outside
of boxes are grey, so that they are read in light and dark themes: an image does not know the theme of its page.

Lays out a graph in O(sweeps * (boxes + arrows)): longest-path layers, then barycentre sweeps.

The live view has the same algorithm in labextension/src/model/layout.ts.
Source: Sugiyama, Tagawa and Toda 1981.

Draws the graph of a plan: before and after fusion, coloured by kind or by predicted seconds.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jmars.client.plans.plan_text import change_text, facts, headline, peak_of, percent
from jmars.errors import GraphError
from jmars.reports.graph_dot import Drawing, GraphColours, graph_dot
from jmars.scheduler.prepare import graph_built, with_lines
from jmars.tensor.chunk import ChunkGraph
from jmars.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from jmars.client.plans.planned_run import PlannedRun

_ROWS = 12  # of a table


def plan_html(plan: PlannedRun) -> str:
    """The HTML of a plan in a notebook."""
    parts = [f"<p><b>jmars</b> {escape(headline(plan))}</p>"]
    if plan.base is not None:
        parts += [f"<p>with <b>{escape(change_text(plan.change))}</b></p>", _against(plan, plan.base)]
    parts.append(_table((), [(f"<b>{escape(what)}</b>", escape(text)) for what, text in facts(plan)]))
    if plan.displayed_advice:
        items = (f"<li>{escape(one.text)}<br/><code>{escape(one.how)}</code></li>" for one in plan.displayed_advice)
        parts.append(f"<p><b>advice</b></p><ul>{''.join(items)}</ul>")
    if plan.graph.n:
        parts.append(_image("the graph before and after fusion", graphs_svg(plan)))
        parts.append(_image("time line of the workers, and bytes in memory over time", timeline_svg(plan)))
        parts.append(_more("fused operands", ("count", "fused from", "name"), _fused(plan)))
        parts.append(_more("critical path", ("operand", "takes", "starts when"), _path(plan)))
        parts.append(_more("plans tried", ("plan", "time", "peak", "spilled", "moved"), _tried(plan)))
    return f"<div>{''.join(parts)}</div>"


def _against(plan: PlannedRun, base: PlannedRun) -> str:
    """A table of the plan beside its base plan."""
    rows = [
        ("time", *map(format_seconds, (base.makespan, plan.makespan)), percent(plan.makespan, base.makespan)),
        ("peak memory", *map(format_bytes, (peak_of(base), peak_of(plan))), percent(peak_of(plan), peak_of(base))),
        ("spilled", *map(format_bytes, (base.spilled, plan.spilled)), percent(plan.spilled, base.spilled)),
        ("moved", *map(format_bytes, (base.moved, plan.moved)), percent(plan.moved, base.moved)),
    ]
    if base.waiting or plan.waiting:
        waits = [f"{format_bytes(one.waiting)}·s" for one in (base, plan)]
        rows.append(("waiting outputs", *waits, percent(plan.waiting, base.waiting)))
    return _table(("", "before", "then", "change"), [tuple(map(escape, row)) for row in rows])


def _fused(plan: PlannedRun) -> Iterable[tuple[str, ...]]:
    return ((str(n), str(members), escape(name)) for n, members, name in plan.groups)


def _path(plan: PlannedRun) -> Iterable[tuple[str, ...]]:
    words = {
        "start": "the run begins",
        "input": "its input is computed",
        "core": "a core is free",
        "transfer": "its input has arrived",
        "disk": "memory is free",
    }
    found: list[tuple[str, str, int, float]] = []
    for name, seconds, why in plan.critical_path:
        if found and found[-1][:2] == (name, why):
            found[-1] = name, why, found[-1][2] + 1, found[-1][3] + seconds
        else:
            found.append((name, why, 1, seconds))
    return ((escape(f"{n} × {name}" if n > 1 else name), format_seconds(s), words[why]) for name, why, n, s in found)


def _tried(plan: PlannedRun) -> Iterable[tuple[str, ...]]:
    return (
        (escape(name), format_seconds(makespan), *map(format_bytes, (peak, spilled, moved)))
        for name, makespan, peak, spilled, moved in plan.tried
    )


def _more(title: str, head: Sequence[str], rows: Iterable[tuple[str, ...]]) -> str:
    """A table that opens on a click; "" without rows."""
    body = list(rows)
    left = len(body) - _ROWS
    note = f"<p>… and {left} more</p>" if left > 0 else ""
    summary = f"<summary>{escape(title)} ({len(body)})</summary>"
    return f"<details>{summary}{_table(head, body[:_ROWS])}{note}</details>" if body else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are HTML already."""
    left = ' style="text-align:left"'
    top = f"<thead><tr>{''.join(f'<th{left}>{escape(cell)}</th>' for cell in head)}</tr></thead>" if head else ""
    body = "".join(f"<tr>{''.join(f'<td{left}>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{top}<tbody>{body}</tbody></table>"


def _image(alt: str, svg: str) -> str:
    source = f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"
    return f'<p><img alt="{escape(alt)}" src="{source}" style="max-width:100%"/></p>' if svg else ""


# Okabe and Ito's palette, https://jfly.uni-koeln.de/color/, and four more
HUES = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"),
    *("#b8a800", "#6b6b6b", "#8c6bb1", "#8c564b", "#00a0b4", "#a3c14a"),
)
WIDTH = 900
_DRAWN = 1500  # operands that are drawn one by one
_NAMED = 24  # boxes with names
_HEIGHT = 250  # of a graph, at most
_LEFT, _RIGHT = 78, 12
_GREY, _INK, _PLAIN = "#c3cad0", "#222", "#7d7d7d"  # of boxes, of words in them, of words and lines outside


@dataclass(frozen=True)
class _Boxes:
    """A graph with names, hues and sizes of its boxes."""

    edges: list[tuple[int, int]]
    names: list[str]
    hue: list[int]  # -1 grey
    size: list[int]


def graphs_svg(plan: PlannedRun) -> str:
    """Draws the graph before fusion, coloured by operation, beside the graph that runs, the same or by machine."""
    if plan.compiled is None:
        return ""
    before, after = plan.compiled.before, plan.compiled.after
    hues = _Hues(before)
    gone = plan.compiled.group < 0
    left = _boxes(before, np.where(gone, -1, hues.of(before)), before.layer)
    right = _boxes(after, plan.assign.astype(np.int64) if len(plan.workers) > 1 else hues.of(after), _kinds(after))
    half = (WIDTH - 30) / 2
    hue = ", coloured by machine" if len(plan.workers) > 1 else ""
    titles = (f"before fusion: {before.n} operands", f"as it runs: {after.n} operands{hue}")
    parts: list[str] = []
    tallest = 0.0
    for boxes, title, x in ((left, titles[0], 10.0), (right, titles[1], 20 + half)):
        parts.append(f'<text x="{x:.0f}" y="18" font-size="12" font-weight="bold">{title}</text>')
        tallest = max(tallest, _graph(parts, boxes, x, 28.0, half))
    return _svg(parts, tallest + 10)


class _Hues:
    """Numbers operations by their names before fusion; a fused operand has the hue of its first operation."""

    def __init__(self, before: ChunkGraph) -> None:
        self.number: dict[str, int] = {}
        for program in before.programs:
            self.number.setdefault(_first(program.name), len(self.number))

    def named(self, name: str) -> int:
        """The hue of an operation, or of a fused one."""
        return self.number.setdefault(_first(name), len(self.number))

    def of(self, graph: ChunkGraph) -> NDArray[np.int64]:
        """The hue of each operand; -1 for chunks that are stored already."""
        hues = [self.named(program.name) for program in graph.programs]
        return np.array([*hues, -1], np.int64)[graph.program]


def _first(name: str) -> str:
    return name.partition("+")[0]


def _kinds(graph: ChunkGraph) -> NDArray[np.int64]:
    """Groups operands by layer and program."""
    pairs = graph.layer.astype(np.int64) << 32 | (graph.program.astype(np.int64) + 1)
    kinds: NDArray[np.int64] = np.unique(pairs, return_inverse=True)[1].reshape(-1)
    return kinds


def _boxes(graph: ChunkGraph, hue: NDArray[Any], group: NDArray[Any]) -> _Boxes:
    """Makes a box for each operand, or for a group of operands if there are many."""
    users = np.repeat(np.arange(graph.n), np.diff(graph.input_ptr))
    names = [program.name for program in graph.programs] + ["stored"]
    if graph.n <= _DRAWN:
        edges = list(zip(graph.input_idx.tolist(), users.tolist()))
        return _Boxes(edges, [names[k] for k in graph.program.tolist()], hue.tolist(), [1] * graph.n)
    pairs = np.unique(group[graph.input_idx].astype(np.int64) << 32 | group[users].astype(np.int64)).tolist()
    first = np.unique(group, return_index=True)[1].tolist()
    edges = [(pair >> 32, pair & 0xFFFFFFFF) for pair in pairs]
    number = {int(group[i]): k for k, i in enumerate(first)}
    return _Boxes(
        [(number[a], number[b]) for a, b in edges if a != b],
        [names[graph.program[i]] for i in first],
        [int(hue[i]) for i in first],
        np.bincount(np.searchsorted([group[i] for i in first], group)).tolist(),
    )


def _graph(parts: list[str], boxes: _Boxes, left: float, top: float, width: float) -> float:
    """Draws boxes and arrows; returns the lower edge."""
    rows = layout_layers(len(boxes.names), boxes.edges)
    named = len(boxes.names) <= _NAMED and max(map(len, rows), default=0) <= 6
    if named:
        pitch, high = 34.0, 20.0
    else:  # columns from left to right: long layers read better upright
        tallest = max(map(len, rows), default=1)
        pitch, high = min(9.0, (_HEIGHT - 10) / tallest), min(7.0, 0.75 * (_HEIGHT - 10) / tallest)
    place: dict[int, tuple[float, float, float]] = {}  # x, y, width
    for k, row in enumerate(rows):
        for i, box in enumerate(row):
            if named:
                room = width / len(row)
                w = min(210.0, room - 8)
                place[box] = left + room * (i + 0.5) - w / 2, top + k * pitch, w
            else:
                room = width / len(rows)
                w = max(2.0, min(14.0, 0.5 * room))
                middle = top + tallest * pitch / 2
                place[box] = left + room * (k + 0.5) - w / 2, middle + (i - len(row) / 2) * pitch, w
    bottom = top + (len(rows) * pitch if named else tallest * pitch)
    lines = []
    for a, b in boxes.edges:
        (ax, ay, aw), (bx, by, bw) = place[a], place[b]
        if named:
            lines.append(f"M{ax + aw / 2:.0f} {ay + high:.0f}L{bx + bw / 2:.0f} {by:.0f}")
        else:
            lines.append(f"M{ax + aw:.0f} {ay + high / 2:.1f}L{bx:.0f} {by + high / 2:.1f}")
    faint = 1.0 if named else 0.55 if len(lines) < 2000 else 0.25
    parts.append(f'<path d="{"".join(lines)}" stroke="#9aa3ab" stroke-width="0.8" opacity="{faint}" fill="none"/>')
    for box, (x, y, w) in place.items():
        hue = HUES[boxes.hue[box] % len(HUES)] if boxes.hue[box] >= 0 else _GREY
        if not named:
            parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{high:.1f}" fill="{hue}"/>')
            continue
        count = f" ×{boxes.size[box]}" if boxes.size[box] > 1 else ""
        text = _cut(boxes.names[box], int((w - 14) / 6.6) - len(count)) + count
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{high:.0f}" rx="3" fill="#f6f8fa" stroke="{hue}"/>'
            f'<rect x="{x:.1f}" y="{y:.1f}" width="5" height="{high:.0f}" fill="{hue}"/>'
            f'<text x="{x + 10:.1f}" y="{y + 14:.1f}" fill="{_INK}">{escape(text)}</text>'
        )
    return bottom


def timeline_svg(plan: PlannedRun) -> str:
    """Draws the operands of the cores over time, with the critical path; below, bytes in memory of each machine."""
    end = max(plan.makespan, 1e-9)
    layers, picture = _operations(plan), plan.picture
    critical = {link["operand"] for link in picture["critical"]}
    parts: list[str] = []
    y = _legend(parts, plan, 16.0)

    def x(t: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * t / end

    lanes = sum(len(one["lanes"]) for one in picture["workers"])
    high = max(2.0, min(14.0, 240 / max(1, lanes)))
    for number, worker in enumerate(picture["workers"]):
        top = y
        for lane in worker["lanes"]:
            for operand, start, stop, _ in lane:
                hue = HUES[layers[int(operand)] % len(HUES)]
                at, wide = x(start), max(0.6, x(stop) - x(start) - 0.5)
                parts.append(
                    f'<rect x="{at:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{0.85 * high:.1f}" fill="{hue}"/>'
                )
                if int(operand) in critical:
                    parts.append(f'<rect x="{at:.1f}" y="{y + 0.62 * high:.1f}" width="{wide:.1f}" height="2"/>')
            y += high
        name = f"machine {number}" if len(picture["workers"]) > 1 else "workers"
        parts.append(f'<text x="{_LEFT - 8}" y="{(top + y) / 2 + 3:.0f}" text-anchor="end">{name}</text>')
        y += 6
    y = _memory(parts, plan, y + 6, x)
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        label = format_seconds(end * share) if share else "0"
        parts.append(f'<text x="{x(end * share):.0f}" y="{y + 12:.0f}" text-anchor="{anchor}">{label}</text>')
    return _svg(parts, y + 20)


def _memory(parts: list[str], plan: PlannedRun, y: float, x: Any) -> float:
    """Draws bytes in memory over time; returns the lower edge."""
    workers = plan.picture["workers"]
    room = min((one["memory"] for one in workers if one["memory"]), default=0)
    peak = max(max(held for _, held in one["curve"]) if one["curve"] else 0 for one in workers)
    most = max(1.0, 1.15 * peak)
    high = 80.0
    parts.append(f'<text x="{_LEFT}" y="{y + 8:.0f}" >bytes of chunks and scratch in memory</text>')
    y += 14

    def at(held: float) -> float:
        return y + high - high * min(held, most) / most

    for share in (0.0, 1.0):
        parts.append(f'<path d="M{_LEFT} {at(most * share):.1f}H{WIDTH - _RIGHT}" stroke="{_PLAIN}" opacity="0.4"/>')
    parts.append(f'<text x="{_LEFT - 8}" y="{at(peak) + 4:.0f}" text-anchor="end">{format_bytes(peak)}</text>')
    parts.append(f'<text x="{_LEFT - 8}" y="{y + high:.0f}" text-anchor="end">0 B</text>')
    for number, worker in enumerate(workers):
        hue = HUES[number % len(HUES)] if len(workers) > 1 else _PLAIN
        steps = "".join(f"H{x(t):.1f}V{at(held):.1f}" for t, held in worker["curve"])
        path = f"M{_LEFT} {at(0):.1f}{steps}H{x(plan.makespan):.1f}"
        parts.append(f'<path d="{path}" fill="none" stroke="{hue}" stroke-width="1.6"/>')
    if room and room < most:
        parts.append(f'<path d="M{_LEFT} {at(room):.1f}H{WIDTH - _RIGHT}" stroke="{_PLAIN}" stroke-dasharray="3 3"/>')
    return y + high


def _operations(plan: PlannedRun) -> list[int]:
    """The hue of each operand."""
    if plan.compiled is not None:
        hues: list[int] = np.maximum(_Hues(plan.compiled.before).of(plan.compiled.after), 0).tolist()
        return hues
    return [max(0, op) for op in plan.graph.op.tolist()]


def _legend(parts: list[str], plan: PlannedRun, y: float) -> float:
    """Draws the legend; returns the next free y."""
    if plan.compiled is None:
        return y
    after, hues = plan.compiled.after, _Hues(plan.compiled.before)
    x = float(_LEFT)
    named = {hues.named(program.name): _first(program.name) for program in reversed(after.programs)}
    ran = sorted(named)
    for layer in ran[:12]:
        name = _cut(named[layer], 36)
        wide = 26 + 6.8 * len(name)
        if x + wide > WIDTH - _RIGHT:
            x, y = float(_LEFT), y + 16
        parts.append(f'<rect x="{x:.0f}" y="{y - 9:.0f}" width="10" height="10" fill="{HUES[layer % len(HUES)]}"/>')
        parts.append(f'<text x="{x + 14:.0f}" y="{y:.0f}">{escape(name)}</text>')
        x += wide
    if len(ran) > 12:
        parts.append(f'<text x="{x + 4:.0f}" y="{y:.0f}">… {len(ran) - 12} more</text>')
    return y + 10


def _svg(parts: Sequence[str], height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
        f'height="{height:.0f}" font-family="system-ui, sans-serif" font-size="11" fill="{_PLAIN}">'
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:.0f}" rx="5" fill="none" stroke="{_PLAIN}" '
        'opacity="0.4"/>'
        f"{''.join(parts)}</svg>"
    )


def _cut(text: str, most: int) -> str:
    """Cuts a text to at most `most` printable characters."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[: most + 1])
    return plain if len(plain) <= most else plain[: max(0, most - 1)] + "…"


_SWEEPS = 6


def layout_layers(n: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Boxes of each layer in order; inputs lie above their readers.

    Parameters
    ----------
    n
        Boxes.
    edges
        (input, reader); between groups of operands they may close cycles, which end up in some order.

    Examples
    --------
    >>> layout_layers(4, [(0, 2), (1, 2), (2, 3)])
    [[0, 1], [2], [3]]
    """
    if not n:
        return []
    source, reader = np.array([edge for edge in edges if edge[0] != edge[1]], np.int64).reshape(-1, 2).T
    depth = np.zeros(n, np.int64)
    for _ in range(n):  # longest paths; a round for each layer
        before = depth.copy()
        np.maximum.at(depth, reader, np.minimum(depth[source] + 1, n - 1))
        if (depth == before).all():
            break
    nearest = np.full(n, n)
    np.minimum.at(nearest, source, depth[reader])
    nearest[reader] = n  # no source
    depth = np.where(nearest < n, np.maximum(nearest - 1, 0), depth)  # a source stands next to its reader
    rows = np.split(np.argsort(depth, kind="stable"), np.flatnonzero(np.diff(np.sort(depth))) + 1)
    place = np.zeros(n)
    for row in rows:
        place[row] = (np.arange(len(row)) + 0.5) / len(row)
    for sweep in range(_SWEEPS):
        box, near = (source, reader) if sweep % 2 else (reader, source)
        degree = np.bincount(box, minlength=n)
        wide = [k for k, row in enumerate(rows) if len(row) > 1]
        for k in reversed(wide) if sweep % 2 else wide:
            centre = np.where(degree, np.bincount(box, place[near], n) / np.maximum(degree, 1), place)
            rows[k] = rows[k][np.lexsort((rows[k], centre[rows[k]]))]
            place[rows[k]] = (np.arange(len(rows[k])) + 0.5) / len(rows[k])
    return [row.tolist() for row in rows]


def draw_plan(plan: PlannedRun, path: str | os.PathLike[str] | None, fusion: str, colour: str) -> Drawing:
    """The drawing of a plan, saved to `path` if given.

    Raises
    ------
    GraphError
        If the plan was read from JSON, which has no operations.
    ValueError
        For other colours than "kind" and "seconds".
    """
    if plan.compiled is None:
        raise GraphError("a plan that was read from JSON has no graph to draw; draw the plan of the tensors")
    if colour not in ("kind", "seconds"):
        raise ValueError(f"colour is {colour!r}; choose 'kind' or 'seconds'")
    graph = with_lines(graph_built(plan.compiled, plan.assign, plan.labels), plan.compiled, lambda line: line)
    drawing = Drawing(
        graph_dot(graph, fusion, GraphColours.by_seconds(plan.graph.cost) if colour == "seconds" else None)
    )
    if path is not None:
        drawing.save(path)
    return drawing
