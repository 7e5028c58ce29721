"""Finds operands to revoke and to copy: operands that wait behind a long operand, and operands that run far too long.

`Stragglers` only decides. A batch behind a long operand is revoked, so that the first free worker takes it, earlier
jobs first; while memory is short (inputs are loaded meanwhile) as many as there are idle workers. If no batch can be
revoked, an idle worker runs a copy of an operand that takes 1.5 times the program's third quartile, or of a process
that hangs; the first run to finish counts. Only repeatable operands are copied: kernels of jmars, no user functions.
Source: docs/explanation/seeds.md, "Operand states"; Spark `TaskSetManager.scala` (spark.speculation.quantile 0.75,
spark.speculation.multiplier 1.5).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jmars.model.limits import WAITS_BEHIND

__all__ = ["LONG", "Stragglers", "WorkerLoad"]

QUANTILE, MULTIPLIER = 0.75, 1.5
LEAST_SEEN = 3  # operands of a program that must have ended before another is late
LEAST_LATE = 1.0  # seconds beyond the usual: a shorter delay is not worth a copy
LONG = 0.05  # seconds from which a run time is remembered; shorter ones count by their mean
REMEMBERED = 64


@dataclass(frozen=True)
class WorkerLoad:
    """Load of a worker.

    Attributes
    ----------
    seconds
        For which it runs its batch.
    program
        Number of the running program, -1 for none.
    usual
        Mean seconds of that program's operands, 0 if none has ended.
    repeatable
        Whether its batch may run twice, and has no copy yet.
    waits
        Whether another batch waits behind.
    idle
        Whether it could run a batch, and neither has one nor finds operands queued.
    stuck
        Whether its process hangs.
    """

    seconds: float = 0.0
    program: int = -1
    usual: float = 0.0
    repeatable: bool = False
    waits: bool = False
    idle: bool = False
    stuck: bool = False


class Stragglers:
    """Recent run times of operands, by program.

    Examples
    --------
    >>> late = Stragglers()
    >>> late.learn(7, [2_000_000] * 4)
    >>> busy = WorkerLoad(seconds=5.0, program=7, usual=2.0, repeatable=True)
    >>> late.choose([busy, WorkerLoad(idle=True)])
    ([], [(0, 1)])
    """

    def __init__(self) -> None:
        self._seen: dict[int, deque[float]] = {}  # seconds by program

    def learn(self, program: int, microseconds: Iterable[int]) -> None:
        """Learn run times of a program's operands."""
        for one in microseconds:
            if one >= LONG * 1e6:
                self._seen.setdefault(program, deque(maxlen=REMEMBERED)).append(one * 1e-6)

    def limit(self, program: int, usual: float) -> float:
        """Seconds after which an operand of a program is late; infinite if no time is known."""
        seen = self._seen.get(program, ())
        if len(seen) >= LEAST_SEEN:
            usual = sorted(seen)[int(QUANTILE * (len(seen) - 1))]
        return max(MULTIPLIER * usual, usual + LEAST_LATE) if usual else float("inf")

    def choose(self, workers: Sequence[WorkerLoad], tight: bool = False) -> tuple[list[int], list[tuple[int, int]]]:
        """Workers with a waiting batch to revoke, and (late worker, idle worker) pairs to copy between.

        `tight` tells whether memory is short.
        """
        idle = [index for index, one in enumerate(workers) if one.idle]
        take: list[int] = []
        for index in sorted(range(len(workers)), key=lambda i: -workers[i].seconds):
            one = workers[index]
            wanted = not tight or len(take) < len(idle)
            if one.waits and (one.stuck or (wanted and one.seconds >= WAITS_BEHIND)):
                take.append(index)
        copies: list[tuple[int, int]] = []
        for index, one in enumerate(workers):
            late = one.stuck or one.seconds > self.limit(one.program, one.usual)
            if not take and one.program >= 0 and one.repeatable and late and len(copies) < len(idle):
                copies.append((index, idle[len(copies)]))
        return take, copies

    def forget(self) -> None:
        """Forget all programs, since they get new numbers."""
        self._seen.clear()
