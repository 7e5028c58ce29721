"""The workers of a host: memory, dispatch and processes put together, and served to the scheduler and to clients.

- execution.py: puts memory, dispatch and processes together (ExecutionActor); replaces processes (ProcessSupervisor)
- host_status.py: status of this host
- store.py: lets clients read and write chunks in place (StoreActor)
- chunk_exchange.py: moves chunks between this host and others (ChunkExchange)
- remote_scheduler.py: the port of a scheduler in a separate process (RemoteScheduler)
"""

from jmars.processes.zygote import Zygote, start_zygote
from jmars.worker.execution import ExecutionActor

__all__ = ["ExecutionActor", "Zygote", "start_zygote"]
