"""The workers of one host: memory, dispatch and processes put together, and served to the scheduler and to clients.

execution.py          coordinates every operand on a host (ExecutionActor)
open_jobs.py          the open jobs, and the host as its parts see it (OpenJobs, WorkerContext)
admission.py          admits operands whose inputs, output and scratch have memory (Admission)
dynamic_outputs.py    slots for results whose size is known only after running (DynamicOutputs)
retained_memory.py    bounds the memory that users' functions retain between calls (RetainedMemory)
graph_room.py         memory that graphs take in the control process (GraphRoom)
dispatcher.py         fills the workers' windows with batches (Dispatcher)
report_handler.py     acts on the reports of executors (ReportHandler)
speculation.py        revokes batches of busy workers and starts speculative copies (SpeculativeExecution)
supervision.py        starts, watches and replaces the processes of a host (ProcessSupervisor)
chunk_events.py       reports events of chunks to the scheduler by operand (ChunkEventReporter)
host_status.py        status of this host at one moment
memory_levels.py      bytes on each level of memory
store.py              lets clients read and write chunks in place (StoreActor)
recovery_snapshot.py  tells a new scheduler what this host holds (RecoverySnapshot)
remote_scheduler.py   the port of a scheduler in another process (RemoteScheduler)
chunk_transfer.py     sends and receives chunks as messages (ChunkTransferActor)
"""

from jmars.processes.zygote import Zygote, start_zygote
from jmars.worker.execution import ExecutionActor

__all__ = ["ExecutionActor", "Zygote", "start_zygote"]
