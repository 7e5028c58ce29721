"""Shared vocabulary, no I/O.

states.py    the states of an operand, a job and a worker
events.py    what happened, as numbered records
"""

from jmars.model.events import Event
from jmars.model.states import STATE_NAMES, TERMINAL, JobState, OperandState

__all__ = ["STATE_NAMES", "TERMINAL", "Event", "JobState", "OperandState"]
