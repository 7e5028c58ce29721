"""Chunks whose size is known only after running: what is promised ahead, and the place that a result gets.

The executor computes such a chunk in memory of its own. Where a bound is known and fits well, the slot is taken ahead
and what is left over given back, so the operand travels like any other. Else its batch ends with it: memory of its own
is promised first (the bound, or what its program's results took so far), the executor tells the true size and waits,
and is sent a slot, before all who stand in line, or the reason why there is none; where results were small so far, a
slot is sent along, and used if it is large enough. A result that finds no room because others hold it, or what its own
process keeps (`keeping` has that replaced), is dropped and made again, with room for it promised. Asked by `execution`.
"""

from __future__ import annotations

from collections.abc import Sequence

from jmars.dispatch.worker_state import Batch, Worker
from jmars.errors import text_of
from jmars.memory.buffer_manager import AllocationRequest, BufferManager
from jmars.memory.quota import Quota
from jmars.model.messages import JobTable
from jmars.storage.arena import PAGE, Allocator
from jmars.units import format_bytes

__all__ = ["DynamicOutputs"]

LEAST, SMALL = 128, 2**16  # bytes; results of programs that gave so few so far get twice that ahead
MOST_GUESS = 2**27  # bytes promised for a result of which nothing is known, where memory is ample: a large chunk


class DynamicOutputs:
    """Places for results whose size was not known.

    Parameters
    ----------
    workers
        All of the host; a batch in `worker.batches` whose `asking` is set waits for a place.
    """

    def __init__(self, arena: Allocator, quota: Quota, workers: Sequence[Worker]) -> None:
        self.storing: BufferManager
        self._arena, self._quota, self._workers = arena, quota, workers
        self._seen: dict[int, int] = {}  # program: bytes of its results, the largest of late
        self._known: dict[tuple[int, int], int] = {}  # (job number, operand): bytes of a result that found no room

    def demand(self, table: JobTable, operand: int, program: int, inputs: int) -> tuple[int | None, int]:
        """Bytes of the slot to take ahead (None for none) and of memory of its own.

        Parameters
        ----------
        program
            Its program's number on this host.
        inputs
            Bytes of the chunks that it reads.
        """
        work = table.work[operand]
        output = table.programs[table.program[operand]].output
        if output.is_sized:
            return table.nbytes[operand], work
        known = self._known.get((table.number, operand))
        if known is not None:
            return known, work + known
        room = max(0, self._arena.capacity - inputs - work)
        if output.most is not None and 2 * output.most * len(self._workers) <= room:
            return output.most, work + output.most
        if output.most is not None and 2 * output.most <= room:
            return None, work + output.most
        seen = self._seen.get(program)
        if output.most is None and seen is not None and seen <= SMALL:
            return 2 * max(seen, LEAST), work  # most likely it fits, and needs to ask for nothing
        unseen = min(MOST_GUESS, self._arena.capacity // (8 * len(self._workers)))  # as chunks are cut by default
        guess = max(unseen, inputs) if seen is None else seen
        return None, work + min(guess, room // 2)

    def learn(self, program: int, size: int) -> None:
        """A result of `program` took `size` bytes."""
        self._seen[program] = max(size, self._seen.get(program, 0) * 9 // 10)

    def place(self, worker: Worker, batch: Batch, size: int) -> None:
        """The executor made a result of `size` bytes, the first of `batch`: send it a slot for it, now or later."""
        table, operand = batch.table, batch.operands[0]
        slot = batch.outs[0]
        if slot and self._arena.size_of(slot) >= size:
            worker.link.send(("place", slot, ""))
            return
        if slot:
            self._arena.free(slot)
            batch.outs[0] = 0
        what = f"the result of {table.programs[table.program[operand]].name}"
        if _twice(size) > self._arena.capacity:
            self.refuse(worker, self._too_large(what, size))
            return

        def granted(slot: int) -> None:
            batch.asking = None
            batch.outs[0] = slot
            worker.link.send(("place", slot, ""))

        def refused(error: Exception) -> None:
            batch.asking = None
            slot = self._take(table.job, operand, size)
            if slot is not None:
                granted(slot)
                return
            others = worker.state or any(one.asking for other in self._workers for one in other.batches)
            if others and (table.number, operand) not in self._known:
                self._known[table.number, operand] = size
                self.refuse(worker)
            else:
                self.refuse(worker, f"{self._too_large(what, size)} ({text_of(error)})")

        taken = self._take(table.job, operand, size)
        if taken is not None:
            granted(taken)
            return
        batch.asking = AllocationRequest((), size, granted, refused, what, table.rank[operand], table.number)
        self.storing.ask_first(batch.asking)

    def _take(self, job: str, operand: int, size: int) -> int | None:
        """A slot for a result, its memory promised beside it; None where both do not fit now.

        The slot comes first: the promise may stand in the middle of what is free, and can stand in pieces.
        """
        self._quota.release(job, operand)
        fits = self._arena.capacity - self._arena.used >= _twice(size)
        slot = self._arena.allocate(size) if fits else None
        self._quota.adjust(job, operand, size)
        return slot

    def refuse(self, worker: Worker, why: str = "") -> None:
        """Have the executor drop its result: its operand fails with a MemoryLimitError, or is as if never run."""
        worker.link.send(("place", 0, why))

    def withdraw(self, batch: Batch) -> None:
        """A batch is given up: it needs no place."""
        asking, batch.asking = batch.asking, None
        if asking is not None:
            self.storing.withdraw(lambda request: request is asking)

    @property
    def all_wait(self) -> bool:
        """Whether every worker waits for a place, so that nothing ends by itself."""
        return all(worker.batches and worker.batches[0].asking is not None for worker in self._workers)

    def close_job(self, number: int) -> None:
        """Forget a job."""
        self._known = {one: size for one, size in self._known.items() if one[0] != number}

    def forget(self) -> None:
        """Programs get new numbers."""
        self._seen.clear()

    def _too_large(self, what: str, size: int) -> str:
        return (
            f"{what} takes {format_bytes(size)}; while it is stored it needs twice that, and the memory limit leaves "
            f"{format_bytes(self._arena.capacity)}; give less at a time, or raise memory_limit"
        )


def _twice(size: int) -> int:
    """Bytes that a chunk and its copy take."""
    return 2 * max(1, -(-size // PAGE)) * PAGE
