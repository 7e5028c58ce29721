"""Messages between the control process and an executor, as named tuples that travel as plain arrays.

Orders: `LoadProgram` and `ForgetPrograms` change the programs of an executor; `RunBatch` runs operands in order;
`GrantSlot` answers a `NeedsSlot`; an executor that runs nothing answers an `OfferWork` by ACCEPTED. An executor sends
an `ExecutorReport` after every few milliseconds of work, and for every reason to stop before the end of a batch.

A fixed-size operand travels as (program, output offset, input offsets, args). An operand with chunks of unknown size
travels as (program, (output offset, its bytes), [(input offset, shape or None)], args); output offset 0 means no slot,
input offset -1 - k the output of operand k of the same batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jmars.model.messages import Failure

PROGRAM, FORGET, RUN, PLACE, OFFER = "program", "forget", "run", "place", "offer"  # kinds of orders
RUN_ON_DEVICE, COPY_DOWN = "run on device", "copy down"
GPU_LOST = 86  # exit status after a lost context of the GPU
# Kinds of stops. INTERRUPTED, REVOKED and ACCEPTED have no further fields.
FAILED, INTERRUPTED, UNSIZED, REVOKED, MEMORY, RETAINED, ACCEPTED = (
    "failed",
    "interrupted",
    "unsized",
    "revoked",
    "memory",
    "retained",
    "accepted",
)
REFUSED_BY_GPU = "refused by GPU"
DEVICE, COPIED_DOWN = "device", "copied down"  # of stops that belong to no batch


class LoadProgram(NamedTuple):
    """Compile a program under a number."""

    kind: str  # PROGRAM
    number: int
    pickled: bytes


class ForgetPrograms(NamedTuple):
    """Drop all programs; numbers start again."""

    kind: str  # FORGET


class RunBatch(NamedTuple):
    """Run operands in order."""

    kind: str  # RUN
    stop_flag: int  # index of the job's stop flag (dispatch/workers.py)
    operands: Sequence[tuple[Any, ...]]
    caps: Sequence[tuple[int, bool] | None] | None  # (bytes, whether to measure) of operands with user functions


class RunOnDevice(NamedTuple):
    """Run operands in order on the GPU of this executor; their programs have fixed sizes.

    An operand is (program, output offset, input offsets, args, grant), the offsets in shared memory: output offset 0
    for an output that stays on the GPU alone, input offset -1 for an input that is there. The grant is (places of the
    inputs in the slab, their chunks, place of the output, its chunk, place of scratch).
    """

    kind: str  # RUN_ON_DEVICE
    stop_flag: int
    operands: Sequence[tuple[Any, ...]]


class CopyDown(NamedTuple):
    """Copy a chunk of the GPU to shared memory; the answer is a `CopiedDown`."""

    kind: str  # COPY_DOWN
    chunk: int
    place: int  # in the slab
    slot: int
    nbytes: int


class OfferWork(NamedTuple):
    """Operands wait for the first of several executors that is about to run one."""

    kind: str  # OFFER


class GrantSlot(NamedTuple):
    """A slot for the computed result; slot 0 drops the result, with an error if there is a reason."""

    kind: str  # PLACE
    slot: int
    why: str


class NeedsSlot(NamedTuple):
    """The next operand is computed and needs a slot."""

    kind: str  # UNSIZED
    nbytes: int


class DeviceReady(NamedTuple):
    """The GPU of this executor is warm; belongs to no batch."""

    kind: str  # DEVICE
    slab: int  # bytes for chunks; 0 if the GPU cannot be used
    seconds: float  # of the warm-up
    name: str
    why: str  # reason why the GPU cannot be used; "" if it can


class CopiedDown(NamedTuple):
    """A chunk is in shared memory; belongs to no batch."""

    kind: str  # COPIED_DOWN
    chunk: int
    error: str  # "" for none


class RetainedBytes(NamedTuple):
    """Bytes that user functions left allocated; belongs to no batch."""

    kind: str  # RETAINED
    nbytes: int
    imported: bool  # whether modules were imported since the last report


class OperandFailed(NamedTuple):
    """The next operand raised; the rest of the batch is dropped."""

    kind: str  # FAILED
    failure: Failure


class RefusedByGpu(NamedTuple):
    """The GPU cannot run the next operand; the rest of the batch is dropped."""

    kind: str  # REFUSED_BY_GPU
    failure: Failure


class MemoryExceeded(NamedTuple):
    """The next operand's function exceeded the cap; the rest of the batch is dropped."""

    kind: str  # MEMORY
    failure: Failure
    peak: int  # bytes
    cap: int
    certain: bool  # False if an import raised another error: with all memory it may succeed


class ExecutorReport(NamedTuple):
    """The next operands of the oldest batch are done; `stop` tells why the batch goes no further, if so.

    `shapes`, `peaks` and `stored` refer to operands by their place in this report.
    """

    finished: int  # number of operands
    microseconds: Sequence[int]  # of each operand, without waiting for a core
    fresh: float  # bytes that each operand was the first to touch
    waited: float  # microseconds that they waited for a core
    stop: Any  # a tuple whose first field is a kind of stop; None for no stop
    shapes: Sequence[tuple[int, Any]]  # of chunks of unknown size
    peaks: Sequence[tuple[int, int]] = ()  # bytes, where memory was measured
    stored: Sequence[tuple[int, int, int]] = ()  # µs of storing with the wait for a slot, and without
    backends: Sequence[tuple[int, str]] = ()  # programs compiled since the last report, each with its back end
    moved: Sequence[int] = ()  # bytes copied to and from the GPU by each operand; empty without a GPU
    copies: tuple[int, float] = (0, 0.0)  # bytes of large copies to and from the GPU, and their seconds
    warned: Sequence[tuple[int, ...]] = ()  # place of an operand (also of the next), fields of its FloatError
