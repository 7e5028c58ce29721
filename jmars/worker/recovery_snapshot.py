"""What a host tells a new scheduler: which jobs are open here, where their operands stand, and which chunks lie here.

The scheduler may be a process of its own and die; the host goes on with what it was given, and remembers here what it
reported, a byte for each operand. `RemoteScheduler` and `Orders` keep it up to date.
Source: RUNTIME 5, "workers re-announce what they hold".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jmars.model.limits import REMEMBERED_JOBS
from jmars.model.messages import JobTable
from jmars.storage.chunks import Chunks

__all__ = ["JobSnapshot", "RecoverySnapshot"]

NOT_HERE, QUEUED, RUNNING, STORED = range(4)  # of an operand, as the host last reported it or was ordered


class JobSnapshot:
    """One job that is open on this host."""

    def __init__(self, table: JobTable) -> None:
        self.number, self.base = table.number, table.base
        self.state = bytearray(len(table.program))
        self.worker: dict[int, int] = {}  # of running and stored operands
        self.sizes: dict[int, tuple[int, ...]] = {}  # shapes of stored ones that were not known before
        self.stopped = False  # nothing of it runs any more

    def as_data(self) -> dict[str, Any]:
        """Plain data for a message; operands as bytes of <u4, stored ones by the worker that made them."""
        states = np.frombuffer(bytes(self.state), np.uint8)
        stored: dict[int, list[int]] = {}
        for operand in np.flatnonzero(states == STORED).tolist():
            stored.setdefault(self.worker[operand], []).append(operand)
        return {
            "number": self.number,
            "base": self.base,
            "queued": _packed(np.flatnonzero(states == QUEUED).tolist()),
            "running": [(one, self.worker[one]) for one in np.flatnonzero(states == RUNNING).tolist()],
            "stored": [(worker, _packed(operands)) for worker, operands in stored.items()],
            "sizes": self.sizes,
            "stopped": self.stopped,
        }


class RecoverySnapshot:
    """All that a new scheduler must know of this host.

    Attributes
    ----------
    jobs
        Open ones by name.
    closed
        What those took that were closed of late, by name: who ordered it may not have heard of it.
    """

    def __init__(self, chunks: Chunks) -> None:
        self.jobs: dict[str, JobSnapshot] = {}
        self.closed: dict[str, dict[str, Any]] = {}
        self._chunks = chunks

    def opened(self, table: JobTable) -> None:
        """A job is open here."""
        self.jobs[table.job] = JobSnapshot(table)
        self.closed.pop(table.job, None)

    def queued(self, job: str, operands: Iterable[int]) -> None:
        """Operands were handed to workers."""
        state = self.jobs[job].state
        for operand in operands:
            state[operand] = QUEUED

    def running(self, job: str, operands: Iterable[int], worker: int) -> None:
        """A worker took operands."""
        known = self.jobs[job]
        state, by = known.state, known.worker
        for operand in operands:
            state[operand] = RUNNING
            by[operand] = worker

    def stored(self, job: str, operands: Iterable[int], worker: int, sizes: Mapping[int, Any] | None) -> None:
        """Chunks of operands lie here."""
        known = self.jobs[job]
        state, by = known.state, known.worker
        for operand in operands:
            state[operand] = STORED
            by[operand] = worker
        if sizes:
            known.sizes.update(sizes)

    def gone(self, job: str, operands: Iterable[int]) -> None:
        """Operands are neither run nor stored here any more."""
        state = self.jobs[job].state
        for operand in operands:
            state[operand] = NOT_HERE

    def chunks_gone(self, chunks: Iterable[int]) -> None:
        """Stored chunks are lost."""
        for known in self.jobs.values():
            for chunk in chunks:
                operand = chunk - known.base
                if 0 <= operand < len(known.state) and known.state[operand] == STORED:
                    known.state[operand] = NOT_HERE

    def close(self, job: str, measured: dict[str, Any]) -> None:
        """A job is forgotten here."""
        del self.jobs[job]
        self.closed[job] = measured
        for old in list(self.closed)[:-REMEMBERED_JOBS]:
            del self.closed[old]

    def as_data(self, besides: Iterable[tuple[int, int]]) -> dict[str, Any]:
        """Plain data for a message; `besides` are (first, count) of chunks that clients are bringing, kept or not."""
        chunks = self._chunks
        held = (chunks.memory.keys() | chunks.disk.keys() | chunks.moving) - chunks.doomed
        return {
            "jobs": {job: known.as_data() for job, known in self.jobs.items()},
            "closed": self.closed,
            "chunks": np.array(sorted(held), "<i8").tobytes(),
            "besides": [(first, count) for first, count in besides],
        }


def _packed(operands: Sequence[int]) -> bytes:
    return np.array(operands, "<u4").tobytes()
