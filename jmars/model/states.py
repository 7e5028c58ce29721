"""The states of an operand and of a job. Source: docs/explanation/seeds.md, "Operand states"."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class OperandState(IntEnum):
    """Where an operand stands."""

    UNSCHEDULED = 0  # waits for inputs
    READY = 1  # all inputs are there
    RUNNING = 2  # handed to a worker
    FINISHED = 3  # its chunk is stored
    FREED = 4  # its chunk is no longer needed
    SPILLED = 5  # finished, its chunk lies on disk: a fact of storage, shown like a state
    CANCELLING = 6  # running, told to stop
    CANCELLED = 7
    FATAL = 8  # failed after all tries, or an input did


STATE_NAMES: tuple[str, ...] = tuple(state.name.lower() for state in OperandState)


class JobState(StrEnum):
    """States of a job. Source: docs/explanation/seeds.md, "Submitting a job" and "Cancelling a job"."""

    PREPARING = "preparing"
    RUNNING = "running"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


TERMINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
