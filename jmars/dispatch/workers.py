"""Workers and batches as the control process sees them: plain records of dispatch.

A worker is a place where operands run; the executor process may be replaced. `ExecutorLink` is the part of a process
that dispatch uses.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from jmars.model.messages import JobTable

if TYPE_CHECKING:
    from jmars.memory.device_slots import DeviceSlots

__all__ = ["DISCARDED", "GIVEN_UP", "GPU_NAME", "RECYCLED", "WARMING", "Batch", "ExecutorLink", "Worker"]

# States of a worker that dispatch sets; supervision sets others. A worker with a state is sent no batch.
DISCARDED = "discarded"  # its process is killed since its results are not needed; no operand is to blame
WARMING = "warming up"  # its process opens a GPU
GIVEN_UP = "given up"  # its GPU cannot be used, or its processes ended again and again while they opened the GPU
GPU_NAME = "gpu-"  # how names of workers with a GPU begin
RECYCLED = "recycled"  # its process is replaced between two batches, for the memory that it needed or retained


class ExecutorLink(Protocol):
    """An executor process."""

    pid: int  # 0 until it runs
    how: str  # how it ended
    peak: int  # most bytes that it had in memory; 0 until it has ended

    def send(self, message: Any) -> None:
        """Send an order."""

    def post(self) -> None:
        """Let the executor begin a further batch."""

    def revoke(self) -> bool:
        """Revoke the last batch unless the executor has begun; returns whether the batch was revoked."""

    def unsend(self) -> None:
        """Drop all orders if the process does not run yet."""

    def silence(self) -> None:
        """Ignore further reports."""

    def kill(self, how: str = "") -> None:
        """Kill the process."""


class Batch:
    """Operands of a job that an executor was sent, in order, and the slots of their outputs; 0 for no slot.

    Attributes
    ----------
    ends_unsized
        Whether no batch follows until this one has ended: the last operand asks for a slot, few operands wait, or the
        process ends with the batch.
    duplicate
        The same operands on another worker; the first of the two to finish one of them counts.
    is_copy
        Whether this is the speculative copy, which the scheduler does not know.
    on_device
        Whether the operands run on a GPU.
    capped
        Whether some operands call user functions, whose memory is capped.
    cap
        Bytes that one of them may take at most.
    seconds
        Predicted run time.
    """

    __slots__ = (
        "cap", "capped", "duplicate", "ends_unsized", "is_copy", "on_device", "operands", "outs", "seconds", "table"
    )  # fmt: skip

    def __init__(self, table: JobTable, on_device: bool = False) -> None:
        self.on_device = on_device
        self.table = table
        self.operands: deque[int] = deque()
        self.outs: deque[int] = deque()
        self.ends_unsized = self.capped = self.is_copy = False
        self.duplicate: Batch | None = None
        self.cap = 0
        self.seconds = 0.0


class Worker:
    """A worker; index and name stay when the process is replaced.

    Attributes
    ----------
    batches
        Sent and not reported yet, the oldest first.
    known
        Numbers of the programs that the process has.
    done, restarts
        Operands finished, and processes replaced, since the start.
    since
        Monotonic time of the last report, or when the running batch was sent.
    state
        Why the worker is sent no batch; "" if it is well.
    revoking
        Whether a batch was revoked and the process has not seen that yet; it is sent no batch until then.
    offered, accepts
        Whether the process was offered operands and has not answered yet; whether it has, and takes operands now.
    has_gpu
        Whether the process has a GPU.
    is_warm
        Whether the process has opened its GPU, or found that it cannot.
    slots
        Slots in the GPU's memory; None without a GPU, and until the GPU is warm.
    gpu_name
        Name of the GPU for people; "" until it is warm.
    gpu_bytes
        Bytes of the GPU's memory for chunks; 0 without a GPU that can be used. Stays while a new process warms up.
    quarantined
        Slots that the process may still write; they are freed when it has ended.
    """

    def __init__(self, index: int, name: str = "") -> None:
        self.index = index
        self.name = name or f"worker-{index}"
        self.has_gpu = name.startswith(GPU_NAME)
        self.is_warm = False
        self.slots: DeviceSlots | None = None
        self.gpu_name = ""
        self.gpu_bytes = 0
        self.link: ExecutorLink
        self.batches: deque[Batch] = deque()
        self.known: set[int] = set()
        self.done = self.restarts = 0
        self.since = 0.0
        self.state = ""
        self.revoking = self.offered = self.accepts = False
        self.quarantined: list[int] = []

    @property
    def running(self) -> int:
        """Number of operands sent and not reported yet."""
        return sum(len(batch.operands) for batch in self.batches)
