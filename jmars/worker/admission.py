"""Who may run next: an operand is admitted when its inputs lie in memory and its output and scratch have their room.

What fits is admitted at once; the rest stands in line (`storing`) and is staged when all its memory is at hand. Also
answers what the line must know: which chunks are in use, and whether something will end and free memory.
Used by `execution`. Source: seed 003, "内存管理"; the worker states ALLOCATING and PREPARING_INPUTS.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter

from jmars.dispatch.state_times import StateTimes
from jmars.dispatch.task_queue import TaskQueue
from jmars.dispatch.worker_state import Batch, Worker
from jmars.errors import MemoryLimitError
from jmars.memory.buffer_manager import AllocationRequest, BufferManager
from jmars.memory.gathering import Piece, pieces_of
from jmars.memory.quota import Quota
from jmars.memory.udf_memory import UdfMemoryPolicy
from jmars.model.messages import JobTable
from jmars.model.status import GRAPHS
from jmars.storage.arena import PAGE, Arena
from jmars.storage.chunks import Chunks
from jmars.worker.dynamic_outputs import DynamicOutputs

__all__ = ["Admission"]

BRIEF = 0.001  # seconds below which a function is held to what its operand says, and gets no more where memory is ample


class Admission:
    """Memory of operands that were not sent yet.

    A slot is the offset of an operand's output in the arena; 0 stands for none, where the size is not known.

    Parameters
    ----------
    dispatch
        Called when an operand was staged.
    refused
        Told which operand can never run here, and why.
    """

    def __init__(
        self,
        arena: Arena,
        chunks: Chunks,
        workers: Sequence[Worker],
        queue: TaskQueue,
        dispatch: Callable[[], None],
        refused: Callable[[str, int, Exception], None],
    ) -> None:
        self.quota = Quota(arena)
        self.sizing = DynamicOutputs(arena, self.quota, workers)
        self.grants = UdfMemoryPolicy(arena.capacity, len(workers))
        self.states = StateTimes()
        self.seconds_of: Callable[[int], float] = lambda _: 0.0  # what a program's operand takes; 0: nobody knows
        self.storing: BufferManager
        self.staged: deque[tuple[JobTable, int, int]] = deque()  # (job, operand, slot) with all memory at hand
        self.building: Batch | None = None  # the batch that is being filled: its inputs are in use already
        self.clients = 0  # slots that a client fills or reads just now
        self._arena, self._chunks, self._workers, self._queue = arena, chunks, workers, queue
        self._dispatch, self._refused = dispatch, refused
        self._preparing: dict[AllocationRequest, tuple[JobTable, int]] = {}  # who stands in line for memory

    def admit(self, table: JobTable, operand: int) -> int:
        """The slot of an operand's output when it can run now; -1 when it stands in line for memory."""
        memory, moving, chunk, nbytes = self._chunks.memory, self._chunks.moving, table.chunk, table.nbytes
        inputs, work = table.inputs[operand], table.work[operand]
        for i in inputs:
            one = chunk[i]
            if one not in memory or one in moving:
                break
        else:
            # who takes less than it may free goes ahead of those who wait for room
            if not self.storing.blocked or 2 * nbytes[operand] <= sum(nbytes[i] for i in inputs):
                slot = self._arena.allocate(nbytes[operand])
                if slot is not None:
                    if not work or self.quota.request(table.job, operand, work):
                        return slot
                    self._arena.free(slot)
        self._prepare(table, operand, nbytes[operand], work, [nbytes[i] for i in inputs])
        return -1

    def admit_loose(self, table: JobTable, operand: int, program: int) -> int:
        """`admit` for one that reads or gives chunks whose size was not known, or calls a function of the user's.

        `program` is its program's number here.
        """
        if table.programs[table.program[operand]].gathers:
            self._prepare(table, operand, table.nbytes[operand], table.work[operand], (), pieces_of(table, operand))
            return -1
        memory, moving = self._chunks.memory, self._chunks.moving
        chunks = [table.chunk[i] for i in table.inputs[operand]]
        try:
            sizes = [self._chunks.size(one) for one in chunks]
        except Exception as error:  # one was lost
            self._refused(table.job, operand, error)
            return -1
        size, work = self.sizing.demand(table, operand, program, sum(sizes))
        wish = said = work
        if table.programs[table.program[operand]].runs_user_code:
            wish, work = self._grant(table, operand, program, work, sum(map(_pages, [*sizes, size or 0])))
        if not self.storing.blocked and all(one in memory and one not in moving for one in chunks):
            slot = 0 if size is None else self._arena.allocate(size)
            if slot is not None:
                if not wish or self.quota.request(table.job, operand, wish):
                    return slot
                if wish > work and (not work or self.quota.request(table.job, operand, work)):
                    return slot
                if slot:
                    self._arena.free(slot)
        self._prepare(table, operand, size, work, sizes, least=said)
        return -1

    def admit_users(self, table: JobTable, operand: int, program: int, loose: bool) -> int:
        """`admit` for one that calls a function of the user's; `program` is its program's number here."""
        if not loose and self.grants.is_plain(program) and 0 < self.seconds_of(program) < BRIEF:
            return self.admit(table, operand)  # many of them share a batch, so none is promised more than it says
        return self.admit_loose(table, operand, program)

    def _grant(self, table: JobTable, operand: int, program: int, work: int, others: int) -> tuple[int, int]:
        """What a user's function is promised: (bytes if they are there, bytes to wait for)."""
        pins = self._chunks.pins
        pinned = sum(_pages(self._chunks.size(chunk)) for chunk in pins) if pins else 0
        kept = sum(max(0, worker.kept - self.grants.slack) for worker in self._workers) + self.quota.held(GRAPHS, 0)
        resident = self._arena.resident
        return self.grants.demand(table.number, operand, program, work, others + pinned + kept, resident)

    def ease(self, table: JobTable, row: int) -> None:
        """It is known now what those of a program take: who stands in line for all there is asks anew."""
        eased = {r: one for r, (owner, one) in self._preparing.items() if owner is table and table.program[one] == row}
        for request in eased:
            del self._preparing[request]
        self.storing.withdraw(eased.__contains__)
        for operand in eased.values():
            self._queue.push(0, table.number, table.rank[operand], operand)

    def cap(self, table: JobTable, operand: int, program: int) -> tuple[int, bool]:
        """Bytes that a user's function may take in its process, and whether what it takes is to be measured."""
        promised = self.quota.promised(table.job, operand)
        return promised + self.grants.slack, self.grants.is_measured(table.number, operand, program)

    def _prepare(
        self,
        table: JobTable,
        operand: int,
        size: int | None,
        work: int,
        inputs: Sequence[int],
        gather: Sequence[Piece] = (),
        least: int = 1 << 62,
    ) -> None:
        """Let an operand stand in line for its memory: of its output, its scratch and its inputs, in bytes.

        Of the scratch `least` does where there is no more.
        """
        what = f"the operand {table.programs[table.program[operand]].name}"

        asked = perf_counter()

        def granted(slot: int) -> None:
            self._preparing.pop(request, None)
            self.states.waited(table.number, operand, request.left - asked, perf_counter() - request.left)
            if work:
                self.quota.take(table.job, operand, request.promised)
            if request.private:
                self.quota.private[table.job, operand] = request.private
            self.staged.append((table, operand, max(slot, 0)))
            if self.sizing.all_wait:
                self.unstage()
            else:
                self._dispatch()

        def refused(error: Exception) -> None:
            self._preparing.pop(request, None)
            self._refused(table.job, operand, error)

        chunks = [] if gather else [table.chunk[i] for i in table.inputs[operand]]
        rank, number = table.rank[operand], table.number
        request = AllocationRequest(chunks, size, granted, refused, what, rank, number, work, least, gather)
        self._preparing[request] = (table, operand)
        try:
            self.storing.refuse_too_large([size or 0, work, *inputs], what)
        except MemoryLimitError as error:
            refused(error)
            return
        self.storing.ask(request)

    def give_back(self, table: JobTable, operand: int, slot: int) -> None:
        """An operand does not run after all, or did not end: its slot and scratch are free."""
        if slot:
            self._arena.free(slot)
        self.quota.release(table.job, operand)

    def place(self, worker: Worker, batch: Batch, size: int) -> None:
        """The first operand of `batch` is computed, and its chunk of `size` bytes needs a slot."""
        self.sizing.place(worker, batch, size)
        if self.sizing.all_wait:
            self.unstage()
            self.storing.advance()

    def unstage(self) -> None:
        """Nobody can take what is staged: it goes back to the queue, and its memory to those who wait."""
        staged, self.staged = self.staged, deque()
        for table, operand, slot in staged:
            self.give_back(table, operand, slot)
            self._queue.push(0, table.number, table.rank[operand], operand)

    def drop(self, table: JobTable) -> list[int]:
        """Give up what is not sent of a job; returns the operands."""
        mine = [item for item in self.staged if item[0] is table]
        self.staged = deque(item for item in self.staged if item[0] is not table)
        for _, operand, slot in mine:
            self.give_back(table, operand, slot)
        withdrawn = {request: owner[1] for request, owner in self._preparing.items() if owner[0] is table}
        for request in withdrawn:
            del self._preparing[request]
        self.storing.withdraw(withdrawn.__contains__)
        return [operand for _, operand, _ in mine] + list(withdrawn.values())

    def owner(self, request: AllocationRequest) -> tuple[JobTable | None, int]:
        """The job and operand that a request is of; (None, -1) for a client's."""
        return self._preparing.get(request, (None, -1))

    # -- what the line asks
    def in_use(self) -> set[int]:
        """Chunks that something on its way reads; what waits for a place has read them."""
        used: set[int] = set()
        batches = [batch for worker in self._workers for batch in worker.batches if batch.asking is None]
        if self.building is not None:
            batches.append(self.building)
        for batch in batches:
            table = batch.table
            for operand in batch.operands:
                if not table.programs[table.program[operand]].gathers:  # it has its own copy
                    used.update(table.chunk[i] for i in table.inputs[operand])
        for table, operand, _ in self.staged:
            if not table.programs[table.program[operand]].gathers:
                used.update(table.chunk[i] for i in table.inputs[operand])
        return used

    def idle(self) -> bool:
        """Whether no operand runs or is about to, so that none will free memory."""
        if self.staged or self.clients or self.building is not None:
            return False
        return not any(batch.asking is None for worker in self._workers for batch in worker.batches)


def _pages(size: int) -> int:
    """Bytes of the pages that so many bytes take."""
    return -(-size // PAGE) * PAGE
