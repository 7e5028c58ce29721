"""What an executor's seconds were spent on beside computing: touching fresh memory, and waiting for a core.

Both are no part of what an operand costs: memory is fresh once, and cores are others' at times. The system counts both;
reading that takes a microsecond for each report. Used by `executor`.
Source: Linux, Documentation/scheduler/sched-stats.rst ("time spent waiting on a runqueue"); getrusage(2).
"""

from __future__ import annotations

import os
from resource import RUSAGE_SELF, getrusage
from time import perf_counter

from jmars.storage.arena import PAGE

__all__ = ["Meter"]

FAULT_SECONDS = 1e-6  # about what touching a fresh page takes
LEAST = 0.1  # share of the time from which on fresh memory is told


class Meter:
    """Counts from one reading to the next."""

    def __init__(self) -> None:
        try:
            self._file = os.open("/proc/self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # a kernel that does not count
            self._file = -1
        self.start()

    def start(self) -> None:
        """Count from now on."""
        self._time, self._faults, self._waited = perf_counter(), _faults(), self._nanoseconds()

    def read(self, elapsed: list[int]) -> tuple[list[int], int, int]:
        """What operands computed, and on what else time was spent since the start or the last reading.

        Parameters
        ----------
        elapsed
            Microseconds of each operand by the clock.

        Returns
        -------
        list of int, int, int
            Microseconds of each without the waiting; bytes that each was the first to touch, 0 where that took no time
            to speak of; microseconds that they waited for a core.
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
        """Let go of the file that is read."""
        if self._file >= 0:
            os.close(self._file)

    def _nanoseconds(self) -> int:
        """For which this process could have run and no core was free, since it began."""
        return int(os.pread(self._file, 64, 0).split()[1]) if self._file >= 0 else 0


def _faults() -> int:
    return getrusage(RUSAGE_SELF).ru_minflt
