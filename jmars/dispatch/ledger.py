"""Measures jobs where they run: for the view, beside the prediction, and for the cost profile.

The ledger owns the host's `Profile`. The ledger learns operands, disk transfers and dispatch of a job at the
job's end, so that an operand costs no extra step, and saves the profile now and then.
Source: docs/explanation/costs.md.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from jmars.dispatch.estimate import Estimate
from jmars.errors import JmarsError
from jmars.kernels import Program
from jmars.model.messages import JobTable
from jmars.plan import Profile
from jmars.plan.cost_keys import gpu_key, prior, signature
from jmars.storage.arena import Arena
from jmars.storage.chunks import Chunks

__all__ = ["SAVE_SECONDS", "Ledger", "save_costs"]

log = logging.getLogger("jmars.worker")

SAVE_SECONDS = 30.0  # between two saves while the cluster lives
MOST = 1000  # programs learnt from one job, the longest ones, so that its end takes milliseconds
LEAST_OPERANDS = 1000  # of a job that measures dispatch, whose operands run no longer than
SHORT_SECONDS = 2e-4  # on average
LEAST_COMPUTED = 0.05  # seconds of a job that measures how busy other processes keep the cores
LEAST_MOVED = 2**24  # bytes to and from disk of a job that measures the disk
LEAST_ON_GPU = 5e-5  # seconds of an operand on a GPU, where copies took all that was measured


class _Opened:
    """Counters when a job began."""

    __slots__ = ("disk", "executors", "fetched", "others", "spilled", "time")

    def __init__(self, others: int, chunks: Chunks, disk: tuple[int, float], executors: int) -> None:
        self.executors = executors
        self.time = time.perf_counter()
        self.others, self.disk = others, disk  # others: bytes of other chunks
        self.spilled, self.fetched = chunks.spilled, chunks.fetched


class Ledger:
    """Measurements of the jobs of a host.

    Attributes
    ----------
    profile
        Costs of operands on this host, for planners; `load` reads it.
    estimate
        Run times of operands by program, in this session.
    on_gpu
        The same on GPUs; cold operands are those with copies to the GPU or from it.
    executors
        Number of executors.
    waited
        Seconds that executors waited for a core since the last job ended.
    """

    def __init__(self, arena: Arena, chunks: Chunks, disk_seconds: Callable[[], float], executors: int) -> None:
        self.profile = Profile()
        self.estimate = Estimate()
        self.on_gpu = Estimate()
        self.waited = 0.0
        self._copies = (0, 0.0)  # bytes to and from GPUs since the profile learnt their speed, and their seconds
        self._arena, self._chunks, self._disk_seconds, self.executors = arena, chunks, disk_seconds, executors
        self._jobs: dict[int, _Opened] = {}  # by number
        self._saved = time.monotonic()
        self._saving: asyncio.Task[None] | None = None

    def open_job(self, table: JobTable) -> None:
        """A job begins."""
        if not self._jobs:
            self._arena.peak = self._arena.used
        memory, size_of = self._chunks.memory, self._arena.size_of
        given = [memory[table.chunk[i]] for i in table.stored if table.chunk[i] in memory]
        others = self._arena.used - sum(map(size_of, given))
        self._jobs[table.number] = _Opened(others, self._chunks, self._disk(), self.executors)

    def close_job(
        self, table: JobTable, programs: Sequence[Program], results: Mapping[int, int] = MappingProxyType({})
    ) -> dict[str, Any]:
        """A job has ended: learn; returns the measurements, the `measured` of `JobMoved`.

        `peak` is the most bytes of chunks and scratch of the job, its stored inputs included; of jobs that ran at the
        same time, the sum. `programs` gives the program of each number in `estimate`, `results` the bytes of the
        largest result of unknown size since the last job ended, by the same numbers.
        """
        opened, operands = self._jobs.pop(table.number), len(table.program)
        makespan = time.perf_counter() - opened.time
        moved, seconds = (after - before for after, before in zip(self._disk(), opened.disk, strict=True))
        if moved >= LEAST_MOVED and seconds:
            self.profile.observe_disk(int(moved), seconds)
        computed, used_gpus = self._learn(programs, results), self._learn_gpus(programs)
        short = operands >= LEAST_OPERANDS and computed < SHORT_SECONDS * operands
        if short and not (self._jobs or used_gpus) and opened.executors == self.executors:
            self.profile.observe_dispatch((makespan * self.executors - computed - self.waited) / operands)
        if computed >= LEAST_COMPUTED:
            self.profile.observe_busy(1 + self.waited / computed)
        self.waited = 0.0
        self._save_soon()
        return {
            "makespan": makespan,
            "peak": max(0, self._arena.peak - opened.others),
            "spilled": self._chunks.spilled - opened.spilled,
            "moved": self._chunks.fetched - opened.fetched,  # from other hosts: executors of a host share its memory
        }

    def _learn(self, programs: Sequence[Program], results: Mapping[int, int]) -> float:
        """Teach the profile the run times since the last call; returns their sum in seconds."""
        taken = self.estimate.take()
        longest = sorted(taken, key=lambda number: taken[number].seconds + taken[number].cold_seconds, reverse=True)
        when, measured, expected = int(time.time()), 0.0, 0.0
        largest: dict[str, int] = {}  # bytes of results, by key: programs that differ in values have one key
        for number in longest[:MOST]:
            seen, known = taken[number], signature(programs[number])
            if number in results and not programs[number].output.has_bound:
                largest[known.key] = max(results[number], largest.get(known.key, 0))
            if seen.cold:
                mean, fresh = seen.cold_seconds / seen.cold, seen.fresh / seen.cold
                self.profile.observe(known.key, known.size, mean, when=when, fresh=fresh)
            if seen.warm:
                mean = seen.seconds / seen.warm
                self.profile.observe(known.key, known.size, mean, when=when)
                self.profile.observe(known.family, known.size, mean, when=when)
                if not programs[number].runs_user_code:  # the time of a user's function is unpredictable
                    measured += seen.seconds
                    expected += seen.warm * prior(programs[number], known.size)
        for key, nbytes in largest.items():
            self.profile.observe_result(key, nbytes)
        if measured:
            self.profile.observe_scale(measured / expected)
        return sum(seen.seconds + seen.cold_seconds for seen in taken.values())

    def copied(self, nbytes: int, seconds: float) -> None:
        """Bytes were copied to or from a GPU in so many seconds."""
        self._copies = self._copies[0] + nbytes, self._copies[1] + seconds

    def _learn_gpus(self, programs: Sequence[Program]) -> bool:
        """Teach the profile the run times on GPUs, under keys of their own, and the speed of copies.

        The plan adds copies itself, so operands count whose inputs lay on the GPU and whose output stayed there; until
        there was one, the others count less the seconds of their copies. Returns whether an operand ran on a GPU.
        """
        if self._copies[0] >= LEAST_MOVED:
            self.profile.observe_pcie(*self._copies)
            self._copies = (0, 0.0)
        taken, when = self.on_gpu.take(), int(time.time())
        longest = sorted(taken, key=lambda number: taken[number].seconds + taken[number].cold_seconds, reverse=True)
        for number in longest[:MOST]:
            seen, known = taken[number], signature(programs[number])
            if seen.warm:
                mean = seen.seconds / seen.warm
            elif self.profile.seconds(gpu_key(known.key), known.size) is None:
                mean = max((seen.cold_seconds - seen.fresh / self.profile.pcie) / seen.cold, LEAST_ON_GPU)
            else:
                continue
            for key in (known.key, known.family):
                self.profile.observe(gpu_key(key), known.size, mean, when=when)
        return bool(taken)

    def _disk(self) -> tuple[int, float]:
        """Bytes to and from disk since the start, and their seconds."""
        return self._chunks.spilled + self._chunks.reloaded, self._disk_seconds()

    # -- between sessions
    def load(self) -> None:
        """Read the profile of earlier sessions."""
        try:
            self.profile.refresh()
            self.profile.busy = 1.0  # the load of that time is over
        except (OSError, JmarsError) as error:
            log.warning("what operands cost is not kept: %s", error)
        except Exception:  # a fault of jmars or of the file: plans are made without a profile
            log.exception("what operands cost was not read")

    def save(self) -> None:
        """Write the profile; a failure is logged."""
        save_costs(self.profile)

    def _save_soon(self) -> None:
        """Save in a thread, at most every SAVE_SECONDS."""
        now = time.monotonic()
        if now - self._saved >= SAVE_SECONDS and (self._saving is None or self._saving.done()):
            self._saved = now
            self._saving = asyncio.ensure_future(asyncio.to_thread(self.save))


def save_costs(profile: Profile, host: bool = True) -> None:
    """Write a profile that has changed, as `Profile.save` does; a failure is logged."""
    try:
        if profile.changed:
            profile.save(host=host)
    except (OSError, JmarsError) as error:
        log.warning("what operands cost is not kept: %s", error)
    except Exception:  # a fault of jmars: no job depends on the profile
        log.exception("what operands cost is not kept")
