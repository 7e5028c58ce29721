"""Watchdog: decides when to report jobs that do not move, before the user asks, and neither at once nor all the time.

`Watchdog` takes the jobs' pulses now and then; `look` returns jobs that have stood still long enough for their user to
hear why, and reported jobs that move again. The caller gives the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["CALM", "PATIENCE", "Watchdog"]

PATIENCE = 5.0  # seconds without movement after which the first word is said; each next one after twice as long
CALM = frozenset(
    {"runs", "preparing", "queued", "starting", "moves", "done", "cancelled"}
)  # reasons that need nobody's help


@dataclass
class _Seen:
    pulse: Any
    since: float  # when it was last seen to change
    said: float = 0.0  # seconds of standstill at which something was said last, 0 for nothing


class Watchdog:
    """The jobs that have not ended.

    Examples
    --------
    >>> dog = Watchdog(patience=5)
    >>> dog.look(0, {"job-1": "a"}), dog.look(4, {"job-1": "a"}), dog.look(6, {"job-1": "a"})
    (({}, []), ({}, []), ({'job-1': 6}, []))
    >>> dog.look(7, {"job-1": "a"}), dog.look(13, {"job-1": "a"}), dog.look(14, {"job-1": "b"})
    (({}, []), ({'job-1': 13}, []), ({}, ['job-1']))
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self.patience = patience
        self._seen: dict[str, _Seen] = {}

    def look(self, now: float, pulses: Mapping[str, Any]) -> tuple[dict[str, float], list[str]]:
        """Jobs to report.

        Parameters
        ----------
        now
            Seconds of any clock.
        pulses
            By job that has not ended: something that differs as soon as it has moved.

        Returns
        -------
        dict
            Seconds of standstill by job whose user should hear why.
        list
            Jobs of which that was said and that move again.
        """
        still: dict[str, float] = {}
        moving: list[str] = []
        for job, pulse in pulses.items():
            seen = self._seen.get(job)
            if seen is None or seen.pulse != pulse:
                if seen is not None and seen.said:
                    moving.append(job)
                self._seen[job] = _Seen(pulse, now)
                continue
            stands = now - seen.since
            if stands >= max(self.patience, 2 * seen.said):
                still[job] = seen.said = stands
        for job in [job for job in self._seen if job not in pulses]:
            del self._seen[job]
        return still, moving
