"""Numbers that several floors must agree on, such as batch sizes, slot sizes and how many ended jobs are remembered."""

from __future__ import annotations

import mmap

# batches: the dispatcher fills them, plans predict them
WINDOW = 2  # batches of an executor at a time: one runs, one waits beside it
BATCH_OPERANDS = 100  # largest number of operands of a batch
BATCH_SECONDS = 0.005  # time that a batch should take
GPU_OPERANDS = 4  # of a GPU's batch that may take longer: copies of one run beside the kernels of another
REPORT_SECONDS = 0.005  # a longer batch reports finished operands meanwhile
WAITS_BEHIND = 0.2  # seconds, run or predicted, from which no batch waits behind an operand

# slots of the arena: the allocator gives them out, plans count them
PAGE = mmap.PAGESIZE  # bytes
SMALLEST_SLOT = 64  # bytes

# ended jobs: scheduler, host and clients answer for the same ones
REMEMBERED_JOBS = 50

# caches by program or expression in all processes: a kernel whose cells are ever new stays flat behind so many
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
