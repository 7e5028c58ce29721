"""Calls from jmars/memory upwards, passed once at construction.

jmars/memory decides about slots, and does not know batches, executors or the scheduler. The composition above
passes a `MemoryEvents` with callables that reach them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jmars.model.messages import JobTable

__all__ = ["MemoryEvents"]


@dataclass(frozen=True)
class MemoryEvents:
    """Callables that jmars/memory calls.

    Attributes
    ----------
    active
        Gives (worker, job, operands) of all batches that are being built, sent or run; worker -1 for the first.
    admitted
        An operand has all its memory; dispatch may send it.
    requeue
        An admitted operand gave its memory back; it returns to the task queue.
    refused
        An operand can never be admitted: job name, operand, error.
    waited
        Job number, operand, seconds in the allocation queue, and seconds until its inputs were loaded.
    moved
        A chunk was spilled (True) or reloaded (False).
    copied
        A copy of a chunk of another host is here now.
    lost
        A stored chunk cannot be read back, with the reason.
    answer
        The executor of a worker gets a slot for its result, or slot 0 and a reason.
    is_leaving
        Whether the process of a worker is about to be replaced.
    recycle
        Recycles workers whose processes retain memory; returns whether memory becomes free thereby.
    usual_seconds
        Mean seconds of a program's operands; 0.0 while none has run.
    """

    active: Callable[[], Iterable[tuple[int, JobTable, Iterable[int]]]]
    admitted: Callable[[], None]
    requeue: Callable[[JobTable, int], None]
    refused: Callable[[str, int, Exception], None]
    waited: Callable[[int, int, float, float], None]
    moved: Callable[[int, bool], None]
    copied: Callable[[int], None]
    lost: Callable[[int, str], None]
    answer: Callable[[int, int, str], None]
    is_leaving: Callable[[int], bool]
    recycle: Callable[[], bool]
    usual_seconds: Callable[[int], float]
