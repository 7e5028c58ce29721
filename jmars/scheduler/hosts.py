"""Hosts: the workers of several hosts as one `WorkerPort`.

Workers are numbered over all hosts. An operand goes to the host of its planned worker; the host chooses the process,
since its processes share memory. A host learns where an operand's inputs lie, and reads them from there. The chunks
that only a lost host had are reported as lost, the operands of the host as operands that miss inputs.

`Places` knows which hosts have each chunk. A host that computed or received a chunk has the original. Other hosts are
told where the chunk lies, and may have a copy since; a report confirms the copy.

`Balance` moves waiting operands from hosts that are behind to hosts that have nothing to do, a pure decision. A plan is
made before the run; a long function, a slow machine or a host that came later make it wrong. Then a host is idle while
operands wait elsewhere.
Source: docs/explanation/seeds.md, "Execution control" and "Execution in a worker"; Blumofe and Leiserson, "Scheduling
multithreaded computations by work stealing" (1999).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle
from msgspec import structs

from jmars.errors import ClusterLostError, MemoryLimitError
from jmars.model.messages import (
    ChunksKept,
    ChunksLost,
    CloseJob,
    EnqueueGraph,
    FreeChunks,
    InputsMissing,
    JobClosed,
    JobTable,
    KeepChunks,
    LocateChunks,
    OpenJob,
    Order,
    Refused,
    Report,
    ReportPort,
    Rerank,
    StopExecution,
    TakeBack,
    WorkerMoved,
    compressed,
    int_planes,
)
from jmars.scheduler.host_jobs import HostJob, HostReports, HostRow, SendOrders, able_hosts, suits, workers_of
from jmars.units import format_bytes

log = logging.getLogger("jmars.scheduler")

UNMEASURED = {"makespan": 0.0, "peak": 0, "spilled": 0, "moved": 0}


class Hosts:
    """All hosts of a cluster: a `WorkerPort`.

    Attributes
    ----------
    rows
        All hosts that ever were, by number.
    host_of
        Number of the host of each worker.
    places
        Which hosts have each chunk.
    jobs
        Open jobs, by name.
    take
        Takes reports of a host: its number, and the reports.
    awaits
        Whether jobs wait for a host where no host is here, in place of an error.
    """

    def __init__(self) -> None:
        self.rows: dict[int, HostRow] = {}
        self.host_of: list[int] = []
        self.places = Places()
        self.jobs: dict[str, HostJob] = {}
        self.take = HostReports(self, self._report).take
        self._scheduler: ReportPort | None = None
        self._balance = Balance()
        self.awaits = False

    def held(self) -> dict[int, list[int]]:
        """Chunks of each host, under its first worker; copies too."""
        return {row.first: self.places.of_host(row.number) for row in self.here}

    def standing(self) -> tuple[list[str], list[int]]:
        """Names of all workers that ever were, and the numbers of those whose host is lost, leaves or has left."""
        absent = [row for row in self.rows.values() if not row.here or row.leaving]
        return self.names, [worker for row in absent for worker in range(row.first, row.first + row.workers)]

    # -- hosts come and go
    def connect(self, scheduler: ReportPort) -> None:
        """Send reports to this scheduler from now on."""
        self._scheduler = scheduler

    def add(
        self, number: int, name: str, order: SendOrders, workers: int, memory: int, room: int, gpus: int = 0
    ) -> HostRow:
        """A host joined, or a lost host is back and empty; open the running jobs there.

        `order` sends orders to the host. The last `gpus` workers are GPUs; a report tells the bytes of a warm GPU.

        Raises
        ------
        ValueError
            If the host is here, or is back with another number of workers or GPUs: these keep their numbers.
        """
        before = self.rows.get(number)
        if before is not None and before.here:
            raise ValueError(f"host {number} is here already")
        if before is not None and (before.workers, len(before.gpus)) != (workers, gpus):
            had, has = (f"{n} workers ({of} GPUs)" for n, of in ((before.workers, len(before.gpus)), (workers, gpus)))
            raise ValueError(f"host {number} had {had} and is back with {has}")
        first = before.first if before is not None else len(self.host_of)
        gone = {one.number for one in self.rows.values() if not one.here}
        left = {job: [one for one, at in job.at.items() if at in gone] for job in self.jobs.values()}
        row = HostRow(number, name, order, first, workers, memory, room, gpus=[-1] * gpus)
        row.names = [f"{name}/worker-{one}" for one in range(row.cores)]
        row.names += [f"{name}/gpu-{one}" for one in range(gpus)]
        self.rows[number] = row
        if before is None:
            self.host_of += [number] * workers
        self._report_state(row, "starting")
        self._open_jobs(row)
        for job, operands in left.items():  # operands that waited for a host
            if operands and row.number in job.opened:
                self.enqueue_graph(job.table.job, operands, [row.first] * len(operands))
        return row

    def _open_jobs(self, row: HostRow) -> None:
        """Open running jobs on a host, except for jobs that are open there."""
        for job in self.jobs.values():
            if not job.closing and job.refused is None and row.number not in job.opened:
                job.opened.add(row.number)
                row.order([_opening(job.table, row)])

    def lost(self, number: int, why: str, state: str = "lost") -> None:
        """A host is gone for good, "lost" or "left": report lost chunks, then operands that run elsewhere now."""
        row = self.rows.get(number)
        if row is None or not row.here:
            return
        row.here = False
        orphans, left = self.places.lost(number)
        self.keep_at(left)
        self.free_at(self.places.free(orphans), lost=True)  # operands may read an unreported copy
        taken = [(job, job.taken_from(number)) for job in self.jobs.values()]
        if orphans:
            self._report(ChunksLost(orphans, why))
        for job, operands in taken:
            if operands:
                self._report(InputsMissing(job.table.job, operands, [], why))
        self._report_state(row, state)
        for job, _ in taken:
            self.closed_by(job, number, None)

    def suspect(self, number: int, is_suspect: bool) -> None:
        """A host is silent of late, or is heard again."""
        row = self.rows.get(number)
        if row is not None:
            row.suspect = is_suspect

    # -- a host leaves
    def leave(self, number: int) -> None:
        """A host is about to leave: operands go elsewhere, except for those that only its GPUs can run."""
        row = self.rows[number]
        row.leaving = True
        self._report_state(row, "leaving")
        for job in self.jobs.values():
            waiting = [one for one, at in job.at.items() if at == number and one not in job.running]
            targets = {one: self._other_host(job, one) for one in waiting if one not in job.called_back}
            targets = {one: to for one, to in targets.items() if to != number}
            if targets and not job.closing:
                self._call_back(job, number, targets)

    def stay(self, number: int) -> None:
        """A host that was about to leave stays after all."""
        row = self.rows[number]
        row.leaving = False
        self._open_jobs(row)
        self._report_state(row, "idle")

    def kept(self, number: int, chunks: Sequence[int]) -> None:
        """A host keeps chunks of a leaving host."""
        row = self.rows[number]
        if row.here:
            for chunk in chunks:
                self.places.copied(chunk, number)
            self._report(ChunksKept(list(chunks), row.first))

    def is_busy(self, number: int) -> bool:
        """Whether a host has operands that were not returned yet, or the only GPUs for a job that needs a GPU."""
        return any(number in job.at.values() or self._has_only_gpus(number, job) for job in self.jobs.values())

    def _has_only_gpus(self, number: int, job: HostJob) -> bool:
        """Whether a leaving host may get operands of a job, since no other host has GPUs for the operands."""
        if job.closing or job.refused is not None or job.neediest < 0:
            return False
        staying, leaving = self.staying, self._leaving(job)
        return self.rows[number] in able_hosts(job.table, job.neediest, staying, staying, leaving)

    def close_at(self, number: int) -> bool:
        """Close all jobs on a leaving host; returns whether no job is open there."""
        opened = [job for job in self.jobs.values() if number in job.opened]
        for job in opened:
            if not job.closing and number not in job.leaving:
                job.leaving.add(number)
                self.rows[number].order([CloseJob(job.table.job)])
        return not opened

    def _report_state(self, row: HostRow, state: str) -> None:
        for worker, name in enumerate(row.names, row.first):
            self._report(WorkerMoved(worker, name, 0, state))

    @property
    def here(self) -> list[HostRow]:
        """Hosts that the cluster has."""
        return [row for row in self.rows.values() if row.here]

    @property
    def staying(self) -> list[HostRow]:
        """Hosts that the cluster has and keeps; leaving hosts only where there are no further hosts."""
        here = self.here
        return [row for row in here if not row.leaving] or here

    def _leaving(self, job: HostJob) -> list[HostRow]:
        """Hosts that are about to leave and have a job open until then."""
        return [row for row in self.here if row.leaving and row.number in job.opened - job.leaving]

    @property
    def names(self) -> list[str]:
        """Names of all workers, by number."""
        return [name for row in self.rows.values() for name in row.names]

    # -- orders of the scheduler
    def open_job(self, table: JobTable) -> None:
        """Take the operands of a job; refusals of hosts come as reports.

        Raises
        ------
        ClusterLostError
            If no host is left.
        MemoryLimitError
            If the results fit on no host.
        """
        here = self.staying
        if not here and not self.awaits:
            raise ClusterLostError("all hosts of the cluster are gone; start a new cluster, or wait for a host to come")
        room = sum(row.room for row in here)
        if table.kept > room and here:
            raise MemoryLimitError(
                f"the results take {format_bytes(table.kept)}, and memory and disk of all hosts together have "
                f"{format_bytes(room)}; keep less (a sum instead of the whole), or add hosts"
            )
        opening = None if table.pinned or not here else _opening(table, here[0])
        orders = [opening or _opening(table, row) for row in here]
        self.jobs[table.job] = HostJob(table, {row.number for row in here})
        for row, order in zip(here, orders, strict=True):
            row.order([order])

    def enqueue_graph(self, job: str, operands: Sequence[int], workers: Sequence[int]) -> None:
        """Send ready operands to the hosts of their workers, with the places of inputs that lie elsewhere."""
        known = self._open(job)
        if known is None:
            return
        table, rows, row_of = known.table, self.rows, self.host_of
        pinned = table.pinned
        planned = dict(zip(operands, workers, strict=True)) if table.device else {}
        by_host: dict[int, list[int]] = {}
        for operand, worker in zip(operands, workers, strict=True):
            number = row_of[pinned.get(operand, worker)]
            if not rows[number].takes or (
                operand not in pinned and (self._follows(table, operand) or not suits(rows[number], table, operand))
            ):
                number = self._other_host(known, operand)
                known.send([operand], number)  # counts in the load that the next choice reads
            by_host.setdefault(number, []).append(operand)
        for number, some in by_host.items():
            row = rows[number]
            known.send(some, number)
            if not row.here:
                continue  # no host is left: the operands wait for the next host
            located = self._locate(number, [table.chunk[one] for operand in some for one in table.inputs[operand]])
            chosen = workers_of(row, table, some, planned)
            orders: list[Order] = [EnqueueGraph(job, some, chosen)]
            row.order([located, *orders] if located is not None else orders)

    def stop_execution(self, job: str) -> None:
        """Stop a job on all hosts."""
        known = self._open(job)
        if known is not None:
            self.order_all(known, StopExecution(job))

    def replan(self, job: str, rank: Sequence[int], workers: Sequence[int], slow: Sequence[int]) -> None:
        """Give operands new ranks, and move waiting operands to the hosts of their new workers."""
        known = self._open(job)
        if known is None:
            return
        known.table.rank[:] = rank
        known.planned = workers
        self.order_all(known, Rerank(job, *compressed(int_planes(rank))))
        moves: dict[int, dict[int, int]] = {}
        for operand, number in known.at.items():
            to = self.host_of[workers[operand]] if workers[operand] >= 0 else number
            if to != number and operand not in known.running and self.rows[to].here:
                moves.setdefault(number, {})[operand] = to
        for number, targets in moves.items():
            self._call_back(known, number, targets)

    def balance(self, now: float) -> list[Shift]:
        """Move waiting operands of hosts that are behind to hosts without work; call this some times a second."""
        jobs = [job for job in self.jobs.values() if not job.closing and job.refused is None]
        loads = {
            number: HostLoad(
                row.cores,
                sum(job.runs.get(number, 0) for job in jobs),
                sum(len(job.waits.get(number, ())) for job in jobs),
                row.done,
            )
            for number, row in self.rows.items()
            if row.takes
        }
        shifts = self._balance.look(now, loads)
        for shift in shifts:
            left = shift.count
            for job in jobs:
                chosen = job.waiting(shift.source)[:left]
                left -= len(chosen)
                if chosen:
                    self._call_back(job, shift.source, dict.fromkeys(chosen, shift.target))
        return shifts

    def close_job(self, job: str) -> None:
        """Close a job on all hosts; JobClosed is reported after the last host."""
        known = self._open(job)
        if known is None:
            return
        known.closing = True
        self.order_all(known, CloseJob(job))
        self._end_if_closed(known)

    def free_chunks(self, chunks: Sequence[int]) -> None:
        """Free chunks on all hosts."""
        self.free_at(self.places.free(chunks))

    # -- own
    def _open(self, job: str) -> HostJob | None:
        """A job that hosts have open; orders about other jobs come too late, and have no effect."""
        known = self.jobs.get(job)
        if known is None:
            log.info("%s is closed, and gets an order", job)
        return known

    def _report(self, report: Report) -> None:
        if self._scheduler is not None:
            self._scheduler.report(report)

    def _call_back(self, job: HostJob, number: int, targets: dict[int, int]) -> None:
        job.call_back(targets)
        self.rows[number].order([TakeBack(job.table.job, list(targets))])

    def order_all(self, job: HostJob, order: Order, besides: int = -1) -> None:
        """Send an order to all hosts that have a job open, but one."""
        for number in sorted(job.opened - job.leaving - {besides}):
            self.rows[number].order([order])

    def keep_at(self, by_host: dict[int, list[int]]) -> None:
        """Have hosts keep copies of chunks, which may be all that is left."""
        for number, chunks in by_host.items():
            self.rows[number].order([KeepChunks(chunks)])

    def free_at(self, by_host: dict[int, list[int]], lost: bool = False) -> None:
        """Free chunks on hosts; operands may still read lost chunks."""
        for number, chunks in by_host.items():
            if self.rows[number].here:
                self.rows[number].order([FreeChunks(chunks, lost)])

    def push(self, job: HostJob, operands: Sequence[int], number: int) -> None:
        """A host has stored chunks: the hosts of planned readers read whole chunks ahead."""
        table, host_of, by_host = job.table, self.host_of, dict[int, list[int]]()
        for operand in operands:
            readers = [one for one in table.readers[operand] if job.planned[one] >= 0]
            readers = [one for one in readers if not table.programs[table.program[one]].gathers]
            for to in {host_of[job.planned[one]] for one in readers if not self._is_by_size(table, one)} - {number}:
                by_host.setdefault(to, []).append(table.chunk[operand])
        for to, chunks in by_host.items():
            located = self._locate(to, chunks) if self.rows[to].takes else None
            if located is not None:
                self.rows[to].order([structs.replace(located, ahead=True)])

    def _locate(self, number: int, wanted: Iterable[int]) -> LocateChunks | None:
        """Places of chunks that a host lacks and was not told of; None without such chunks."""
        places = self.places
        have, know = places.have, places.know
        chunks: list[int] = []
        for chunk in wanted:
            mask = have.get(chunk, 0)
            if not (mask | know.get(chunk, 0)) >> number & 1 and mask:
                places.located(chunk, number)
                chunks.append(chunk)
        if not chunks:
            return None
        size, shape = places.size, places.shape
        shapes = {chunk: shape[chunk] for chunk in chunks if chunk in shape} if shape else {}
        return LocateChunks(chunks, [size[c] for c in chunks], [bits(have[c]) for c in chunks], shapes or None)

    def _follows(self, table: JobTable, operand: int) -> bool:
        """Whether an operand goes where most bytes of its inputs lie: it has no planned host; or no other operand reads
        the inputs, which lie on several hosts, and the plan could not know their sizes.
        """
        inputs = table.inputs[operand]
        if table.planned and table.planned[operand] < 0:
            return bool(inputs)
        return self._is_by_size(table, operand) and len({self.places.have.get(table.chunk[one]) for one in inputs}) > 1

    def _is_by_size(self, table: JobTable, operand: int) -> bool:
        """Whether the host of a planned operand may depend on bytes that only the run tells."""
        inputs, sized = table.inputs[operand], self.places.shape
        if not sized or len(inputs) < 2 or operand in table.pinned:
            return False
        return all(len(table.readers[one]) == 1 for one in inputs) and any(table.chunk[one] in sized for one in inputs)

    def _other_host(self, job: HostJob, operand: int) -> int:
        """Another host for an operand than the planned host: the able host with most bytes of the inputs."""
        table = job.table
        inputs = [table.chunk[one] for one in table.inputs[operand]]
        held, jobs = self.places.held(inputs), self.jobs.values()
        staying = self.staying
        here = [row for row in staying if not row.suspect] or staying or list(self.rows.values())
        here = able_hosts(table, operand, here, staying, self._leaving(job))
        near = [row for row in here if row.number in held] or here
        return max(near, key=lambda row: (held.get(row.number, 0), -self._load(row, jobs))).number

    def _load(self, row: HostRow, jobs: Iterable[HostJob]) -> float:
        """Operands of a host per worker."""
        number = row.number
        return (
            sum(job.runs.get(number, 0) + len(job.waits.get(number, ())) + job.for_gpus.get(number, 0) for job in jobs)
            / row.workers
        )

    def closed_by(self, job: HostJob, number: int, measured: dict[str, Any] | None) -> None:
        """A host has forgotten a job, or is gone."""
        if number in job.opened:
            job.opened.discard(number)
            job.leaving.discard(number)
            if measured is not None:
                job.measured.append(measured)
            self._end_if_closed(job)

    def _end_if_closed(self, job: HostJob) -> None:
        if job.opened or self.jobs.get(job.table.job) is not job:
            return
        if job.refused is not None:
            del self.jobs[job.table.job]
            self._report(Refused(job.table.job, -1, job.refused))
        elif job.closing:
            del self.jobs[job.table.job]
            self._report(JobClosed(job.table.job, UNMEASURED | job.merged()))


def _opening(table: JobTable, row: HostRow) -> OpenJob:
    """The order that opens a job on a host, with the host's own numbers of workers, and a part of the results."""
    own = {one: worker - row.first for one, worker in table.pinned.items() if 0 <= worker - row.first < row.workers}
    return OpenJob(table.job, *compressed(cloudpickle.dumps(structs.replace(table, kept=0, pinned=own))))


BEHIND_SECONDS = 0.3  # seconds of waiting work from which on operands are moved
KEEP = 0.5  # weight of the earlier rate in a new mean


@dataclass(frozen=True)
class HostLoad:
    """Work of a host.

    Attributes
    ----------
    workers
        Processes that compute.
    running, waiting
        Operands that run, and that wait for a worker there.
    done
        Operands that ended there since the start.
    """

    workers: int
    running: int
    waiting: int
    done: int


@dataclass(frozen=True)
class Shift:
    """Move so many waiting operands from a host to another."""

    source: int
    target: int
    count: int


class Balance:
    """Rates of hosts, as they were seen.

    Examples
    --------
    >>> balance = Balance()
    >>> balance.look(0.0, {0: HostLoad(1, 1, 9, 0), 1: HostLoad(1, 1, 0, 0)})
    []
    >>> balance.look(1.0, {0: HostLoad(1, 1, 9, 0), 1: HostLoad(1, 0, 0, 5)})  # host 0 ended nothing in a second
    [Shift(source=0, target=1, count=5)]
    """

    def __init__(self) -> None:
        self._rate: dict[int, float] = {}  # operands a second, by host
        self._done: dict[int, int] = {}
        self._looked = -math.inf

    def look(self, now: float, loads: Mapping[int, HostLoad]) -> list[Shift]:
        """Operands to move now; hosts without work take them, in turn."""
        passed = now - self._looked
        self._looked = now
        for host, load in loads.items():
            ended = load.done - self._done.get(host, load.done)
            rate = ended / passed if math.isfinite(passed) and passed > 0 else 0.0
            self._rate[host] = KEEP * self._rate.get(host, rate) + (1 - KEEP) * rate
            self._done[host] = load.done
        if not math.isfinite(passed):
            return []
        idle = [host for host, load in loads.items() if not load.waiting and load.running < load.workers]
        behind = {
            host: load for host, load in loads.items() if load.waiting and self._left(host, load) > BEHIND_SECONDS
        }
        found = []
        while idle and behind:
            source = max(behind, key=lambda host: self._left(host, behind[host]))
            load, target = behind.pop(source), idle.pop(0)
            free = loads[target].workers - loads[target].running
            count = math.ceil(load.waiting * free / (free + load.workers))
            found.append(Shift(source, target, count))
        return found

    def _left(self, host: int, load: HostLoad) -> float:
        """Seconds until the waiting operands of a host have begun, at its rate."""
        return load.waiting / self._rate[host] if self._rate[host] else math.inf


class Places:
    """Holders of the chunks of a cluster; hosts are numbered from 0.

    Examples
    --------
    >>> places = Places()
    >>> places.stored(7, host=1, size=80)
    >>> places.has(7, 1), places.has(7, 0)
    (True, False)
    >>> places.located(7, 0)  # host 0 is going to read the chunk
    >>> places.holders(7)
    [1]
    >>> places.free([7])  # both hosts hear of the end
    {0: [7], 1: [7]}
    """

    def __init__(self) -> None:
        self.have: dict[int, int] = {}  # by chunk, hosts that have it
        self.know: dict[int, int] = {}  # by chunk, hosts that were told where it lies, and may have a copy
        self.heard: dict[int, int] = {}  # by chunk, hosts that lack it and are told again, but may have a note of it
        self.size: dict[int, int] = {}  # bytes, by chunk
        self.shape: dict[int, tuple[int, ...]] = {}  # of chunks whose shape only the run told

    def __len__(self) -> int:
        return len(self.have)

    def stored(self, chunk: int, host: int, size: int) -> None:
        """A host has the original of a chunk."""
        self.have[chunk] = self.have.get(chunk, 0) | 1 << host
        self.size[chunk] = size

    def copied(self, chunk: int, host: int) -> None:
        """A host has a copy; no effect after the chunk was freed."""
        if chunk in self.have:
            self.have[chunk] |= 1 << host

    def located(self, chunk: int, host: int) -> None:
        """A host was told where a chunk lies."""
        self.know[chunk] = self.know.get(chunk, 0) | 1 << host

    def has(self, chunk: int, host: int) -> bool:
        """Whether a host has a chunk."""
        return bool(self.have.get(chunk, 0) >> host & 1)

    def holders(self, chunk: int) -> list[int]:
        """Hosts that have a chunk, the lowest number first: the original before most copies."""
        return bits(self.have.get(chunk, 0))

    def gone(self, chunk: int, host: int) -> bool:
        """A host has a chunk no more; returns whether another host has it.

        The host is told again where the chunk lies before it reads it. It still hears of the end: it may have a note of
        where the chunk lay, and a read under way may give it a copy.
        """
        left = self.have.get(chunk, 0) & ~(1 << host)
        if chunk in self.have:
            self.have[chunk] = left
            self.heard[chunk] = self.heard.get(chunk, 0) | 1 << host
        if chunk in self.know:
            self.know[chunk] &= ~(1 << host)
        return bool(left)

    def free(self, chunks: Iterable[int]) -> dict[int, list[int]]:
        """Forget chunks; returns by host the chunks that the host has or may have."""
        have, know, heard, size, shape = self.have, self.know, self.heard, self.size, self.shape
        found: dict[int, list[int]] = {}
        for chunk in chunks:
            mask = have.pop(chunk, 0) | know.pop(chunk, 0)
            if heard:
                mask |= heard.pop(chunk, 0)
            size.pop(chunk, None)
            if shape:
                shape.pop(chunk, None)
            for host in bits(mask):
                found.setdefault(host, []).append(chunk)
        return dict(sorted(found.items()))

    def of_host(self, host: int) -> list[int]:
        """Chunks that a host has."""
        return [chunk for chunk, mask in self.have.items() if mask >> host & 1]

    def held_by_host(self) -> dict[int, int]:
        """Bytes of all chunks, by host that has them."""
        return self.held(self.have)

    def lost(self, host: int) -> tuple[list[int], dict[int, list[int]]]:
        """A host is gone.

        Returns
        -------
        list of int, dict of int to list
            Chunks that no host has now, still to be freed where they are known; and for each chunk that another host
            has, one of the hosts that have it: chunks by host.
        """
        bit = 1 << host
        orphans: list[int] = []
        left: dict[int, list[int]] = {}
        for chunk, mask in self.have.items():
            if mask & bit:
                rest = self.have[chunk] = mask & ~bit
                if rest:
                    left.setdefault((rest & -rest).bit_length() - 1, []).append(chunk)
                else:
                    orphans.append(chunk)
        for told in (self.know, self.heard):
            for chunk, mask in told.items():
                if mask & bit:
                    told[chunk] = mask & ~bit
        return orphans, left

    def held(self, chunks: Iterable[int]) -> dict[int, int]:
        """Bytes of these chunks by host that has them."""
        found: dict[int, int] = {}
        for chunk in chunks:
            for host in bits(self.have.get(chunk, 0)):
                found[host] = found.get(host, 0) + self.size[chunk]
        return found


def bits(mask: int) -> list[int]:
    """Numbers of the bits that are set, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
