"""The processes of a host: started, told to stop, found dead and replaced.

`Care` keeps one executor process for each worker, for as long as the cluster lives. What a process held when it died
goes back to the scheduler, which has it run elsewhere. Used by `execution`.
Source: seed 003, "未来工作" (worker fail-over); RELIABILITY 4.4 (2).
"""

from __future__ import annotations

from collections.abc import Callable

from jmars.model.messages import JobTable
from jmars.worker.crew import Batch, Worker
from jmars.worker.dispatching import Dispatching
from jmars.worker.hosted import Workplace
from jmars.worker.links import ChildLink, Children
from jmars.worker.reporting import Reporting
from jmars.worker.storing import Storing

__all__ = ["Care"]


class Care:
    """Keeps the executors and the mover alive.

    Parameters
    ----------
    children
        Starts processes.
    threads
        Of each executor.
    spill_folder
        Where chunks go when the arena is full; called when the first one must go.
    still
        Called with a job none of whose operands a worker holds any more, perhaps.
    """

    def __init__(
        self,
        place: Workplace,
        children: Children,
        threads: int,
        spill_folder: Callable[[], str],
        reporting: Reporting,
        dispatching: Dispatching,
        still: Callable[[JobTable], None],
    ) -> None:
        self._place, self._children, self._threads, self._spill_folder = place, children, threads, spill_folder
        self._reporting, self._dispatching, self._still = reporting, dispatching, still

    def start(self, worker: Worker) -> None:
        """Fork an executor."""
        worker.known = set()
        worker.link = ChildLink(
            worker.name,
            lambda _, message: self._reporting.reported(worker, message),
            lambda _, why: self._gone(worker, why),
        )
        self._children.start(worker.link, "executor", self._threads)

    def start_mover(self, storing: Storing) -> ChildLink:
        """Fork the mover."""
        link = ChildLink("mover", storing.heard, storing.mover_gone)
        self._children.start(link, "mover", self._spill_folder())
        return link

    def replace_stuck(self, table: JobTable) -> None:
        """End executors that still run an operand of a job that was stopped."""
        for worker in self._place.workers:
            if table.number in self._place.jobs.stopping and worker.batches and worker.batches[0].table is table:
                worker.link.kill()

    def _gone(self, worker: Worker, why: str) -> None:
        """An executor process has ended."""
        if self._dispatching.closed:
            return
        place = self._place
        worker.restarts += 1
        lost = list(worker.batches)
        worker.batches.clear()
        pid = worker.link.pid
        self.start(worker)
        place.scheduler.worker_moved(worker.index, worker.name, pid, "replaced")
        for batch in lost:
            place.admission.sizing.withdraw(batch)
        for number, batch in enumerate(lost):
            self._lost(worker, batch, why, running=not number)
        for table in {batch.table.number: batch.table for batch in lost}.values():
            self._still(table)
        place.storing.advance()
        self._dispatching.dispatch()

    def _lost(self, worker: Worker, batch: Batch, why: str, running: bool) -> None:
        """An executor died with a batch; one that only waited is not to blame."""
        place, table, operands = self._place, batch.table, list(batch.operands)
        place.give_back(table, operands, batch.outs)
        if not running or table.number in place.jobs.stopping:
            place.scheduler.interrupted(table.job, operands, worker.index)
        else:
            place.jobs.suspects.update((table.number, operand) for operand in operands)
            place.scheduler.lost(table.job, operands, worker.index, why)
