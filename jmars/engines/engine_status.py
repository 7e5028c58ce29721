"""Status of an engine's workers for `why`: the groups that run, operands that wait, bytes that are kept."""

from __future__ import annotations

from time import monotonic

from jmars.engines.engine_job import EngineJob
from jmars.engines.port import EngineRow, EngineWorkers
from jmars.engines.running_group import RunningGroup
from jmars.model.status import DeathStatus, HostStatus, WorkerStatus

__all__ = ["engine_status"]

REMEMBERED = 20  # workers that left, of which is told


def engine_status(workers: EngineWorkers) -> HostStatus:
    """Status of the engine now."""
    running, results = workers.running(), workers.results
    return {
        "workers": [_worker(row, running.get(row.number, [])) for row in workers.here],
        "queued": {job.table.job: job.waiting() for job in workers.jobs},
        "line": [],
        "waiting": {},
        "reading": [],
        "memory": {
            "capacity": sum(row.worker.memory for row in workers.here),
            "used": results.used,
            "jobs": {},
            "kept": results.used,
            "viewed": 0,
            "promised": 0,
            "graphs": 0,
        },
        "disk": {"writes": 0, "reads": 0, "nbytes": 0, "seconds": 0.0, "full": ""},
        "deaths": [_left(row) for row in sorted(workers.rows, key=lambda row: row.left)[-REMEMBERED:] if not row.here],
    }


def _left(row: EngineRow) -> DeathStatus:
    return {
        "worker": row.worker.name,
        "pid": row.pid or 0,
        "job": "",
        "operand": -1,
        "what": "",
        "how": f"ended by the engine or its owner ({row.why})",
        "peak": 0,
        "cap": 0,
        "seconds": monotonic() - row.left,
    }


def _worker(row: EngineRow, running: list[tuple[EngineJob, RunningGroup]]) -> WorkerStatus:
    found: WorkerStatus = {
        "name": row.worker.name,
        "pid": row.pid or 0,
        "process": "",
        "state": "idle",
        "job": "",
        "operand": -1,
        "what": "",
        "seconds": 0.0,
        "usual": 0.0,
        "behind": 0,
    }
    if running:
        job, group = min(running, key=lambda one: one[1].since)
        operand = job.operand_of(group)
        name = job.table.programs[job.table.program[operand]].name
        found |= {"state": "busy", "job": job.table.job, "operand": operand, "what": f"operand {name}"}
        found["seconds"] = monotonic() - group.since
        found["behind"] = len(group.plan.operands) - 1
    return found
