"""A plan as HTML: costs, two pictures, and the plans tried.

Pictures are `<img>` with the SVG inside, which notebooks show trusted or not; every text of a user is escaped.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from jmars.client.plans.plan_svg import graphs_svg, timeline_svg
from jmars.client.plans.plan_text import change_text, facts, format_seconds, headline, peak_of, percent
from jmars.units import format_bytes

if TYPE_CHECKING:
    from jmars.client.plans.planned_run import PlannedRun

__all__ = ["plan_html"]

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
