"""Separates computing time from page faults and from waiting for a core, in an executor or a task of an engine.

Neither is a cost of the operand: memory is fresh once, and cores belong to other processes at times. The kernel counts
both; a reading takes a microsecond per report.
Source: Linux `Documentation/scheduler/sched-stats.rst` ("time spent waiting on a runqueue"); Linux getrusage(2).
"""

from __future__ import annotations

import os
from resource import RUSAGE_SELF, getrusage
from time import perf_counter

from jmars.storage.arena import PAGE

__all__ = ["Meter"]

FAULT_SECONDS = 1e-6  # to touch a fresh page
LEAST = 0.1  # least share of the time for which fresh memory is reported


class Meter:
    """Counters of the calling thread between two readings; the kernel counts page faults by process."""

    def __init__(self) -> None:
        try:
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # the kernel does not count
            self._file = -1
        self.start()

    def start(self) -> None:
        """Start counting."""
        self._time, self._faults, self._waited = perf_counter(), _faults(), self._nanoseconds()

    def read(self, elapsed: list[int]) -> tuple[list[int], int, int]:
        """Computing time of operands, fresh memory and waiting since the start or the last reading.

        Parameters
        ----------
        elapsed
            Microseconds of the operands by the clock.

        Returns
        -------
        list of int, int, int
            Microseconds without the waiting; bytes of fresh memory per operand, 0 if they cost hardly any time;
            microseconds of waiting for a core.
        """
        time, faults, waited = self._time, self._faults, self._waited
        self.start()
        pages, wait = self._faults - faults, (self._waited - waited) // 1000
        by_clock = sum(elapsed)
        seconds = self._time - time - wait * 1e-6
        fresh = pages * PAGE // max(len(elapsed), 1) if pages * FAULT_SECONDS > LEAST * seconds else 0
        if not 0 < wait < by_clock:
            return elapsed, fresh, 0
        share = 1 - wait / by_clock
        return [int(one * share) for one in elapsed], fresh, wait

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)

    def _nanoseconds(self) -> int:
        """Nanoseconds that this thread waited for a core since its start."""
        return int(os.pread(self._file, 64, 0).split()[1]) if self._file >= 0 else 0


def _faults() -> int:
    return getrusage(RUSAGE_SELF).ru_minflt
