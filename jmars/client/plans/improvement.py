"""Improves a plan by simulated annealing, at once or beside other work, with the curve of the best times so far.

The search changes machines and order of the operands and keeps a change that shortens the simulated run. The cluster
improves plans of graphs that run again and again by the same search, between their runs.
Source: Kirkpatrick, Gelatt and Vecchi 1983; docs/explanation/seeds.md, "Graph partitioning by merging".
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jmars.client.notebook_views import Shown, in_kernel
from jmars.client.plans.named_policies import plan_by
from jmars.errors import JmarsError
from jmars.model import upper_floors
from jmars.plan.improve import anneal
from jmars.units import format_seconds

if TYPE_CHECKING:
    from jmars.client.plans.planned_run import PlannedRun

__all__ = ["Improvable", "Improvement"]

SECONDS = 10.0
_TRIES = 1_000_000  # the seconds end the search
_MOVES = ("move", "swap", "reorder")


class Improvable:
    """Base class of `PlannedRun`."""

    def improve(self: Any, seconds: float = SECONDS, *, seed: int = 0) -> PlannedRun:
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
