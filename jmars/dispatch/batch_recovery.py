"""Recovers the batches of executors that died or cannot be started: frees their memory and tells the scheduler.

The running operands of a dead executor are lost; the scheduler counts them against a limit and runs them elsewhere. A
batch that only waited is interrupted and not to blame.
Source: docs/explanation/seeds.md, "Future work".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

from jmars.dispatch.open_jobs import OpenJobs
from jmars.dispatch.speculation import SpeculativeExecution
from jmars.dispatch.workers import DISCARDED, Batch, ExecutorLink, Worker
from jmars.memory import HostMemory
from jmars.model.reports import Interrupted, Report, WorkerLost
from jmars.units import format_bytes

__all__ = ["CANCELLED", "BatchRecovery", "Death"]

CANCELLED = "cancelled"  # how a process ended that did not stop when it was told to
REMEMBERED = 20  # deaths that can be asked about


@dataclass(frozen=True)
class Death:
    """A process that ended.

    Attributes
    ----------
    operand, what
        The operand that it ran, by number and name; -1 for none.
    how
        signal, exit, memory, stopped or cancelled.
    why
        The same in words.
    peak, cap
        The most bytes that it had in memory, shared memory counted, and the most that a user's function might take; 0
        if unknown.
    time
        By the monotonic clock.
    """

    worker: str
    pid: int
    job: str
    operand: int
    what: str
    how: str
    why: str
    peak: int
    cap: int
    time: float


class BatchRecovery:
    """Batches of executors that are gone.

    Attributes
    ----------
    deaths
        The last processes that ended, the newest last.
    """

    def __init__(
        self,
        memory: HostMemory,
        jobs: OpenJobs,
        workers: Sequence[Worker],
        speculation: SpeculativeExecution,
        report: Callable[[Report], None],
    ) -> None:
        self.deaths: deque[Death] = deque(maxlen=REMEMBERED)
        self._memory, self._jobs, self._programs = memory, jobs, jobs.programs
        self._workers, self._speculation, self._report = workers, speculation, report

    def ended(self, worker: Worker, link: ExecutorLink, lost: Sequence[Batch], why: str) -> None:
        """The process `link` of a worker ended with `lost` batches."""
        if lost:
            self._memory.withdraw_slot(worker.index)
        first = lost[0] if lost else None
        by_itself = link.how in ("memory", "exit") or (link.how == "signal" and "SIGKILL" not in why)
        if first is not None and first.capped and first.operands and by_itself:
            # a library that got no memory may end its process; the operand runs again, alone, with all memory
            table, operand = first.table, first.operands[0]
            self._memory.function_wants_all(table, operand, self._programs.number_of(table, operand))
        text = f"{why}: {worker.name} (pid {link.pid})" + _peak(link.peak, first.cap if first is not None else 0)
        for number, batch in enumerate(lost):
            self.recover(worker, batch, text, link.how, running=not number)

    def recover(self, worker: Worker, batch: Batch, why: str, how: str, running: bool) -> None:
        """Free the memory of a batch and report the operands: lost if the batch was running, else interrupted."""
        table, operands = batch.table, list(batch.operands)
        if batch.duplicate is not None:
            self._speculation.drop(batch)
            return
        for operand, slot in zip(operands, batch.outs, strict=True):
            self._memory.give_back(table, operand, slot)
        if not running or how in (DISCARDED, CANCELLED) or table.number in self._jobs.stopping:
            self._report(Interrupted(table.job, operands, worker.index))
        else:
            self._jobs.suspects.update((table.number, operand) for operand in operands)
            self._report(WorkerLost(table.job, operands, worker.index, why, how or "signal"))

    def quarantine(self, worker: Worker | None) -> Callable[[], None]:
        """The process of a worker cannot die: keep the slots; returns a function that frees them after the end."""
        slots: list[int] = []
        if worker is not None:
            for batch in worker.batches:
                slots += [slot for slot in batch.outs if slot]
                batch.outs = deque([0] * len(batch.outs))
            slots += worker.quarantined + self._memory.devices.leave_downs(worker.index)
            worker.quarantined = []

        def release() -> None:
            for slot in slots:
                self._memory.free_slot(slot)
            self._memory.advance()

        return release

    def remember(self, worker: Worker, link: ExecutorLink, batch: Batch | None, why: str) -> None:
        """Record a death, unless dispatch was the cause."""
        if link.how == DISCARDED:
            return
        job, operand, what = "", -1, ""
        if batch is not None and batch.operands:
            job, operand = batch.table.job, batch.operands[0]
            what = batch.table.programs[batch.table.program[operand]].name
        cap = batch.cap if batch is not None else 0
        how = link.how or "signal"
        self.deaths.append(Death(worker.name, link.pid, job, operand, what, how, why, link.peak, cap, monotonic()))


def _peak(peak: int, cap: int) -> str:
    """Peak memory of a process and the cap in words, for the operand's error; "" if unknown."""
    of = f" of the {format_bytes(cap)} that it might take" if cap else ""
    return f", which took at most {format_bytes(peak)}{of}" if peak else ""
