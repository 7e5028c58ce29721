"""Advice by simulation: simulates a few changes of a plan and reports the changes that help.

Advice never comes from the looks of the code: each line is a simulated run beside the planned run, with the error of
such predictions on this machine so far.

Improves a plan by simulated annealing, at once or beside other work, with the curve of the best times so far.

The search changes machines and order of the operands and keeps a change that shortens the simulated run. The cluster
improves plans of graphs that run again and again by the same search, between their runs.
Source: Kirkpatrick, Gelatt and Vecchi 1983; docs/explanation/seeds.md, "Graph partitioning by merging".
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jmars.client.notebook_views import Shown, in_kernel
from jmars.client.plans.named_policies import plan_by
from jmars.client.plans.plan_request import largest_source
from jmars.client.plans.plan_text import change_text, error_of_time, error_text, peak_of, percent
from jmars.errors import JmarsError
from jmars.model import upper_floors
from jmars.plan.improve import anneal
from jmars.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from jmars.client.plans.planned_run import PlannedRun

LEAST = 0.05  # least share of time, peak or spill that is reported
_GAIN_SECONDS, _GAIN_BYTES = 0.02, 2**20  # gains below these are no gains, whatever their share
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
            words = f"{change_text(other.change)}: {', '.join(gains)} ({told})"
            found.append((other.makespan, Advice(words, other, _how(other.change), share)))
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
    if size:
        yield {"chunks": "fit"}
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
    if faster > max(_GAIN_SECONDS, LEAST * plan.makespan):
        found.append(f"{percent(other.makespan, plan.makespan)} time ({format_seconds(other.makespan)})")
    if leaner > max(_GAIN_BYTES, LEAST * peak_of(plan)) and not more:
        found.append(f"{percent(peak_of(other), peak_of(plan))} peak")
    if spares > max(_GAIN_BYTES, LEAST * plan.spilled) and not more:
        found.append(f"{percent(other.spilled, plan.spilled)} spilled")
    share = faster / plan.makespan if len(found) == 1 and faster > 0 and "time" in found[0] else 1.0
    return ([*found, f"peak {format_bytes(peak_of(other))}"] if found else []), share


def _how(change: dict[str, Any]) -> str:
    """The code or flag that makes the change."""
    size = format_bytes(change.get("chunk_size", change.get("memory", 0))).replace(" ", "").replace(".0", "")
    if "chunk_size" in change:
        return f"%%jmars --chunk {size}, or chunk_size= where the array is made"
    if "chunks" in change:
        return " and ".join(f"chunk_size={lengths} for {label}" for label, lengths in change["chunks"].items())
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
        kind = "chunk_size" if kind == "chunks" else kind
        if kind not in seen:
            kept.append(one)
        seen.add(kind)
    return kept


def _round(size: int) -> int:
    """Rounds a size to 10 leading bits."""
    unit = max(1, 1 << max(0, size.bit_length() - 10))
    return max(1, round(size / unit)) * unit


IMPROVE_SECONDS = 10.0
_TRIES = 1_000_000  # the seconds end the search
_MOVES = ("move", "swap", "reorder")


class Improvable:
    """Base class of `PlannedRun`."""

    def improve(self: Any, seconds: float = IMPROVE_SECONDS, *, seed: int = 0) -> PlannedRun:
        """Search for a plan with a shorter simulated run; returns the best plan found.

        Parameters
        ----------
        seconds
            How long to search.
        seed
            Of the random generator.

        Returns
        -------
        PlannedRun
            With the given plan as `base`; the time is never longer.

        Examples
        --------
        >>> import jmars.tensor as mt
        >>> plan = (mt.ones((400, 400), chunk_size=100) + 1).sum().plan()
        >>> plan.improve(seconds=0.05).makespan <= plan.makespan
        True
        """
        return _search(self, seconds, seed, None, None)

    def improving(self: Any, seconds: float = 60.0, *, seed: int = 0) -> Improvement:
        """`improve` on a thread: returns at once; notebooks show the curve, live, with a Stop button."""
        return Improvement(self, seconds, seed)

    def explore(self: Any) -> Any:
        """Show sliders for workers, memory and bandwidth in a notebook, and the plan that `what_if` makes of them.

        Raises
        ------
        JmarsError
            Outside a Jupyter kernel.
        """
        if not upper_floors.notebook or not in_kernel():
            raise JmarsError("sliders need a notebook; call what_if(workers=4) instead")
        return upper_floors.notebook[0]().explore(self)


class Improvement(Shown):
    """A search for a better plan that goes on beside other work.

    Attributes
    ----------
    curve
        Pairs (seconds since the begin, simulated seconds of the best plan): the begin, each improvement, and the end.

    Examples
    --------
    >>> import jmars.tensor as mt
    >>> plan = (mt.ones((400, 400), chunk_size=100) + 1).sum().plan()
    >>> search = plan.improving(seconds=30)
    >>> search.stop()
    >>> search.result().base is plan
    True
    """

    def __init__(self, plan: PlannedRun, seconds: float, seed: int) -> None:
        self.plan, self.seconds = plan, seconds
        self.curve: list[tuple[float, float]] = [(0.0, plan.makespan)]
        self._begun = time.monotonic()
        self._stop, self._done = threading.Event(), threading.Event()
        self._found: PlannedRun | None = None
        self._error: BaseException | None = None
        threading.Thread(target=self._work, args=(seed,), name="jmars-improvement", daemon=True).start()

    @property
    def running(self) -> bool:
        """Whether the search goes on."""
        return not self._done.is_set()

    @property
    def elapsed(self) -> float:
        """Seconds of the search so far, or in all."""
        return time.monotonic() - self._begun if self.running else self.curve[-1][0]

    def stop(self) -> None:
        """End the search with the best plan so far; returns at once."""
        self._stop.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the search has ended; returns whether it has."""
        return self._done.wait(timeout)

    def result(self) -> PlannedRun:
        """The best plan; waits for the end of the search and raises the error of a search that failed."""
        self.wait()
        if self._error is not None:
            raise self._error
        assert self._found is not None
        return self._found

    def text(self) -> str:
        """The search in a line: seconds at first and now, and the gain."""
        first, best = self.curve[0][1], self.curve[-1][1]
        gain = 100 * (1 - best / first) if first > 0 else 0.0
        now = "searching" if self.running else "ended" if self._error is None else f"failed ({self._error!r})"
        costs = f"{format_seconds(first)} to {format_seconds(best)} ({-gain:.1f} %)"
        return f"{now} after {format_seconds(self.elapsed)}: {costs}"

    def __repr__(self) -> str:
        return f"<Improvement {self.text()}>"

    def _work(self, seed: int) -> None:
        try:
            self._found = _search(self.plan, self.seconds, seed, self._stop.is_set, self._better)
            self._better(0, min(self.curve[-1][1], self._found.makespan))
        except BaseException as error:  # raised again by `result`
            self._error = error
        finally:
            self._done.set()

    def _better(self, _: int, cost: float) -> None:
        self.curve.append((time.monotonic() - self._begun, cost))


def _search(
    plan: PlannedRun,
    seconds: float,
    seed: int,
    stop: Callable[[], bool] | None,
    better: Callable[[int, float], None] | None,
) -> PlannedRun:
    """The better plan, or the given plan under another object."""
    begun = time.perf_counter()
    start = plan.planned
    if start.follow is not None:  # machines are chosen during the run: begin with a plan that has all of them
        start = plan_by("eft", plan.graph, plan.workers, start.placed)
    found = anneal(
        plan.graph,
        plan.workers,
        start.assign,
        start.rank,
        tries=_TRIES,
        seconds=seconds,
        moves=_MOVES,
        seed=seed,
        placed=start.placed,
        stop=stop,
        better=better,
    )
    made = replace(start, name=f"{start.name}, annealed", assign=found.assign, rank=found.rank)
    if found.cost >= plan.makespan:
        made = plan.planned
    return replace(plan, planned=made, base=plan, change={"tries": found.tries}, took=time.perf_counter() - begun)
