"""Status of a host and of jobs at a moment, as plain data for `why`.

`worker/host_status.py` gathers the host's status, jobs add theirs; `scheduler/why.py` explains. All records travel as
msgpack. Seconds are ages, not times of day; sizes are bytes; -1 stands for no operand.

`OperandState` and `JobState` are the states of an operand and of a job. Source: docs/explanation/seeds.md, "Operand
states".
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import TypedDict

GRAPHS = "what graphs and libraries take in processes"  # name of this promise among holders of memory


class WorkerStatus(TypedDict):
    """An executor process with its work."""

    name: str
    pid: int  # 0 while it is being forked, and for a node of an engine
    process: str  # as the system says: runs, sleeps, stopped, frozen, held by a debugger, waits for a disk, is gone
    state: str  # as the host says: starting, idle, busy, asks (its result waits for room), or a state of WorkerMoved
    job: str  # job of the running operand; "" for none
    operand: int
    what: str  # the operand in words: its program, and the user's line after the job has named it
    seconds: float  # since the operand began, or since the worker's last report
    usual: float  # seconds that operands of that program take; 0 if unknown
    behind: int  # operands that wait behind it in the same process


class QueueStatus(TypedDict):
    """An operand that waits for memory, or for chunks that are read back from disk."""

    job: str  # "" for an array that the notebook stores or fetches
    operand: int
    what: str
    needs: int  # inputs, output and scratch together
    lacks: int  # missing bytes; 0 if only reads are awaited


class MemoryStatus(TypedDict):
    """Holders of the memory for chunks and scratch."""

    capacity: int
    used: int
    jobs: dict[str, int]  # chunks of jobs that run, by job
    kept: int  # chunks of tensors that are kept: results of earlier jobs, arrays from the notebook
    viewed: int  # of both, chunks that may not move: views that users hold, copies under way
    promised: int  # scratch of running operands
    graphs: int  # bytes of graphs in the control process, as far as promised


class DiskStatus(TypedDict):
    """Writes to disk and reads under way."""

    writes: int  # chunks
    reads: int
    nbytes: int
    seconds: float  # since the disk last finished a request, or since the first of these requests
    full: str  # reason why the disk accepts no more; "" if it does


class DeathStatus(TypedDict):
    """A worker process that ended with work."""

    worker: str
    pid: int
    job: str
    operand: int
    what: str
    how: str  # "killed by SIGKILL", "ended with exit status 3", ...
    peak: int  # bytes of its memory at most; 0 unknown
    cap: int  # bytes that the process was allowed; 0 for no cap of its own
    seconds: float  # ago


class HostStatus(TypedDict):
    """Status of a host."""

    workers: list[WorkerStatus]
    queued: dict[str, int]  # ready operands that no worker has taken, by job
    line: list[QueueStatus]  # the first few operands that wait for memory, in order
    waiting: dict[str, int]  # all operands that wait for memory, by job
    reading: list[QueueStatus]  # the first few operands with memory that wait for reads
    memory: MemoryStatus
    disk: DiskStatus
    deaths: list[DeathStatus]  # the newest last


NO_STATUS: HostStatus = {
    "workers": [],
    "queued": {},
    "line": [],
    "waiting": {},
    "reading": [],
    "memory": {"capacity": 0, "used": 0, "jobs": {}, "kept": 0, "viewed": 0, "promised": 0, "graphs": 0},
    "disk": {"writes": 0, "reads": 0, "nbytes": 0, "seconds": 0.0, "full": ""},
    "deaths": [],
}


class JobStatus(TypedDict):
    """Status of a job."""

    id: str
    name: str
    state: str
    elapsed: float  # seconds since its submission, until its end
    since: float  # seconds in this state
    phase: str  # name of the preparation step, before operands run
    counts: dict[str, int]  # operands by state
    line: str  # the user's line of a failed operand, in words
    error: str  # class and text
    refused: list[str]  # programs that GPUs could not run and cores ran, with the reason
    unreported: str  # why the job's end is not reported yet; "" for most


class Verdict(TypedDict):
    """Reason for a job's state: a sentence, and the kind of reason in a word."""

    kind: str  # a key of docs/reference/why.md
    text: str


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
