"""Shared vocabulary, no I/O.

events.py    numbered records of events
limits.py    numbers that several floors must agree on
timing.py    when operands ran, from the events
messages.py  the ports between the scheduler and a host's workers, and the table of a job
collector.py  blocks in which the garbage collector is off
versions.py  versions that processes which exchange pickles must share
upper_floors.py  functions that load upper floors, for lower ones
status.py    status of a host and of jobs at a moment, to explain why a job does not move
"""

from jmars.model.events import Event
from jmars.model.status import STATE_NAMES, TERMINAL, JobState, OperandState

__all__ = ["STATE_NAMES", "TERMINAL", "Event", "JobState", "OperandState"]
