"""Bokeh figures of a RunRecord: operands by worker, memory, transfers, seconds by kind and by line; the report's page.

Bokeh is imported on first use (`pip install "jmars[reports]"`). Columns travel as packed numbers, each colour is a
renderer, and texts of lines stand once, so that 20,000 operands take half a megabyte. The HTML page needs no server and
no network: texts of users (names of jobs, lines, errors) are escaped, and Bokeh's script stands in the page.
Source: https://docs.bokeh.org/en/latest/docs/reference.html.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.errors import JmarsError
from jmars.reports.run_record import JobRecord, Pauses, RunRecord
from jmars.units import format_bytes, format_seconds

# Okabe and Ito 2008: eight colours that colour-blind readers tell apart; grey is for the rest.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
OTHER = "#999999"
WIDTH = 1000  # pixels, at most
ROWS = 15  # of a chart of bars
MARKS = 200  # marks of a time line
EDGED = 5_000  # operands; larger charts have no edges: edges show the shortest bars, but double the drawing time

# The real time of a place `at` in a folded time line, between the knots of `Pauses`.
REAL_TIME = """
let i = 1;
while (i < fold.length - 1 && at > fold[i]) i++;
const time = real[i - 1] + (at - fold[i - 1]) * (real[i] - real[i - 1]) / (fold[i] - fold[i - 1]);
"""


def bokeh(name: str) -> Any:
    """A module of Bokeh.

    Raises
    ------
    JmarsError
        If Bokeh is not installed.
    """
    try:
        return importlib.import_module(f"bokeh.{name}")
    except ImportError as error:
        raise JmarsError(f"reports need Bokeh ({error}); pip install 'jmars[reports]'") from error


def timeline(record: RunRecord) -> Any:
    """Operands by worker over time, coloured by kind; the tools under the mouse tell kind, line and seconds."""
    models, operands = bokeh("models"), record.operands
    rows = [number for number, _ in sorted(enumerate(record.workers), key=lambda one: _natural(one[1]))]
    place = np.argsort(rows) if rows else np.zeros(0, np.int64)  # of a worker, from the top
    chart = _figure("Operands by worker", height=26 * max(2, len(rows)), y_range=(len(rows) - 0.4, -0.6))
    chart.xaxis.axis_label = "seconds since the submission"
    chart.x_range.start = 0
    pauses = Pauses.of(operands.times[:, 0], operands.times[:, 4])
    clock = _fold(chart, models, pauses) if len(pauses) else {}
    chart.yaxis.ticker = list(range(len(rows)))
    chart.yaxis.major_label_overrides = {k: record.workers[number] for k, number in enumerate(rows)}
    legend = []
    edges = {"line_color": None} if len(operands) > EDGED else {"line_width": 0.3}
    for name, colour, chosen in _coloured(record):
        source = models.ColumnDataSource(
            {
                "left": pauses.folded(operands.times[chosen, 2]).astype("f4"),
                "right": pauses.folded(operands.times[chosen, 4]).astype("f4"),
                "worker": place[operands.worker[chosen]].astype("i4"),
                "kind": operands.kind[chosen].astype("i4"),
                "line": operands.line[chosen].astype("i4"),
                "waited": (operands.times[chosen, 2] - operands.times[chosen, 0]).astype("f4"),
            }
        )
        bars = chart.hbar(y="worker", left="left", right="right", height=0.8, source=source, color=colour, **edges)
        legend.append(models.LegendItem(label=f"{name} ({int(chosen.sum()):,})", renderers=[bars]))
    if legend:
        chart.add_layout(models.Legend(items=legend, click_policy="hide", ncols=3, border_line_color=None), "below")
    chart.add_tools(
        models.HoverTool(
            tooltips=[
                ("kind", "@kind{custom}"),
                ("line", "@line{custom}"),
                ("from", f"@left{{{'custom' if clock else '0.000'}}} s"),
                ("to", f"@right{{{'custom' if clock else '0.000'}}} s"),
                ("waited before", "@waited{0.000} s"),
            ],
            formatters={"@kind": _lookup(models, record.kinds), "@line": _lookup(models, record.lines)} | clock,
        )
    )
    for seconds in pauses.folded(np.array([seconds for seconds, _ in record.marks[:MARKS]], np.float64)).tolist():
        chart.add_layout(models.Span(location=seconds, dimension="height", line_color="#D55E00", line_dash="dashed"))
    return chart


def _fold(chart: Any, models: Any, pauses: Pauses) -> dict[str, Any]:
    """Shades the folded pauses and writes real seconds at the axis; returns formatters of the bars' ends."""
    knots = {"real": pauses.real.tolist(), "fold": pauses.fold.tolist()}
    begins, ends = pauses.folded(pauses.begins).tolist(), pauses.folded(pauses.ends).tolist()
    for begin, end in list(zip(begins, ends))[:MARKS]:
        chart.add_layout(
            models.BoxAnnotation(left=begin, right=end, fill_color=OTHER, fill_alpha=0.35, line_color=None)
        )
    told = (
        f"{len(pauses)} pauses, {pauses.seconds:,.0f} s together,"
        if len(pauses) > 1
        else f"{pauses.seconds:,.0f} s of pause"
    )
    chart.xaxis.axis_label = f"seconds since the submission; {told} folded (grey)"
    chart.xaxis.formatter = models.CustomJSTickFormatter(
        args=knots, code=f"const at = tick;{REAL_TIME}return time.toFixed(1);"
    )
    hover = models.CustomJSHover(args=knots, code=f"const at = value;{REAL_TIME}return time.toFixed(3);")
    return {"@left": hover, "@right": hover}


def memory(record: RunRecord) -> Any:
    """Memory of all processes over time, and bytes on disk; the limit in the title, and as a line where it is near."""
    models = bokeh("models")
    top = max((max(row[1:]) for row in record.memory), default=0)
    unit, size = ("GiB", 2**30) if max(top, record.memory_limit) >= 4 * 2**30 else ("MiB", 2**20)
    limit = f", limit {record.memory_limit / size:,.1f}" if record.memory_limit else ""
    chart = _figure(f"Memory ({unit}{limit})", height=180)
    chart.xaxis.axis_label = "seconds since the submission"
    chart.x_range.start = 0
    legend: list[Any] = []
    columns = np.array(record.memory or [(0.0, 0, 0, 0)], dtype=np.float64)
    for place, name, colour in (
        (2, "all processes", COLOURS[0]),
        (1, "reserved for chunks and scratch", COLOURS[2]),
        (3, "on disk", COLOURS[1]),
    ):
        data = {"t": columns[:, 0].astype("f4"), "size": columns[:, place] / size}
        lines = chart.step(x="t", y="size", source=models.ColumnDataSource(data), color=colour, width=2)
        legend.append(models.LegendItem(label=name, renderers=[lines]))
    if record.memory_limit:
        chart.add_layout(
            models.Span(
                location=record.memory_limit / size, dimension="width", line_dash="dashed", line_color="#444444"
            )
        )
    chart.y_range.start = 0
    chart.add_layout(models.Legend(items=legend, ncols=3, border_line_color=None), "below")
    chart.add_tools(models.HoverTool(tooltips=[("at", "@t{0.00} s"), (unit, "@size{0,0.0}")], mode="vline"))
    return chart


def transfers(record: RunRecord) -> Any:
    """Bytes that moved between hosts; None where no chunk moved."""
    rows = sorted(((b, a) for a, b in record.transfers.items()), key=lambda one: -one[0][1])[:ROWS]
    if not rows:
        return None
    texts = [f"{source} → {target}" for _, (source, target) in rows]
    values = [moved[1] / 2**20 for moved, _ in rows]
    notes = [f"{moved[0]:,.0f} chunks, {moved[2]:.2f} s" for moved, _ in rows]
    return _bars("MiB between hosts", texts, values, notes)


def by_kind(record: RunRecord) -> Any:
    """Seconds of calculating and storing by kind of operand; None where no operand ran."""
    return _summed("Seconds by kind of operand", record.by("kind"))


def by_line(record: RunRecord) -> Any:
    """Seconds of calculating and storing by line of the user; None where no operand ran."""
    return _summed("Seconds by line", record.by("line"))


def _summed(title: str, rows: Sequence[tuple[str, float, int]]) -> Any:
    if not rows:
        return None
    whole = sum(seconds for _, seconds, _ in rows) or 1.0
    notes = [f"{count:,} operands, {100 * seconds / whole:.0f} %" for _, seconds, count in rows[:ROWS]]
    return _bars(title, [text for text, _, _ in rows[:ROWS]], [seconds for _, seconds, _ in rows[:ROWS]], notes)


def _bars(title: str, texts: Sequence[str], values: Sequence[float], notes: Sequence[str]) -> Any:
    models = bokeh("models")
    chart = _figure(title, height=24 * max(2, len(texts)), y_range=(len(texts) - 0.4, -0.6))
    data = {"row": list(range(len(texts))), "value": list(values), "text": list(texts), "note": list(notes)}
    chart.hbar(y="row", right="value", height=0.7, source=models.ColumnDataSource(data), color=COLOURS[0])
    chart.yaxis.ticker = data["row"]
    chart.yaxis.major_label_overrides = {k: text if len(text) < 60 else f"{text[:58]}…" for k, text in enumerate(texts)}
    chart.x_range.start = 0
    chart.toolbar_location = None
    chart.add_tools(models.HoverTool(tooltips=[("", "@text"), ("value", "@value{0,0.000}"), ("", "@note")]))
    return chart


def _coloured(record: RunRecord) -> list[tuple[str, str, NDArray[np.bool_]]]:
    """(Name, colour, rows) of the kinds with most seconds, and of the rest."""
    operands = record.operands
    if not len(operands):
        return []
    seconds = np.bincount(operands.kind, operands.seconds, len(record.kinds))
    order = np.argsort(-seconds, kind="stable")
    found = [(record.kinds[k], colour, operands.kind == k) for k, colour in zip(order.tolist(), COLOURS)]
    rest = np.isin(operands.kind, order[len(COLOURS) :])
    return [*found, ("others", OTHER, rest)] if rest.any() else found


def _figure(title: str, height: int, **more: Any) -> Any:
    chart = bokeh("plotting").figure(
        title=title,
        frame_height=height,
        sizing_mode="stretch_width",
        max_width=WIDTH,
        tools="xpan,xwheel_zoom,reset,save",
        active_scroll="xwheel_zoom",
        **more,
    )
    chart.toolbar.logo = None
    chart.ygrid.grid_line_color = None
    return chart


def _lookup(models: Any, texts: Sequence[str]) -> Any:
    """Shows a number as its text."""
    return models.CustomJSHover(args={"texts": list(texts)}, code="return texts[value] ?? ''")


def _natural(name: str) -> list[Any]:
    """Sorts "worker-10" behind "worker-9"."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width">
<style>
body {{ font: 14px/1.45 system-ui, sans-serif; color: #222; background: #fff; max-width: 1020px; margin: 1.5em auto;
  padding: 0 1em; }}
h1 {{ font-size: 1.4em }} h2 {{ font-size: 1.1em; margin-top: 1.6em }}
table {{ border-collapse: collapse; display: block; overflow-x: auto }}
th, td {{ text-align: right; padding: .25em .55em; border-bottom: 1px solid #ddd }} td {{ white-space: nowrap }}
h1, p, li {{ overflow-wrap: anywhere }}
th:first-child, td:first-child {{ text-align: left }} th {{ font-weight: 600; color: #444 }}
.error {{ color: #a02; white-space: pre-wrap }} .chart {{ margin-top: 1em; overflow-x: auto }}
.chart > div {{ min-width: 560px }} ul {{ padding-left: 1.2em }}
</style>
{script}
</head><body>
<h1>{title}</h1>
<p>{summary}</p>
{body}
</body></html>
"""
_SOURCES = 100  # sources that a report lists
_CHART = '<div class="chart" tabindex="0" role="group" aria-label="chart"><div>{part}</div></div>'


def report_page(record: RunRecord, title: str) -> str:
    """The page of a record, at most some megabytes.

    Raises
    ------
    JmarsError
        If Bokeh is not installed.
    """
    resources = bokeh("resources").Resources(mode="inline", components=["bokeh"])
    charts = [
        timeline(record) if len(record.operands) else None,
        memory(record),
        transfers(record),
        by_kind(record),
        by_line(record),
    ]
    charts = [chart for chart in charts if chart is not None]
    script, parts = bokeh("embed").components(charts)
    body = [_jobs(record), _sources(record), *(_CHART.format(part=part) for part in parts), _marks(record), script]
    return _PAGE.format(
        title=escape(title), script=resources.render(), summary=escape(_summary(record)), body="\n".join(body)
    )


def _summary(record: RunRecord) -> str:
    operands = record.operands
    busy = float(operands.seconds.sum())
    workers = len(record.workers)
    share = (
        f", {100 * busy / (record.seconds * workers):.0f} % of the workers' time" if record.seconds and workers else ""
    )
    peak = max((row[2] for row in record.memory), default=0)
    limit = f" of {format_bytes(record.memory_limit)}" if record.memory_limit else ""
    return (
        f"{_count(len(record.jobs), 'job')}, {len(operands):,} operands on {_count(workers, 'worker')} in "
        f"{format_seconds(record.seconds)}; computing took {format_seconds(busy)}{share}. "
        f"Memory of all processes: at most {format_bytes(peak)}{limit}."
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _jobs(record: RunRecord) -> str:
    head = [
        "job",
        "state",
        "seconds",
        "operands",
        "before fusion",
        "planned in",
        "predicted",
        "peak reserved",
        "predicted peak",
    ]
    head += ["to read", "read", "spilled", "moved", "back ends"]
    rows = "".join(_job(job) for job in record.jobs.values())
    errors = "".join(
        f'<p class="error">{escape(job.name or job.id)}: {escape(job.error)}</p>'
        for job in record.jobs.values()
        if job.error
    )
    names = "".join(f"<th>{one}</th>" for one in head)
    return f'<h2>Jobs</h2><table tabindex="0"><tr>{names}</tr>{rows}</table>{errors}'


def _job(job: JobRecord) -> str:
    measured, predicted = job.measured, job.predicted
    peaks = predicted.get("peak") or ()
    cells = [
        job.name or job.id,
        job.state,
        format_seconds(job.ended - job.begun) if job.ended else "",
        f"{job.operands:,}",
        f"{job.before:,}",
        format_seconds(sum(job.phases.values())) if job.phases else "",
        _told(predicted, "makespan", format_seconds),
        _told(measured, "peak", format_bytes),
        " to ".join(dict.fromkeys(map(format_bytes, peaks))),
        format_bytes(job.to_read) if job.to_read else "",
        _told(measured, "read", format_bytes),
        _told(measured, "spilled", format_bytes),
        _told(measured, "moved", format_bytes),
        ", ".join(sorted(job.backends)),
    ]
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _sources(record: RunRecord) -> str:
    """The files and other sources that jobs read; "" without any."""
    found = [(job.name or job.id, *row) for job in record.jobs.values() for row in job.sources]
    if not found:
        return ""
    names = "".join(f"<th>{one}</th>" for one in ("source", "line", "job", "to read", "of", "read more than once"))
    rows = ""
    for job, name, line, read, nbytes, why in found[:_SOURCES]:
        cells = (name, line, job, format_bytes(read), format_bytes(nbytes), why)
        rows += f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
    more = f"<p>and {len(found) - _SOURCES:,} more</p>" if len(found) > _SOURCES else ""
    return f'<h2>Sources</h2><table tabindex="0"><tr>{names}</tr>{rows}</table>{more}'


def _told(data: Any, name: str, shown: Any) -> str:
    value = data.get(name)
    return "" if value is None else str(shown(value))


def _marks(record: RunRecord) -> str:
    if not record.marks:
        return ""
    rows = "".join(f"<li>{seconds:.2f} s: {escape(text)}</li>" for seconds, text in record.marks[:200])
    more = f"<p>and {len(record.marks) - 200:,} more</p>" if len(record.marks) > 200 else ""
    return f"<h2>What happened</h2><ul>{rows}</ul>{more}"
