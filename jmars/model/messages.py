"""Messages between scheduler, workers and clients: tables of jobs, orders, reports, submissions, failures.

Scheduler and workers import neither side; both hold a port. Calls are orders or reports, may come in batches, name job
and operands by dense numbers, and answer nothing. So the two may live in a single process, where a report may come
before the order has returned, or in two. Reports keep their order.

Orders to a host's workers from a scheduler in a separate process are frozen records, a class per method of WorkerPort.

Reports of a host's workers to the scheduler are frozen records too. The receiver chooses the handler by the record's
class. Lists are by batch, so a record is made per batch, not per operand. Operands are numbered within their job;
worker -1 means none. Reports keep their order; a report that comes twice or too late has no effect.

A client sends a `Submission` to start a job, from `SentGraphs.start` to `ClientSession.submit`. `ClientSession` keeps
the result descriptors, `SessionActor.submit` starts the job. NumPy arrays of the graph travel before the record
(client/sent_graphs.py). For a graph of a known structure the GraphActor gets the prepared graph instead of the record.

In msgpack a record is an extension type of class name and fields. Only the classes listed here can be made from bytes.

A `Failure` is an exception as data, for the way from an executor over the scheduler to clients and into the journal.

Long messages between machines are compressed by zlib, with a bound on the memory of the reader.
Source: docs/explanation/seeds.md, "Execution control", "Submitting a job"; docs/explanation/seeds.md, "Execution
control" (an error of any step reaches one handler); RFC 1950.
"""

from __future__ import annotations

import math
import pickle
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol, get_args

import cloudpickle
import msgpack
import numpy as np
from msgspec import Struct
from msgspec.structs import astuple, replace

from jmars.errors import JmarsError, OperandError, ProtocolError, text_of


class JobTable(Struct, frozen=True):
    """The operands of a job as lists by operand, for the workers.

    Chunks are numbered over the whole cluster: operand `i` gives chunk `chunk[i]`, equal to `base + i` except for
    chunks stored before the job.
    """

    job: str
    number: int  # grows by one per job
    programs: list[Any]  # kernels.Program
    program: list[int]  # row in `programs`, -1 for a stored chunk
    inputs: Sequence[Sequence[int]]  # operands, in the order of the program's inputs
    args: list[tuple[Any, ...]] | None
    base: int
    chunk: list[int]
    nbytes: list[int]
    work: list[int]  # bytes of scratch
    rank: list[int]  # lower first
    kept: int  # bytes of chunks that outlive the job
    stored: Sequence[int]  # operands whose chunk was stored before the job
    readers: Sequence[Sequence[int]]  # operands that read each chunk
    results: Sequence[int] = ()  # operands whose chunks outlive the job
    planned: Sequence[int] = ()  # worker planned for each operand, -1 for none; empty where all share a memory
    tight: bool = False  # whether its chunks may not fit in memory together, so that order goes before place
    late: bool = False  # each operand is offered to all workers, and the first free worker takes it
    pinned: dict[int, int] = {}  # operand: the only worker that may run it
    ephemeral: bool = False  # a process computes a single operand of the job, and ends
    push: bool = False  # the host of a planned reader reads a chunk as soon as the chunk is there
    chains: bool = False  # a worker may take a reader with the operands that it alone reads, before they have run
    device: bytes = b""  # by operand, `plan_graph.GPU` or `GPU_ONLY` for a GPU, else a core; empty for cores only

    def bytes_of(self, operand: int, shape: Sequence[int]) -> int:
        """Bytes of an operand's chunk with this shape."""
        return math.prod(shape) * int(self.programs[self.program[operand]].output.dtype.itemsize)


class WorkerPort(Protocol):
    """The workers of a host, as the scheduler sees them."""

    def open_job(self, table: JobTable) -> None:
        """Take the operands of a job, and run none yet.

        An exception leaves no change; workers in a separate process report Refused with operand -1 instead.
        """

    def enqueue_graph(self, job: str, operands: Sequence[int], workers: Sequence[int]) -> None:
        """Run ready operands on the workers chosen for them."""

    def stop_execution(self, job: str) -> None:
        """Drop queued operands of a job and stop running operands; running operands are reported as interrupted or
        finished.
        """

    def replan(self, job: str, rank: Sequence[int], workers: Sequence[int], slow: Sequence[int]) -> None:
        """Give operands of a job new ranks, and waiting operands new workers (-1: as before).

        The slow workers take only operands that are planned for them.
        """

    def close_job(self, job: str) -> None:
        """Forget a job after its last running operand; then report JobClosed, the job's last report."""

    def free_chunks(self, chunks: Sequence[int]) -> None:
        """Give the memory or file of chunks back."""


class ReportPort(Protocol):
    """The workers' view of the scheduler."""

    def report(self, report: Report) -> None:
        """Hand a record to the scheduler; the record's class chooses the handler."""


class OpenJob(Struct, frozen=True):
    """Take the operands of a job, and run none yet."""

    job: str
    table: bytes  # a pickled JobTable
    size: int = 0  # bytes of the pickle if compressed, else 0


class EnqueueGraph(Struct, frozen=True):
    """Run ready operands on the workers chosen for them."""

    job: str
    operands: Sequence[int]
    workers: Sequence[int]


class StopExecution(Struct, frozen=True):
    """Drop queued operands of a job and stop running operands."""

    job: str


class Replan(Struct, frozen=True):
    """Give operands new ranks and workers."""

    job: str
    rank: Sequence[int]
    workers: Sequence[int]  # -1: as before
    slow: Sequence[int]  # workers that run planned operands only


class Rerank(Struct, frozen=True):
    """Give all operands of a job new ranks; their workers stay."""

    job: str
    rank: bytes  # by operand, as `int_planes` packs them
    size: int = 0  # bytes before compression; 0 if not compressed


class CloseJob(Struct, frozen=True):
    """Forget a job after its last running operand."""

    job: str


class FreeChunks(Struct, frozen=True):
    """Give the memory or file of chunks back; operands may still read those that count as lost."""

    chunks: Sequence[int]
    lost: bool = False


class LocateChunks(Struct, frozen=True):
    """Other hosts have chunks that operands of the next orders read."""

    chunks: Sequence[int]
    nbytes: Sequence[int]  # of each chunk
    hosts: Sequence[Sequence[int]]  # hosts that have each chunk, the preferred host first
    shapes: Mapping[int, Sequence[int]] | None = None  # by chunk, where only the run told the shape
    ahead: bool = False  # read them now, if there is room, before an operand asks for them


class KeepChunks(Struct, frozen=True):
    """The originals of chunks are lost: keep the copies; ChunksLost names missing copies."""

    chunks: Sequence[int]


class TakeBack(Struct, frozen=True):
    """Give up those of some operands that wait for a worker; OperandsReturned names them."""

    job: str
    operands: Sequence[int]


_AboutJobs = OpenJob | EnqueueGraph | StopExecution | Replan | Rerank | CloseJob | TakeBack
Order = _AboutJobs | FreeChunks | KeepChunks | LocateChunks
ORDERS: tuple[type, ...] = get_args(Order)


class Started(Struct, frozen=True):
    """A worker took operands."""

    job: str
    operands: Sequence[int]
    worker: int


class Finished(Struct, frozen=True):
    """Chunks of operands are stored."""

    job: str
    operands: Sequence[int]
    worker: int
    shapes: Mapping[int, tuple[int, ...]] | None = None  # by operand, of chunks of unknown shape
    microseconds: Sequence[int] = ()  # of each operand


class Timed(Struct, frozen=True):
    """Time of operands in the four states of a worker; comes right before Finished."""

    job: str
    operands: Sequence[int]
    worker: int
    microseconds: Sequence[bytes]  # of ALLOCATING, PREPARING_INPUTS, CALCULATING, STORING: uint32 LE; b"" where all 0
    backends: Sequence[tuple[int, str]] = ()  # (row of a program, its back end), each row once in a job


class Warned(Struct, frozen=True):
    """Floating point errors of operands, that NumPy would warn of; comes before Finished or Failed."""

    job: str
    operands: Sequence[int]
    errors: Sequence[tuple[int, int, int]]  # `kernels.FloatError` of each of them: step, node, bit


OUT, ERR, LEFT_OUT = "o", "e", "-"  # kinds of printed lines: of standard output and error, and lines left out


class PrintedLine(NamedTuple):
    """A line that a function printed, logged or warned of; or the number of lines that were left out."""

    kind: str  # OUT, ERR or LEFT_OUT
    file: str  # of the user's code that ran; "" where unknown
    line: int  # in that file; with LEFT_OUT a number of lines
    text: str


class Printed(Struct, frozen=True):
    """Functions of a job printed lines; `live` is the line that is not complete, "" for none."""

    job: str
    worker: int
    lines: Sequence[tuple[str, str, int, str]]  # fields of PrintedLine
    live: str


class Failed(Struct, frozen=True):
    """An operand raised."""

    job: str
    operand: int
    worker: int
    failure: Failure


class Interrupted(Struct, frozen=True):
    """Operands were stopped before their end, as ordered or because an operand before them in the batch failed."""

    job: str
    operands: Sequence[int]
    worker: int


class WorkerLost(Struct, frozen=True):
    """A worker died while operands ran; none of them is done. An operand that ran alone is to blame.

    `how` is "signal", "exit", "memory" (ended by the kernel or the host for memory), "stopped" (ended for not
    answering) or "gpu" (its GPU lost its context while no function of a user ran). `deaths` counts the workers: an
    engine may try an operand several times before it gives up.
    """

    job: str
    operands: Sequence[int]
    worker: int
    why: str
    how: str = "signal"
    deaths: int = 1


class Spilled(Struct, frozen=True):
    """Chunks of operands went to disk, or came back."""

    job: str
    operands: Sequence[int]
    on_disk: bool


class Refused(Struct, frozen=True):
    """An operand can never run on this host; with operand -1 the job could not be opened, and is not open."""

    job: str
    operand: int
    failure: Failure


class GpuRefused(Struct, frozen=True):
    """A GPU cannot run the first of several operands with the same program: cores run all operands that are left."""

    job: str
    operands: Sequence[int]
    worker: int
    why: str


class ChunksLost(Struct, frozen=True):
    """Stored chunks are gone: a file is damaged or missing. Operands that waited for them follow as InputsMissing."""

    chunks: Sequence[int]
    why: str


class OperandsReturned(Struct, frozen=True):
    """A host gave up operands that waited, as ordered; for the port that joins hosts, which sends them elsewhere."""

    job: str
    operands: Sequence[int]


class ChunksCopied(Struct, frozen=True):
    """Copies of chunks of other hosts are in memory; for the port that joins hosts, and not passed on."""

    chunks: Sequence[int]


class ChunksKept(Struct, frozen=True):
    """Chunks of a leaving host are kept by the host of `worker` now."""

    chunks: Sequence[int]
    worker: int


class InputsMissing(Struct, frozen=True):
    """Operands cannot run because input chunks are not here; the operands hold no memory now."""

    job: str
    operands: Sequence[int]
    chunks: Sequence[int]
    why: str


class JobClosed(Struct, frozen=True):
    """The host has forgotten a job, as ordered; comes exactly once, and as the job's last report."""

    job: str
    measured: dict[str, Any]  # makespan, peak, spilled, moved: for the last JobMoved


class JobBroken(Struct, frozen=True):
    """The host failed for a job by a fault of jmars (`errors.fault_of`); the job is to be closed."""

    job: str
    why: str


class WorkerMoved(Struct, frozen=True):
    """A worker process came, went or was replaced."""

    worker: int
    name: str
    pid: int
    state: str
    gpu_bytes: int = 0  # bytes for chunks of a GPU that has become warm; -1 if it cannot be used; 0: other news


JobReport = (
    Started | Finished | Warned | Failed | Interrupted | WorkerLost | Spilled | Refused | InputsMissing | JobClosed
)
HostReport = (
    Timed | Printed | GpuRefused | ChunksLost | ChunksCopied | ChunksKept | OperandsReturned | JobBroken | WorkerMoved
)
Report = JobReport | HostReport
REPORTS: tuple[type, ...] = get_args(Report)


class Submission(Struct, frozen=True):
    """A tensor graph and how to run it.

    Attributes
    ----------
    graph
        Pickled TensorGraph; empty to run the graph that was submitted before under the same `structure`.
    name
        Name of the job for people; "" to use the job's id.
    settings
        Task configuration, as `jmars.config.task` has it.
    ticket
        The client's own name of the submission: two submissions with one ticket are one job.
    structure, bindings
        Digest of a canonical graph, and the keys and lines of this one (tensor/structure.py); b"" and
        None for a graph that is not canonical.
    results
        (single, descriptors) of the job's results, for clients that attach to the job (client/job_registry.py).
    values
        (value key, bytes of an element) of each result, b"" without a key (client/kept_values.py). Later jobs find the
        value of a key of 16 bytes as long as the cluster keeps it, of a longer one as long as a client holds it.
    """

    graph: bytes
    name: str = ""
    settings: Mapping[str, Any] = {}
    ticket: str = ""
    structure: bytes = b""
    bindings: Sequence[Any] | None = None
    results: Sequence[Any] | None = None
    values: Sequence[tuple[bytes, int]] = ()


class Failure(Struct, frozen=True):
    """Error of an operand or a job.

    Attributes
    ----------
    name, text
        Class name and message of the exception.
    traceback
        Formatted frames of the user's code; empty for errors of jmars itself.
    pickled
        The exception, pickled; empty where it cannot be pickled.
    where
        The operand in words, with the user's line.
    member
        Number of the fused operand that raised; -1 where no operand was fused.
    is_transient
        Whether a retry may succeed: OSError, MemoryError, or a connection that was lost.
    is_final
        Whether no retry can succeed, since jmars itself refused: an operand that has not enough memory, for instance.
    in_user_code
        Whether code of the user ran when it was raised, and not only jmars and NumPy.

    Examples
    --------
    >>> failure = Failure.of(ZeroDivisionError("by 0"), "the operand divide in cell 3, line 1")
    >>> str(failure)
    'ZeroDivisionError: by 0'
    >>> failure.exception()
    ZeroDivisionError('by 0')
    """

    name: str
    text: str
    traceback: str = ""
    pickled: bytes = b""
    where: str = ""
    member: int = -1
    is_transient: bool = False
    is_final: bool = False
    in_user_code: bool = False

    @classmethod
    def of(cls, error: BaseException, where: str = "") -> Failure:
        """Failure of an exception; never raises."""
        try:
            pickled = cloudpickle.dumps(error)
        except BaseException:  # pickling a user's exception class may raise any exception
            pickled = b""
        return cls(type(error).__name__, text_of(error), "", pickled, where, is_final=isinstance(error, JmarsError))

    def at(self, where: str) -> Failure:
        """The same failure with a place."""
        return replace(self, where=where)

    def unpickled(self) -> BaseException | None:
        """The original exception; None where it cannot be unpickled here."""
        if not self.pickled:
            return None
        try:
            loaded = pickle.loads(self.pickled)
        except Exception:  # the class is not known in this process
            return None
        return loaded if isinstance(loaded, BaseException) else None

    def exception(self) -> Exception:
        """An exception to raise, with notes about operand and traceback; OperandError where the original is lost.

        A user's SystemExit or KeyboardInterrupt becomes an OperandError too, since it would end the kernel.
        """
        original = self.unpickled()
        revived = original if isinstance(original, Exception) else OperandError(f"{self.name}: {self.text}")
        with suppress(Exception):  # a user's exception may forbid notes
            if self.where and not self.text.startswith(self.where):
                revived.add_note(f"in {self.where}")
            if self.traceback:
                revived.add_note(f"on the worker:\n{self.traceback.rstrip()}")
        return revived

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


CODE = 1  # of the msgpack extension type
DEEPEST = 8  # records within each other

_CLASSES: dict[str, Any] = {one.__name__: one for one in (Submission, Failure, *REPORTS, *ORDERS)}


def pack_record(record: Any) -> msgpack.ExtType:
    """A record as an extension type: msgpack's `default` hook; raises TypeError for other objects."""
    cls = type(record)
    if _CLASSES.get(cls.__name__) is not cls:
        raise TypeError(f"cannot send a {cls.__name__}: it is neither plain data nor a record")
    fields = [cls.__name__, *astuple(record)]
    body: bytes = msgpack.packb(fields, default=pack_record, use_bin_type=True, unicode_errors="surrogatepass")
    return msgpack.ExtType(CODE, body)


def unpack_record(code: int, body: bytes) -> Any:
    """The record of an extension type: msgpack's `ext_hook`; raises ValueError for other types.

    Lists of the record come back as lists, lists within them as tuples.

    Examples
    --------
    >>> from jmars.model.messages import Started
    >>> unpack_record(CODE, pack_record(Started("job-1", [3, 4], 0)).data)
    Started(job='job-1', operands=[3, 4], worker=0)
    """
    return _unpack(0, code, body)


def _unpack(depth: int, code: int, body: bytes) -> Any:
    """The record of an extension type within so many others."""
    if code != CODE:
        raise ValueError(f"extension type {code} is not a record")
    if depth == DEEPEST:  # thousands would overflow the stack of the process, whoever sent them
        raise ValueError(f"a record lies within {depth} others")
    name, *fields = msgpack.unpackb(
        body, ext_hook=_HOOKS[depth], use_list=False, strict_map_key=False, unicode_errors="surrogatepass"
    )
    cls = _CLASSES.get(name)
    if cls is None:
        raise ValueError(f"there is no record {name!r}")
    return cls(*[list(value) if type(value) is tuple else value for value in fields])


_HOOKS = [partial(_unpack, depth + 1) for depth in range(DEEPEST)]


WORTH = 2**18  # bytes; compression of a larger message takes less time than it saves, for two readers at 1 Gbit/s
LARGEST = 2**30  # bytes of a message before compression
FAST = 1  # zlib's level: shrinks tables of operands to a quarter, and higher levels no further


def compressed(data: bytes) -> tuple[bytes, int]:
    """Data to send, and the size before compression; 0 for short data, which is not compressed.

    Raises
    ------
    ProtocolError
        If the data is larger than readers take.

    Examples
    --------
    >>> sent, size = compressed(bytes(10**6))
    >>> len(sent) < 10**4, decompressed(sent, size) == bytes(10**6)
    (True, True)
    >>> compressed(b"short")
    (b'short', 0)
    """
    if len(data) < WORTH:
        return data, 0
    if len(data) > LARGEST:
        raise ProtocolError(f"a message of {len(data)} bytes is over the limit of {LARGEST}; submit smaller graphs")
    return zlib.compress(data, FAST), len(data)


def decompressed(data: bytes, size: int) -> bytes:
    """The data before compression; never takes more than `size` bytes.

    Raises
    ------
    ProtocolError
        If the data is damaged, or not of this size.
    """
    if not 0 < size <= LARGEST:
        raise ProtocolError(f"a message claims {size} bytes before compression, and the limit is {LARGEST}")
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(data, size + 1)  # room to see the end, or that there is more
    except zlib.error as error:
        raise ProtocolError(f"a compressed message is damaged: {error}") from error
    if len(found) != size or not stream.eof or stream.unused_data:
        raise ProtocolError(f"a compressed message has not the {size} bytes that it claims")
    return found


def int_planes(values: Sequence[int]) -> bytes:
    """Numbers of 32 bits, first all lowest bytes, then all second bytes, and so on, for better compression.

    Examples
    --------
    >>> int_planes([1, 2, 258]).hex(" ", 3)
    '010202 000001 000000 000000'
    """
    return np.ascontiguousarray(np.asarray(values, "<i4").view("u1").reshape(-1, 4).T).tobytes()


def from_int_planes(data: bytes) -> list[int]:
    """The numbers of `int_planes`.

    Raises
    ------
    ProtocolError
        If these are not whole numbers.

    Examples
    --------
    >>> from_int_planes(int_planes([5, -1, 70000]))
    [5, -1, 70000]
    """
    if len(data) % 4:
        raise ProtocolError(f"{len(data)} bytes are no numbers of 4 bytes")
    found: list[int] = np.ascontiguousarray(np.frombuffer(data, "u1").reshape(4, -1).T).view("<i4")[:, 0].tolist()
    return found
