"""Advice by simulation: simulates a few changes of a plan and reports the changes that help.

Advice never comes from the looks of the code: each line is a simulated run beside the planned run, with the error of
such predictions on this machine so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jmars.client.plans.plan_text import change_text, error_of_time, error_text, format_seconds, peak_of, percent
from jmars.client.plans.rechunk_sources import largest_source
from jmars.errors import JmarsError
from jmars.units import format_bytes

if TYPE_CHECKING:
    from jmars.client.plans.planned_run import PlannedRun

__all__ = ["Advice", "advise"]

LEAST = 0.05  # least share of time, peak or spill that is reported
_SECONDS, _BYTES = 0.02, 2**20  # gains below these are no gains, whatever their share
_MOST = 4  # pieces of advice
_FACTORS = (2.0, 0.5, 4.0, 0.25)  # of the chunk size


@dataclass(frozen=True, eq=False)
class Advice:
    """A change that helps: its text, the plan with the change, and how to make the change."""

    text: str
    plan: PlannedRun
    how: str  # code or flag to write
    share: float = 1.0  # of the time that it saves; 1 where it saves memory or spilling as well


def advise(
    plan: PlannedRun,
    budget: float = 0.5,
    cores: int | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Advice]:
    """Finds changes that save more than a twentieth of time, peak memory or spilled bytes, most time first.

    A change that saves only time must save more than predictions were off by on this machine.

    Parameters
    ----------
    plan
        The plan to improve.
    budget
        Seconds after which no further change is tried.
    cores
        Usable cores of this machine; if there are more cores than workers, more workers are tried.
    clock
        Returns the time in seconds.
    """
    until = clock() + budget
    found: list[tuple[float, Advice]] = []
    slowest = plan.took
    for change in _changes(plan, cores):
        if clock() + slowest > until:
            break
        begun = clock()
        try:
            other = plan.what_if(**change)
            gains, share = _gains(other, plan)
        except JmarsError:  # the change would not fit, or there is no source to rechunk
            continue
        slowest = max(slowest, clock() - begun)
        if gains and share > (error_of_time(plan) or 0.0):
            told = error_text(plan) or "the error of predictions on this machine is not known yet"
            words = f"{change_text(change)}: {', '.join(gains)} ({told})"
            found.append((other.makespan, Advice(words, other, _how(change), share)))
    found.sort(key=lambda pair: pair[0])
    return _different([one for _, one in found])[:_MOST]


def _changes(plan: PlannedRun, cores: int | None) -> Iterator[dict[str, Any]]:
    """Yields changes to try, the most promising first."""
    if not plan.operands:
        return
    request = plan.request
    size = largest_source(request.data, request.held) if request is not None else 0
    for policy in ("lean", "memory"):
        if plan.asked != policy:
            yield {"policy": policy}
    for factor in _FACTORS if size else ():
        wanted = int(size * factor)
        if wanted >= 4096:
            yield {"chunk_size": _round(wanted)}
    workers = int(plan.workers.cores[0])
    if len(plan.workers) == 1 and cores is not None and cores > workers:
        yield {"workers": cores}
    if plan.spilled and len(plan.workers) == 1:
        yield {"memory": _round(2 * (int(plan.workers.memory[0]) + 128 * 2**20))}


def _gains(other: PlannedRun, plan: PlannedRun) -> tuple[list[str], float]:
    """Describes the savings; empty if there are none, or if time or spilled bytes grow. Beside them `Advice.share`."""
    faster = plan.makespan - other.makespan
    leaner = peak_of(plan) - peak_of(other)
    spares = plan.spilled - other.spilled
    more = other.makespan > plan.makespan * 1.02 or other.spilled > plan.spilled * 1.02
    found = []
    if faster > max(_SECONDS, LEAST * plan.makespan):
        found.append(f"{percent(other.makespan, plan.makespan)} time ({format_seconds(other.makespan)})")
    if leaner > max(_BYTES, LEAST * peak_of(plan)) and not more:
        found.append(f"{percent(peak_of(other), peak_of(plan))} peak")
    if spares > max(_BYTES, LEAST * plan.spilled) and not more:
        found.append(f"{percent(other.spilled, plan.spilled)} spilled")
    share = faster / plan.makespan if len(found) == 1 and faster > 0 and "time" in found[0] else 1.0
    return ([*found, f"peak {format_bytes(peak_of(other))}"] if found else []), share


def _how(change: dict[str, Any]) -> str:
    """The code or flag that makes the change."""
    size = format_bytes(change.get("chunk_size", change.get("memory", 0))).replace(" ", "").replace(".0", "")
    if "chunk_size" in change:
        return f"%%jmars --chunk {size}, or chunk_size= where the array is made"
    if "memory" in change:
        return f"%%jmars --memory {size}"
    if "workers" in change:
        return f"%%jmars -w {change['workers']}"
    return f'jmars.config.load({{"task": {{"default_config": {{"order": "auto", "prefer": "{change["policy"]}"}}}}}})'


def _different(advice: list[Advice]) -> list[Advice]:
    """Keeps only the best change of a kind: only one chunk size can be used, and only one policy."""
    seen: set[str] = set()
    kept = []
    for one in advice:
        (kind,) = one.plan.change
        if kind not in seen:
            kept.append(one)
        seen.add(kind)
    return kept


def _round(size: int) -> int:
    """Rounds a size to 10 leading bits."""
    unit = max(1, 1 << max(0, size.bit_length() - 10))
    return max(1, round(size / unit)) * unit
