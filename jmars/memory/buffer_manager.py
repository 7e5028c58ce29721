"""Loads inputs into memory, decides when chunks leave memory, and serves the allocation queue.

Requests that do not fit at once stand in a queue: an operand with inputs and output, a chunk that a client
uploads, chunks that a client fetches. Operands are sorted by rank, clients by arrival. Only the head of the queue takes
slots. With all slots the head leaves the queue and waits for reads, so no request holds memory that others need.
Source: docs/explanation/seeds.md, "Memory management"; docs/explanation/seeds.md, "Execution in a worker".

Errors of requests that cannot fit: too large for the memory, for memory and disk, or for the rest beside pins.

Entries of the allocation queue, and the back-off of a disk that refuses writes: plain records.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

from jmars.errors import ChunkLostError, MemoryLimitError, StorageError
from jmars.memory.gathering import ChunkReads, Gathers, MoverLink, Pull
from jmars.model.limits import PAGE
from jmars.processes.links import ChildLink
from jmars.storage.arena import Allocator, Arena
from jmars.storage.chunks import Chunks, SpillFile
from jmars.units import format_bytes

log = logging.getLogger("jmars.memory")

MOST_AHEAD = 0.5  # of the memory that may be in use where a chunk is read before an operand asks for it
LAST_JOB = 2**31 - 1  # number of a job, for reads that come after all that operands wait for
OUTPUT, GATHERED = -1, -2  # instead of a chunk, for the slots of the output and of gathered pieces

Received = Callable[[Any, Any], None]  # the mover's link, and its message
Ended = Callable[[Any, str], None]  # the mover's link, and the reason of its end


class BufferManager:
    """The allocation queue, and the chunks on their way to disk and back.

    Parameters
    ----------
    start_mover
        Starts a mover; takes the handlers of its messages and of its end.
    in_use
        Gives the chunks that operands under way read; they are not evicted.
    idle
        Tells whether no operand runs or is about to run, so that no memory will be freed by an end.
    moved
        Called with a chunk that was spilled (True) or reloaded (False).
    copied
        Called with a chunk of another host whose copy is in memory now.
    lost
        Called with a chunk that cannot be read back, and the reason.
    shed
        Has processes give up bytes; returns whether memory will be free thereby.
    has_one_reader
        Tells whether exactly one operand will still read a chunk.

    Attributes
    ----------
    queue, loading
        The allocation queue, and requests that left the queue and wait for reads.
    spills, reads
        Chunks on their way to disk, and on their way into memory.
    kept
        Slots of processes that were given up and have not ended.
    """

    def __init__(
        self,
        arena: Arena,
        chunks: Chunks,
        *,
        start_mover: Callable[[Received, Ended], ChildLink],
        in_use: Callable[[], set[int]],
        idle: Callable[[], bool],
        moved: Callable[[int, bool], None],
        lost: Callable[[int, str], None],
        shed: Callable[[int], bool],
        has_one_reader: Callable[[int], bool],
        copied: Callable[[int], None] = lambda chunk: None,
    ) -> None:
        self.arena, self.chunks = arena, chunks
        self.queue: deque[AllocationRequest] = deque()
        self.loading: list[AllocationRequest] = []
        self.mover = MoverLink(lambda: start_mover(self.received, self.mover_ended))
        self._in_use, self._idle, self._moved, self._copied = in_use, idle, moved, copied
        self._lost, self._shed, self._has_one_reader = lost, shed, has_one_reader
        self.spills, self.kept = set[int](), set[int]()
        self.reads = ChunkReads(chunks, self.mover.tell, self._fetched)
        self.gathers = Gathers(chunks, self.mover.tell, self.delete, self._gather_came)
        self.disk, self.later = DiskBackoff(), later
        self._waking = self._advancing = False  # a retry is due; the queue is being served

    def pull_by(self, pull: Pull) -> None:
        """Read chunks of other hosts by this function from now on."""
        self.reads.pull = self.gathers.pull = pull

    def refuse_too_large(self, sizes: Sequence[int], what: str) -> None:
        """Raise MemoryLimitError if slots of these sizes never fit together."""
        check_slots(self.arena, sizes, what)

    def read_ahead(self, ranks: Mapping[int, int]) -> None:
        """Read chunks of other hosts before an operand asks for them, as long as half of the memory stays free.

        `ranks` has the rank of the operand that reads each chunk next.
        """
        for chunk, rank in ranks.items():
            if chunk in self.chunks.memory or chunk in self.reads or chunk not in self.chunks.elsewhere:
                continue
            size = self.chunks.size(chunk)
            if self.queue or self.arena.used + size > self.arena.capacity * MOST_AHEAD:
                continue
            slot = self.arena.allocate(size)
            if slot is not None:
                self.reads.start(chunk, slot, size, (LAST_JOB, rank), ahead=True)

    def enqueue(self, request: AllocationRequest) -> None:
        """Add a request to the queue; calls `granted` or `refused` of the request, perhaps before returning.

        Operands are sorted by rank, behind the head (a holder of slots perhaps), and behind clients that came before.
        """
        place = len(self.queue)
        if request.rank >= 0:
            while place > 1 and self.queue[place - 1].urgency > request.urgency and not self.queue[place - 1].first:
                place -= 1
        self.queue.insert(place, request)
        self.advance()

    def enqueue_first(self, request: AllocationRequest) -> None:
        """Add a request before all that came by `enqueue`; the first of them gives all slots back."""
        place = sum(other.first for other in self.queue)
        if place < len(self.queue):
            self._give_back(self.queue[place])
        request.first = True
        self.queue.insert(place, request)
        self.advance()

    def withdraw(self, wanted: Callable[[AllocationRequest], bool]) -> None:
        """Remove requests, free their slots, and stop reads from other hosts without further readers."""
        left: set[int] = set()
        for where, request in [(line, r) for line in (self.queue, self.loading) for r in line if wanted(r)]:
            where.remove(request)
            self._give_back(request)
            left |= request.loading
        self.reads.withdraw(left.difference(*(r.chunks for r in (*self.queue, *self.loading))) if left else left)
        self.advance()

    def advance(self) -> None:
        """Serve the head of the queue as long as there is room."""
        if self._advancing:
            return
        self._advancing = True
        try:
            while self.queue:
                request = self.queue[0]
                try:
                    lacking = self._take_slots(request)
                    if not lacking:
                        self._gather(request)
                except StorageError as error:  # an input was lost, or freed while the request waited
                    self._drop_head(error)
                    continue
                if lacking:
                    if not self._make_room(request, lacking):
                        return
                    continue
                self.queue.popleft()
                request.left = perf_counter()
                if request.loading or request.gathering:
                    self.loading.append(request)
                else:
                    request.granted(request.slot)
            self.disk.over()
        finally:
            self._advancing = False

    def _take_slots(self, request: AllocationRequest) -> int:
        """Allocate the missing slots of `request`; returns the bytes that found no room, 0 for none."""
        busy = self.spills | self.reads.withdrawn
        if busy and not busy.isdisjoint([*request.chunks, *(chunk for chunk, *_ in request.gather)]):
            return 1  # a spill, or a read that was stopped, ends before the next read; slots now would be scattered
        lacking = 0
        missing = self._missing_slots(request)
        for what in sorted(missing, key=missing.__getitem__, reverse=True):  # a small slot may split free memory
            size = missing[what]
            slot = self.arena.allocate(size)
            if slot is None:
                lacking += max(size, PAGE)  # an empty chunk takes a slot, too
            elif what == OUTPUT:
                request.slot = slot
            elif what == GATHERED:
                request.promised = [slot]
            elif request.rank >= 0 and what in self.chunks.disk and self._has_one_reader(what):
                request.private[what] = slot
            else:
                request.loading.add(what)
                self.reads.start(what, slot, size, request.urgency)
        if request.scratch and not request.promised:  # behind the slots, since the memory may be in pieces
            pieces = None if lacking else self.arena.reserve(request.scratch)
            request.promised = pieces or []
            lacking += 0 if pieces else request.scratch
        return lacking

    def _missing_slots(self, request: AllocationRequest) -> dict[int, int]:
        """Bytes of the slots that a request has to take, by chunk."""
        missing = {}
        if request.size is not None and request.slot < 0:
            missing[OUTPUT] = request.size
        if request.gather and not request.promised:
            missing[GATHERED] = request.scratch
        for chunk in request.chunks:
            if chunk in self.reads:
                request.loading.add(chunk)
            elif chunk not in self.chunks.memory and chunk not in request.private:
                missing[chunk] = self.chunks.size(chunk)
        return missing

    @property
    def spillable(self) -> int:
        """Bytes of chunks in memory that can go to disk now."""
        held = self._in_use().union(self.chunks.moving, self.chunks.pins, *(other.chunks for other in self.loading))
        return sum(self.chunks.size(chunk) for chunk in self.chunks.memory if chunk not in held)

    def _make_room(self, request: AllocationRequest, lacking: int) -> bool:
        """Start spilling for the head of the queue; returns whether to try again at once."""
        if self.spills or self.reads.withdrawn:
            return False  # the spills come first, and slots of stopped reads are free soon
        in_use = self._in_use().union(request.chunks, *(other.chunks for other in self.loading))
        tries = self.disk.may_try
        victims = self.chunks.victims(lacking, in_use, request.rank) if tries else []
        if victims:
            return self._spill(victims)
        if not self._idle() or self.loading or request.loading or self.reads.fetches:
            return False  # an operand or a read, perhaps one that nobody asked for yet, will end and free memory
        victims = self.chunks.victims(lacking, in_use) if tries else []
        if victims:
            return self._spill(victims)
        if self.disk.error is not None and not tries:  # else there is no chunk to spill
            seconds = self.disk.wait()
            if seconds is None:
                self._drop_head(self.disk.error)
                return True
            if not self._waking:  # one timer at a time: each report of an executor comes here too
                self._waking = True
                self.later(seconds, self._woken)
            return False
        own = [c for c in request.chunks if c in self.chunks.memory]
        others = self.arena.used - sum(map(self.arena.size_of, request.slots)) - sum(map(self.chunks.size, own))
        own = [c for c in own if c not in self.chunks.pins]
        if others < request.restarted or self.chunks.unsaved(own):  # fragmented by its own slots: again without them
            request.restarted = others
            self._give_back(request)
            return self._spill(own) or not own
        if self._shed(lacking):
            return False  # recycled processes end and free it
        if request.yields():
            return True
        pinned = sum(map(self.chunks.size, self.chunks.pins))
        kept = sum(map(self.arena.size_of, self.kept))
        self._drop_head(no_room(request.what, lacking, self.arena.capacity, pinned, kept))
        return True

    def _woken(self) -> None:
        self._waking = False
        self.advance()

    def _drop_head(self, error: Exception) -> None:
        request = self.queue.popleft()
        self._give_back(request)
        request.refused(error)

    def _give_back(self, request: AllocationRequest) -> None:
        for slot in request.slots:
            if not (request.gathering and self.gathers.leave(slot)):
                self.arena.free(slot)
        request.slot = -1
        request.promised, request.private, request.gathering = [], {}, 0

    def _spill(self, victims: list[int]) -> bool:
        """Spill chunks; returns whether memory is free at once, since some had a valid file."""
        try:
            self.mover.begin()
        except StorageError as error:  # no folder could be made
            self.disk.refused(error)
            return True
        at_once = False
        for chunk in victims:
            write = self.chunks.start_spill(chunk)
            if write is None:
                at_once = True
                if chunk in self.chunks.disk:
                    self._moved(chunk, True)
            else:
                self.spills.add(chunk)
                self.mover.tell("spill", chunk, *write)
        return at_once

    # -- the mover
    def delete(self, place: SpillFile | None) -> None:
        """Delete a file that is no longer needed."""
        if place is not None:
            self.mover.tell("delete", place.name)

    def received(self, link: Any, message: Any) -> None:
        """Handle an answer of the mover; no effect where nothing waits for the answer."""
        if message[0] == "disk":
            self.mover.direct = message[1]
            return
        if not self._is_awaited(*message[:2]):
            log.info("nothing waits for the mover's answer %r", message[:2])
            return
        self.mover.reported()
        if message[0] == "spilled":
            _, chunk, name, checksum, error = message
            self.spills.discard(chunk)
            place = None if error else SpillFile(name, checksum, self.arena.size_of(self.chunks.memory[chunk]))
            if error:
                self.disk.refused(StorageError(error))
            else:
                self.disk.worked()
            self.delete(self.chunks.spill_done(chunk, place))
            if place is not None and chunk in self.chunks.disk and chunk not in self.chunks.memory:
                self._moved(chunk, True)
        elif message[0] == "gathered":
            _, ticket, number, error = message
            if error:
                self.bad_file(self.gathers.chunk_of(ticket, number), error)
            self.gathers.moved(ticket, error)
        else:
            _, chunk, error = message
            self._loaded(chunk, error)
        self.advance()

    def _is_awaited(self, kind: str, about: int) -> bool:
        """Whether an answer of the mover, about a chunk or a gather, ends something that is under way."""
        if kind == "gathered":
            return self.gathers.waits_for_mover(about)
        return about in (self.spills if kind == "spilled" else self.reads.loads)

    def bad_file(self, chunk: int, error: str) -> None:
        """A chunk's file cannot be read; the chunk is lost unless in memory or being reloaded."""
        if chunk in self.chunks.moving:
            return
        if chunk in self.chunks.memory:
            self.delete(self.chunks.disk.pop(chunk, None))
        elif chunk in self.chunks.disk:
            self.delete(self.chunks.free(chunk))
            self._lost(chunk, error)

    def _gather_came(self, slot: int, done: Callable[[str], None] | None, error: str) -> None:
        """All parts of a gather have ended; without `done` its request was withdrawn."""
        if done is None:
            self.arena.free(slot)
        else:
            done(error)
        self.advance()

    def _gather(self, request: AllocationRequest) -> None:
        """Have the mover fill a request's private memory: gathered pieces, and chunks without another reader."""
        own = [((chunk, 0, self.chunks.size(chunk)),) for chunk in request.private]
        for pieces, slot in zip((*own, request.gather), (*request.private.values(), *request.promised)):
            if pieces:
                request.gathering += 1
                self.gathers.start(pieces, slot, partial(self._gathered, request), request.urgency)

    def _gathered(self, request: AllocationRequest, error: str) -> None:
        """Private memory of a request is filled, or a piece cannot be read."""
        if request not in self.loading:
            return  # the request was withdrawn when its chunk was lost
        request.gathering -= 1
        if error:
            self.loading.remove(request)
            self._give_back(request)
            request.refused(ChunkLostError(error))
        else:
            self._grant(request)

    def _grant(self, request: AllocationRequest) -> None:
        """Grant a request after the last read."""
        if request in self.loading and not request.loading and not request.gathering:
            self.loading.remove(request)
            request.granted(request.slot)

    def _loaded(self, chunk: int, error: str) -> None:
        """A reload ended."""
        del self.reads.loads[chunk]
        self.delete(self.chunks.load_done(chunk))
        if error:
            self.delete(self.chunks.free(chunk))
            self._lost(chunk, error)
        if chunk in self.chunks.memory:
            self._moved(chunk, False)
        self._has_read(chunk, error)

    def _fetched(self, chunk: int, is_here: bool, error: str) -> None:
        """A read from another host ended, or a copy from a GPU (False)."""
        if is_here:
            self._copied(chunk)
        self._has_read(chunk, error)
        self.advance()

    def _has_read(self, chunk: int, error: str) -> None:
        """Grant or refuse the requests that waited for a chunk. A request may withdraw other requests."""
        waiting = [r for r in (*self.loading, *self.queue) if chunk in r.loading]
        for request in waiting:
            request.loading.discard(chunk)
        if chunk in self.chunks.memory:
            for request in waiting:
                self._grant(request)
            return
        for request in waiting:
            for where in (self.loading, self.queue):
                if request in where:
                    where.remove(request)
                    self._give_back(request)
                    request.refused(ChunkLostError(error or f"chunk {chunk} was dropped while it was read back"))

    def mover_ended(self, link: Any, why: str) -> None:
        """The mover process ended: a new mover deletes unknown files and gets the reads; spills count as refused.

        After several deaths in a row over the same reads, the reads fail.
        """
        given_up = self.mover.died()
        spills, self.spills = self.spills, set()
        for chunk in spills:
            self.delete(self.chunks.spill_done(chunk, None))
        error = f"the process that writes and reads spilled chunks ended ({why}); see the log"
        if spills or given_up:
            self.disk.refused(StorageError(f"cannot spill: {error}"))
        if given_up:
            self.gathers.give_up(error)
            for chunk in list(self.reads.loads):
                self._loaded(chunk, error)
        else:
            if self.chunks.disk or spills:
                self.mover.tell("sweep", [place.name for place in self.chunks.disk.values()])
            self.gathers.again()
            self.reads.again()
        self.advance()


def check_slots(arena: Allocator, sizes: Sequence[int], what: str) -> None:
    """Raise MemoryLimitError if slots of these sizes never fit together; `what` names the request."""
    pages = sum(max(1, -(-size // PAGE)) for size in sizes) * PAGE
    if pages > arena.capacity:
        raise MemoryLimitError(
            f"{what} needs {format_bytes(pages)} in memory at once (inputs, output and scratch) and the memory "
            f"limit leaves {format_bytes(arena.capacity)}; use a smaller chunk_size or raise memory_limit"
        )


def check_results(arena: Allocator, size: int, disk_room: int) -> None:
    """Raise MemoryLimitError if results of `size` bytes fit neither in memory nor on disk."""
    free = arena.capacity - arena.used + disk_room
    if size > free:
        raise MemoryLimitError(
            f"the results take {format_bytes(size)}, and memory and disk together have {format_bytes(free)} left; "
            "keep less (a sum instead of the whole, one name for steps on the way), or give a larger spill_dir"
        )


def no_room(what: str, lacking: int, capacity: int, pinned: int, kept: int) -> MemoryLimitError:
    """Error of a request that lacks bytes beside chunks that must stay, of which clients pin `pinned` bytes, and slots
    of `kept` bytes of processes that do not end.
    """
    views = f" (views that you hold take {format_bytes(pinned)} of it: let go of them)" if pinned else ""
    views += f" (killed processes that do not end keep {format_bytes(kept)} of it)" if kept else ""
    return MemoryLimitError(
        f"{what} finds no room for {format_bytes(lacking)} beside what must stay in memory, of the "
        f"{format_bytes(capacity)} that the memory limit leaves{views}; use a smaller chunk_size or "
        "raise memory_limit"
    )


RETRY = 0.25  # seconds after which a refused write is tried again
DISK_SECONDS = 3.0  # for which the head of the queue waits for the disk alone


@dataclass(eq=False)
class AllocationRequest:
    """A request for chunks in memory, for a new slot, and for scratch, granted together."""

    chunks: Sequence[int]
    size: int | None  # bytes of the new slot; None for none
    granted: Callable[[int], None]  # called with the slot's offset, or -1
    refused: Callable[[Exception], None]
    what: str  # for errors: "the operand add"
    rank: int = -1  # of the operand; chunks used sooner stay in memory while any operand runs
    job: int = 0  # its number
    scratch: int = 0  # bytes of process memory to reserve
    least: int = 1 << 62  # fewest bytes of scratch that are enough; by default all
    gather: Sequence[tuple[int, int, int]] = ()  # (chunk, start, stop): bytes to concatenate in the scratch
    slot: int = -1
    promised: list[int] = field(default_factory=list)  # slots that represent the scratch
    loading: set[int] = field(default_factory=set)
    private: dict[int, int] = field(default_factory=dict)  # chunk without another reader: its private slot
    gathering: int = 0  # orders to the mover that are under way for private memory
    first: bool = False  # goes before requests that read chunks: an executor waits for it
    left: float = 0.0  # perf_counter when it had its slots and left the queue
    restarted: int = 1 << 62  # bytes that others held when it gave its slots back because they fragmented memory

    @property
    def urgency(self) -> tuple[int, int]:
        """Sort key: operands of earlier jobs first, then by rank; clients before later requests."""
        return (self.job, self.rank)

    def yields(self) -> bool:
        """Reduce the scratch by an eighth if less is enough; returns whether that was possible."""
        less = max(self.least, PAGE, self.scratch // 8 * 7)
        if self.promised or less >= self.scratch:
            return False
        self.scratch = less
        return True

    @property
    def slots(self) -> list[int]:
        """Slots held for the output, the scratch and private chunks."""
        return [slot for slot in (self.slot, *self.promised, *self.private.values()) if slot >= 0]


class DiskBackoff:
    """Retries a disk that refuses writes; chunks stay in memory meanwhile.

    A request fails only if no other memory can help and the disk has refused for `patience` seconds.
    """

    def __init__(self) -> None:
        self.error: StorageError | None = None  # of the last write; None after success
        self.patience = DISK_SECONDS
        self._retry = 0.0  # time of the next try
        self._since = 0.0  # time since which the head of the queue waits for the disk alone; 0 otherwise

    def refused(self, error: StorageError) -> None:
        """A write failed."""
        self.error, self._retry = error, perf_counter() + RETRY

    def worked(self) -> None:
        """A write went well."""
        self.error, self._since = None, 0.0

    @property
    def may_try(self) -> bool:
        """Whether a write may be tried now."""
        return self.error is None or perf_counter() >= self._retry

    def wait(self) -> float | None:
        """Seconds until the next try while only the disk can help; None when `patience` is over."""
        now = perf_counter()
        self._since = self._since or now
        return None if now - self._since >= self.patience else max(0.0, self._retry - now)

    def over(self) -> None:
        """No request waits for the disk any more."""
        self._since = 0.0


def later(seconds: float, call: Callable[[], None]) -> None:
    """Call `call` after `seconds` in the running loop."""
    asyncio.get_running_loop().call_later(seconds, call)
