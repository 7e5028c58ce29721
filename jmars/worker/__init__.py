"""The workers of one host: memory, dispatch and processes put together, and served to the scheduler and to clients.

- execution.py: puts the three rooms together (ExecutionActor)
- chunk_events.py: reports events of chunks to the scheduler by operand (ChunkEventReporter)
- host_status.py: status of this host at one moment
- store.py: lets clients read and write chunks in place (StoreActor)
- chunk_transfer.py: sends and receives chunks as messages (ChunkTransferActor)
- recovery_snapshot.py: tells a new scheduler what this host holds (RecoverySnapshot)
- remote_scheduler.py: the port of a scheduler in another process (RemoteScheduler)
"""

from jmars.processes.zygote import Zygote, start_zygote
from jmars.worker.execution import ExecutionActor

__all__ = ["ExecutionActor", "Zygote", "start_zygote"]
