"""Measures jobs where they run: for the view, beside the prediction, and for the cost profile.

The ledger owns the host's `Profile`. The ledger learns operands, disk transfers and dispatch of a job at the job's end,
so that an operand costs no extra step, and saves the profile now and then.

`Estimate` predicts the run time of operands from measurements, and bounds the operands of a batch. A batch saves
messages; a long batch makes other operands wait. So operands join a batch until the predicted time reaches
BATCH_SECONDS, and an operand of an unknown program goes alone. Batches of 100 cost 5 µs per operand, single operands 36
µs. The ledger takes the measurements when a job ends and keeps them for later sessions.

The event `OperandsTimed` tells how long operands were in the four states of a worker. ALLOCATING lasts from the task
queue until all memory is at hand, PREPARING_INPUTS until the inputs are reloaded, CALCULATING is the function itself,
STORING the copy of the result to the slot with the wait for that slot. Kernels write to the slot directly, and most
operands find their memory free: a state that is 0 for all operands takes no byte.
Source: docs/explanation/costs.md; docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from jmars.errors import JmarsError
from jmars.kernels import Program
from jmars.model.limits import BATCH_SECONDS
from jmars.model.messages import JobTable
from jmars.plan import Profile
from jmars.plan.costs import gpu_key, prior, signature
from jmars.storage.arena import Arena
from jmars.storage.chunks import Chunks

log = logging.getLogger("jmars.worker")

SAVE_SECONDS = 30.0  # between two saves while the cluster lives
MOST = 1000  # programs learnt from a job, the longest first, so that the job's end takes milliseconds
LEAST_OPERANDS = 1000  # of a job that measures dispatch, with operands no longer than
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
        self.others, self.disk = others, disk  # the rest: bytes of other chunks
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
        largest: dict[str, int] = {}  # key: largest bytes of a result; programs that differ in values share a key
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
        load_costs(self.profile)

    def save(self) -> None:
        """Write the profile; a failure is logged."""
        save_costs(self.profile)

    def _save_soon(self) -> None:
        """Save in a thread, at most every SAVE_SECONDS."""
        now = time.monotonic()
        if now - self._saved >= SAVE_SECONDS and (self._saving is None or self._saving.done()):
            self._saved = now
            self._saving = asyncio.ensure_future(asyncio.to_thread(self.save))


def load_costs(profile: Profile) -> None:
    """Read the profile of earlier sessions on this machine; a failure is logged."""
    try:
        profile.refresh()
        profile.busy = 1.0  # the load of that time is over
    except (OSError, JmarsError) as error:
        log.warning("what operands cost is not kept: %s", error)
    except Exception:  # a fault of jmars or of the file: plans are made without a profile
        log.exception("what operands cost was not read")


def save_costs(profile: Profile, host: bool = True) -> None:
    """Write a profile that has changed, as `Profile.save` does; a failure is logged."""
    try:
        if profile.changed:
            profile.save(host=host)
    except (OSError, JmarsError) as error:
        log.warning("what operands cost is not kept: %s", error)
    except Exception:  # a fault of jmars: no job depends on the profile
        log.exception("what operands cost is not kept")


_UNKNOWN = BATCH_SECONDS  # an operand of a program that never ran fills a batch


class Seen:
    """Measurements of a program: the prediction for the next operand, and sums since the last `take`."""

    __slots__ = ("cold", "cold_seconds", "fresh", "next", "seconds", "warm")

    def __init__(self, following: float) -> None:
        self.next = following
        self.warm = self.cold = 0  # operands; a cold operand was the first to touch its memory
        self.seconds = self.cold_seconds = self.fresh = 0.0  # of warm, of cold operands; bytes touched by cold operands


class Estimate:
    """Seconds per operand, by program."""

    def __init__(self) -> None:
        self.seen_by_program: dict[int, Seen] = {}

    def seconds(self, program: int) -> float:
        """Predicted seconds of the next operand of `program`."""
        seen = self.seen_by_program.get(program)
        return _UNKNOWN if seen is None else seen.next

    def known(self, program: int) -> float:
        """The same, but 0.0 if none of `program` has run."""
        seen = self.seen_by_program.get(program)
        return 0.0 if seen is None else seen.next

    def learn(self, program: int, seconds: float, fresh: float = 0.0) -> None:
        """Learn a measurement with weight 0.1; `fresh` are bytes that the operand was the first to touch."""
        seen = self.seen_by_program.get(program)
        if seen is None:
            seen = self.seen_by_program[program] = Seen(seconds)
        else:
            seen.next += 0.1 * (seconds - seen.next)
        if fresh:
            seen.cold += 1
            seen.cold_seconds += seconds
            seen.fresh += fresh
        else:
            seen.warm += 1
            seen.seconds += seconds

    def take(self) -> dict[int, Seen]:
        """Measurements by program since the last call; the sums start again."""
        taken = {}
        for program, seen in self.seen_by_program.items():
            if seen.warm or seen.cold:
                taken[program] = seen
                self.seen_by_program[program] = Seen(seen.next)
        return taken


_MOST = 2**32 - 1


class StateTimes:
    """Times that an executor does not report: in the allocation queue, and until inputs were reloaded.

    Examples
    --------
    >>> states = StateTimes()
    >>> states.waited(1, 7, allocating=2e-6, preparing=0.0)
    >>> [list(memoryview(one).cast("I")) for one in states.packed(1, [7, 8], [30, 40], [(1, 15, 5)])]
    [[2, 0], [], [30, 35], [0, 15]]
    """

    def __init__(self) -> None:
        self._waits: dict[tuple[int, int], tuple[int, int]] = {}  # (job number, operand): µs of the first two states

    def waited(self, number: int, operand: int, allocating: float, preparing: float) -> None:
        """An operand has its memory after `allocating` seconds, and its inputs after `preparing` more."""
        self._waits[number, operand] = int(allocating * 1e6), int(preparing * 1e6)

    def packed(
        self, number: int, operands: Sequence[int], elapsed: Sequence[int], stored: Sequence[tuple[int, int, int]]
    ) -> tuple[bytes, bytes, bytes, bytes]:
        """Times of finished operands in the four states, as little-endian uint32 in µs; b"" if all are 0.

        Parameters
        ----------
        elapsed
            µs of each operand's function, storing included.
        stored
            (Place in `elapsed`, µs of storing with its wait, µs of storing that `elapsed` contains).
        """
        allocating = preparing = storing = b""
        waits = self._waits
        if waits:
            both = [waits.pop((number, operand), (0, 0)) for operand in operands]
            allocating = _some([one for one, _ in both])
            preparing = _some([one for _, one in both])
        if stored:
            computing, stores = list(elapsed), [0] * len(elapsed)
            for place, micros, counted in stored:
                computing[place] -= counted
                stores[place] = micros
            elapsed, storing = computing, _some(stores)
        return allocating, preparing, pack_numbers(elapsed), storing

    def close_job(self, number: int) -> None:
        """Forget a job."""
        if self._waits:
            self._waits = {one: waits for one, waits in self._waits.items() if one[0] != number}


def pack_numbers(values: Sequence[int]) -> bytes:
    """Numbers as little-endian uint32, clipped to the range."""
    try:
        packed = array("I", values)
    except OverflowError:
        packed = array("I", [max(0, min(value, _MOST)) for value in values])
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _some(values: Sequence[int]) -> bytes:
    return pack_numbers(values) if any(values) else b""
