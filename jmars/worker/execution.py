"""ExecutionActor: the workers of a host, put together from the folders memory, dispatch and processes.

A ready operand waits in dispatch's task queue by rank. When a worker has less than two batches, memory admits the
operand: a slot for the output, inputs in memory, scratch promised. Then the operand joins a batch and is sent to an
executor process. The executor's report goes to the scheduler. The answer (more ready operands, chunks to free)
arrives before the next batch is made. The three folders call upwards only through callables passed here, once.
Source: docs/explanation/seeds.md, "Execution control"; docs/explanation/seeds.md, "Execution in a worker".

Reports events of jmars/memory to the scheduler: spilled, lost, refused, inputs missing.

jmars/memory knows chunks by number; the tables of open jobs tell their operands.
Source: docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jmars.dispatch import HostDispatch
from jmars.dispatch.ledger import Ledger
from jmars.dispatch.workers import Worker
from jmars.errors import ChunkLostError
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
from jmars.processes.links import Children
from jmars.storage.arena import Arena
from jmars.storage.chunks import Chunks
from jmars.worker.supervision import ProcessSupervisor


class ExecutionActor:
    """The workers of this host: a `WorkerPort` for the scheduler.

    Parameters
    ----------
    arena
        Shared memory of the host.
    children
        Starts processes.
    workers
        Number of executor processes, each with `threads` threads, those with a GPU last.
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
        threads: int,
        spill_folder: Callable[[], str],
        disk_room: Callable[[], int],
        limit: int = 0,
        graph_bytes: int = 0,
        gpus: Sequence[str] = (),
    ) -> None:
        self._scheduler: ReportPort | None = None
        events = ChunkEventReporter(
            lambda chunk: self.memory.chunks.is_here(chunk), lambda: self.dispatch.jobs.by_name, self.report
        )
        self.memory = HostMemory(
            arena,
            workers,
            MemoryEvents(
                active=lambda: self.dispatch.active_batches(),
                admitted=lambda: self.dispatch.dispatch(),
                requeue=lambda table, operand: self.dispatch.requeue(table, operand),
                refused=events.refused,
                waited=lambda *times: self.dispatch.times.waited(*times),
                moved=events.moved,
                copied=lambda chunk: self.report(ChunksCopied([chunk])),
                lost=events.lost,
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
        self.dispatch = HostDispatch(self.memory, workers, self.report, children.kill_all, len(gpus))
        self.processes = ProcessSupervisor(children, workers, threads, spill_folder, self.dispatch, gpus)
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


class ChunkEventReporter:
    """Turns events of chunks into reports about operands.

    Parameters
    ----------
    is_here
        Tells whether a chunk is on this host.
    jobs
        Gives the tables of the open jobs, by name.
    report
        Sends a report to the scheduler.
    """

    def __init__(
        self,
        is_here: Callable[[int], bool],
        jobs: Callable[[], Mapping[str, JobTable]],
        report: Callable[[Report], None],
    ) -> None:
        self._is_here, self._jobs, self._report = is_here, jobs, report

    def moved(self, chunk: int, on_disk: bool) -> None:
        """A chunk was spilled or reloaded: report the operand."""
        for table in list(self._jobs().values()):
            operand = chunk - table.base
            if 0 <= operand < len(table.chunk) and table.program[operand] >= 0:
                self._report(Spilled(table.job, [operand], on_disk))

    def lost(self, chunk: int, why: str) -> None:
        """A chunk that was stored here cannot be read back."""
        self._report(ChunksLost([chunk], why))

    def refused(self, job: str, operand: int, error: Exception) -> None:
        """An operand can never get memory here or, after a ChunkLostError, not before all inputs are here again."""
        if not isinstance(error, ChunkLostError):
            self._report(Refused(job, operand, Failure.of(error)))
            return
        table = self._jobs()[job]
        inputs = [table.chunk[i] for i in table.inputs[operand]]
        missing = [chunk for chunk in inputs if not self._is_here(chunk)]
        self._report(InputsMissing(job, [operand], missing, str(error)))
