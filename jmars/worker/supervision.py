"""Starts, watches and replaces the child processes of a host.

`ProcessSupervisor` keeps one executor process for each worker while the cluster lives. The scheduler reschedules the
operands of a process that died. /proc shows processes that are alive and do not run (`health` decides): their waiting
batch is revoked, a speculative copy of their running batch starts if that does no harm, and after some seconds they
are killed. The supervisor looks four times a second while work is under way.
Source: docs/explanation/seeds.md, "Future work".
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

from jmars.dispatch.worker_state import CALM, Batch, Death, Worker
from jmars.errors import ClusterError, fault_of
from jmars.memory.buffer_manager import BufferManager
from jmars.model.failure import Failure
from jmars.model.messages import JobTable
from jmars.model.reports import Interrupted, JobBroken, Refused, WorkerLost, WorkerMoved
from jmars.processes.allocation_livelock import AllocationLivelockDetector
from jmars.processes.health import LOOK_SECONDS, Health, HealthAction
from jmars.processes.links import ChildLink, Children
from jmars.units import format_bytes
from jmars.worker.dispatcher import Dispatcher
from jmars.worker.open_jobs import WorkerContext
from jmars.worker.report_handler import ReportHandler
from jmars.worker.retained_memory import RetainedMemory
from jmars.worker.speculation import DISCARDED, SpeculativeExecution

__all__ = ["ProcessSupervisor"]

log = logging.getLogger("jmars.worker")

CANCELLED = "cancelled"  # how a process ended that did not stop when it was told to
REMEMBERED = 20  # deaths that can be asked about
STARTING = "starting"  # state of a worker whose process cannot be started just now
NO_PROCESS_SECONDS = 10.0  # without a single executor, since none can be started, until jobs are told


class ProcessSupervisor:
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

    Attributes
    ----------
    deaths
        The last processes that ended while they ran something.
    """

    def __init__(
        self,
        place: WorkerContext,
        children: Children,
        threads: int,
        spill_folder: Callable[[], str],
        reporting: ReportHandler,
        dispatching: Dispatcher,
        rescue: SpeculativeExecution,
        keeping: RetainedMemory,
        still: Callable[[JobTable], None],
    ) -> None:
        self.deaths: deque[Death] = deque(maxlen=REMEMBERED)
        self._place, self._children, self._threads, self._spill_folder = place, children, threads, spill_folder
        self._reporting, self._dispatching, self._rescue, self._still = reporting, dispatching, rescue, still
        self._keeping = keeping
        self._health, self._begging = Health(), AllocationLivelockDetector()
        self._mover: ChildLink | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._none_since: float | None = None  # when there was no executor any more

    # -- starting
    def start(self, worker: Worker) -> None:
        """Fork an executor."""
        worker.known = set()
        worker.state, worker.returning = "", False
        self._keeping.fresh(worker)
        link = worker.link = ChildLink(
            worker.name,
            lambda _, message: self._heard(worker, message),
            lambda _, why: self._gone(worker, why),
        )
        self._children.start(link, "executor", self._threads, len(self._place.workers))

    def _heard(self, worker: Worker, message: Any) -> None:
        """Act on what an executor says; where we fail at it, so do the jobs that it works for, and it is replaced."""
        about = list(worker.batches)
        try:
            self._reporting.reported(worker, message)
        except Exception as error:
            if not about:
                raise
            log.exception("what %s said could not be acted on", worker.name)
            for job in {batch.table.job for batch in about}:
                self._place.scheduler.report(JobBroken(job, fault_of(error)))
            self._children.kill_all(worker.link, DISCARDED)  # what it has is not known for sure any more

    def start_mover(self, storing: BufferManager) -> ChildLink:
        """Fork the mover."""
        link = self._mover = ChildLink("mover", storing.heard, storing.mover_gone)
        self._children.start(link, "mover", self._spill_folder())
        return link

    # -- stopping
    def replace_stuck(self, table: JobTable) -> None:
        """End executors that still run an operand of a job that was stopped."""
        for worker in self._place.workers:
            if table.number in self._place.jobs.stopping and worker.batches and worker.batches[0].table is table:
                self._children.kill_all(worker.link, CANCELLED)

    # -- looking
    def wake(self) -> None:
        """Work is under way: look after the processes until it is done."""
        if self._timer is None and not self._dispatching.closed:
            self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """See how the processes are, do what is to be done, and look again while there is work."""
        self._timer = None
        if self._dispatching.closed:
            return
        place = self._place
        links = {worker.link.pid: worker.link for worker in place.workers if worker.link.pid}
        if self._mover is not None and self._mover.alive and self._mover.pid:
            links[self._mover.pid] = self._mover
        pids = [*links, *[pid for pid in (self._children.zygote,) if pid]]
        for pid, step in self._health.look(monotonic(), self._children.vitals(pids)):
            self._take(step, pid, links.get(pid))
        self._weigh()
        self._without_processes()
        if self._rescue.look():
            self._dispatching.dispatch()
        if place.jobs.by_number or self._health.suspects or place.storing.line or place.storing.loading:
            self.wake()

    def _take(self, step: HealthAction, pid: int, link: ChildLink | None) -> None:
        """One step about a process that does not run, or runs again."""
        if link is None:
            if step is HealthAction.SUSPECT:  # the one that forks the others, which all end with it
                self._children.wake_zygote()
            return
        worker = next((one for one in self._place.workers if one.link is link), None)
        log.warning("%s (pid %d): %s", link.name, pid, step.value)
        if step is HealthAction.GIVE_UP:
            self._give_up(worker, link)
            return
        if worker is not None:
            worker.state = {HealthAction.SUSPECT: "suspect", HealthAction.WELL: "", HealthAction.FENCE: "fenced"}[step]
            self._place.scheduler.report(WorkerMoved(worker.index, worker.name, pid, worker.state or "idle"))
        if step is HealthAction.FENCE:
            self._children.kill_all(link, "stopped")
        self._dispatching.dispatch()

    def _give_up(self, worker: Worker | None, link: ChildLink) -> None:
        """A process was ended and cannot die: another takes its place, and the slots that it may write stay its own."""
        debris: list[int] = []
        if worker is not None:
            for batch in worker.batches:
                debris += [slot for slot in batch.outs if slot]
                batch.outs = deque([0] * len(batch.outs))
            debris += worker.debris
            worker.debris = []

        def gone() -> None:
            for slot in debris:
                self._place.arena.free(slot)
            self._place.storing.advance()

        self._children.give_up(
            link, "ended because it did not run any more, and it cannot even die: it is frozen", gone
        )

    def _weigh(self) -> None:
        """End who takes far more memory than it was granted, by children, and who asks for more for ever."""
        uses = {}
        for worker in self._place.workers:
            batch = worker.batches[0] if worker.batches else None
            if not worker.link.pid or (batch is not None and not batch.capped):
                continue
            private = self._children.private(worker.link.pid)
            used = self._children.use(worker.link.pid) if batch is not None else None
            if used is not None:
                uses[worker.link.pid] = used
            if batch is None:
                worker.calm = max(private, CALM)
            elif private > worker.calm + 2 * batch.cap:
                log.warning("%s has %d bytes for itself and was granted %d", worker.name, private, batch.cap)
                self._children.kill_all(worker.link, "memory")
        begging = self._begging.look(monotonic(), uses)
        for worker in self._place.workers:
            if worker.link.pid in begging:
                log.warning("%s asks for memory again and again, and gets none", worker.name)
                self._children.kill_all(worker.link, "memory")

    def _without_processes(self) -> None:
        """What was sent to executors that cannot be started waits for others; without any for long, jobs are told."""
        place, trouble = self._place, self._children.trouble
        for worker in place.workers:
            if worker.state == STARTING and worker.link.pid:
                worker.state = ""
                self._dispatching.dispatch()
        if not trouble:
            self._none_since = None
            return
        for worker in place.workers:
            if not worker.link.pid:
                self._unsend(worker)
        if any(worker.link.pid for worker in place.workers):
            self._none_since = None
            return
        self._none_since = self._none_since or monotonic()
        if monotonic() - self._none_since >= NO_PROCESS_SECONDS:
            error = ClusterError(
                f"no worker process can be started for {NO_PROCESS_SECONDS:g} s: {trouble}; the system has no process, "
                "memory or file to give: raise its limits (ulimit -u, ulimit -n, a container's pids limit), or use "
                "fewer workers"
            )
            for table in list(place.jobs.by_number.values()):
                waiting = place.queue.drop(table.number) + place.admission.drop(table)
                if waiting:
                    place.scheduler.report(Interrupted(table.job, waiting[1:], -1))
                    place.scheduler.report(Refused(table.job, waiting[0], Failure.of(error)))

    def _unsend(self, worker: Worker) -> None:
        """What waits for a process that cannot be started waits for others."""
        worker.state = STARTING
        batches = list(worker.batches)
        worker.batches.clear()
        worker.known = set()
        worker.link.unsend()
        for batch in batches:
            self._lost(worker, batch, "", "", running=False)

    # -- ends
    def _gone(self, worker: Worker, why: str) -> None:
        """An executor process has ended."""
        if self._dispatching.closed:
            return
        place, link = self._place, worker.link
        worker.restarts += 1
        lost = list(worker.batches)
        worker.batches.clear()
        for slot in worker.debris:
            place.arena.free(slot)
        worker.debris = []
        self._remember(worker, lost[0] if lost else None, why)
        self.start(worker)
        place.scheduler.report(WorkerMoved(worker.index, worker.name, link.pid, "replaced"))
        for batch in lost:
            place.admission.sizing.withdraw(batch)
        if (
            lost
            and lost[0].capped
            and lost[0].operands
            and (link.how in ("memory", "exit") or (link.how == "signal" and "SIGKILL" not in why))
        ):
            # a library that got no memory may end its process; what runs again, alone, gets all there is
            table, operand = lost[0].table, lost[0].operands[0]
            number = place.programs.numbers(table)[table.program[operand]]
            place.admission.grants.wants_all(table.number, operand, number)
        told = f"{why}: {worker.name} (pid {link.pid})" + _memory(link.peak, lost[0].cap if lost else 0)
        for number, batch in enumerate(lost):
            self._lost(worker, batch, told, link.how, running=not number)
        for table in {batch.table.number: batch.table for batch in lost}.values():
            self._still(table)
        place.storing.advance()
        self._dispatching.dispatch()

    def _lost(self, worker: Worker, batch: Batch, why: str, how: str, running: bool) -> None:
        """An executor died with a batch; one that only waited is not to blame."""
        place, table, operands = self._place, batch.table, list(batch.operands)
        if batch.twin is not None:
            self._rescue.drop(batch)
            return
        place.give_back(table, operands, batch.outs)
        if not running or how in (DISCARDED, CANCELLED) or table.number in place.jobs.stopping:
            place.scheduler.report(Interrupted(table.job, operands, worker.index))
        else:
            place.jobs.suspects.update((table.number, operand) for operand in operands)
            place.scheduler.report(WorkerLost(table.job, operands, worker.index, why, how or "signal"))

    def _remember(self, worker: Worker, batch: Batch | None, why: str) -> None:
        """Note a death, for who asks why."""
        link = worker.link
        if link.how == DISCARDED:
            return
        job, operand, what = "", -1, ""
        if batch is not None and batch.operands:
            job, operand = batch.table.job, batch.operands[0]
            what = batch.table.programs[batch.table.program[operand]].name
        cap = batch.cap if batch is not None else 0
        death = Death(worker.name, link.pid, job, operand, what, link.how or "signal", why, link.peak, cap, monotonic())
        self.deaths.append(death)


def _memory(peak: int, cap: int) -> str:
    """What a process took and might take, in bytes, for the error of its operand; "" where nobody saw it."""
    of = f" of the {format_bytes(cap)} that it might take" if cap else ""
    return f", which took at most {format_bytes(peak)}{of}" if peak else ""
