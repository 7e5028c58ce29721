"""Recovery snapshot: tells a new scheduler the open jobs, the state of their operands, and the chunks of this host.

The scheduler may be a separate process and die; the host goes on with the orders and remembers all reports here,
a byte per operand. `RemoteScheduler` and `Orders` keep the snapshot up to date.
Source: docs/decisions/0027-scheduler-apart.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jmars.model.limits import REMEMBERED_JOBS
from jmars.model.messages import JobTable
from jmars.storage.chunks import Chunks

__all__ = ["JobSnapshot", "RecoverySnapshot"]

NOT_HERE, QUEUED, RUNNING, STORED = range(4)  # state of an operand, by the last report or order


class JobSnapshot:
    """An open job."""

    def __init__(self, table: JobTable) -> None:
        self.number, self.base = table.number, table.base
        self.state = bytearray(len(table.program))
        self.worker: dict[int, int] = {}  # of running and stored operands
        self.sizes: dict[int, tuple[int, ...]] = {}  # shapes of stored operands that were unknown before
        self.stopped = False  # no operand runs any more

    def as_data(self) -> dict[str, Any]:
        """Plain data for a message; operands as bytes of <u4, stored operands by worker."""
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
    """Facts that a new scheduler needs about this host.

    Attributes
    ----------
    jobs
        Open jobs by name.
    closed
        Measurements of recently closed jobs by name; the scheduler that closed them may have died before the report.
    """

    def __init__(self, chunks: Chunks) -> None:
        self.jobs: dict[str, JobSnapshot] = {}
        self.closed: dict[str, dict[str, Any]] = {}
        self._chunks = chunks

    def opened(self, table: JobTable) -> None:
        """A job was opened."""
        self.jobs[table.job] = JobSnapshot(table)
        self.closed.pop(table.job, None)

    def queued(self, job: str, operands: Iterable[int]) -> None:
        """Operands were queued."""
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
        """Chunks of operands are stored."""
        known = self.jobs[job]
        state, by = known.state, known.worker
        for operand in operands:
            state[operand] = STORED
            by[operand] = worker
        if sizes:
            known.sizes.update(sizes)

    def gone(self, job: str, operands: Iterable[int]) -> None:
        """Operands do not run here any more, and are not stored."""
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
        """A job was closed."""
        del self.jobs[job]
        self.closed[job] = measured
        for old in list(self.closed)[:-REMEMBERED_JOBS]:
            del self.closed[old]

    def as_data(self, besides: Iterable[tuple[int, int]]) -> dict[str, Any]:
        """Plain data for a message; `besides` are (first, count) of chunks that clients upload."""
        chunks = self._chunks
        held = (chunks.memory.keys() | chunks.disk.keys() | chunks.on_device.keys() | chunks.moving) - chunks.doomed
        return {
            "jobs": {job: known.as_data() for job, known in self.jobs.items()},
            "closed": self.closed,
            "chunks": np.array(sorted(held), "<i8").tobytes(),
            "besides": [(first, count) for first, count in besides],
        }


def _packed(operands: Sequence[int]) -> bytes:
    return np.array(operands, "<u4").tobytes()
