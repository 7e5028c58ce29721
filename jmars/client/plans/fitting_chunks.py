"""Chunks that fit, for the error of a job that was refused: one of its operands needs more memory than there is.

The scheduler knows the one operand that is too large, and what chunks it would take. Here the whole graph is compiled
again with its sources cut smaller, until every operand of it fits, so that who follows the proposal is not refused once
more for another one. Used by `Job.error`. Source: the issue's "Memory is a guarantee".
"""

from __future__ import annotations

import time
from collections.abc import Container, Sequence

from jmars.client.plans.question import Question
from jmars.client.plans.recut import largest_chunk, largest_source, recut
from jmars.config import config
from jmars.errors import JmarsError, MemoryLimitError
from jmars.plan.profile import Profile
from jmars.scheduler.fitting import SPARE, hungriest
from jmars.tensor.operand import TensorData

__all__ = ["fitting_chunks", "with_fitting_chunks"]

BUDGET = 3.0  # seconds after which nothing more is tried
TRIALS, LESS = 8, 0.8  # how often smaller chunks are tried, and how much smaller they are each time at least
SMALLEST = 4096  # bytes of the largest chunk


def with_fitting_chunks(
    error: MemoryLimitError, data: Sequence[TensorData], held: Container[str], workers: int
) -> tuple[str, str]:
    """What the error proposes, and what to propose instead; the same where nothing better was found."""
    settings = {**config.task, "combine_size": config.combine_size}
    question = Question(data, held, settings, Profile(), workers, error.room // (2 * workers))
    try:
        shape = fitting_chunks(question, error.need, error.room)
    except JmarsError:  # all its sources lie on the cluster: there is nothing to cut
        shape = ()
    if not shape:
        return error.proposed, error.proposed
    first = " before its first unknown length" if question.unfolds else ""
    return error.proposed, f" (one of {shape if len(shape) > 1 else shape[0]} fits every operand{first})"


def fitting_chunks(question: Question, need: int, room: int, budget: float = BUDGET) -> tuple[int, ...]:
    """The shape of the largest chunk of a source with which every operand fits; () where none was found in time.

    Parameters
    ----------
    need
        Bytes that the largest operand needs as the sources are cut now.
    room
        Bytes that there are.
    """
    until = time.perf_counter() + budget
    size = largest_source(question.data, question.held)
    for _ in range(TRIALS):
        size = int(size * min(LESS, SPARE * room / need))
        if size < SMALLEST or time.perf_counter() > until:
            return ()
        most = hungriest(question.compiled(size).after)
        need = most.nbytes if most is not None else 0
        if need <= room:
            return largest_chunk(recut(question.data, question.held, size), question.held)
    return ()  # some operand does not follow the sources
