"""The picture of a run that stays in the notebook when the kernel is gone.

`final_bundle` makes the output that replaces the live view: the picture as JSON, which our JupyterLab extension opens
as the full view; an image as `<img>`, which every viewer shows in untrusted notebooks too (JupyterLab shows raw SVG
only in trusted notebooks); and a line of text.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from html import escape
from textwrap import wrap
from typing import Any

from jmars.model.status import STATE_NAMES, OperandState
from jmars.notebook.view import MIME_TYPE, HostHeading, Picture, PlanPart, Series, Snap, as_json
from jmars.units import format_bytes

# Colours by state, as in labextension/style/view.css (light).
COLOURS = ("#d3d9de", "#a9b2ba", "#e69f00", "#009e73", "#7fc9b4", "#5f7fa3", "#b8a193", "#6b5f58", "#d55e00")
_INK, _EDGE = "#222", "#8a939a"  # of curves
# Order of the bar: done, running, waiting, failed.
_S = OperandState
ORDER = (
    *(_S.FREED, _S.FINISHED, _S.SPILLED, _S.RUNNING, _S.CANCELLING),
    *(_S.READY, _S.UNSCHEDULED, _S.CANCELLED, _S.FATAL),
)
_WIDTH, _LEFT = 640, 76
_LOST = 3  # lost hosts that are named


def final_bundle(picture: Picture) -> dict[str, Any]:
    """The MIME bundle to save, without a widget.

    Parameters
    ----------
    picture
        The last picture of the run.

    Returns
    -------
    dict
        `application/vnd.jmars.job.v1+json`, `text/html` and `text/plain`.
    """
    text = summary(picture["snap"], picture["kernel"], picture["hosts"])
    image = b64encode(picture_svg(picture).encode()).decode()
    return {
        MIME_TYPE: as_json(picture),
        "text/html": f'<img alt="{escape(text)}" src="data:image/svg+xml;base64,{image}">',
        "text/plain": text,
    }


def summary(snap: Snap, kernel: Sequence[float] = (), hosts: Sequence[HostHeading] = ()) -> str:
    """The header of the view as a line: "jmars succeeded: 3.6 s · 2 workers started in 1.9 s · peak 172 MiB".

    labextension/src/draw/header.ts writes the same; a browser test compares the two.
    """
    done = sum(snap["counts"][state] for state in (_S.FINISHED, _S.FREED, _S.SPILLED))
    jobs, spilled = snap["totals"]["jobs"], snap["totals"]["spilled"]
    in_jobs = f" in {_count(jobs)} jobs" if jobs > 1 else ""
    operands = f"{_count(done)} of {_plural(snap['n'], 'operand')}{in_jobs}"
    parts = [
        operands if snap["n"] and snap["state"] != "succeeded" else "",
        _seconds(snap["elapsed"]),
        *([] if snap["live"] else _costs(snap, kernel)),
        _read(snap),
        f"{_bytes(spilled)} on disk" if spilled else "",
    ]
    error = f": {snap['error'].splitlines()[0]}" if snap["error"] else ""
    return f"jmars {snap['state']}{_place(hosts)}: {' · '.join(filter(None, parts))}{error}"


def _read(snap: Snap) -> str:
    """Bytes of files and other sources; "" without a source."""
    read, to_read = snap["totals"]["read"], snap["totals"]["to_read"]
    if snap["live"] and to_read:
        return f"{_bytes(read)} of {_bytes(to_read)} read"
    return f"{_bytes(read)} read" if read else ""


def _costs(snap: Snap, kernel: Sequence[float]) -> list[str]:
    """What an ended run cost: start of the cluster, reused values, Python that took most of the time, memory."""
    workers = f"{_plural(snap['n_started'], 'worker')} started in {_seconds(snap['started'])}"
    python = sum(kernel)
    mostly = python >= LEAST_PYTHON and python > 0.5 * (snap["elapsed"] - snap["started"])
    return [
        workers if snap["n_started"] else "",
        snap["reused"],
        f"{_seconds(python)} in Python, most in line {kernel.index(max(kernel)) + 1}" if mostly else "",
        f"peak {_bytes(snap['peak'])}" if snap["peak"] else "",
    ]


LEAST_PYTHON = 1.0  # seconds in the kernel that are told


def _seconds(value: float) -> str:
    """Seconds as labextension/src/model/format.ts writes them."""
    if value >= 10:
        return f"{_fixed(value, 0)} s" if value < 60 else f"{int(value // 60)} min {int(value % 60)} s"
    if value >= 1 or value == 0:
        return f"{_fixed(value, 1)} s"
    return f"{_fixed(value, 2)} s" if value >= 0.1 else f"{_fixed(1000 * value, 1 if value < 0.01 else 0)} ms"


def _bytes(size: float) -> str:
    """Bytes as labextension/src/model/format.ts writes them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1000:
            return f"{_fixed(size, 0 if unit == 'B' or size >= 100 else 1)} {unit}"
        size /= 1024
    return f"{_fixed(size, 1)} TiB"


def _fixed(value: float, digits: int) -> str:
    """A number as JavaScript's `toFixed` writes it: halves are rounded up."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def _count(value: int) -> str:
    """A whole number with thin groups."""
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def _plural(n: int, word: str) -> str:
    return f"{_count(n)} {word}{'' if n == 1 else 's'}"


def _place(hosts: Sequence[HostHeading]) -> str:
    """ " on 2 hosts"; " on 1 of 2 hosts" where one was lost during the run; "" without hosts."""
    mine = [host for host in hosts if host["state"] != "lost" or host["since"] >= 0]
    here = sum(host["state"] != "lost" for host in mine)
    n = f"{len(mine)} host{'s' if len(mine) != 1 else ''}"
    return f" on {n}" if mine and here == len(mine) else f" on {here} of {n}" if mine else ""


def text_line(picture: Picture) -> str:
    """A line that is the same for all runs of a cell: no times, no bytes."""
    snap, graph = picture["snap"], picture["graph"]
    sizes = f", {_plural(graph['n_before'], 'operand')}, {graph['n_after']} after fusion" if graph else ""
    jobs = f", {snap['totals']['jobs']} jobs" if snap["totals"]["jobs"] > 1 else ""
    return f"jmars: {snap['state']}{sizes}{jobs}"


def picture_svg(picture: Picture) -> str:
    """The picture as SVG text: the summary, the bar of states with its legend, memory over time."""
    snap, series = picture["snap"], picture["series"]
    parts: list[str] = []
    y = 20.0
    told = [
        summary(snap, picture["kernel"], picture["hosts"]),
        *_host_lines(picture["hosts"]),
        *_plan_lines(picture["plan"]),
    ]
    for line in [line for text in told for line in wrap(text, 92, break_on_hyphens=False)]:
        parts.append(f'<text x="10" y="{y:.0f}" font-size="13">{escape(line)}</text>')
        y += 17
    if snap["n"]:
        y = _bar(parts, snap["counts"], snap["n"], y - 6)
    if len(series["t"]) > 1:
        y = _memory(parts, series, y + 6)
    height = y + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" '
        f'height="{height:.0f}" font-family="system-ui, sans-serif" font-size="11" fill="#222">'
        f'<rect x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1:.0f}" rx="5" fill="#fff" stroke="#bbb"/>'
        f"{''.join(parts)}</svg>"
    )


def _host_lines(hosts: Sequence[HostHeading]) -> list[str]:
    """Hosts that were lost during the run, and bytes that came from other hosts."""
    lost = [host for host in hosts if host["state"] == "lost" and host["since"] >= 0]
    lines = [f"{host['name']} was lost after {host['since']:.1f} s: {host['why']}" for host in lost[:_LOST]]
    lines += [f"and {len(lost) - _LOST} more hosts were lost"] if len(lost) > _LOST else []
    received = sum(host["received"] for host in hosts)
    return lines + ([f"{format_bytes(received)} came from other hosts"] if received else [])


def _plan_lines(plan: PlanPart | None) -> list[str]:
    """Advice for the next run."""
    return [f"next time: {text}" for text in plan["advice"][:2]] if plan is not None else []


def _bar(parts: list[str], counts: Sequence[int], n: int, y: float) -> float:
    """Draws the bar of states and its legend; returns the next free y."""
    room, x = _WIDTH - 20, 10.0
    for state in ORDER:
        width = room * counts[state] / n
        if width:
            parts.append(f'<rect x="{x:.1f}" y="{y:.0f}" width="{width:.1f}" height="12" fill="{COLOURS[state]}"/>')
        x += width
    x, y = 10.0, y + 28
    for state in ORDER:
        if counts[state]:
            text = f"{STATE_NAMES[state]} {counts[state]}"
            width = 22 + 6.4 * len(text)
            if x + width > _WIDTH - 10:
                x, y = 10.0, y + 16
            parts.append(f'<rect x="{x:.0f}" y="{y - 9:.0f}" width="10" height="10" fill="{COLOURS[state]}"/>')
            parts.append(f'<text x="{x + 14:.0f}" y="{y:.0f}">{text}</text>')
            x += width
    return y + 6


def _memory(parts: list[str], series: Series, y: float) -> float:
    """Draws memory over time, and below it bytes on disk on a scale of their own; returns the next free y."""
    curves = [("resident", "all processes", _INK, ""), ("used", "reserved for chunks and scratch", _EDGE, "")]
    y = _panel(parts, series, curves, series["limit"], 90.0, y)
    if max(series["spilled"]):
        y = _panel(parts, series, [("spilled", "chunks on disk", COLOURS[_S.SPILLED], "5 3")], 0, 50.0, y + 8)
    return y


def _panel(
    parts: list[str], series: Series, curves: Sequence[tuple[str, str, str, str]], limit: int, height: float, y: float
) -> float:
    """Draws curves (field, words, colour, dash) over time, with the area below the last; returns the next free y."""
    right, bottom = _WIDTH - 12.0, y + 16 + height
    end = max(series["t"][-1], 1e-9)
    columns: list[Sequence[int]] = [series[name] for name, *_ in curves]  # type: ignore[literal-required]
    most = max(limit, 1, *(value for column in columns for value in column))

    def path(values: Sequence[int]) -> str:
        points = zip(series["t"], values)
        return " ".join(f"{_LEFT + (right - _LEFT) * t / end:.1f},{bottom - height * v / most:.1f}" for t, v in points)

    for share in (0.0, 0.5, 1.0):
        at = bottom - height * share
        parts.append(f'<path d="M{_LEFT} {at:.1f}H{right}" stroke="#e3e3e3"/>')
        label = format_bytes(most * share)
        parts.append(f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{label}</text>')
    begin = _LEFT + (right - _LEFT) * series["t"][0] / end
    area = f"{begin:.1f},{bottom:.1f} {path(columns[-1])} {right:.1f},{bottom:.1f}"
    parts.append(f'<polygon points="{area}" fill="{curves[-1][2]}" opacity="0.35"/>')
    for (_, _, colour, dash), values in zip(curves, columns, strict=True):
        style = f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}" fill="none"'
        parts.append(f'<polyline points="{path(values)}" {style}/>')
    if limit:
        at = bottom - height * limit / most
        parts.append(f'<path d="M{_LEFT} {at:.1f}H{right}" stroke="{_INK}" stroke-dasharray="2 3"/>')
    x = float(_LEFT)
    for word, colour in [
        *((word, colour) for _, word, colour, _ in curves),
        *([("limit", _INK)] if limit else []),
    ]:
        parts.append(f'<rect x="{x:.0f}" y="{y - 1:.0f}" width="14" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18:.0f}" y="{y + 5:.0f}">{word}</text>')
        x += 34 + 6.4 * len(word)
    parts.append(f'<text x="{right}" y="{bottom + 14:.0f}" text-anchor="end">{end:.1f} s</text>')
    return bottom + 16
