"""HostMemory: the interface of jmars/memory that other folders call.

The composition above passes a `MemoryEvents`; dispatch admits operands, stores and frees their slots; clients enqueue
requests; the status page reads. Source: docs/explanation/seeds.md, "Memory management".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from jmars.errors import MemoryLimitError
from jmars.memory.active_operands import ActiveOperands
from jmars.memory.admission import Admission
from jmars.memory.buffer_manager import BufferManager, Ended, Received
from jmars.memory.chunk_reads import Pull, no_pull
from jmars.memory.device_memory import DeviceMemory
from jmars.memory.device_slots import DeviceGrant
from jmars.memory.dynamic_outputs import DynamicOutputs
from jmars.memory.events import MemoryEvents
from jmars.memory.gathering import pieces_of
from jmars.memory.graph_room import GraphRoom
from jmars.memory.lost_chunks import LostChunks
from jmars.memory.memory_levels import MemoryLevels, levels
from jmars.memory.mover_link import MoverProcess
from jmars.memory.next_use import NextUse
from jmars.memory.quota import Quota
from jmars.memory.retained_memory import RetainedMemory
from jmars.memory.size_checks import check_results
from jmars.memory.udf_memory import UdfMemoryPolicy
from jmars.model.messages import JobTable
from jmars.model.orders import LocateChunks
from jmars.storage.arena import Arena
from jmars.storage.chunks import Chunks, Elsewhere

__all__ = ["HostMemory"]


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
        Bytes of graphs in the control process that need no promise.
    pull
        Reads bytes of chunks from other hosts.

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
        start_mover: Callable[[Received, Ended], MoverProcess],
        disk_room: Callable[[], int],
        limit: int = 0,
        graph_bytes: int = 0,
        pull: Pull = no_pull,
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
            shed=lambda: bool(self.lost_chunks) or self.graph_room.shed(events.recycle),
            has_one_reader=self.next_use.has_one_reader,
            copied=events.copied,
            pull=pull,
        )
        self.lost_chunks = LostChunks(self.chunks, self.buffers, self.active, self.free_chunks)
        self.graph_room = GraphRoom(self.quota, self.buffers, graph_bytes)
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
    def open_job(self, table: JobTable) -> None:
        """Track the readers of a job's chunks."""
        self.next_use.open_job(table)

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

    def free_chunks(self, chunks: Iterable[int]) -> None:
        """Free the slots and files of chunks."""
        for file in self.chunks.free_all(chunks):
            self.buffers.delete(file)
        if self.buffers.queue:
            self.buffers.advance()

    # -- dispatch asks
    @property
    def is_spilling(self) -> bool:
        """Whether chunks were spilled or lie on other hosts, so that inputs have to be read."""
        return bool(self.chunks.disk or self.chunks.elsewhere)

    @property
    def is_blocked(self) -> bool:
        """Whether requests stand in the allocation queue."""
        return bool(self.buffers.queue)

    @property
    def is_loading(self) -> bool:
        """Whether requests wait for reads from disk."""
        return bool(self.buffers.loading)

    @property
    def disk_seconds(self) -> float:
        """Seconds of the mover with orders."""
        return self.buffers.mover.seconds

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

    def loose_inputs(self, table: JobTable, operand: int) -> list[tuple[int, Any]]:
        """(Offset, shape) of an operand's inputs; the shape is None where the program has a fixed shape."""
        program = table.programs[table.program[operand]]
        if program.gathers:
            pieces = pieces_of(table, operand)
            length = sum(stop - start for _, start, stop in pieces) // program.inputs[0].dtype.itemsize
            return [(self.quota.slots(table.job, operand)[0], (length,))]
        shapes, chunk = self.chunks.shapes, table.chunk
        offsets = self.inputs(table, operand)
        return [(at, shapes.get(chunk[i])) for at, i in zip(offsets, table.inputs[operand], strict=True)]

    def size_of(self, slot: int) -> int:
        """Bytes of a slot; 0 for slot 0."""
        return self.arena.size_of(slot) if slot else 0

    # -- executors report
    def inputs_read(self, number: int, operands: Iterable[int]) -> None:
        """Operands of a job have read their inputs for the last time."""
        self.next_use.finished(number, operands)

    def place_result(self, worker: int, table: JobTable, operand: int, slot: int, size: int) -> None:
        """An executor computed a result of `size` bytes and needs a slot; `slot` was taken ahead, 0 for none."""
        self.admission.place(worker, table, operand, slot, size)

    def waits_for_slot(self, worker: int) -> bool:
        """Whether the executor of a worker waits for a slot."""
        return self.outputs.waits(worker)

    def withdraw_slot(self, worker: int) -> None:
        """The executor of a worker needs no slot any more."""
        self.outputs.withdraw(worker)

    def refuse_slot(self, worker: int) -> None:
        """Have the executor of a worker drop a result that is not needed."""
        self.outputs.refuse(worker)

    def update_retained(self, worker: int, nbytes: int) -> bool:
        """Account for memory that functions retain in an executor; returns whether to recycle the worker."""
        return self.retained.update(worker, nbytes)

    def retains(self, worker: int) -> bool:
        """Whether functions retain more than a little memory in the executor of a worker."""
        return self.retained.retains(worker)

    def count_workers(self, workers: int) -> None:
        """There are so many workers now."""
        self.functions.workers = self.outputs.workers = workers
        self.retained.count_workers(workers, self.functions.slack)

    def reset_worker(self, worker: int) -> None:
        """A worker has a new process, without retained memory."""
        self.retained.reset(worker)

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

    def function_error(self, what: str, peak: int, cap: int, text: str) -> MemoryLimitError:
        """The error of an operand that needs more than all memory."""
        return self.functions.too_much(what, peak, cap, text)

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
