"""The workers of a host: memory, dispatch and processes put together, and served to the scheduler and to clients.

- execution.py: puts memory, dispatch and processes together (ExecutionActor)
- chunk_events.py: reports events of chunks to the scheduler by operand (ChunkEventReporter)
- host_status.py: status of this host
- store.py: lets clients read and write chunks in place (StoreActor)
- chunk_transfer.py: sends and receives chunks as messages (ChunkTransferActor)
- chunk_pieces.py: takes large chunks in pieces (ChunkPiecesActor)
- chunk_keeping.py: keeps chunks of a host that leaves (ChunkKeepingActor)
- carrier_link.py: the control process's end of the carrier (CarrierLink)
- chunk_exchange.py: moves chunks between this host and others (ChunkExchange)
- serving.py: serves chunks to other hosts, without memory of its own (ServingActor)
- recovery_snapshot.py: tells a new scheduler the state of this host (RecoverySnapshot)
- remote_scheduler.py: the port of a scheduler in a separate process (RemoteScheduler)
"""

from jmars.processes.zygote import Zygote, start_zygote
from jmars.worker.execution import ExecutionActor

__all__ = ["ExecutionActor", "Zygote", "start_zygote"]
