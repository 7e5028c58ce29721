"""Brings inputs into memory and makes room for outputs.

What does not fit at once stands in one line: an operand with its inputs and output, a chunk that the client uploads,
chunks that it fetches. Operands stand in it by rank, clients in the order in which they came. Only the head of the line
takes room; once it has all its slots it leaves the line and waits for its reads alone, so nobody can hold memory that
another needs to go on. Chunks are moved by the mover process. Source: seed 003, "内存管理"; the worker states
ALLOCATING and PREPARING_INPUTS.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

from jmars.errors import ChunkLostError, MemoryLimitError, StorageError
from jmars.memory.allocation_requests import AllocationRequest, DiskBackoff, later
from jmars.memory.gathering import Gathers
from jmars.memory.mover_link import MoverLink
from jmars.model.status import DiskStatus
from jmars.processes.links import ChildLink
from jmars.storage.arena import PAGE, Arena
from jmars.storage.chunks import Chunks, Place
from jmars.units import format_bytes

__all__ = ["AllocationRequest", "BufferManager"]


class BufferManager:
    """The line of those who wait for memory, and the chunks on their way."""

    def __init__(
        self,
        arena: Arena,
        chunks: Chunks,
        start_mover: Callable[[BufferManager], ChildLink],
        in_use: Callable[[], set[int]],
        idle: Callable[[], bool],
        moved: Callable[[int, bool], None],
        disk_room: Callable[[], int],
    ) -> None:
        self.arena = arena
        self.chunks = chunks
        self.line: deque[AllocationRequest] = deque()
        self.loading: list[AllocationRequest] = []  # have their slots, wait for reads
        self.lost: Callable[[int, str], None] = lambda chunk, why: None  # told which chunk cannot be read back, and why
        self.has_one_reader: Callable[[int], bool] = lambda chunk: False  # of an operand
        self.shed: Callable[[], bool] = lambda: False  # has processes let go of what they keep; whether some do
        self._start_mover = start_mover
        self.mover = MoverLink(lambda: self._start_mover(self))
        self._in_use, self._idle, self._moved, self._disk_room = in_use, idle, moved, disk_room
        self._spills: set[int] = set()
        self._loads: dict[int, tuple[Place, int]] = {}  # chunk: its file and slot
        self.gathers = Gathers(chunks, self.mover.tell, self.delete)
        self.trouble = DiskBackoff()
        self.later = later  # calls something in so many seconds
        self._waking = self._advancing = False  # was told to look again later; serves the line

    @property
    def blocked(self) -> bool:
        """Whether somebody waits for room, so that nobody else may take any."""
        return bool(self.line)

    @property
    def disk_seconds(self) -> float:
        """Seconds in which the mover had something to write or read."""
        return self.mover.seconds

    def moving(self) -> DiskStatus:
        """What is on its way to disk and back."""
        chunks = [one for one in (*self._spills, *self._loads) if one in self.chunks.memory]
        return {
            "writes": len(self._spills),
            "reads": len(self._loads) + len(self.gathers.pieces),
            "nbytes": sum(map(self.chunks.size, chunks)) + sum(stop - start for _, start, stop in self.gathers.pieces),
            "seconds": self.mover.silent,
            "full": str(self.trouble.error or ""),
        }

    def refuse_too_large(self, sizes: Sequence[int], what: str) -> None:
        """Raise MemoryLimitError when slots of these sizes never fit together."""
        pages = sum(max(1, -(-size // PAGE)) for size in sizes) * PAGE
        if pages > self.arena.capacity:
            raise MemoryLimitError(
                f"{what} needs {format_bytes(pages)} in memory at once (inputs, output and scratch) and the memory "
                f"limit leaves {format_bytes(self.arena.capacity)}; use a smaller chunk_size or raise memory_limit"
            )

    def refuse_results(self, size: int) -> None:
        """Raise MemoryLimitError when results of so many bytes fit neither in memory nor on disk."""
        free = self.arena.capacity - self.arena.used + self._disk_room()
        if size > free:
            raise MemoryLimitError(
                f"the results take {format_bytes(size)}, and memory and disk together have {format_bytes(free)} left; "
                "keep less (a sum instead of the whole, one name for steps on the way), or give a larger spill_dir"
            )

    def ask(self, request: AllocationRequest) -> None:
        """Stand in line; `granted` or `refused` is called, perhaps before this returns.

        Operands stand in the order of their ranks, behind the head, which may hold something, and behind clients, who
        came before.
        """
        place = len(self.line)
        if request.rank >= 0:
            while place > 1 and self.line[place - 1].urgency > request.urgency and not self.line[place - 1].first:
                place -= 1
        self.line.insert(place, request)
        self.advance()

    def ask_first(self, request: AllocationRequest) -> None:
        """Stand in line before all who came by `ask`; the first of those lets go of what it holds already."""
        place = sum(other.first for other in self.line)
        if place < len(self.line):
            self._give_back(self.line[place])
        request.first = True
        self.line.insert(place, request)
        self.advance()

    def withdraw(self, wanted: Callable[[AllocationRequest], bool]) -> None:
        """Take requests out, and give back what they hold."""
        for request in [r for r in self.line if wanted(r)]:
            self.line.remove(request)
            self._give_back(request)
        for request in [r for r in self.loading if wanted(r)]:
            self.loading.remove(request)
            self._give_back(request)
        self.advance()

    def advance(self) -> None:
        """Serve the head of the line as long as there is room."""
        if self._advancing:
            return
        self._advancing = True
        try:
            while self.line:
                request = self.line[0]
                try:
                    lacking = self._take_slots(request)
                    if not lacking:
                        self._gather(request)
                except StorageError as error:  # a chunk that it reads was lost, or dropped while it waited
                    self._drop_head(error)
                    continue
                if lacking:
                    if not self._make_room(request, lacking):
                        return
                    continue
                self.line.popleft()
                request.left = perf_counter()
                if request.loading or request.gathering:
                    self.loading.append(request)
                else:
                    request.granted(request.slot)
            self.trouble.over()
        finally:
            self._advancing = False

    def _take_slots(self, request: AllocationRequest) -> int:
        """Allocate what `request` misses; returns the bytes for which there is no room, 0 when it has all slots."""
        if self._spills and not self._spills.isdisjoint([*request.chunks, *(one for one, *_ in request.gather)]):
            return 1  # they must land before they can be read back; taking slots now would scatter them
        lacking = 0
        chunks, arena = self.chunks, self.arena
        if request.size is not None and request.slot < 0:
            slot = arena.allocate(request.size)
            if slot is None:
                lacking += max(request.size, PAGE)
            else:
                request.slot = slot
        if request.scratch and request.promised < 0:
            promised = arena.allocate(request.scratch) if request.gather else arena.reserve(request.scratch)
            if promised is None:
                lacking += request.scratch
            else:
                request.promised = promised
        for chunk in request.chunks:
            if chunk in self._loads:
                request.loading.add(chunk)
            elif chunk not in chunks.memory:
                size = chunks.size(chunk)
                slot = arena.allocate(size) if chunk not in request.private else -1
                if slot is None:
                    lacking += size
                elif slot < 0:
                    continue
                elif request.rank >= 0 and self.has_one_reader(chunk):
                    request.private[chunk] = slot
                else:
                    request.loading.add(chunk)
                    place = chunks.start_load(chunk, slot)
                    self._loads[chunk] = (place, slot)
                    self.mover.tell("load", chunk, slot, size, place.name, place.checksum)
        return lacking

    def _make_room(self, request: AllocationRequest, lacking: int) -> bool:
        """Start spilling for the head of the line; True when it should try again at once."""
        if self._spills:
            return False  # wait for these first
        in_use = self._in_use() | set(request.chunks)
        for other in self.loading:
            in_use.update(other.chunks)
        tries = self.trouble.may_try
        victims = self.chunks.victims(lacking, in_use, request.rank) if tries else []
        if victims:
            return self._spill(victims)
        if not self._idle() or self.loading or request.loading:
            return False  # something will end and free memory
        victims = self.chunks.victims(lacking, in_use) if tries else []
        if victims:
            return self._spill(victims)
        if self.trouble.error is not None and not tries:  # else there is nothing that the disk could take
            seconds = self.trouble.wait()
            if seconds is None:
                self._drop_head(self.trouble.error)
                return True
            if not self._waking:  # one at a time: each report of an executor comes here too
                self._waking = True
                self.later(seconds, self._woken)
            return False
        others = self.arena.used - self._held(request)
        if others < request.restarted:  # free memory may lie in pieces between its own slots: start from nothing
            request.restarted = others
            self._give_back(request)
            own = [c for c in request.chunks if c in self.chunks.memory and c not in self.chunks.pins]
            return self._spill(own) or not own
        if self.shed():
            return False  # their processes end and free it
        if request.yields():  # what is free lies in pieces, between views that are held
            return True
        pinned = sum(self.chunks.size(chunk) for chunk in self.chunks.pins)
        views = f" (views that you hold take {format_bytes(pinned)} of it: let go of them)" if pinned else ""
        self._drop_head(
            MemoryLimitError(
                f"{request.what} finds no room for {format_bytes(lacking)} beside what must stay in memory, of the "
                f"{format_bytes(self.arena.capacity)} that the memory limit leaves{views}; use a smaller chunk_size or "
                "raise memory_limit"
            )
        )
        return True

    def _woken(self) -> None:
        self._waking = False
        self.advance()

    def _held(self, request: AllocationRequest) -> int:
        """Bytes that a request has taken already, its inputs included."""
        slots = request.slots + [self.chunks.memory[chunk] for chunk in request.chunks if chunk in self.chunks.memory]
        return sum(map(self.arena.size_of, slots))

    def _drop_head(self, error: Exception) -> None:
        request = self.line.popleft()
        self._give_back(request)
        request.refused(error)

    def _give_back(self, request: AllocationRequest) -> None:
        for slot in request.slots:
            if not (request.gathering and self.gathers.leave(slot)):
                self.arena.free(slot)
        request.slot = request.promised = -1
        request.private, request.gathering = {}, 0

    def _spill(self, victims: list[int]) -> bool:
        """Send chunks to disk; returns whether it is worth to look again at once."""
        try:
            self.mover.begin()
        except StorageError as error:  # there is no folder for them
            self.trouble.refused(error)
            return True
        at_once = False
        for chunk in victims:
            write = self.chunks.start_spill(chunk)
            if write is None:
                at_once = True
                self._moved(chunk, True)
            else:
                self._spills.add(chunk)
                self.mover.tell("spill", chunk, *write)
        return at_once

    # -- the mover
    def delete(self, place: Place | None) -> None:
        """Remove a file that is no longer needed."""
        if place is not None:
            self.mover.tell("delete", place.name)

    def heard(self, link: ChildLink, message: Any) -> None:
        """The mover did something."""
        if message[0] == "disk":
            self.mover.direct = message[1]
            return
        self.mover.reported()
        if message[0] == "spilled":
            _, chunk, name, checksum, error = message
            self._spills.discard(chunk)
            place = None if error else Place(name, checksum, self.arena.size_of(self.chunks.memory[chunk]))
            if error:
                self.trouble.refused(StorageError(error))
            else:
                self.trouble.worked()
            self.delete(self.chunks.spill_done(chunk, place))
            if place is not None and chunk in self.chunks.disk:
                self._moved(chunk, True)
        elif message[0] == "gathered":
            _, ticket, number, error = message
            pieces, slot, done = self.gathers.ended(ticket)
            if error:
                self._bad_file(pieces[number][0], error)
            if done is None:
                self.arena.free(slot)
            else:
                done(error)
        else:
            _, chunk, error = message
            self._loaded(chunk, error)
        self.advance()

    def _bad_file(self, chunk: int, error: str) -> None:
        """A chunk's file cannot be read; one that lies in memory, or comes there just now, is no worse for it."""
        if chunk in self.chunks.moving:
            return
        if chunk in self.chunks.memory:
            self.delete(self.chunks.disk.pop(chunk, None))
        elif chunk in self.chunks.disk:
            self.delete(self.chunks.free(chunk))
            self.lost(chunk, error)

    def _gather(self, request: AllocationRequest) -> None:
        """Have the mover fill what is a request's own: what it gathers, and chunks that nobody else reads."""
        own = [((chunk, 0, self.chunks.size(chunk)),) for chunk in request.private]
        for pieces, slot in zip((*own, request.gather), (*request.private.values(), request.promised)):
            if pieces:
                request.gathering += 1
                self.gathers.start(pieces, slot, partial(self._gathered, request), request.urgency)

    def _gathered(self, request: AllocationRequest, error: str) -> None:
        """A request has what it gathers, or it cannot be read."""
        if request not in self.loading:
            return  # it was withdrawn when its chunk was found to be lost
        request.gathering -= 1
        if error:
            self.loading.remove(request)
            self._give_back(request)
            request.refused(ChunkLostError(error))
        else:
            self._grant(request)

    def _grant(self, request: AllocationRequest) -> None:
        """Let a request go on that waits for reads, unless some are still to come."""
        if request in self.loading and not request.loading and not request.gathering:
            self.loading.remove(request)
            request.granted(request.slot)

    def _loaded(self, chunk: int, error: str) -> None:
        """A chunk was read back: who waited for it goes on, or hears why not. Each may withdraw the others."""
        del self._loads[chunk]
        self.delete(self.chunks.load_done(chunk))
        if error:
            self.delete(self.chunks.free(chunk))
            self.lost(chunk, error)
        waiting = [r for r in (*self.loading, *self.line) if chunk in r.loading]
        for request in waiting:
            request.loading.discard(chunk)
        if chunk in self.chunks.memory:
            self._moved(chunk, False)
            for request in waiting:
                self._grant(request)
            return
        for request in waiting:
            for where in (self.loading, self.line):
                if request in where:
                    where.remove(request)
                    self._give_back(request)
                    request.refused(ChunkLostError(error or f"chunk {chunk} was dropped while it was read back"))

    def mover_gone(self, link: ChildLink, why: str) -> None:
        """The mover process ended: another one does its work anew, and removes the files that nobody knows.

        Where movers end again and again over what they are told, that is given up.
        """
        given_up = self.mover.died()
        spills, self._spills = self._spills, set()
        for chunk in spills:
            self.delete(self.chunks.spill_done(chunk, None))
        if given_up:
            error = f"the process that writes and reads spilled chunks ended again and again ({why}); see the log"
            self.trouble.refused(StorageError(f"cannot spill: {error}"))
            for done in self.gathers.give_up(self.arena.free):
                done(error)
            for chunk in list(self._loads):
                self._loaded(chunk, error)
        else:
            if self.chunks.disk or spills:
                self.mover.tell("sweep", [place.name for place in self.chunks.disk.values()])
            self.gathers.again(self.arena.free)
            for chunk, (place, slot) in self._loads.items():
                self.mover.tell("load", chunk, slot, place.size, place.name, place.checksum)
        self.advance()
