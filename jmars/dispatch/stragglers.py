"""Which operands should run elsewhere: those that wait behind one that runs long, and those that run far too long.

`Stragglers` only decides. What waits behind one that runs long goes back to the queue, where whoever is free first
takes it, earlier jobs before later ones; where memory is short, so that its inputs are read while it waits, only for a
worker that has nothing to do. When there is nothing of that kind, such a worker runs a second copy of what takes half
as long again as three quarters of its like took, or of what a process holds that does not run any more, and the first
one that is done counts. Only what can run twice without harm is copied: kernels of ours, no function of a user's.
Used by `rescue`.
Source: seed 003, "Operand 状态" (READY: submitted to all workers, the first that is about to run it gets it); Spark's
spark.speculation.quantile 0.75 and .multiplier 1.5.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["LONG", "Stragglers", "WorkerLoad"]

QUANTILE, MULTIPLIER = 0.75, 1.5
LEAST_SEEN = 3  # operands of a program that must have ended before one is held to be late
LEAST_LATE = 1.0  # seconds beyond what is usual: what ends sooner is not worth a copy
WAITS_BEHIND = 0.2  # seconds that the first one must have run, or should run, before nothing waits behind it
LONG = 0.05  # seconds from which on an operand's time is remembered; shorter ones count by their mean
REMEMBERED = 64


@dataclass(frozen=True)
class WorkerLoad:
    """How one worker stands.

    Attributes
    ----------
    seconds
        For which it has run what it runs.
    program
        What that is, -1 for nothing.
    usual
        Seconds that an operand of that program takes on average, 0 where none has ended.
    repeatable
        Whether all that it runs may run twice, and no copy of it runs yet.
    waits
        Whether a batch waits behind that.
    idle
        Whether it has nothing, could run something, and nothing is queued.
    stuck
        Whether its process does not run any more.
    """

    seconds: float = 0.0
    program: int = -1
    usual: float = 0.0
    repeatable: bool = False
    waits: bool = False
    idle: bool = False
    stuck: bool = False


class Stragglers:
    """How long operands of each program took, of late.

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
        """Operands of a program took so long."""
        for one in microseconds:
            if one >= LONG * 1e6:
                self._seen.setdefault(program, deque(maxlen=REMEMBERED)).append(one * 1e-6)

    def limit(self, program: int, usual: float) -> float:
        """Seconds after which an operand of a program is late; infinite where nothing is known."""
        seen = self._seen.get(program, ())
        if len(seen) >= LEAST_SEEN:
            usual = sorted(seen)[int(QUANTILE * (len(seen) - 1))]
        return max(MULTIPLIER * usual, usual + LEAST_LATE) if usual else float("inf")

    def choose(self, workers: Sequence[WorkerLoad], tight: bool = False) -> tuple[list[int], list[tuple[int, int]]]:
        """Workers whose waiting batch is to be taken, and (worker, worker that runs a copy of what it runs).

        `tight` where memory is short.
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
        """Programs get new numbers."""
        self._seen.clear()
