"""A plan as text: the output of `print(plan)`, and the difference between two plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jmars.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from jmars.client.plans.planned_run import PlannedRun

__all__ = ["change_text", "comparison", "error_text", "facts", "format_seconds", "percent", "summary"]

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
    if plan.waiting:
        rows.append(("waiting outputs", f"{format_bytes(plan.waiting)}·s held for other machines"))
    tried = len(plan.tried)
    best = f"; the best of {tried} tried" if tried > 1 else ""
    rows.append(("policy", f"{plan.policy}{best}, planned in {format_seconds(plan.took)}"))
    error = error_text(plan)
    return [*rows, ("accuracy", error)] if error else rows


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
    >>> change_text({"chunk_size": 64 * 2**20, "workers": 4})
    'chunk_size 64.0 MiB, workers 4'
    """
    sizes = ("memory", "chunk_size", "bandwidth")
    return ", ".join(
        f"{name} {format_bytes(value) if name in sizes and not isinstance(value, str) else value}"
        for name, value in change.items()
    )


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
