"""Which child processes do not run any more though they live, and what to do about each: pure, told what is seen.

A process that computes, in Python or in C, with or without the interpreter's lock, runs; so does one that sleeps or
waits for a disk. One that a signal stopped or that a freezer holds does not: it is suspected when it was seen so twice,
ended after FENCE_SECONDS, and given up when it could not even die. Time counts only while somebody looks: who was
stopped himself, or slept with the whole machine, learns nothing from the clock. Used by `care`.
Source: RELIABILITY 4.4 (2): "suspect at 3 s, a stopped pid is known at once, fence at 8 s".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

__all__ = ["FENCE_SECONDS", "GIVE_UP_SECONDS", "LOOK_SECONDS", "Health", "HealthAction", "Vital"]

LOOK_SECONDS = 0.25  # between two looks while somebody waits for these processes
FENCE_SECONDS = 6.0  # a stop of five seconds passes by
GIVE_UP_SECONDS = 1.0  # after it was ended; what a freezer holds dies only when it is let go


class Vital(Enum):
    """What the system says of a process."""

    RUNS = "runs"  # or could: it computes, sleeps, or waits for a disk
    STOPPED = "stopped"  # by a signal
    FROZEN = "frozen"  # by a cgroup's freezer
    GONE = "gone"


class HealthAction(Enum):
    """What is to be done about a process."""

    SUSPECT = "suspect"  # give it nothing more, and have what it holds run elsewhere too where that does no harm
    WELL = "well"  # it runs again
    FENCE = "fence"  # end it
    GIVE_UP = "give up"  # it cannot die: go on as if it had


class _Case:
    """A process that does not run."""

    __slots__ = ("ended", "seconds", "steps")

    def __init__(self) -> None:
        self.seconds = 0.0  # for which it was seen so
        self.ended = 0.0  # of them, when it was told to die
        self.steps = [HealthAction.SUSPECT, HealthAction.FENCE, HealthAction.GIVE_UP]  # that are still to come


class Health:
    """The processes that do not run.

    Parameters
    ----------
    fence
        Seconds after which such a process is ended.

    Examples
    --------
    >>> health = Health()
    >>> health.look(0.0, {7: Vital.STOPPED}), health.look(0.25, {7: Vital.STOPPED}), health.look(0.5, {7: Vital.RUNS})
    ([], [(7, <HealthAction.SUSPECT: 'suspect'>)], [(7, <HealthAction.WELL: 'well'>)])
    """

    def __init__(self, fence: float = FENCE_SECONDS) -> None:
        self._fence = fence
        self._cases: dict[int, _Case] = {}  # by pid
        self._looked: float | None = None

    @property
    def suspects(self) -> bool:
        """Whether some process is not seen to run."""
        return bool(self._cases)

    def look(self, now: float, vitals: Mapping[int, Vital]) -> list[tuple[int, HealthAction]]:
        """Take in what the system says of all processes at `now`; returns what is to be done, in order.

        Parameters
        ----------
        now
            Seconds of a clock that never goes back.
        vitals
            By pid. Who is not among them any more is forgotten.
        """
        passed = 0.0 if self._looked is None else min(now - self._looked, 2 * LOOK_SECONDS)
        self._looked = now
        steps: list[tuple[int, HealthAction]] = []
        for pid in [pid for pid in self._cases if vitals.get(pid, Vital.GONE) is Vital.GONE]:
            del self._cases[pid]
        for pid, vital in vitals.items():
            if vital is Vital.RUNS:
                case = self._cases.pop(pid, None)
                if case is not None and HealthAction.SUSPECT not in case.steps:
                    steps.append((pid, HealthAction.WELL))
            elif vital is not Vital.GONE:
                case = self._cases.get(pid)
                if case is None:
                    self._cases[pid] = _Case()
                else:
                    case.seconds += passed
                    steps += [(pid, step) for step in self._due(case)]
        return steps

    def _due(self, case: _Case) -> list[HealthAction]:
        """The next step, when its time has come."""
        if not case.steps:
            return []
        step = case.steps[0]
        if step is HealthAction.FENCE and case.seconds < self._fence:
            return []
        if step is HealthAction.GIVE_UP and case.seconds < case.ended + GIVE_UP_SECONDS:
            return []
        if step is HealthAction.FENCE:
            case.ended = case.seconds
        del case.steps[0]
        return [step]
