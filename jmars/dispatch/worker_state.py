"""The executors of a host as the control process sees them: what each was sent, and which programs it knows.

`Worker` and `Batch` are plain records that `execution` fills and empties; `Programs` numbers programs over all jobs, so
that each is sent to each executor once and compiled there once; `StopFlags` are words by which executors are stopped.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import cloudpickle

from jmars.errors import ClusterError
from jmars.memory.buffer_manager import AllocationRequest
from jmars.model.messages import JobTable
from jmars.processes.links import ChildLink
from jmars.storage.arena import HEADER

__all__ = ["Batch", "Programs", "StopFlags", "Worker"]

CALM = 2**26  # bytes that a process may have for itself before anybody has looked
REMEMBERED = 1000  # programs that are kept between jobs
REMEMBERED_BYTES = 2**24  # of their pickles: functions of users may bring arrays along


class Batch:
    """Operands of one job that one executor was sent, in order, and the slots of their outputs; 0 for none yet."""

    __slots__ = ("asking", "cap", "capped", "ends_unsized", "is_copy", "operands", "outs", "seconds", "table", "twin")

    def __init__(self, table: JobTable) -> None:
        self.table = table
        self.operands: deque[int] = deque()
        self.outs: deque[int] = deque()
        self.ends_unsized = False  # its last operand may ask for a slot; nothing is sent behind it until it has one
        self.asking: AllocationRequest | None = None  # the first operand is computed and waits for a slot
        self.twin: Batch | None = None  # the same operands on another worker: who is first with one of them counts
        self.capped = False  # some of it are functions of the user's, held to what they were granted
        self.cap = 0  # bytes that one of them may take at most
        self.seconds = 0.0  # that it should take
        self.is_copy = False  # the second of the two: the scheduler does not know of it


class Worker:
    """One executor process; it keeps its index and name when the process is replaced."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.name = f"worker-{index}"
        self.link: ChildLink
        self.batches: deque[Batch] = deque()
        self.known: set[int] = set()  # programs that the process has
        self.done = 0
        self.restarts = 0
        self.since = 0.0  # monotonic: when it last reported, or was sent what it runs
        self.state = ""  # what is wrong with it, as WorkerMoved tells it: suspect, stopped, fenced; it is sent nothing
        self.returning = False  # a batch was taken back and the process has not seen that yet; it is sent nothing
        self.kept = 0  # bytes that users' functions have left behind in the process
        self.calm = CALM  # bytes that the process had for itself when it ran no function of a user's
        self.debris: list[int] = []  # slots that the process may still write, free when it is gone

    @property
    def running(self) -> int:
        """Operands sent and not reported yet."""
        return sum(len(batch.operands) for batch in self.batches)


@dataclass(frozen=True)
class Death:
    """A process that ended.

    Attributes
    ----------
    operand, what
        What it ran, by number and name; -1 for nothing.
    how
        signal, exit, memory, stopped or cancelled.
    why
        The same in words.
    peak, cap
        The most bytes that it had in memory, shared memory counted, and the most that a user's function might take; 0
        where that is not known.
    time
        By the monotonic clock.
    """

    worker: str
    pid: int
    job: str
    operand: int
    what: str
    how: str
    why: str
    peak: int
    cap: int
    time: float


class Programs:
    """Numbers of programs, the same for equal ones of all jobs."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self.known: list[Any] = []  # by number
        self._of_job: dict[int, list[int]] = {}  # job number: numbers of its table's programs
        self._sizes: dict[int, int] = {}  # bytes of the pickles of those that were sent
        self._rows: dict[int, list[tuple[int, bool, bool]]] = {}  # job number: what `rows` gives

    def open_job(self, table: JobTable) -> None:
        """Number the programs of a job; raises what a user's object raises that it hashes."""
        numbers = self._numbers
        self._of_job[table.number] = [numbers.setdefault(program, len(numbers)) for program in table.programs]
        self._rows[table.number] = [
            (number, program.has_unsized, program.runs_user_code)
            for number, program in zip(self._of_job[table.number], table.programs, strict=True)
        ]
        if len(numbers) > len(self.known):
            self.known = list(numbers)

    def close_job(self, table: JobTable) -> bool:
        """Let go of a job; returns whether all numbers were forgotten, so that executors must forget too."""
        del self._of_job[table.number], self._rows[table.number]
        few = len(self._numbers) <= REMEMBERED and sum(self._sizes.values()) <= REMEMBERED_BYTES
        if self._of_job or few:
            return False
        self._numbers.clear()
        self._sizes.clear()
        self.known = []
        return True

    def numbers(self, table: JobTable) -> list[int]:
        """The number of each row of the job's programs."""
        return self._of_job[table.number]

    def rows(self, table: JobTable) -> list[tuple[int, bool, bool]]:
        """For each row of the job's programs its number, whether it is loose, and whether it calls a user's function.

        Loose is what reads or gives chunks whose size is known only by running.
        """
        return self._rows[table.number]

    def make_known(self, worker: Worker, number: int, table: JobTable, row: int) -> None:
        """Send a program to an executor that has not got it."""
        if number not in worker.known:
            blob = cloudpickle.dumps(table.programs[row])
            self._sizes[number] = len(blob)
            worker.known.add(number)
            worker.link.send(("program", number, blob))


class StopFlags:
    """The words of the arena's header, one lent to each open job: 1 tells executors to stop it.

    A job keeps its word until it is closed, when none of its operands runs; no two open jobs share one.
    """

    def __init__(self, header: memoryview) -> None:
        self._words = header[:HEADER].cast("I")
        self._free = list(range(len(self._words)))
        self._word: dict[int, int] = {}  # job number: its word

    def check(self) -> None:
        """Raise ClusterError when all words are lent."""
        if not self._free:
            raise ClusterError(f"{len(self._words)} jobs are open on this cluster; wait for some, or cancel them")

    def open_job(self, number: int) -> None:
        """Lend a word to a job; raises ClusterError when all are lent."""
        self.check()
        word = self._word[number] = self._free.pop()
        self._words[word] = 0

    def close_job(self, number: int) -> None:
        """Take a job's word back."""
        self._free.append(self._word.pop(number))

    def stop(self, number: int) -> None:
        """Tell executors to stop a job."""
        self._words[self._word[number]] = 1

    def word(self, number: int) -> int:
        """Which word tells a job to stop."""
        return self._word[number]

    def close(self) -> None:
        """Let go of the memory."""
        self._words.release()
