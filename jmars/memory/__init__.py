"""The memory of a host: slots for chunks and scratch, admission of operands, eviction.

- next_use.py: next use of each chunk, for Belady eviction (NextUse)
- device_slots.py: slots in the memory of a GPU, and chunks that leave it
- allocation_requests.py: entries of the allocation queue, and the back-off of a full disk
- chunk_reads.py: chunks on their way into memory, from files and from other hosts (ChunkReads)
- gathering.py: concatenates parts of many chunks in an operand's private memory (Gathers)
- mover_link.py: sends orders to the mover process and counts the time (MoverLink)
- size_checks.py: errors of requests that cannot fit
- active_operands.py: operands that hold memory now (ActiveOperands)
- buffer_manager.py: loads inputs, evicts chunks, serves the allocation queue (BufferManager)
- lost_chunks.py: chunks that count as lost while operands read them (LostChunks)
- quota.py: scratch memory promised to running operands (Quota)
- udf_memory.py: decides how much memory a user's function is promised (UdfMemoryPolicy)
- retained_memory.py: accounts for memory retained by user functions (RetainedMemory)
- graph_room.py: memory that graphs take in the control process (GraphRoom)
- dynamic_outputs.py: slots for results of a size known only after running (DynamicOutputs)
- events.py: calls from this folder upwards (MemoryEvents)
- admission.py: admits operands with memory for inputs, output and scratch (Admission)
- device_memory.py: admits operands to GPUs, and brings chunks down from there (DeviceMemory)
- memory_levels.py: bytes on each level of memory
- host_memory.py: the interface that other folders call (HostMemory)
"""

from jmars.memory.events import MemoryEvents
from jmars.memory.host_memory import HostMemory

__all__ = ["HostMemory", "MemoryEvents"]
