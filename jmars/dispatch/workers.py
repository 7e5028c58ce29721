"""Workers and batches as the control process sees them: plain records of dispatch.

A worker is a place where operands run; the executor process may be replaced.

Programs are numbered over all jobs, so that an executor receives and compiles a program once. A stop flag is a 32-bit
word in the arena's header per open job; 1 tells executors to stop the job. A job keeps the stop flag until the job is
closed, when no operand runs; no two open jobs share a flag.
Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import cloudpickle

from jmars.errors import ClusterError
from jmars.model.limits import REMEMBERED_PROGRAMS
from jmars.model.messages import JobTable
from jmars.processes.executor_messages import PROGRAM, LoadProgram
from jmars.processes.links import ChildLink
from jmars.storage.arena import REMOVALS

if TYPE_CHECKING:
    from jmars.memory.device_memory import DeviceSlots

# States of a worker set by dispatch; supervision sets further states. A worker with a state gets no batch.
DISCARDED = "discarded"  # its process is killed since its results are not needed; no operand is to blame
WARMING = "warming up"  # its process opens a GPU
GIVEN_UP = "given up"  # its GPU cannot be used, or its processes ended again and again while they opened the GPU
GPU_NAME = "gpu-"  # prefix of names of workers with a GPU
RECYCLED = "recycled"  # its process is replaced between two batches, for memory that it needed or retained


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
    loads
        Whether the process may load libraries: a program of the batch is new, and no operand has ended since.
    cap
        Bytes that one of them may take at most.
    seconds
        Predicted run time.
    """

    __slots__ = (
        "cap", "capped", "duplicate", "ends_unsized", "is_copy", "loads", "on_device", "operands", "outs", "seconds",
        "table",
    )  # fmt: skip

    def __init__(self, table: JobTable, on_device: bool = False) -> None:
        self.on_device = on_device
        self.table = table
        self.operands: deque[int] = deque()
        self.outs: deque[int] = deque()
        self.ends_unsized = self.capped = self.is_copy = self.loads = False
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
        self.link: ChildLink
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


REMEMBERED_BYTES = 2**24  # of their pickles: functions of users may bring arrays along


class ProgramTable:
    """Numbers of programs; equal programs of all jobs have the same number.

    Attributes
    ----------
    known
        All programs, by number.
    """

    def __init__(self) -> None:
        self.known: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._of_job: dict[int, list[int]] = {}  # job number: numbers of its table's programs
        self._sizes: dict[int, int] = {}  # bytes of the pickles of programs that were sent
        self._rows: dict[int, list[tuple[int, bool, bool, int]]] = {}  # job number: result of `rows`
        self._backends: dict[int, str] = {}  # by number, as executors report
        self._told: dict[int, set[int]] = {}  # job number: rows whose back end `backends` has returned

    def open_job(self, table: JobTable) -> None:
        """Number the programs of a job; the hash of a user's object may raise."""
        numbers = self._numbers
        self._of_job[table.number] = [numbers.setdefault(program, len(numbers)) for program in table.programs]
        self._told[table.number] = set()
        self._rows[table.number] = [
            (number, program.has_unsized, program.runs_user_code, program.waits)
            for number, program in zip(self._of_job[table.number], table.programs, strict=True)
        ]
        if len(numbers) > len(self.known):
            self.known = list(numbers)

    def close_job(self, table: JobTable) -> bool:
        """Forget a job; returns whether all numbers were forgotten, so that executors must forget too."""
        del self._of_job[table.number], self._rows[table.number], self._told[table.number]
        most = max(REMEMBERED_PROGRAMS, 2 * len(table.programs))  # a large job that runs again finds its own
        few = len(self._numbers) <= most and sum(self._sizes.values()) <= REMEMBERED_BYTES
        if self._of_job or few:
            return False
        self._numbers.clear()
        self._sizes.clear()
        self._backends.clear()
        self.known = []
        return True

    def numbers(self, table: JobTable) -> list[int]:
        """Numbers of the rows of the job's programs."""
        return self._of_job[table.number]

    def rows(self, table: JobTable) -> list[tuple[int, bool, bool, int]]:
        """(Number, is loose, calls a user's function, calls begun ahead) of the rows of the job's programs.

        A loose program reads or gives chunks of unknown size.
        """
        return self._rows[table.number]

    def number_of(self, table: JobTable, operand: int) -> int:
        """Number of an operand's program."""
        return self._of_job[table.number][table.program[operand]]

    def compiled(self, backends: Sequence[tuple[int, str]]) -> None:
        """Note the back ends of programs that an executor has compiled."""
        self._backends.update(backends)

    def backends(self, table: JobTable, operands: Sequence[int]) -> list[tuple[int, str]]:
        """(Row in the job's programs, back end) of these operands' programs; each row once in a job."""
        told = self._told[table.number]
        if len(told) == len(table.programs):
            return []
        numbers = self._of_job[table.number]
        fresh = {row for row in map(table.program.__getitem__, operands) if numbers[row] in self._backends} - told
        told |= fresh
        return [(row, self._backends[numbers[row]]) for row in sorted(fresh)]

    def make_known(self, worker: Worker, number: int, table: JobTable, row: int) -> None:
        """Send a program to an executor unless sent before."""
        if number not in worker.known:
            blob = cloudpickle.dumps(table.programs[row])
            self._sizes[number] = len(blob)
            worker.known.add(number)
            worker.link.send(LoadProgram(PROGRAM, number, blob))


class StopFlags:
    """The stop flags of open jobs."""

    def __init__(self, header: memoryview) -> None:
        self.words = header[:REMOVALS].cast("I")
        self._free = list(range(len(self.words)))
        self._index: dict[int, int] = {}  # of the flag, by job number
        self._jobs: dict[int, int] = {}  # job number, by index

    def check(self) -> None:
        """Raise ClusterError if no flag is free."""
        if not self._free:
            raise ClusterError(f"{len(self.words)} jobs are open on this cluster; wait for some, or cancel them")

    def open_job(self, number: int) -> None:
        """Give a job a flag; raises ClusterError if none is free."""
        self.check()
        index = self._index[number] = self._free.pop()
        self.words[index], self._jobs[index] = 0, number

    def close_job(self, number: int) -> None:
        """Take a job's flag back."""
        index = self._index.pop(number)
        del self._jobs[index]
        self._free.append(index)

    def stop(self, number: int) -> None:
        """Set the flag of a job."""
        self.words[self._index[number]] = 1

    def job_at(self, index: int) -> int | None:
        """Number of the job with a flag; None for a free flag."""
        return self._jobs.get(index)

    def index(self, number: int) -> int:
        """Index of a job's flag, as executors get it."""
        return self._index[number]


class OpenJobs:
    """Jobs that the scheduler opened and has not closed.

    Attributes
    ----------
    stopping
        Numbers of jobs whose operands were told to stop.
    ending
        Names of jobs to close as soon as none of their operands runs.
    tight
        Numbers of jobs whose chunks may not fit in memory together.
    slow
        By job number, workers that take only operands planned for them.
    suspects
        (Job number, operand) of operands that ran when a worker died; each runs alone.
    """

    def __init__(self, header: memoryview) -> None:
        self.by_number: dict[int, JobTable] = {}
        self.by_name: dict[str, JobTable] = {}
        self.stopping: set[int] = set()
        self.ending: set[str] = set()
        self.tight: set[int] = set()
        self.slow: dict[int, frozenset[int]] = {}
        self.suspects: set[tuple[int, int]] = set()
        self.flags = StopFlags(header)
        self.programs = ProgramTable()

    def open(self, table: JobTable) -> None:
        """Open a job; too many jobs raise ClusterError; a user's hash may raise; both change no state."""
        self.flags.check()
        self.programs.open_job(table)
        self.flags.open_job(table.number)
        self.by_number[table.number] = self.by_name[table.job] = table
        if table.tight:
            self.tight.add(table.number)

    def close(self, table: JobTable) -> bool:
        """Forget a job; returns whether executors must forget all programs."""
        number = table.number
        self.ending.discard(table.job)
        del self.by_name[table.job], self.by_number[number]
        self.tight.discard(number)
        self.slow.pop(number, None)
        self.stopping.discard(number)
        self.suspects = {suspect for suspect in self.suspects if suspect[0] != number}
        self.flags.close_job(number)
        return self.programs.close_job(table)

    def stop(self, table: JobTable) -> None:
        """Have executors stop a job."""
        self.flags.stop(table.number)
        self.stopping.add(table.number)

    def is_slow(self, worker: int) -> bool:
        """Whether a worker takes only operands planned for that worker."""
        return any(worker in slow for slow in self.slow.values())
