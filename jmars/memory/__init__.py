"""The memory of a host: slots for chunks and scratch, admission of operands, eviction.

- gathering.py: concatenates parts of many chunks in an operand's private memory (Gathers)
- buffer_manager.py: loads inputs, evicts chunks, serves the allocation queue (BufferManager)
- quota.py: scratch memory promised to running operands (Quota)
- dynamic_outputs.py: slots for results of a size known only after running (DynamicOutputs)
- admission.py: admits operands with memory for inputs, output and scratch (Admission)
- device_memory.py: admits operands to GPUs, and brings chunks down from there (DeviceMemory)
- host_memory.py: the interface that other folders call (HostMemory)
"""

from jmars.memory.admission import MemoryEvents
from jmars.memory.host_memory import HostMemory

__all__ = ["HostMemory", "MemoryEvents"]
