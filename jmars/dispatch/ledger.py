"""What jobs took, measured where they ran: for the view beside what was predicted, and for the profile.

The ledger owns the host's `Profile`. When a job ends it takes what operands, disk and dispatch took in, all at once, so
that nothing is added to the way of an operand; and it saves the profile now and then. Told by `execution`.
Source: PLANNING 7, `cost.py`: "EWMA per (op, dtype, device) from runs".
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

from jmars.dispatch.estimate import Estimate
from jmars.errors import JmarsError
from jmars.kernels import Program
from jmars.memory.buffer_manager import BufferManager
from jmars.model.messages import JobTable
from jmars.plan import Profile, signature
from jmars.plan.cost.roofline import prior
from jmars.storage.arena import Arena
from jmars.storage.chunks import Chunks

__all__ = ["Ledger"]

log = logging.getLogger("jmars.worker")

SAVE_SECONDS = 30.0  # between two saves while the cluster lives
MOST = 1000  # programs that one job teaches, those that took longest: so that its end takes milliseconds
LEAST_OPERANDS = 1000  # of a job that tells what dispatching takes, which should not run longer than
SHORT_SECONDS = 2e-4  # on average, else other things weigh more
LEAST_COMPUTED = 0.05  # seconds of a job that tells how busy others keep the cores
LEAST_MOVED = 2**24  # bytes to and from disk that tell how fast it is


class _Opened:
    """How things stood when a job began."""

    __slots__ = ("disk", "others", "spilled", "time")

    def __init__(self, others: int, spilled: int, disk: tuple[int, float]) -> None:
        self.time = time.perf_counter()
        self.others, self.spilled, self.disk = others, spilled, disk  # bytes of chunks that it has nothing to do with


class Ledger:
    """What is measured of the jobs of a host.

    Attributes
    ----------
    profile
        What operands cost here; `load` fills it, whoever plans reads it.
    estimate
        What operands of each program took in this session.
    waited
        Seconds that executors waited for a core since a job ended.
    """

    def __init__(self, arena: Arena, chunks: Chunks, storing: BufferManager, executors: int) -> None:
        self.profile = Profile()
        self.estimate = Estimate()
        self.waited = 0.0
        self._arena, self._chunks, self._storing, self._executors = arena, chunks, storing, executors
        self._jobs: dict[int, _Opened] = {}  # by number
        self._saved = time.monotonic()
        self._saving: asyncio.Task[None] | None = None

    def open_job(self, table: JobTable) -> None:
        """A job begins to run."""
        if not self._jobs:
            self._arena.peak = self._arena.used
        memory, size_of = self._chunks.memory, self._arena.size_of
        given = [memory[table.chunk[i]] for i in table.stored if table.chunk[i] in memory]
        others = self._arena.used - sum(map(size_of, given))
        self._jobs[table.number] = _Opened(others, self._chunks.spilled, self._disk())

    def close_job(self, table: JobTable, programs: Sequence[Program]) -> dict[str, Any]:
        """A job has ended: learn from it; returns what it took, the `measured` of `JobMoved`.

        Its `peak` are the most bytes of chunks and scratch that it and the chunks that it reads took; with other jobs
        beside it, what all took together. `programs` are those that the numbers of `estimate` mean.
        """
        opened, operands = self._jobs.pop(table.number), len(table.program)
        makespan = time.perf_counter() - opened.time
        moved, seconds = (after - before for after, before in zip(self._disk(), opened.disk, strict=True))
        if moved >= LEAST_MOVED and seconds:
            self.profile.observe_disk(int(moved), seconds)
        computed = self._learn(programs)
        if operands >= LEAST_OPERANDS and computed < SHORT_SECONDS * operands and not self._jobs:
            self.profile.observe_dispatch((makespan * self._executors - computed - self.waited) / operands)
        if computed >= LEAST_COMPUTED:
            self.profile.observe_busy(1 + self.waited / computed)
        self.waited = 0.0
        self._save_soon()
        return {
            "makespan": makespan,
            "peak": max(0, self._arena.peak - opened.others),
            "spilled": self._chunks.spilled - opened.spilled,
            "moved": 0,  # the executors of a host share its memory
        }

    def _learn(self, programs: Sequence[Program]) -> float:
        """Teach the profile what operands took since this was last asked; returns their seconds."""
        taken = self.estimate.take()
        longest = sorted(taken, key=lambda number: taken[number].seconds + taken[number].cold_seconds, reverse=True)
        when, measured, expected = int(time.time()), 0.0, 0.0
        for number in longest[:MOST]:
            seen, known = taken[number], signature(programs[number])
            if seen.cold:
                mean, fresh = seen.cold_seconds / seen.cold, seen.fresh / seen.cold
                self.profile.observe(known.key, known.size, mean, when=when, fresh=fresh)
            if seen.warm:
                mean = seen.seconds / seen.warm
                self.profile.observe(known.key, known.size, mean, when=when)
                self.profile.observe(known.family, known.size, mean, when=when)
                if not programs[number].runs_user_code:  # nobody foretells what users' functions take
                    measured += seen.seconds
                    expected += seen.warm * prior(programs[number], known.size)
        if measured:
            self.profile.observe_scale(measured / expected)
        return sum(seen.seconds + seen.cold_seconds for seen in taken.values())

    def _disk(self) -> tuple[int, float]:
        """Bytes to and from disk since the start, and the seconds that took."""
        return self._chunks.spilled + self._chunks.reloaded, self._storing.disk_seconds

    # -- between sessions
    def load(self) -> None:
        """Take in what earlier sessions learnt."""
        try:
            self.profile.refresh()
            self.profile.busy = 1.0  # that was then
        except (OSError, JmarsError) as error:
            log.warning("what operands cost is not kept: %s", error)
        except Exception:  # a fault of ours, or a file that nobody foresaw: plans are made without
            log.exception("what operands cost was not read")

    def save(self) -> None:
        """Keep what was learnt; where that cannot be, the log says so."""
        try:
            if self.profile.changed:
                self.profile.save()
        except (OSError, JmarsError) as error:
            log.warning("what operands cost is not kept: %s", error)
        except Exception:  # a fault of ours: no job depends on it
            log.exception("what operands cost is not kept")

    def _save_soon(self) -> None:
        """Save in a thread, unless that was done a moment ago."""
        now = time.monotonic()
        if now - self._saved >= SAVE_SECONDS and (self._saving is None or self._saving.done()):
            self._saved = now
            self._saving = asyncio.ensure_future(asyncio.to_thread(self.save))
