"""The memory of a host: which chunk, operand or client has it, and which waits for it.

next_use.py              next use of each chunk, for Belady eviction (NextUse)
allocation_requests.py   entries of the allocation queue, and the back-off of a full disk
gathering.py             concatenates parts of many chunks into one operand's private memory (Gathers)
mover_link.py            sends orders to the mover process and counts its time (MoverLink)
buffer_manager.py        loads inputs, evicts chunks, and serves the allocation queue (BufferManager)
quota.py                 scratch memory promised to running operands (Quota)
udf_memory.py            decides how much memory a user's function is promised (UdfMemoryPolicy)
"""
