"""Numbers that several floors must agree on, such as batch sizes, slot sizes and how many ended jobs are remembered."""

from __future__ import annotations

import mmap

# batches: the dispatcher fills them, plans predict them
WINDOW = 2  # batches of an executor at a time: a running batch, and a batch that waits in the executor
BATCH_OPERANDS = 100  # largest number of operands of a batch
BATCH_SECONDS = 0.005  # time that a batch should take
GPU_OPERANDS = 4  # operands of a GPU's batch, which may take longer: a run's copies overlap the next run's kernels
REPORT_SECONDS = 0.005  # a longer batch reports finished operands meanwhile
WAITS_BEHIND = 0.2  # seconds, run or predicted; no batch waits behind a longer operand

# slots of the arena: the allocator gives them out, plans count them
PAGE = mmap.PAGESIZE  # bytes
SMALLEST_SLOT = 64  # bytes

# small results: they travel with the report of their job's end and stay in the client
SMALL_RESULT = 2**14  # bytes of a result, at most
REPORTED_BYTES = 2**22  # of a report, at most; later results of the job are fetched

# ended jobs: scheduler, host and clients answer for the same jobs
REMEMBERED_JOBS = 50

# caches by program or expression in all processes: bounded, for a kernel whose cells are ever new
REMEMBERED_PROGRAMS = 256

# plans: value of moving or spilling all bytes, relative to the lower bound of the makespan
TRAFFIC_WEIGHT = 0.3


def slot_size(size: int) -> int:
    """Bytes of the slot for a chunk of `size` bytes: a power of two up to half a page, then whole pages.

    Examples
    --------
    >>> [slot_size(size) for size in (0, 8, 100, PAGE // 2, PAGE // 2 + 1)] == [64, 64, 128, PAGE // 2, PAGE]
    True
    """
    return _SMALL_SLOTS[size] if size <= PAGE // 2 else -(-size // PAGE) * PAGE


_SMALL_SLOTS = [max(SMALLEST_SLOT, 1 << (size - 1).bit_length() if size > 1 else 1) for size in range(PAGE // 2 + 1)]
KEPT_SHARE = 4  # of the memory for chunks: the part for tensors that no user asked to keep
