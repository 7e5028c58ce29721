"""Differences of two runs: the first operand placed or ordered otherwise, and the largest differences.

Operands of two runs of the same cell have the same numbers. Runs of different graphs are compared by kind and worker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jmars.reports.run_record import RunRecord
from jmars.units import format_bytes

_TABLE_ROWS = 5  # of a table
Operand = tuple[int, int]  # stage and number


@dataclass
class _Ran:
    """Where and when an operand ran, in seconds since the submission."""

    worker: str
    kind: str
    line: str
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin


@dataclass
class _Run:
    """A run as `run_difference` needs it."""

    operands: dict[Operand, _Ran]  # as each ran first
    graphs: dict[int, tuple[bytes, ...]]  # by stage: what equal graphs have in common
    totals: dict[str, float]

    @classmethod
    def of(cls, record: RunRecord) -> _Run:
        """The run of the only job of a record."""
        operands: dict[Operand, _Ran] = {}
        ran = record.operands
        columns = (ran.stage, ran.number, ran.worker, ran.kind, ran.line, ran.times[:, 2], ran.times[:, 4])
        for stage, number, worker, kind, line, begin, end in zip(*(column.tolist() for column in columns)):
            one = _Ran(record.workers[worker], record.kinds[kind], record.lines[line], begin, end)
            operands.setdefault((stage, number), one)
        totals = {}
        for job in record.jobs.values():
            names = [name for name in ("peak", "read", "spilled", "moved") if name in job.measured]
            totals = {"seconds": (job.ended or record.end) - job.begun}
            totals |= {name: float(job.measured[name]) for name in names}
        return cls(operands, {stage: graph for (_, stage), graph in record.graphs.items()}, totals)

    def name(self, operand: Operand, lines: bool = True) -> str:
        """ "sum #12", with its line."""
        (stage, number), ran = operand, self.operands[operand]
        line = f" ({ran.line})" if lines and ran.line else ""
        return f"{ran.kind} #{number}" + (f" of stage {stage}" if len(self.graphs) > 1 else "") + line

    def by_worker(self) -> dict[str, list[Operand]]:
        """The operands of each worker, in the order in which it ran them."""
        found: dict[str, list[Operand]] = {}
        for operand, ran in sorted(self.operands.items(), key=lambda one: (one[1].begin, one[0])):
            found.setdefault(ran.worker, []).append(operand)
        return found

    def by_kind(self) -> dict[str, tuple[float, int]]:
        """Seconds and operands of each kind."""
        found: dict[str, tuple[float, int]] = {}
        for ran in self.operands.values():
            seconds, n = found.get(ran.kind, (0.0, 0))
            found[ran.kind] = seconds + ran.seconds, n + 1
        return found


def run_difference(one: RunRecord, other: RunRecord) -> dict[str, Any]:
    """What differs between two runs, A and B.

    Parameters
    ----------
    one, other
        The runs, of a single job each.

    Returns
    -------
    dict
        `notes`, sentences; `first`, None or the `text` of the first operand of A that B placed or ordered otherwise,
        and `at`, when it began in A, in seconds since the submission; `tables` of the largest differences, each with
        `title`, `heads` and `rows` of `cells` and `at`.

    Examples
    --------
    >>> log = [[1, 10.0, "JobSubmitted", "job-1", {"name": "In [1]"}],
    ...        [2, 12.0, "JobMoved", "job-1", {"state": "succeeded", "error": None, "elapsed": 2.0}]]
    >>> found = run_difference(RunRecord.of(log), RunRecord.of(log))
    >>> found["first"], found["tables"][0]["rows"][0]["cells"]
    (None, ['seconds', '2.00 s', '2.00 s', '±0.00 s'])
    """
    a, b = _Run.of(one), _Run.of(other)
    same = a.graphs == b.graphs
    notes = [] if same else ["The graphs differ, so operands are not compared one by one, but by kind."]
    tables = [_totals(a, b), _kinds(a, b), _workers(a, b), *([_slowest(a, b)] if same else [])]
    return {
        "notes": notes,
        "first": _first(a, b) if same else None,
        "tables": [one for one in tables if one["rows"]],
    }


def _first(a: _Run, b: _Run) -> dict[str, Any] | None:
    """The first operand of A that B placed or ordered otherwise."""
    found: list[tuple[float, str]] = []
    for operand, ran in a.operands.items():
        there = b.operands.get(operand)
        if there is None:
            found.append((ran.begin, f"{a.name(operand)} ran in A only, on {ran.worker}"))
        elif there.worker != ran.worker:
            found.append((ran.begin, f"{a.name(operand)} ran on {ran.worker} in A, on {there.worker} in B"))
    orders = b.by_worker()
    for worker, mine in a.by_worker().items():
        for place, (left, right) in enumerate(zip(mine, orders.get(worker, ())), 1):
            if left != right:
                text = f"operand {place} of {worker} was {a.name(left)} in A, {b.name(right)} in B"
                found.append((a.operands[left].begin, text))
                break
    if not found:
        only = [operand for operand in b.operands if operand not in a.operands]
        found = [(b.operands[operand].begin, f"{b.name(operand)} ran in B only") for operand in only]
    at, text = min(found, default=(0.0, ""))
    return {"text": text, "at": round(max(0.0, at), 6)} if text else None


def _totals(a: _Run, b: _Run) -> dict[str, Any]:
    rows = []
    for name in ("seconds", "peak", "read", "spilled", "moved"):
        if name in a.totals and name in b.totals and (a.totals[name] or b.totals[name]):
            show = _seconds if name == "seconds" else format_bytes
            rows.append(
                _row(name, show(a.totals[name]), show(b.totals[name]), _change(a.totals[name], b.totals[name], show))
            )
    return _table("whole run", rows)


def _kinds(a: _Run, b: _Run) -> dict[str, Any]:
    """Seconds by kind of operand."""
    left, right = a.by_kind(), b.by_kind()
    none = (0.0, 0)
    found = [(name, left.get(name, none), right.get(name, none)) for name in dict.fromkeys([*left, *right])]
    found.sort(key=lambda one: -abs(one[2][0] - one[1][0]))
    return _table("kind: time · operands", [_compared(*one) for one in found[:_TABLE_ROWS]])


def _workers(a: _Run, b: _Run) -> dict[str, Any]:
    """Seconds and operands by worker."""

    def load(run: _Run) -> dict[str, tuple[float, int]]:
        return {
            name: (sum(run.operands[one].seconds for one in ran), len(ran)) for name, ran in run.by_worker().items()
        }

    left, right, none = load(a), load(b), (0.0, 0)
    found = [(name, left.get(name, none), right.get(name, none)) for name in sorted({*left, *right})]
    found.sort(key=lambda one: -abs(one[2][0] - one[1][0]))
    return _table("worker: time · operands", [_compared(*one) for one in found[:_TABLE_ROWS]])


def _slowest(a: _Run, b: _Run) -> dict[str, Any]:
    """Single operands."""
    both = [one for one in a.operands if one in b.operands]
    both.sort(key=lambda one: -abs(b.operands[one].seconds - a.operands[one].seconds))
    rows = []
    for one in both[:_TABLE_ROWS]:
        left, right = a.operands[one].seconds, b.operands[one].seconds
        cells = (_seconds(left), _seconds(right), _change(left, right, _seconds))
        rows.append(_row(a.name(one, lines=False), *cells, at=a.operands[one].begin))
    return _table("operand", rows)


def _compared(name: str, left: tuple[float, int], right: tuple[float, int]) -> dict[str, Any]:
    """A row of seconds, with operands."""
    a, b = (f"{_seconds(seconds)} · {n:,}" for seconds, n in (left, right))
    return _row(name, a, b, _change(left[0], right[0], _seconds))


def _row(name: str, left: str, right: str, change: str, at: float | None = None) -> dict[str, Any]:
    return {"cells": [name, left, right, change], "at": None if at is None else round(max(0.0, at), 6)}


def _table(title: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"title": title, "heads": [title, "A", "B", "B − A"], "rows": rows}


def _seconds(value: float) -> str:
    if value >= 1 or value == 0:
        return f"{value:.2f} s"
    return f"{1e3 * value:.1f} ms" if value >= 1e-3 else f"{1e6 * value:.0f} µs"


def _change(left: float, right: float, show: Any) -> str:
    sign = "+" if right > left else "−" if right < left else "±"
    return f"{sign}{show(abs(right - left))}"
