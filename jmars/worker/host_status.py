"""Status of this host: the work of the workers, the allocation queue, the holders of memory, the last deaths.

`host_status` only reads, and is called only when a client or the watchdog asks why a job does not move, never for an
operand. `process_state` reads /proc, since a stopped process cannot answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

from jmars.dispatch.speculation import Death
from jmars.dispatch.workers import Worker
from jmars.memory.buffer_manager import AllocationRequest
from jmars.memory.host_memory import disk_status
from jmars.model.limits import PAGE
from jmars.model.messages import JobTable
from jmars.model.status import DeathStatus, HostStatus, MemoryStatus, QueueStatus, WorkerStatus
from jmars.processes.vitals import Vital, vitals

if TYPE_CHECKING:
    from jmars.worker.execution import ExecutionActor

FIRST = 5  # requests that are listed one by one
_STATES = {"S": "sleeps", "I": "sleeps", "D": "waits for a disk", "t": "held by a debugger"}
_VITALS = {Vital.STOPPED: "stopped", Vital.FROZEN: "frozen", Vital.GONE: "is gone"}


def host_status(execution: ExecutionActor) -> HostStatus:
    """Status of the host now."""
    jobs = execution.dispatch.jobs.by_number
    line = execution.memory.buffers.queue
    return {
        "workers": [_worker(execution, worker) for worker in execution.workers],
        "queued": {jobs[number].job: n for number, n in execution.dispatch.queue.count().items() if number in jobs},
        "line": [_waits(execution, request) for request, _ in zip(line, range(FIRST))],
        "waiting": dict(Counter(jobs[one.job].job if one.rank >= 0 else "" for one in line)),
        "reading": [_waits(execution, request) for request in execution.memory.buffers.loading[:FIRST]],
        "memory": _memory(execution, list(jobs.values())),
        "disk": disk_status(execution.memory.buffers),
        "deaths": [_died(death) for death in execution.dispatch.recovery.deaths],
    }


def _died(death: Death) -> DeathStatus:
    found: DeathStatus = {
        "worker": death.worker,
        "pid": death.pid,
        "job": death.job,
        "operand": death.operand,
        "what": death.what and f"operand {death.what}",
        "how": death.why,
        "peak": death.peak,
        "cap": death.cap,
        "seconds": monotonic() - death.time,
    }
    return found


def process_state(pid: int) -> str:
    """State of a process by /proc, in words: runs, sleeps, stopped, frozen, waits for a disk, is gone."""
    vital = vitals([pid])[pid]
    if vital is not Vital.RUNS:
        return _VITALS[vital]
    try:
        with open(f"/proc/{pid}/stat") as file:
            letter = file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "is gone"
    return _STATES.get(letter, "runs")


def _worker(execution: ExecutionActor, worker: Worker) -> WorkerStatus:
    found: WorkerStatus = {
        "name": worker.name,
        "pid": worker.link.pid,
        "process": process_state(worker.link.pid) if worker.link.pid else "",
        "state": worker.state or ("idle" if worker.link.pid else "starting"),
        "job": "",
        "operand": -1,
        "what": "",
        "seconds": 0.0,
        "usual": 0.0,
        "behind": 0,
    }
    if worker.batches and worker.batches[0].operands:
        batch = worker.batches[0]
        table, operand = batch.table, batch.operands[0]
        found["job"], found["operand"], found["what"] = table.job, operand, _words(table, operand)
        found["state"] = worker.state or ("busy" if not execution.memory.outputs.waits(worker.index) else "asks")
        found["seconds"] = max(0.0, monotonic() - worker.since)
        number = execution.dispatch.programs.number_of(table, operand)
        found["usual"] = execution.ledger.estimate.known(number)
        found["behind"] = worker.running - 1
    return found


def _words(table: JobTable, operand: int) -> str:
    row = table.program[operand]
    return f"operand {table.programs[row].name}" if row >= 0 else "a stored chunk"


def _waits(execution: ExecutionActor, request: AllocationRequest) -> QueueStatus:
    """A request for memory, and the bytes that it lacks."""
    chunks = execution.chunks
    known = [one for one in request.chunks if chunks.is_here(one) or one in chunks.elsewhere]
    sizes = list(map(chunks.size, known))
    missing = [chunks.size(one) for one in known if one not in chunks.memory]
    lacks = sum(map(_pages, missing))
    if request.size is not None and request.slot < 0:
        lacks += _pages(request.size)
    if not request.promised:
        lacks += request.scratch
    table, operand = execution.memory.admission.owner(request)
    return {
        "job": table.job if table is not None else "",
        "operand": operand,
        "what": request.what.removeprefix("the "),
        "needs": sum(map(_pages, sizes)) + _pages(request.size or 0) + request.scratch,
        "lacks": lacks,
    }


def _pages(size: int) -> int:
    return -(-size // PAGE) * PAGE


def _memory(execution: ExecutionActor, tables: Sequence[JobTable]) -> MemoryStatus:
    """Bytes of all slots, by holder."""
    memory, chunks = execution.memory, execution.chunks
    size_of = memory.arena.size_of
    held = {table.job: 0 for table in tables}
    kept = viewed = 0
    spans = [(table.base, table.base + len(table.chunk), table.job) for table in tables]
    for chunk, offset in chunks.memory.items():
        size = size_of(offset)
        viewed += size if chunk in chunks.pins else 0
        for first, end, job in spans:
            if first <= chunk < end:
                held[job] += size
                break
        else:
            kept += size
    for worker in execution.workers:  # slots that running operands write into
        for batch in worker.batches:
            held[batch.table.job] = held.get(batch.table.job, 0) + sum(size_of(slot) for slot in batch.outs if slot)
    return {
        "capacity": memory.arena.capacity,
        "used": memory.arena.used,
        "jobs": held,
        "kept": kept,
        "viewed": viewed,
        "promised": memory.quota.granted - memory.process_room,
        "graphs": memory.process_room,
    }
