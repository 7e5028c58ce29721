"""HostMemory: the interface of jmars/memory that other folders call.

The composition above passes a `MemoryEvents`; dispatch admits operands, stores and frees their slots; clients enqueue
requests; the status page reads. Source: docs/explanation/seeds.md, "Memory management".

Promises memory to processes.

The control process grows with the number of planned and tracked operands, executors with libraries that functions
import, and by what functions take in addition to their promises. Bytes beyond the set-aside are promised like scratch,
so chunks make room for them; the promise is given up only if an operand would find no room otherwise. The host measures
the processes. Source: docs/explanation/memory.md.

Next use of each chunk, for Belady eviction: the chunk with the furthest next use is evicted first.

The next use of a chunk is the lowest rank among readers that have not finished. That is Belady's rule as far as a run
follows the plan. `storage.chunks` asks when choosing victims.
Source: Belady, "A study of replacement algorithms" (1966).

Bytes on the levels of memory, and how files are written.

*Shared* memory holds chunks that any executor may read; *private* memory holds chunks and pieces that were loaded for a
single operand; *disk* holds spilled chunks. *Device* memory is that of GPUs, whose slots dispatch gives.
Source: docs/explanation/seeds.md, "Memory management"; Mars `storage/base.py` (StorageLevel).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypedDict

from jmars.memory.admission import Admission, Made, MemoryEvents
from jmars.memory.buffer_manager import AllocationRequest, BufferManager, Ended, Received, check_results
from jmars.memory.device_memory import DeviceGrant, DeviceMemory
from jmars.memory.dynamic_outputs import ActiveOperands, DynamicOutputs, LostChunks
from jmars.memory.gathering import pieces_of
from jmars.memory.quota import Quota, RetainedMemory, UdfMemoryPolicy
from jmars.model.messages import JobTable, LocateChunks
from jmars.model.status import GRAPHS, DiskStatus
from jmars.processes.links import ChildLink
from jmars.storage.arena import Arena
from jmars.storage.chunks import Chunks, Elsewhere


class HostMemory:
    """The memory of a host.

    Parameters
    ----------
    workers
        Number of workers.
    start_mover
        Starts a mover process; takes the handlers of its messages and of its end.
    disk_room
        Gives the bytes that may still be spilled.
    limit
        The user's memory_limit in bytes, for errors; 0 if there is none.
    graph_bytes
        Bytes of the control process that need no promise.

    Attributes
    ----------
    chunks
        Places of all chunks of the host.
    staged
        (Job, operand, slot) of admitted operands that are in no batch yet.
    devices
        Memory of GPUs.
    admit, admit_loose, admit_function, give_back, cap
        `Admission`'s, bound here because dispatch calls them for each operand.
    """

    def __init__(
        self,
        arena: Arena,
        workers: int,
        events: MemoryEvents,
        start_mover: Callable[[Received, Ended], ChildLink],
        disk_room: Callable[[], int],
        limit: int = 0,
        graph_bytes: int = 0,
    ) -> None:
        self.arena, self._disk_room = arena, disk_room
        self.next_use = NextUse()
        self.chunks = Chunks(arena, self.next_use.next_use)
        self.quota = Quota(arena)
        self.functions = UdfMemoryPolicy(arena.capacity, workers, limit)
        self.retained = RetainedMemory(self.quota, arena.capacity, self.functions.slack, workers)
        self.active = ActiveOperands(events.active)
        self.buffers = BufferManager(
            arena,
            self.chunks,
            start_mover=start_mover,
            in_use=self.active.chunks_in_use,
            idle=self.active.is_idle,
            moved=events.moved,
            lost=events.lost,
            shed=lambda lacking: bool(self.lost_chunks) or self._shed(events.recycle, lacking),
            has_one_reader=self.next_use.has_one_reader,
            copied=events.copied,
        )
        self.lost_chunks = LostChunks(self.chunks, self.buffers, self.active, self.free_chunks)
        self.graph_room = ProcessRoom(self.quota, self.buffers, 0, graph_bytes)
        self.worker_room = ProcessRoom(self.quota, self.buffers, 1)
        self.outputs = DynamicOutputs(
            arena, self.quota, self.buffers, self.active, workers, events.answer, events.is_leaving
        )
        admission = self.admission = Admission(
            arena,
            self.chunks,
            self.quota,
            self.buffers,
            self.outputs,
            self.functions,
            self.retained,
            self.active,
            events,
        )
        self.staged = self.active.staged
        self.devices = DeviceMemory(
            self.chunks, self.buffers, admission, self.next_use.next_use, events, self.active.staged
        )
        self._offsets, self._private = self.chunks.memory, self.quota.private
        self.admit, self.admit_loose, self.admit_function = (
            admission.admit,
            admission.admit_loose,
            admission.admit_function,
        )
        self.give_back, self.cap = admission.give_back, admission.cap
        self.advance, self.release = self.buffers.advance, self.quota.release
        self.free_slot = arena.free
        self.levels: Callable[[], MemoryLevels] = partial(levels, self.buffers, self.quota)

    # -- jobs
    def check_results(self, size: int) -> None:
        """Raise MemoryLimitError if results of `size` bytes fit neither in memory nor on disk."""
        check_results(self.arena, size, self._disk_room())

    def close_job(self, number: int) -> None:
        """Forget a job."""
        self.next_use.close_job(number)
        self.outputs.close_job(number)
        self.functions.close_job(number)

    def drop_job(self, table: JobTable) -> list[int]:
        """Give up the operands of a job that are not sent; returns them."""
        return self.admission.drop(table) + self.devices.drop(table)

    def forget_programs(self) -> None:
        """Forget all programs, since they get new numbers."""
        self.outputs.forget()
        self.functions.forget()

    def locate_chunks(self, order: LocateChunks) -> None:
        """Other hosts have chunks that operands of this host will read."""
        shapes = order.shapes or {}
        for chunk, size, hosts in zip(order.chunks, order.nbytes, order.hosts, strict=True):
            shape = shapes.get(chunk)
            self.chunks.locate(chunk, Elsewhere(size, tuple(hosts)), None if shape is None else tuple(shape))
        if order.ahead:
            ranks = {chunk: self.next_use.next_use(chunk) for chunk in order.chunks}
            self.buffers.read_ahead({chunk: rank for chunk, rank in ranks.items() if rank != NEVER})

    def free_chunks(self, chunks: Iterable[int]) -> None:
        """Free the slots and files of chunks, and stop reads of them from other hosts."""
        freed = list(chunks)
        for file in self.chunks.free_all(freed):
            self.buffers.delete(file)
        if self.buffers.reads.fetches:
            self.buffers.reads.withdraw(set(freed))
        if self.buffers.queue:
            self.buffers.advance()

    @property
    def promised(self) -> int:
        """Bytes that executors may take now: for operands, and for what functions left behind."""
        return self.quota.unwritten - self.process_room

    @property
    def process_room(self) -> int:
        """Bytes held for what processes take without a promise to an operand."""
        return self.graph_room.held + self.worker_room.held

    def give_back_pages(self, size: int) -> None:
        """Give `size` bytes of pages without content to the system: pages promised to processes, then free pages."""
        wanted = self.arena.resident - size
        self.arena.remove(self.quota.of_processes)
        if self.arena.resident > wanted:
            self.arena.remove(self.arena.free_runs)

    def _shed(self, recycle: Callable[[], bool], lacking: int) -> bool:
        """Free memory for an operand at the head of the queue; returns whether some will be free."""
        if self.graph_room.is_first or self.worker_room.is_first:
            return False
        return self.worker_room.give_up(lacking) or recycle() or self.graph_room.give_up(lacking)

    # -- dispatch asks
    @property
    def is_spilling(self) -> bool:
        """Whether chunks were spilled or lie on other hosts, so that inputs have to be read."""
        return bool(self.chunks.disk or self.chunks.elsewhere)

    @property
    def is_blocked(self) -> bool:
        """Whether requests stand in the allocation queue."""
        return bool(self.buffers.queue)

    def waiting_urgencies(self) -> list[tuple[int, int]]:
        """(Job number, rank) of operands that wait for memory or for gathered pieces, staged operands included."""
        buffers = self.buffers
        if not buffers.queue and not buffers.gathers:
            return []
        waiting = [request.urgency for request in buffers.queue if request.rank >= 0]
        waiting += buffers.gathers.urgencies
        return waiting + [(table.number, table.rank[operand]) for table, operand, _ in self.staged]

    def inputs(self, table: JobTable, operand: int) -> list[int]:
        """Offsets of an operand's inputs, in order."""
        memory, chunk, private = self._offsets, table.chunk, self._private
        if private and (own := private.get((table.job, operand))):
            return [own[chunk[i]] if chunk[i] in own else memory[chunk[i]] for i in table.inputs[operand]]
        return [memory[chunk[i]] for i in table.inputs[operand]]

    def device_inputs(self, table: JobTable, operand: int, grant: DeviceGrant) -> list[int]:
        """Offsets of the inputs that an operand copies to a GPU; -1 for those that are there."""
        own = self._private.get((table.job, operand), {})
        return [
            -1 if place.is_there else own[place.chunk] if place.chunk in own else self._offsets[place.chunk]
            for place in grant.inputs
        ]

    def loose_inputs(self, table: JobTable, operand: int, made: Mapping[int, Made]) -> list[tuple[int, Any]]:
        """(Offset, shape) of an operand's inputs; the shape is None where the program has a fixed shape.

        Of outputs of the batch, `made`, (-1 - place in the batch, None).
        """
        program = table.programs[table.program[operand]]
        if program.gathers:
            pieces = pieces_of(table, operand)
            length = sum(stop - start for _, start, stop in pieces) // program.inputs[0].dtype.itemsize
            return [(self.quota.slots(table.job, operand)[0], (length,))]
        shapes, chunk = self.chunks.shapes, table.chunk
        if made and any(i in made for i in table.inputs[operand]):
            return [
                (-1 - made[i].place, None) if i in made else (self._offsets[chunk[i]], shapes.get(chunk[i]))
                for i in table.inputs[operand]
            ]
        offsets = self.inputs(table, operand)
        return [(at, shapes.get(chunk[i])) for at, i in zip(offsets, table.inputs[operand], strict=True)]

    def size_of(self, slot: int) -> int:
        """Bytes of a slot; 0 for slot 0."""
        return self.arena.size_of(slot) if slot else 0

    # -- executors report
    def count_workers(self, workers: int) -> None:
        """There are so many workers now."""
        self.functions.workers = self.outputs.workers = workers
        self.retained.count_workers(workers, self.functions.slack)

    def store_loose(self, table: JobTable, operand: int, program: int, shape: Sequence[int]) -> None:
        """An operand stored a chunk of unknown size: keep the shape, free the rest of the slot."""
        chunk = table.chunk[operand]
        size = math.prod(shape) * table.programs[table.program[operand]].output.dtype.itemsize
        self.arena.shrink(self.chunks.memory[chunk], size)
        self.chunks.shapes[chunk] = tuple(shape)
        self.quota.release(table.job, operand)
        self.outputs.learn(program, size)

    def function_took(self, table: JobTable, operand: int, program: int, peak: int) -> None:
        """The measured peak of a user's function, in bytes."""
        if self.functions.took(table.number, operand, program, peak):
            self.admission.ease(table, table.program[operand])

    def function_wants_all(self, table: JobTable, operand: int, program: int) -> bool:
        """A function exceeded the cap; returns whether the operand runs again with all memory."""
        return self.functions.wants_all(table.number, operand, program)

    # -- speculative copies
    def reserve_copy(self, table: JobTable, operand: int) -> int | None:
        """A slot and scratch for a second run of an operand; None if an input moves or there is no room."""
        chunks = self.chunks
        inputs = [table.chunk[i] for i in table.inputs[operand]]
        if any(chunk not in chunks.memory or chunk in chunks.moving for chunk in inputs):
            return None
        slot = self.arena.allocate(table.nbytes[operand])
        work = table.work[operand]
        if slot is not None and work and not self.quota.request(_copies(table.job), operand, work):
            self.arena.free(slot)
            return None
        return slot

    def release_scratch(self, job: str, operand: int, is_copy: bool) -> None:
        """Free the scratch of an operand, or of the copy."""
        self.quota.release(_copies(job) if is_copy else job, operand)

    def promote_copy(self, job: str, operand: int) -> None:
        """The copy of an operand is the only run left: the scratch becomes the operand's."""
        self.quota.hand_over(_copies(job), operand, job)


def _copies(job: str) -> str:
    """Name of the promises to copies in the quota."""
    return f"{job} (copy)"


STEP = 2**20  # bytes of the smallest change
PIECE = 2**24  # bytes of the largest request


class ProcessRoom:
    """A promise to processes: of graphs in the control process, or of what workers take.

    Parameters
    ----------
    number
        Tells the promises apart in the quota.
    aside
        Bytes that the processes may take without a promise.

    Attributes
    ----------
    held
        Bytes promised now.
    """

    def __init__(self, quota: Quota, buffers: BufferManager, number: int, aside: int = 0) -> None:
        self.held = self._wanted = 0
        self._number, self._aside, self._quota, self._buffers = number, aside, quota, buffers
        self._asking: AllocationRequest | None = None  # for more

    def update(self, taken: int) -> None:
        """The processes take `taken` bytes."""
        wanted = max(0, -(-(taken - self._aside) // STEP) * STEP)
        if wanted == self.held and self._asking is None:
            return
        self._wanted, self.held = wanted, self._quota.adjust(GRAPHS, self._number, wanted)
        if self.held == wanted:
            asking, self._asking = self._asking, None
            self._buffers.withdraw(lambda request: request is asking)
        elif self._asking is None:
            self._ask()

    def _ask(self) -> None:
        """Queue for more, some at a time, as far as chunks can be spilled for it."""
        size = min(self._wanted - self.held, PIECE, self._buffers.spillable // STEP * STEP)
        if size > 0 and self._buffers.disk.error is None:
            self._asking = AllocationRequest((), None, self._granted, self._refused, GRAPHS, scratch=size, least=STEP)
            self._buffers.enqueue(self._asking)

    @property
    def is_first(self) -> bool:
        """Whether a request for more is the head of the queue."""
        return bool(self._buffers.queue) and self._buffers.queue[0] is self._asking

    def give_up(self, lacking: int) -> bool:
        """Free memory for the head of the queue; returns whether there was memory to free."""
        if not self.held:
            return False
        self.held = self._quota.adjust(GRAPHS, self._number, max(0, self.held - max(lacking, PIECE)) // STEP * STEP)
        self._buffers.later(0.0, self._buffers.advance)
        return True

    def _granted(self, _: int) -> None:
        request, self._asking = self._asking, None
        assert request is not None
        self._quota.add(GRAPHS, self._number, request.promised)
        self.held = self._quota.promised(GRAPHS, self._number)
        if self.held < self._wanted:
            self._ask()

    def _refused(self, error: Exception) -> None:
        self._asking = None


NEVER = 1 << 62  # next use of a chunk without readers: a result, or a chunk that is about to be freed


class _JobReaders:
    """Finished operands of a job, and operands that stand for chunks stored before the job."""

    __slots__ = ("finished", "given", "table")

    def __init__(self, table: JobTable) -> None:
        self.table = table
        self.finished = bytearray(len(table.program))
        rows = {row for row, program in enumerate(table.programs) if program.gathers}
        if rows:  # such operands read parts of chunks from memory or disk: no chunk stays in memory for them
            for operand, row in enumerate(table.program):
                if row in rows:
                    self.finished[operand] = 1
        self.given = {table.chunk[operand]: operand for operand in table.stored}


class NextUse:
    """The readers of the chunks of all open jobs."""

    def __init__(self) -> None:
        self._jobs: dict[int, _JobReaders] = {}  # by number

    def open_job(self, table: JobTable) -> None:
        """Add the readers of a job."""
        self._jobs[table.number] = _JobReaders(table)

    def close_job(self, number: int) -> None:
        """Remove the readers of a job."""
        del self._jobs[number]

    def finished(self, number: int, operands: Iterable[int]) -> None:
        """Operands have read their inputs for the last time."""
        flags = self._jobs[number].finished
        for operand in operands:
            flags[operand] = 1

    def has_finished(self, number: int, operand: int) -> bool:
        """Whether an operand of a job ran before."""
        return bool(self._jobs[number].finished[operand])

    def next_use(self, chunk: int) -> int:
        """Rank of the next operand that reads a chunk; `NEVER` if no operand will."""
        soonest = NEVER
        for job in self._jobs.values():
            table, finished = job.table, job.finished
            operand = chunk - table.base
            if not (0 <= operand < len(finished) and table.program[operand] >= 0):
                operand = job.given.get(chunk, -1)
                if operand < 0:
                    continue
            rank = table.rank
            for reader in table.readers[operand]:
                if not finished[reader] and rank[reader] < soonest:
                    soonest = rank[reader]
        return soonest

    def has_one_reader(self, chunk: int) -> bool:
        """Whether exactly one operand will still read a chunk as a whole."""
        left = 0
        for job in self._jobs.values():
            table, finished = job.table, job.finished
            operand = chunk - table.base
            if not (0 <= operand < len(finished) and table.program[operand] >= 0):
                operand = job.given.get(chunk, -1)
            if operand >= 0:
                left += sum(not finished[reader] for reader in table.readers[operand])
        return left == 1


class MemoryLevels(TypedDict):
    """Bytes now, and since the start."""

    device: int  # chunks in slots of GPUs; each has a copy on a lower level
    shared: int
    private: int
    disk: int
    private_total: int  # read from files to private memory since the start
    direct: bool | None  # whether files are written past the page cache; None before the first write


def levels(buffers: BufferManager, quota: Quota) -> MemoryLevels:
    """Levels of a host without its GPUs."""
    size_of, chunks = buffers.arena.size_of, buffers.chunks
    waiting = [*buffers.queue, *buffers.loading]
    own = [slot for request in waiting for slot in request.private.values()]
    own += [slot for request in waiting if request.gather for slot in request.promised]
    own += [slot for slots in quota.private.values() for slot in slots.values()]
    return {
        "device": 0,
        "shared": sum(map(size_of, chunks.memory.values())),
        "private": sum(map(size_of, own)),
        "disk": chunks.on_disk,
        "private_total": buffers.gathers.private,
        "direct": buffers.mover.direct,
    }


def disk_status(buffers: BufferManager) -> DiskStatus:
    """Status of the disk: writes and reads under way, their bytes, and the last error."""
    reads, pieces, in_memory = buffers.reads.loads, buffers.gathers.pieces, buffers.chunks.memory
    chunks = [chunk for chunk in (*buffers.spills, *reads) if chunk in in_memory]
    return {
        "writes": len(buffers.spills),
        "reads": len(reads) + len(pieces),
        "nbytes": sum(map(buffers.chunks.size, chunks)) + sum(stop - start for _, start, stop in pieces),
        "seconds": buffers.mover.silent,
        "full": str(buffers.disk.error or ""),
    }
