"""Numbered records of events.

An event is a plain list `[seq, time, kind, job, data]`, ready for msgpack. `seq` counts events of a cluster, `time` is
seconds since the epoch, `job` is a job's id or "", and `data` is a dict that depends on the kind;
docs/reference/events.md lists the fields. The scheduler's event log writes events; the notebook folds them.
"""

from __future__ import annotations

from typing import Any

Event = list[Any]

JOB_SUBMITTED = "JobSubmitted"  # {name}
JOB_MOVED = "JobMoved"  # {state, error, elapsed}, and {measured} at the end
JOB_PREPARED = "JobPrepared"  # {phases: (name, seconds) of compile, rank, place, rows}; not where a plan is used again
GRAPH_BUILT = "GraphBuilt"  # the graph before and after fusion, once per job
OPERANDS_MOVED = "OperandsMoved"  # {state, ids: uint32 little-endian bytes, worker}
OPERANDS_SPREAD = "OperandsSpread"  # {operands: how many each shard of the scheduler has}; where there are several
CHUNKS_LOST = "ChunksLost"  # {chunks, operands that run again therefore, why}
SCHEDULER_MOVED = "SchedulerMoved"  # {name, state, pid}: of a scheduler process: "running", "restarted", "lost", …
WORKER_MOVED = "WorkerMoved"  # {worker, name, pid, state}
HOST_MOVED = "HostMoved"  # {host, name, state: "joined", "suspect", "back", "leaving", "left" or "lost", why}
CHUNKS_MOVED = "ChunksMoved"  # {from, to: hosts, chunks, bytes, seconds}; at most ten a second while jobs run
LINE_WARNED = "LineWarned"  # {line: (file, number, text) or None, text}: a floating point error, told when the job ends
LINK_MEASURED = "LinkMeasured"  # {from, to: hosts, bandwidth, latency, transport, why}; at first, then at each change
MEMORY_CHANGED = (
    "MemoryChanged"  # {used, resident, spilled, spilled_total, reloaded_total, limit, peak, device, workers, hosts}
)
GPU_REFUSED = "GpuRefused"  # {worker, operands: uint32 bytes, why}: cores run them, since that GPU cannot
REPLANNED = "Replanned"  # {why, speed of each worker, makespan of the rest and before (s), slow: workers}
STALLED = "Stalled"  # {kind, text, seconds, calm}: reason why the job has not moved for so long; empty text: it moves
EXPECTED = "Expected"  # {left}: seconds that the running stage may still need; about once a second
OPERANDS_TIMED = "OperandsTimed"  # {ids, worker, microseconds: uint32 bytes for each state of a worker, backends}
