"""Slots for results of a size known only after running.

An executor computes such a result in private memory. If a bound is known and fits well, a slot of that size is taken
before the operand is sent and the rest given back afterwards. Otherwise private memory is promised first (the bound, or
the size of earlier results of the program), the executor reports the true size and waits for a slot, granted before all
requests in the allocation queue, or for a refusal with the reason. If earlier results were small, a slot is sent along
and used if the result fits. A result that finds no room because other results or the same process hold the memory is
dropped, and the operand runs again with room promised.

ActiveOperands: the chunks that operands under way read, which are never evicted, and whether an operand frees memory by
ending. The allocation queue asks before evicting a chunk or giving up. Dispatch knows the batches and lists them on
request; staged operands, clients and executors that wait for a slot are counted here.

LostChunks: chunks that count as lost while operands of this host read the chunks. The head gives up a chunk when its
host is gone; another host may have a copy of which the head has not heard yet, and operands that read the copy. Freeing
its slot at once would give the slot to another chunk under their hands. So the operands go on, and the slot is kept
until none of them is under way.
Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from jmars.errors import text_of
from jmars.memory.buffer_manager import AllocationRequest, BufferManager
from jmars.memory.quota import Quota
from jmars.model.limits import PAGE
from jmars.model.messages import JobTable
from jmars.storage.arena import Allocator
from jmars.storage.chunks import Chunks
from jmars.units import format_bytes

LEAST, SMALL = 128, 2**16  # bytes; a program with results that small gets twice their size ahead
MOST_GUESS = 2**27  # bytes promised to the first result of a program while memory is ample: a large chunk


class DynamicOutputs:
    """Slots for results of unknown size.

    Parameters
    ----------
    workers
        Number of workers of the host.
    answer
        Sends an executor its slot, or slot 0 and a reason: worker, slot, reason.
    is_leaving
        Tells whether the process of a worker is about to be replaced.
    """

    def __init__(
        self,
        arena: Allocator,
        quota: Quota,
        buffers: BufferManager,
        active: ActiveOperands,
        workers: int,
        answer: Callable[[int, int, str], None],
        is_leaving: Callable[[int], bool],
    ) -> None:
        self._arena, self._quota, self._buffers, self.workers = arena, quota, buffers, workers
        self._active, self._waiting, self._answer, self._is_leaving = active, active.waiting, answer, is_leaving
        self._seen: dict[int, int] = {}  # program: bytes of its results, the largest of late
        self._newest: dict[int, int] = {}  # program: bytes of its largest result since the last `take`
        self._known: dict[tuple[int, int], int] = {}  # (job number, operand): bytes of a result that found no room

    def demand(self, table: JobTable, operand: int, program: int, inputs: int) -> tuple[int | None, int]:
        """Bytes of the slot to take ahead (None for none), and bytes of private memory.

        Parameters
        ----------
        program
            The program's number on this host.
        inputs
            Bytes of the chunks that the operand reads.
        """
        program_itself = table.programs[table.program[operand]]
        work, output = table.work[operand] + program_itself.work_per_input * inputs, program_itself.output
        if output.is_sized:
            return table.nbytes[operand], work
        known = self._known.get((table.number, operand))
        if known is not None:
            return known, work + known
        room = max(0, self._arena.capacity - inputs - work)
        if output.most is not None and 2 * output.most * self.workers <= room:
            return output.most, work + output.most
        if output.most is not None and 2 * output.most <= room:
            return None, work + output.most
        seen = self._seen.get(program)
        if output.most is None and seen is not None and seen <= SMALL:
            return 2 * max(seen, LEAST), work  # most likely the result fits and needs no question
        unseen = min(MOST_GUESS, self._arena.capacity // (8 * self.workers))  # the default size of chunks
        guess = max(unseen, inputs) if seen is None else seen
        return None, work + min(guess, room // 2)

    def learn(self, program: int, size: int) -> None:
        """A result of `program` took `size` bytes."""
        self._seen[program] = max(size, self._seen.get(program, 0) * 9 // 10)
        self._newest[program] = max(size, self._newest.get(program, 0))

    def take(self) -> dict[int, int]:
        """Bytes of the largest result of each program since the last call."""
        taken, self._newest = self._newest, {}
        return taken

    def place(self, worker: int, table: JobTable, operand: int, slot: int, size: int) -> None:
        """The executor of a worker computed a result of `size` bytes: answer with a slot, now or later.

        `slot` was taken ahead, 0 for none, and is used if the result fits, else freed.
        """
        if slot and self._arena.size_of(slot) >= size:
            self._answer(worker, slot, "")
            return
        if slot:
            self._arena.free(slot)
        what = f"the result of {table.programs[table.program[operand]].name}"
        if _twice(size) > self._arena.capacity:
            self.refuse(worker, self._too_large(what, size))
            return

        def granted(slot: int) -> None:
            self._waiting.pop(worker, None)
            self._answer(worker, slot, "")

        def refused(error: Exception) -> None:
            self._waiting.pop(worker, None)
            slot = self._take(table.job, operand, size)
            if slot is not None:
                granted(slot)
            elif (table.number, operand) not in self._known and (
                self._waiting or self._is_leaving(worker) or self._active.has_others(worker)
            ):
                self._known[table.number, operand] = size
                self.refuse(worker)
            else:
                self.refuse(worker, f"{self._too_large(what, size)} ({text_of(error)})")

        taken = self._take(table.job, operand, size)
        if taken is not None:
            granted(taken)
            return
        request = AllocationRequest((), size, granted, refused, what, table.rank[operand], table.number)
        self._waiting[worker] = request
        self._buffers.enqueue_first(request)

    def _take(self, job: str, operand: int, size: int) -> int | None:
        """A slot for a result, with private memory promised beside; None if both do not fit now.

        The slot comes first: the promise may lie in the middle of free memory, and may be cut in pieces.
        """
        self._quota.release(job, operand)
        fits = self._arena.capacity - self._arena.used >= _twice(size)
        slot = self._arena.allocate(size) if fits else None
        self._quota.adjust(job, operand, size)
        return slot

    def refuse(self, worker: int, why: str = "") -> None:
        """Have the executor drop a result: the operand fails with a MemoryLimitError, or as if never run."""
        self._answer(worker, 0, why)

    def waits(self, worker: int) -> bool:
        """Whether the executor of a worker waits for a slot."""
        return worker in self._waiting

    def withdraw(self, worker: int) -> None:
        """The batch of a worker is given up and needs no slot."""
        asking = self._waiting.pop(worker, None)
        if asking is not None:
            self._buffers.withdraw(lambda request: request is asking)

    @property
    def all_wait(self) -> bool:
        """Whether every worker waits for a slot, so that no operand ends by itself."""
        return len(self._waiting) == self.workers

    def close_job(self, number: int) -> None:
        """Forget a job."""
        self._known = {key: size for key, size in self._known.items() if key[0] != number}

    def forget(self) -> None:
        """Forget all programs, since they get new numbers."""
        self._seen.clear()
        self._newest.clear()

    def _too_large(self, what: str, size: int) -> str:
        return (
            f"{what} takes {format_bytes(size)}; while it is stored it needs twice that, and the memory limit leaves "
            f"{format_bytes(self._arena.capacity)}; give less at a time, or raise memory_limit"
        )


def _twice(size: int) -> int:
    """Bytes of a chunk and a copy."""
    return 2 * max(1, -(-size // PAGE)) * PAGE


class ActiveOperands:
    """Holders of memory on a host.

    Parameters
    ----------
    batches
        Lists (worker, job, operands) of all batches under way; worker -1 for a batch that is being built.

    Attributes
    ----------
    staged
        (Job, operand, slot of its output) of admitted operands that are in no batch yet.
    waiting
        By worker, the request for the slot of a computed result. Such an operand has read its inputs, and frees
        nothing until it is granted.
    clients
        Slots that clients fill or read now.
    """

    def __init__(self, batches: Callable[[], Iterable[tuple[int, JobTable, Iterable[int]]]]) -> None:
        self.staged: deque[tuple[JobTable, int, int]] = deque()
        self.waiting: dict[int, AllocationRequest] = {}
        self.clients = 0
        self._batches = batches

    def _operands(self) -> Iterator[tuple[JobTable, int]]:
        waiting = set(self.waiting)
        for worker, table, operands in self._batches():
            own = iter(operands)
            if worker in waiting:  # the first operand of its first batch has read its inputs, the others have not
                waiting.discard(worker)
                next(own, None)
            yield from ((table, operand) for operand in own)
        yield from ((table, operand) for table, operand, _ in self.staged)

    def has_others(self, worker: int) -> bool:
        """Whether a worker has operands beside the operand that runs."""
        return sum(len(list(operands)) for one, _, operands in self._batches() if one == worker) > 1

    def set_clients(self, slots: int) -> None:
        """Clients fill or read so many slots now."""
        self.clients = slots

    def chunks_in_use(self) -> set[int]:
        """Chunks that operands under way read; an operand that gathers has a copy of its own."""
        used: set[int] = set()
        for table, operand in self._operands():
            if not table.programs[table.program[operand]].gathers:
                used.update(table.chunk[i] for i in table.inputs[operand])
        return used

    def is_idle(self) -> bool:
        """Whether no operand and no client is under way, so that no memory will be freed by an end."""
        if self.staged or self.clients:
            return False
        return all(worker in self.waiting for worker, _, _ in self._batches())


class LostChunks:
    """Keeps the slots.

    Parameters
    ----------
    free
        Frees chunks, those that are pinned as soon as they are not.
    """

    def __init__(
        self,
        chunks: Chunks,
        buffers: BufferManager,
        active: ActiveOperands,
        free: Callable[[Iterable[int]], None],
    ) -> None:
        self._chunks, self._buffers, self._active, self._free = chunks, buffers, active, free
        self._kept: set[int] = set()  # pinned here

    def __len__(self) -> int:
        return len(self._kept)

    def drop(self, chunks: Iterable[int]) -> None:
        """Chunks count as lost: free them, some of them later."""
        chunks = list(chunks)
        used = self._used()
        for chunk in chunks:
            if chunk in used and chunk in self._chunks.memory and chunk not in self._kept:
                self._kept.add(chunk)
                self._chunks.pin(chunk)
        self._free(chunks)

    def release(self) -> None:
        """Free chunks that no operand under way reads any more."""
        if not self._kept:
            return
        over = self._kept - self._used()
        self._kept -= over
        for chunk in over:
            self._buffers.delete(self._chunks.unpin(chunk))
        if over:
            self._buffers.advance()

    def _used(self) -> set[int]:
        return self._active.chunks_in_use().union(*(request.chunks for request in self._buffers.loading))
