"""Shared vocabulary, no I/O.

states.py    the states of an operand, a job and a worker
events.py    what happened, as numbered records
limits.py    numbers that several floors must agree on
failure.py   an error as data
submission.py  a graph and how to run it, as it travels from a client to the scheduler
reports.py   what a host's workers report to the scheduler, a record for each kind
orders.py    what a scheduler in another process orders, a record for each kind
messages.py  the ports between the scheduler and a host's workers, and the table of a job
wire.py      records within msgpack
timing.py    when each operand was in which state of a worker
status.py  how a host and its jobs stand at one moment, for who asks why nothing moves
"""

from jmars.model.events import Event
from jmars.model.states import STATE_NAMES, TERMINAL, JobState, OperandState

__all__ = ["STATE_NAMES", "TERMINAL", "Event", "JobState", "OperandState"]
