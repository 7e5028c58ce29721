"""Decides from samples of /proc when a stopped or frozen child process is suspect, killed or given up.

Pure: samples in, actions out. A process that computes, with or without the interpreter's lock, sleeps, waits for a
disk or is held by a debugger runs. A process that a signal stopped or that a freezer holds hangs: suspect after two
samples, killed after FENCE_SECONDS, and given up after a kill without effect. Time counts only while samples come, so a
host that was stopped or slept learns no hang from the clock. Source: docs/explanation/reliability.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

__all__ = ["FENCE_SECONDS", "GIVE_UP_SECONDS", "LOOK_SECONDS", "Health", "HealthAction", "Vital"]

LOOK_SECONDS = 0.25  # between two samples while there is work
FENCE_SECONDS = 6.0  # so that a stop of five seconds has no effect
GIVE_UP_SECONDS = 1.0  # after the kill; a frozen process dies only after it is thawed


class Vital(Enum):
    """State of a process in /proc."""

    RUNS = "runs"  # computes, sleeps, waits for a disk, or is held by a debugger
    STOPPED = "stopped"  # by a signal
    FROZEN = "frozen"  # by a cgroup's freezer
    GONE = "gone"


class HealthAction(Enum):
    """An action on a process."""

    SUSPECT = "suspect"  # send it no batch, and start speculative copies of its repeatable operands
    WELL = "well"  # the process runs again
    FENCE = "fence"  # kill it
    GIVE_UP = "give up"  # it cannot die: go on as if it had died


class _Case:
    """A process that hangs."""

    __slots__ = ("ended", "seconds", "steps")

    def __init__(self) -> None:
        self.seconds = 0.0  # for which it was seen to hang
        self.ended = 0.0  # value of `seconds` at the kill
        self.steps = [HealthAction.SUSPECT, HealthAction.FENCE, HealthAction.GIVE_UP]  # still to come


class Health:
    """Processes that hang.

    Parameters
    ----------
    fence
        Seconds after which a hung process is killed.

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
        """Whether a process hangs."""
        return bool(self._cases)

    def look(self, now: float, vitals: Mapping[int, Vital]) -> list[tuple[int, HealthAction]]:
        """Add a sample of all processes, taken at `now`; returns (pid, action) in order.

        Parameters
        ----------
        now
            Seconds of a clock that never goes back.
        vitals
            By pid; a process without a sample is forgotten.
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
        """The next action that is due."""
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
