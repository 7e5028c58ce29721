"""Operands that hold memory now: the chunks they read, and whether any of them will free memory by ending.

The allocation queue asks before evicting a chunk or giving up. Dispatch knows the batches and lists them on
request; staged operands, clients and executors that wait for a slot are counted here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from jmars.memory.allocation_requests import AllocationRequest
from jmars.model.messages import JobTable

__all__ = ["ActiveOperands"]


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
