"""Progress of a job: a share that never falls, and is 1 only at the end.

A job runs in stages of unknown number. A stage has a share of the remainder: all of it when no other stage can follow,
else half. Within a stage the share of finished operands counts.
Source: Mars `services/task/supervisor/processor.py` (the sum over stages of subtask progress times the stage's share).

Estimates the remaining seconds of a running stage, from costs of operands and the pace of the run.

Work counts, not the number of operands: an operand costs as many seconds as ended operands of the same program took on
average, or as planned. Work done since the start gives the pace, with all waiting for memory, disk and
messages; early on the plan's makespan counts as well. The estimate moves smoothly, so that a display does not flicker,
and is within twice the truth on a steady run. Plain: the caller gives time and states.
Source: Mars `services/task/api/core.py`, `estimate_graph_finish_time`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jmars.model.status import OperandState as S

DONE = (S.FINISHED, S.FREED, S.SPILLED)
ALMOST = 1 - 2.0**-20  # all operands are done and the job has not ended


class Progress:
    """The progress of one job.

    Examples
    --------
    >>> progress = Progress()
    >>> progress.begin(given=0, last=True)
    >>> progress.now(bytes([S.FINISHED, S.RUNNING, S.READY, S.READY]), ended=False)
    0.25
    """

    def __init__(self) -> None:
        self._before = self._share = self._told = 0.0  # share of earlier stages, of this one, and what was told last
        self._given = 0

    def begin(self, given: int, last: bool) -> None:
        """Begin a stage, `given` operands of which were done before; `last` when no stage can follow."""
        self._given = given
        self._share = (1 - self._before) * (1 if last else 0.5)

    def close(self, states: bytes | bytearray) -> None:
        """End the stage with these final states of operands."""
        self._before += self._share * self._done(states)
        self._share = 0.0

    def now(self, states: bytes | bytearray, ended: bool) -> float:
        """The progress now.

        Parameters
        ----------
        states
            Of the running stage's operands; empty between stages.
        ended
            Whether the job has succeeded.
        """
        now = self._before + self._share * self._done(states) if states else self._before
        self._told = 1.0 if ended else max(self._told, min(now, ALMOST))
        return self._told

    def _done(self, states: bytes | bytearray) -> float:
        counts = np.bincount(np.frombuffer(states, np.uint8), minlength=len(S))
        to_do = len(states) - self._given
        return max(0, int(counts[list(DONE)].sum()) - self._given) / to_do if to_do else 1.0


TRUSTED = 0.2  # share of the work after which the pace alone counts, and the plan no more
SMOOTH = 0.5, 0.1  # seconds over which a change is believed, at least and as a share of what is left
_DONE = np.zeros(len(S), np.float64)
_DONE[[S.FINISHED, S.FREED, S.SPILLED]] = 1.0
_DONE[S.RUNNING] = 0.5  # on average


class Eta:
    """Estimate for one stage.

    Parameters
    ----------
    program
        Row of the program of each operand; -1 for chunks that were there before, which cost nothing.
    workers
        Processes that compute.
    planned
        Seconds that each operand should take, where that was planned.
    makespan
        Seconds that all should take, where that was planned.

    Examples
    --------
    >>> eta = Eta([0, 0, 0, 0], workers=1)
    >>> eta.ended([0], [2_000_000])
    >>> eta.left(now=2.0, states=bytes([3, 1, 1, 1]))
    6.0
    """

    def __init__(
        self,
        program: Sequence[int],
        workers: int,
        planned: NDArray[np.float64] | None = None,
        makespan: float | None = None,
        begun: float = 0.0,
    ) -> None:
        self._program, self._workers, self._planned, self._makespan = program, workers, planned, makespan
        self._rows: NDArray[np.int64] | None = None
        self._begun = begun
        self._operands: list[int] = []  # that ended since the last look
        self._microseconds: list[int] = []
        self._later: list[bool] = []  # whether the worker had ended others before
        self._met: set[int] = set()  # workers that ended operands
        self._count = self._seconds = np.zeros((2, 0))  # of the first that ended and of later ones, by program
        self._is_usual = False  # whether the last estimate knew later operands
        self._paced = 0  # workers whose pace counts: from a time on, and the share of the work until then
        self._from = begun, 0.0
        self._ends: float | None = None  # when it will be over, as told last
        self._told = begun

    def ended(self, operands: Sequence[int], microseconds: Sequence[int], worker: int = 0) -> None:
        """Operands of a worker ended after so many microseconds each."""
        if operands and len(operands) == len(microseconds):
            self._operands += operands
            self._microseconds += microseconds
            self._later += [worker in self._met] + [True] * (len(operands) - 1)
            self._met.add(worker)

    def left(self, now: float, states: bytes | bytearray) -> float | None:
        """Estimated remaining seconds; None while no cost is known.

        Parameters
        ----------
        now
            Seconds, of the clock of `begun`.
        states
            Of each operand.
        """
        found = self._estimate(now, states)
        if found is None:
            return None
        ends = now + found
        is_usual = bool(self._count[1].any())
        if self._ends is None or is_usual and not self._is_usual:
            self._ends, self._is_usual = ends, is_usual
        else:
            slow = max(SMOOTH[0], SMOOTH[1] * found)
            self._ends += (1 - math.exp((self._told - now) / slow)) * (ends - self._ends)
        self._told = now
        return max(0.0, self._ends - now)

    def waiting(self, states: bytes | bytearray) -> float:
        """Seconds of computing that has not begun; 0 while no cost is known."""
        cost, share = self._costs(), _DONE[np.frombuffer(states, np.uint8)]
        return 0.0 if cost is None else float(cost[share == 0].sum())

    def _estimate(self, now: float, states: bytes | bytearray) -> float | None:
        cost = self._costs()
        elapsed = now - self._begun
        done, whole = 0.0, 0.0
        if cost is not None:
            share = _DONE[np.frombuffer(states, np.uint8)]
            whole, done = float(cost.sum()), float(cost @ share)
        by_plan = max(0.0, self._makespan - elapsed) if self._makespan is not None else None
        if cost is None or not done or elapsed <= 0:
            return by_plan
        if len(self._met) > self._paced:
            self._from, self._paced = (now, done / whole), len(self._met)
        since, before = self._from
        share_done = done / whole
        pace = (share_done - before) / (now - since) if share_done > before else share_done / elapsed
        by_pace = max((1 - share_done) / pace, (whole - done) / self._workers)
        if by_plan is None or done >= TRUSTED * whole:
            return by_pace
        weight = done / (TRUSTED * whole)
        return weight * by_pace + (1 - weight) * by_plan

    def _costs(self) -> NDArray[np.float64] | None:
        """Seconds of each operand by current knowledge; None where no operand ended and none was planned."""
        if self._rows is None:
            self._rows = np.asarray(self._program, np.int64)
            self._count, self._seconds = np.zeros((2, 2, int(self._rows.max(initial=-1)) + 1))
        rows = self._rows
        if self._operands:
            of = rows[self._operands]
            took = np.asarray(self._microseconds, np.float64) * 1e-6
            known, later = of >= 0, np.array(self._later)  # the first call of a process imports libraries
            n = self._count.shape[1]
            for row, some in enumerate((known & ~later, known & later)):
                self._count[row] += np.bincount(of[some], minlength=n)
                self._seconds[row] += np.bincount(of[some], took[some], minlength=n)
            self._operands, self._microseconds, self._later = [], [], []
        usual = np.where(self._count[1] > 0, 1, 0), np.arange(self._count.shape[1])
        count, seconds = self._count[usual], self._seconds[usual]
        seen = count > 0
        if not seen.any() and self._planned is None:
            return None
        mean = np.where(seen, np.maximum(seconds, 1e-9) / np.maximum(count, 1), 0.0)
        measured = np.append(seen, False)[rows]  # the last row is for -1
        cost = np.append(mean, 0.0)[rows]
        rest = ~measured & (rows >= 0)
        if self._planned is not None:
            expected = float(self._planned[measured].sum())
            scale = float(cost[measured].sum()) / expected if expected > 0 else 1.0
            cost[rest] = self._planned[rest] * scale
        elif rest.any():
            cost[rest] = float(seconds.sum() / count.sum())
        return cost
