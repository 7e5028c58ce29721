"""Shared vocabulary, no I/O.

states.py    the states of an operand, a job and a worker
events.py    numbered records of events
limits.py    numbers that several floors must agree on
record.py    a decorator for frozen dataclasses that are made often
failure.py   an error as data
submission.py  a graph with settings, for the way from a client to the scheduler
reports.py   reports of a host's workers to the scheduler, a record per kind
orders.py    orders of a scheduler in a separate process, a record per kind
compressed.py  long messages between machines, compressed
messages.py  the ports between the scheduler and a host's workers, and the table of a job
wire.py      records within msgpack
timing.py    begin and end of operands in the states of a worker
collector.py  blocks in which the garbage collector is off
fork_locks.py  locks that are free in a forked child
versions.py  versions that processes which exchange pickles must share
upper_floors.py  functions that load upper floors, for lower ones
status.py    status of a host and of jobs at a moment, to explain why a job does not move
"""

from jmars.model.events import Event
from jmars.model.states import STATE_NAMES, TERMINAL, JobState, OperandState

__all__ = ["STATE_NAMES", "TERMINAL", "Event", "JobState", "OperandState"]
