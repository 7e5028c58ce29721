"""Admits operands with memory for inputs, output and scratch.

An operand that fits is admitted at once. Other operands stand in the allocation queue (`buffer_manager`) and are staged
when all their memory is at hand; dispatch sends staged operands first.
Source: docs/explanation/seeds.md, "Memory management"; docs/explanation/seeds.md, "Execution in a worker".

Calls from jmars/memory upwards, passed once at construction.

jmars/memory decides about slots, and does not know batches, executors or the scheduler. The composition above
passes a `MemoryEvents` with callables that reach them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from types import MappingProxyType
from typing import NamedTuple

from jmars.errors import MemoryLimitError
from jmars.memory.buffer_manager import AllocationRequest, BufferManager
from jmars.memory.dynamic_outputs import ActiveOperands, DynamicOutputs
from jmars.memory.gathering import Piece, pieces_of
from jmars.memory.quota import Quota, RetainedMemory, UdfMemoryPolicy
from jmars.model.limits import PAGE
from jmars.model.messages import JobTable
from jmars.model.status import GRAPHS
from jmars.storage.arena import Arena
from jmars.storage.chunks import Chunks


class Made(NamedTuple):
    """An output of a batch that is being filled."""

    place: int  # in the batch
    slot: int


NOTHING: Mapping[int, Made] = MappingProxyType({})


BRIEF = 0.001  # seconds below which a function is promised its operand's own figure only


class Admission:
    """Memory of operands that are not sent yet.

    A slot is the offset of an operand's output in the arena; 0 stands for none, if the size is unknown.

    Attributes
    ----------
    preparing
        (Job, operand) by request, of operands in the allocation queue.
    ended
        Called with an operand that was admitted or waited, and will not run, or did not end; tells whether another
        operand waits for slots on the same GPU.
    """

    def __init__(
        self,
        arena: Arena,
        chunks: Chunks,
        quota: Quota,
        buffers: BufferManager,
        outputs: DynamicOutputs,
        functions: UdfMemoryPolicy,
        retained: RetainedMemory,
        active: ActiveOperands,
        events: MemoryEvents,
    ) -> None:
        self._arena, self._chunks, self._quota, self._buffers = arena, chunks, quota, buffers
        self._outputs, self._functions, self._retained, self._active = outputs, functions, retained, active
        self._events, self._refused, self._staged = events, events.refused, active.staged
        self.preparing: dict[AllocationRequest, tuple[JobTable, int]] = {}
        self.ended: Callable[[JobTable, int], bool] = lambda table, operand: False

    def admit(self, table: JobTable, operand: int) -> int:
        """Slot of an operand's output if the operand can run now; -1 if the operand is queued for memory."""
        memory, moving, chunk, nbytes = self._chunks.memory, self._chunks.moving, table.chunk, table.nbytes
        inputs, work = table.inputs[operand], table.work[operand]
        for i in inputs:
            number = chunk[i]
            if number not in memory or number in moving:
                break
        else:
            # an operand that takes less than it may free overtakes the queue
            if not self._buffers.queue or 2 * nbytes[operand] <= sum(nbytes[i] for i in inputs):
                slot = self._arena.allocate(nbytes[operand])
                if slot is not None:
                    if not work or self._quota.request(table.job, operand, work):
                        return slot
                    self._arena.free(slot)
        self._prepare(table, operand, nbytes[operand], work, [nbytes[i] for i in inputs])
        return -1

    def admit_for_device(self, table: JobTable, operand: int, chunks: Mapping[int, int], size: int | None) -> int:
        """`admit` for an operand of a GPU, with the bytes of the chunks that it copies there.

        `size` are the bytes of the copy of the output; None, and slot 0, for none.
        """
        memory, moving = self._chunks.memory, self._chunks.moving
        if all(chunk in memory and chunk not in moving for chunk in chunks):
            if size is None:
                return 0
            if not self._buffers.queue and (slot := self._arena.allocate(size)) is not None:
                return slot
        self._prepare(table, operand, size, 0, list(chunks.values()), chunks=list(chunks))
        return -1

    def admit_loose(self, table: JobTable, operand: int, program: int) -> int:
        """`admit` for an operand with chunks of unknown size, or that calls a user's function.

        `program` is the program's number on this host.
        """
        if table.programs[table.program[operand]].gathers:
            self._prepare(table, operand, table.nbytes[operand], table.work[operand], (), pieces_of(table, operand))
            return -1
        memory, moving = self._chunks.memory, self._chunks.moving
        chunks = [table.chunk[i] for i in table.inputs[operand]]
        try:
            sizes = [self._chunks.size(chunk) for chunk in chunks]
        except Exception as error:  # a chunk was lost
            self._refused(table.job, operand, error)
            return -1
        size, work = self._outputs.demand(table, operand, program, sum(sizes))
        wish = said = work
        if table.programs[table.program[operand]].runs_user_code:
            wish, work = self._promise(table, operand, program, work, sum(map(_pages, [*sizes, size or 0])))
        if not self._buffers.queue and all(chunk in memory and chunk not in moving for chunk in chunks):
            slot = 0 if size is None else self._arena.allocate(size)
            if slot is not None:
                if not wish or self._quota.request(table.job, operand, wish):
                    return slot
                if wish > work and (not work or self._quota.request(table.job, operand, work)):
                    return slot
                if slot:
                    self._arena.free(slot)
        self._prepare(table, operand, size, work, sizes, least=said)
        return -1

    def admit_at_once(self, table: JobTable, operand: int, program: int, made: Mapping[int, Made] = NOTHING) -> int:
        """Slot of a loose operand that reads chunks in memory and outputs of the batch; -1 if memory is short."""
        memory, moving, size_of, chunk = self._chunks.memory, self._chunks.moving, self._arena.size_of, table.chunk
        total = 0
        for i in table.inputs[operand]:
            one = made.get(i)
            at = memory.get(chunk[i]) if one is None else one.slot
            if at is None or chunk[i] in moving:
                return -1
            total += size_of(at)
        gathers = table.programs[table.program[operand]].gathers
        if gathers or self._buffers.queue or not self._functions.is_plain(program):
            return -1
        size, work = self._outputs.demand(table, operand, program, total)
        slot = None if size is None else self._arena.allocate(size)
        if slot is None:
            return -1
        if work and not self._quota.request(table.job, operand, work):
            self._arena.free(slot)
            return -1
        return slot

    def admit_function(self, table: JobTable, operand: int, program: int, loose: bool, beside: bool = False) -> int:
        """`admit` for an operand that calls a user's function; `program` is the program's number on this host."""
        if self._functions.is_plain(program) and (beside or 0 < self._events.usual_seconds(program) < BRIEF):
            if not loose:  # many of them share a batch (`beside` the first): each is promised its own figure
                return self.admit(table, operand)
            slot = self.admit_at_once(table, operand, program)
            if slot >= 0:
                return slot
        return self.admit_loose(table, operand, program)

    def _promise(self, table: JobTable, operand: int, program: int, work: int, others: int) -> tuple[int, int]:
        """Promise to a user's function: bytes if they are free now, and bytes to wait for."""
        pins = self._chunks.pins
        pinned = sum(_pages(self._chunks.size(chunk)) for chunk in pins) if pins else 0
        retained = self._retained.excess + self._quota.promised(GRAPHS, 0)
        resident = self._arena.resident
        return self._functions.demand(table.number, operand, program, work, others + pinned + retained, resident)

    def ease(self, table: JobTable, row: int) -> None:
        """The need of a program is known now: operands of the program in the allocation queue are admitted anew."""
        for _, operand in self.withdraw(lambda owner, operand: owner is table and table.program[operand] == row):
            self._events.requeue(table, operand)

    def cap(self, table: JobTable, operand: int, program: int) -> tuple[int, bool]:
        """Bytes that a user's function may take in the executor, and whether to measure the peak."""
        promised = self._quota.promised(table.job, operand)
        return promised + self._functions.slack, self._functions.is_measured(table.number, operand, program)

    def _prepare(
        self,
        table: JobTable,
        operand: int,
        size: int | None,
        work: int,
        inputs: Sequence[int],
        gather: Sequence[Piece] = (),
        least: int = 1 << 62,
        chunks: Sequence[int] | None = None,
    ) -> None:
        """Add an operand to the allocation queue: for output, scratch and inputs, in bytes.

        At least `least` bytes of the scratch are enough if there is no more. `chunks` are all inputs by default.
        """
        what = f"the operand {table.programs[table.program[operand]].name}"
        asked = perf_counter()

        def granted(slot: int) -> None:
            self.preparing.pop(request, None)
            self._events.waited(table.number, operand, request.left - asked, perf_counter() - request.left)
            if work:
                self._quota.add(table.job, operand, request.promised)
            if request.private:
                self._quota.private[table.job, operand] = request.private
            self._staged.append((table, operand, max(slot, 0)))
            if self._outputs.all_wait:
                self.unstage()
            else:
                self._events.admitted()

        def refused(error: Exception) -> None:
            self.preparing.pop(request, None)
            awaited = self.ended(table, operand)
            self._refused(table.job, operand, error)
            if awaited:
                self._events.admitted()

        if chunks is None:
            chunks = [] if gather else [table.chunk[i] for i in table.inputs[operand]]
        rank, number = table.rank[operand], table.number
        request = AllocationRequest(chunks, size, granted, refused, what, rank, number, work, least, gather)
        self.preparing[request] = (table, operand)
        try:
            self._buffers.refuse_too_large([size or 0, work, *inputs], what)
        except MemoryLimitError as error:
            refused(error)
            return
        self._buffers.enqueue(request)

    def give_back(self, table: JobTable, operand: int, slot: int) -> None:
        """Free the slot and the scratch of an operand that will not run, or did not end."""
        if slot:
            self._arena.free(slot)
        self._quota.release(table.job, operand)
        self.ended(table, operand)

    def place(self, worker: int, table: JobTable, operand: int, slot: int, size: int) -> None:
        """An executor computed a result of `size` bytes and needs a slot; `slot` was taken ahead, 0 for none."""
        self._outputs.place(worker, table, operand, slot, size)
        if self._outputs.all_wait:
            self.unstage()
            self._buffers.advance()

    def unstage(self) -> None:
        """No worker can take staged operands: they return to the task queue, and their memory to the requests."""
        staged = list(self._staged)
        self._staged.clear()
        for table, operand, slot in staged:
            self.give_back(table, operand, slot)
            self._events.requeue(table, operand)

    def drop(self, table: JobTable) -> list[int]:
        """Give up the operands of a job that are not sent; returns them."""
        mine = [item for item in self._staged if item[0] is table]
        others = [item for item in self._staged if item[0] is not table]
        self._staged.clear()
        self._staged.extend(others)
        for _, operand, slot in mine:
            self.give_back(table, operand, slot)
        withdrawn = self.withdraw(lambda owner, operand: owner is table)
        return [operand for _, operand, _ in mine] + [operand for _, operand in withdrawn]

    def withdraw(self, wanted: Callable[[JobTable, int], bool]) -> list[tuple[JobTable, int]]:
        """Remove operands from the allocation queue; returns them."""
        found = {request: who for request, who in self.preparing.items() if wanted(*who)}
        for request in found:
            del self.preparing[request]
        self._buffers.withdraw(found.__contains__)
        for table, operand in found.values():
            self.ended(table, operand)
        return list(found.values())

    def owner(self, request: AllocationRequest) -> tuple[JobTable | None, int]:
        """Job and operand of a request; (None, -1) for a client's."""
        return self.preparing.get(request, (None, -1))


def _pages(size: int) -> int:
    """Bytes rounded up to pages."""
    return -(-size // PAGE) * PAGE


@dataclass(frozen=True)
class MemoryEvents:
    """Callables that jmars/memory calls.

    Attributes
    ----------
    active
        Gives (worker, job, operands) of all batches that are being built, sent or run; worker -1 for the first.
    admitted
        An operand has all its memory; dispatch may send it.
    requeue
        An admitted operand gave its memory back; it returns to the task queue.
    refused
        An operand can never be admitted: job name, operand, error.
    waited
        Job number, operand, seconds in the allocation queue, and seconds until its inputs were loaded.
    moved
        A chunk was spilled (True) or reloaded (False).
    copied
        A copy of a chunk of another host is here now.
    lost
        A stored chunk cannot be read back, with the reason.
    answer
        The executor of a worker gets a slot for its result, or slot 0 and a reason.
    is_leaving
        Whether the process of a worker is about to be replaced.
    recycle
        Recycles workers whose processes retain memory; returns whether memory becomes free thereby.
    usual_seconds
        Mean seconds of a program's operands; 0.0 while none has run.
    """

    active: Callable[[], Iterable[tuple[int, JobTable, Iterable[int]]]]
    admitted: Callable[[], None]
    requeue: Callable[[JobTable, int], None]
    refused: Callable[[str, int, Exception], None]
    waited: Callable[[int, int, float, float], None]
    moved: Callable[[int, bool], None]
    copied: Callable[[int], None]
    lost: Callable[[int, str], None]
    answer: Callable[[int, int, str], None]
    is_leaving: Callable[[int], bool]
    recycle: Callable[[], bool]
    usual_seconds: Callable[[int], float]
