"""A report as an HTML page that needs nothing else: no server, no network.

Texts of users (names of jobs, lines, errors) are escaped; Bokeh's script stands in the page.
"""

from __future__ import annotations

from html import escape
from typing import Any

from jmars.reports import figures
from jmars.reports.run_record import JobRecord, RunRecord
from jmars.units import format_bytes, format_seconds

__all__ = ["report_page"]

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
_CHART = '<div class="chart" tabindex="0" role="group" aria-label="chart"><div>{part}</div></div>'


def report_page(record: RunRecord, title: str) -> str:
    """The page of a record, at most some megabytes.

    Raises
    ------
    JmarsError
        If Bokeh is not installed.
    """
    resources = figures.bokeh("resources").Resources(mode="inline", components=["bokeh"])
    charts = [
        figures.timeline(record) if len(record.operands) else None,
        figures.memory(record),
        figures.transfers(record),
        figures.by_kind(record),
        figures.by_line(record),
    ]
    charts = [chart for chart in charts if chart is not None]
    script, parts = figures.bokeh("embed").components(charts)
    body = [_jobs(record), *(_CHART.format(part=part) for part in parts), _marks(record), script]
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
    head += ["spilled", "moved"]
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
        _told(measured, "spilled", format_bytes),
        _told(measured, "moved", format_bytes),
    ]
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _told(data: Any, name: str, shown: Any) -> str:
    value = data.get(name)
    return "" if value is None else str(shown(value))


def _marks(record: RunRecord) -> str:
    if not record.marks:
        return ""
    rows = "".join(f"<li>{seconds:.2f} s: {escape(text)}</li>" for seconds, text in record.marks[:200])
    more = f"<p>and {len(record.marks) - 200:,} more</p>" if len(record.marks) > 200 else ""
    return f"<h2>What happened</h2><ul>{rows}</ul>{more}"
