"""Numbers programs over all jobs, so that an executor receives and compiles a program once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cloudpickle

from jmars.dispatch.workers import Worker
from jmars.model.limits import REMEMBERED_PROGRAMS
from jmars.model.messages import JobTable
from jmars.processes.executor_messages import PROGRAM, LoadProgram

__all__ = ["ProgramTable"]

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
        self._rows: dict[int, list[tuple[int, bool, bool]]] = {}  # job number: result of `rows`
        self._backends: dict[int, str] = {}  # by number, as executors report
        self._told: dict[int, set[int]] = {}  # job number: rows whose back end `backends` has returned

    def open_job(self, table: JobTable) -> None:
        """Number the programs of a job; the hash of a user's object may raise."""
        numbers = self._numbers
        self._of_job[table.number] = [numbers.setdefault(program, len(numbers)) for program in table.programs]
        self._told[table.number] = set()
        self._rows[table.number] = [
            (number, program.has_unsized, program.runs_user_code)
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

    def rows(self, table: JobTable) -> list[tuple[int, bool, bool]]:
        """(Number, is loose, calls a user's function) of the rows of the job's programs.

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
