"""Shared vocabulary, no I/O.

states.py    the states of an operand, a job and a worker
events.py    what happened, as numbered records
messages.py  what the scheduler and a host's workers say to each other
timing.py    when each operand was in which state of a worker
standing.py  how a host and its jobs stand at one moment, for who asks why nothing moves
"""

from jmars.model.events import Event
from jmars.model.states import STATE_NAMES, TERMINAL, JobState, OperandState

__all__ = ["STATE_NAMES", "TERMINAL", "Event", "JobState", "OperandState"]
