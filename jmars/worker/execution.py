"""ExecutionActor: the workers of a host, put together from the folders memory, dispatch and processes.

A ready operand waits in dispatch's task queue by rank. When a worker has less than two batches, memory admits the
operand: a slot for the output, inputs in memory, scratch promised. Then the operand joins a batch and is sent to an
executor process. The executor's report goes to the scheduler. The answer (more ready operands, chunks to free)
arrives before the next batch is made. The three folders call upwards only through callables passed here, once.

Events of jmars/memory are reported to the scheduler: spilled, lost, refused, inputs missing. jmars/memory knows chunks
by number; the tables of open jobs tell their operands.

`ProcessSupervisor` keeps an executor process per worker while the cluster lives, and forks a mover when
memory/gathering.py asks. It samples /proc four times a second while there is work. `health` decides about processes
that are alive and do not run: suspect first, killed after some seconds. Processes that exceed their memory cap through
children, or that retry a failing malloc for ever, are killed too. Consequences for operands are dispatch's.
Source: docs/explanation/seeds.md, "Execution control", "Execution in a worker", "Future work".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from jmars.dispatch.host_dispatch import HostDispatch
from jmars.dispatch.ledger import Ledger
from jmars.dispatch.workers import Worker
from jmars.errors import ChunkLostError, ClusterError
from jmars.memory import HostMemory, MemoryEvents
from jmars.model.messages import (
    ChunksCopied,
    ChunksLost,
    Failure,
    InputsMissing,
    JobTable,
    OperandsReturned,
    Refused,
    Report,
    ReportPort,
    Spilled,
    WorkerMoved,
)
from jmars.processes.links import ChildLink, Children
from jmars.processes.vitals import LOOK_SECONDS, AllocationLivelockDetector, Health, HealthAction
from jmars.storage.arena import Arena
from jmars.storage.chunks import Chunks

log = logging.getLogger("jmars.worker")

CALM = 2**26  # bytes of private memory that an idle executor may have before its first measurement
MOST_COLD_ENDS = 3  # processes in a row that end while they open a GPU, until its worker is given up
MOST_LOSSES, LOSS_SECONDS = 3, 600.0  # contexts that a GPU loses within so many seconds, until its worker is given up
NO_PROCESS_SECONDS = 10.0  # without a single executor, until jobs fail
_STATES = {HealthAction.SUSPECT: "suspect", HealthAction.WELL: "", HealthAction.FENCE: "fenced"}


class ProcessSupervisor:
    """Keeps the executors alive, and watches them and the processes that move chunks.

    Parameters
    ----------
    children
        Starts processes.
    workers
        Number of executors.
    gpus
        Names of GPUs (`devices.find`): the last workers have one each.
    spill_folder
        Gives the folder of the mover; called when the first chunk is spilled.
    dispatch
        Hears of executors that start, report, hang and end.

    Attributes
    ----------
    links
        The executor of each worker.
    """

    def __init__(
        self,
        children: Children,
        workers: int,
        spill_folder: Callable[[], str],
        dispatch: HostDispatch,
        gpus: Sequence[str] = (),
    ) -> None:
        self.links: list[ChildLink] = []
        self._children, self._workers, self._gpus = children, workers, gpus
        self._spill_folder, self._dispatch = spill_folder, dispatch
        self._health, self._livelock = Health(), AllocationLivelockDetector()
        self._others: list[ChildLink] = []  # the mover and the carrier
        self._calm = [CALM] * workers  # bytes of private memory of each executor while it was idle
        self._unavailable: set[int] = set()  # workers whose process could not be started
        self._cold_ends = [0] * workers  # processes in a row that ended while they opened a GPU
        self._losses: dict[int, list[float]] = {}  # when the GPU of a worker lost its context, by its own fault
        self._timer: asyncio.TimerHandle | None = None
        self._none_since: float | None = None  # time since which there is no executor
        self._closed = False

    # -- starting
    def start(self) -> None:
        """Fork the executors."""
        for worker in range(self._workers):
            self._start(worker)

    def _start(self, worker: int) -> None:
        gpu = worker - self._workers + len(self._gpus)  # from 0 on for workers with a GPU
        link = ChildLink(
            f"worker-{worker}" if gpu < 0 else f"gpu-{gpu}",
            lambda _, message: self._dispatch.received(worker, message),
            lambda link, why: self._ended(worker, link, why),
            lambda data: self._dispatch.output.read(worker, data),
        )
        self.links[worker : worker + 1] = [link]
        self._dispatch.started(worker, link)
        if gpu < 0:
            self._children.start(link, "executor", self._workers)
        else:
            self._children.start(link, "gpu", self._workers, self._gpus[gpu])

    def add(self, worker: int) -> None:
        """Fork an executor for a worker that comes: the next number, or the number of a worker that has left."""
        more = worker + 1 - self._workers
        if more > 0:
            self._workers += more
            self._calm += [CALM] * more
            self._cold_ends += [0] * more
        self._start(worker)

    def start_mover(self, received: Callable[[Any, Any], None], ended: Callable[[Any, str], None]) -> ChildLink:
        """Fork the mover; raises StorageError if there is no folder for files."""
        link = ChildLink("mover", received, ended)
        self._children.start(link, "mover", self._spill_folder())
        self.watch(link)
        return link

    def watch(self, link: ChildLink) -> None:
        """Kill this process, too, when it hangs."""
        self._others = [*(one for one in self._others if one.alive), link]

    def _ended(self, worker: int, link: ChildLink, why: str) -> None:
        if self._closed:
            return
        if self._dispatch.leaves(worker):
            self._unavailable.discard(worker)
            self._dispatch.ended(worker, link, why)
            return
        end = self._last_end(worker, link, why) if worker >= self._workers - len(self._gpus) else ""
        if end:
            self._dispatch.gave_up(worker, link, end)
        else:
            self._start(worker)
        self._dispatch.ended(worker, link, why)

    def _last_end(self, worker: int, link: ChildLink, why: str) -> str:
        """Why the worker of a GPU is given up, now that its process has ended; "" where it gets another process."""
        gpu = self._gpus[worker - self._workers + len(self._gpus)]
        self._cold_ends[worker] = self._cold_ends[worker] + 1 if self._dispatch.is_warming(worker) else 0
        if self._cold_ends[worker] >= MOST_COLD_ENDS:
            times = f"{MOST_COLD_ENDS} processes in a row ended while they opened {gpu}, the last one"
            return f"{times} {'was ' * why.startswith('killed')}{why}"
        if not self._dispatch.is_gpus_fault(worker, link):
            return ""
        now = monotonic()
        losses = [one for one in self._losses.get(worker, []) if now - one < LOSS_SECONDS]
        self._losses[worker] = [*losses, now]
        if len(losses) + 1 < MOST_LOSSES:
            return ""
        return f"{gpu} lost its context {MOST_LOSSES} times within {now - losses[0]:.0f} s, whatever ran on it"

    # -- watching
    def wake(self) -> None:
        """There is work: watch the processes until the work is done."""
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def close(self) -> None:
        """Watch and replace no process any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """Look at all processes and act; look again while there is work."""
        self._timer = None
        if self._closed:
            return
        try:
            links = {link.pid: link for link in self.links if link.pid and link.alive}
            links |= {link.pid: link for link in self._others if link.alive and link.pid}
            pids = [*links, *[pid for pid in (self._children.zygote,) if pid]]
            for pid, action in self._health.look(monotonic(), self._children.vitals(pids)):
                self._act(action, pid, links.get(pid))
            self._check_memory()
            self._check_starts()
            self._dispatch.look()
        finally:
            if self._dispatch.is_busy or self._health.suspects:
                self.wake()

    def _act(self, action: HealthAction, pid: int, link: ChildLink | None) -> None:
        """Act on a process that hangs, or runs again."""
        if link is None:
            if action is HealthAction.SUSPECT:  # the zygote, with which all other processes would end
                self._children.wake_zygote()
            return
        worker = self.links.index(link) if link in self.links else -1
        log.warning("%s (pid %d): %s", link.name, pid, action.value)
        if action is HealthAction.GIVE_UP:
            why = "ended because it did not run any more, and it cannot even die: it is frozen"
            self._children.give_up(link, why, self._dispatch.quarantine(worker))
            return
        if worker >= 0:
            self._dispatch.moved(worker, pid, _STATES[action])
        if action is HealthAction.FENCE:
            self._children.kill_all(link, "stopped")
        self._dispatch.dispatch()

    def _check_memory(self) -> None:
        """Kill executors that exceed their cap through children, are in an allocation livelock, or stuck at the cap."""
        uses = {}
        for worker, link in enumerate(self.links):
            if not link.pid or not link.alive:
                continue
            cap = self._dispatch.cap(worker)
            if cap == -1:
                continue
            private = self._children.private(link.pid)
            if cap is None:
                self._calm[worker] = max(private, CALM)
                continue
            used = self._children.use(link.pid)
            if used is not None:
                uses[link.pid] = used
            if private > self._calm[worker] + 2 * cap:
                log.warning("%s has %d bytes for itself and was granted %d", link.name, private, cap)
                self._children.kill_all(link, "memory")
        hanging = self._livelock.look(monotonic(), uses)
        for link in list(self.links):
            if link.pid in hanging:
                log.warning("%s asks for memory again and again, or waits, and gets none", link.name)
                self._children.kill_all(link, "memory")

    def _check_starts(self) -> None:
        """Work of executors that cannot be started goes elsewhere; without any executor for long, jobs fail."""
        for worker in sorted(self._unavailable):
            if self.links[worker].pid:
                self._unavailable.discard(worker)
                self._dispatch.available(worker)
        trouble = self._children.trouble
        if not trouble:
            self._none_since = None
            return
        for worker, link in enumerate(self.links):
            if not link.pid:
                self._unavailable.add(worker)
                self._dispatch.unavailable(worker)
        if any(link.pid and link.alive for link in self.links):
            self._none_since = None
            return
        self._none_since = self._none_since or monotonic()
        if monotonic() - self._none_since >= NO_PROCESS_SECONDS:
            self._dispatch.no_executors(
                ClusterError(
                    f"no worker process can be started for {NO_PROCESS_SECONDS:g} s: {trouble}; the system has no "
                    "process, memory or file to give: raise its limits (ulimit -u, ulimit -n, a container's pids "
                    "limit), or use fewer workers"
                )
            )


class ExecutionActor:
    """The workers of this host: a `WorkerPort` for the scheduler.

    Parameters
    ----------
    arena
        Shared memory of the host.
    children
        Starts processes.
    workers
        Number of executor processes, those with a GPU last.
    spill_folder
        Gives the folder of spilled chunks; called when the first chunk is spilled.
    disk_room
        Gives the bytes that may still be spilled.
    limit
        The user's memory_limit in bytes, for errors; 0 if there is none.
    graph_bytes
        Bytes of graphs in the control process that need no promise.
    gpus
        Names of GPUs (`devices.find`), one for each of the last workers.

    Attributes
    ----------
    memory, dispatch, processes
        The three parts; orders that concern one part alone are methods of the part, bound here.
    """

    def __init__(
        self,
        arena: Arena,
        children: Children,
        workers: int,
        spill_folder: Callable[[], str],
        disk_room: Callable[[], int],
        limit: int = 0,
        graph_bytes: int = 0,
        gpus: Sequence[str] = (),
    ) -> None:
        self._scheduler: ReportPort | None = None
        self.memory = HostMemory(
            arena,
            workers,
            MemoryEvents(
                active=lambda: self.dispatch.active_batches(),
                admitted=lambda: self.dispatch.dispatch(),
                requeue=lambda table, operand: self.dispatch.requeue(table, operand),
                refused=self._refused,
                waited=lambda *times: self.dispatch.times.waited(*times),
                moved=self._moved,
                copied=lambda chunk: self.report(ChunksCopied([chunk])),
                lost=lambda chunk, why: self.report(ChunksLost([chunk], why)),
                answer=lambda worker, slot, why: self.dispatch.answer(worker, slot, why),
                is_leaving=lambda worker: self.dispatch.is_leaving(worker),
                recycle=lambda: self.dispatch.recycling.shed(),
                usual_seconds=lambda program: self.dispatch.ledger.estimate.known(program),
            ),
            lambda received, ended: self.processes.start_mover(received, ended),
            disk_room,
            limit,
            graph_bytes,
        )
        self.dispatch = HostDispatch(self.memory, workers, self.report, children.kill_all, children.use, len(gpus))
        self.processes = ProcessSupervisor(children, workers, spill_folder, self.dispatch, gpus)
        dispatch, memory = self.dispatch, self.memory
        self.enqueue_graph, self.replan = dispatch.enqueue_graph, dispatch.replan
        self.stop_execution, self.close_job = dispatch.stop_execution, dispatch.close_job
        self.locate_chunks, self.free_chunks = memory.locate_chunks, memory.free_chunks
        self.drop_chunks, self.start = memory.lost_chunks.drop, self.processes.start

    @property
    def workers(self) -> Sequence[Worker]:
        """The workers of the host."""
        return self.dispatch.workers

    @property
    def chunks(self) -> Chunks:
        """Places of all chunks of the host."""
        return self.memory.chunks

    @property
    def ledger(self) -> Ledger:
        """Measurements of jobs."""
        return self.dispatch.ledger

    def held(self) -> dict[int, set[int]]:
        """Chunks of this host, under its first worker."""
        chunks = self.chunks
        here = chunks.memory.keys() | chunks.disk.keys() | chunks.on_device.keys() | chunks.moving
        return {0: here - chunks.doomed}

    def standing(self) -> tuple[list[str], list[int]]:
        """Names of all workers that ever were, and the numbers of those that leave or have left."""
        scaling = self.dispatch.scaling
        return scaling.names, list(range(scaling.staying, len(scaling.names)))

    # -- the scheduler
    def connect(self, scheduler: ReportPort) -> None:
        """Send reports to this scheduler from now on."""
        self._scheduler = scheduler

    def report(self, report: Report) -> None:
        """Send a report to the scheduler."""
        assert self._scheduler is not None
        self._scheduler.report(report)

    # -- orders of the scheduler
    def open_job(self, table: JobTable) -> None:
        """Take the operands of a job; none runs yet. Too many jobs or too large results raise before any change."""
        self.memory.check_results(table.kept)
        self.dispatch.open_job(table)
        self.processes.wake()

    def take_back(self, job: str, operands: Sequence[int]) -> None:
        """Give up those of some operands that wait, and report them."""
        if job in self.dispatch.jobs.by_name:
            self.report(OperandsReturned(job, self.dispatch.take_back(job, operands)))

    def keep_chunks(self, chunks: Sequence[int]) -> None:
        """Keep copies of chunks whose originals are lost, and report chunks that are not here as ChunksLost."""
        for chunk in chunks:
            if self.chunks.is_here(chunk):
                self.chunks.keep(chunk)
            else:
                self.report(ChunksLost([chunk], "its host is gone, and the copy of another host was evicted"))

    # -- events of chunks, as reports about operands
    def _moved(self, chunk: int, on_disk: bool) -> None:
        """A chunk was spilled or reloaded: report the operand."""
        for table in list(self.dispatch.jobs.by_name.values()):
            operand = chunk - table.base
            if 0 <= operand < len(table.chunk) and table.program[operand] >= 0:
                self.report(Spilled(table.job, [operand], on_disk))

    def _refused(self, job: str, operand: int, error: Exception) -> None:
        """An operand can never get memory here or, after a ChunkLostError, not before all inputs are here again."""
        if not isinstance(error, ChunkLostError):
            self.report(Refused(job, operand, Failure.of(error)))
            return
        table = self.dispatch.jobs.by_name[job]
        missing = [table.chunk[i] for i in table.inputs[operand] if not self.chunks.is_here(table.chunk[i])]
        self.report(InputsMissing(job, [operand], missing, str(error)))

    # -- the life of the host
    def add_worker(self) -> None:
        """A worker comes."""
        number = self.dispatch.scaling.come()
        if number is not None:
            self.processes.add(number)
            worker = self.workers[number]
            self.report(WorkerMoved(number, worker.name, 0, "starting"))
        self.dispatch.dispatch()

    def remove_worker(self) -> None:
        """The last worker leaves, as soon as its running batch has ended."""
        self.dispatch.scaling.leave()
        self.processes.wake()  # its process may hang
        self.dispatch.dispatch()

    def close(self) -> None:
        """Replace no process from now on."""
        self.dispatch.close()
        self.processes.close()
