"""A session whose life is written to a journal, so that another process can go on with it.

Wraps SessionActor: what clients do and what workers report is noted as it happens, jobs as they are submitted, opened
and ended. Asks may come twice, when a scheduler died before it answered: tickets tell. `resuming` reads it all back.
What a client is told stands in the journal before: where the disk has no room, answers wait with it.
Source: docs/decisions/0027-scheduler-apart.md; seed 003, "未来工作" (fail-over of the scheduler).
"""

from __future__ import annotations

import asyncio
import hashlib
import marshal
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jmars.model.messages import JobTable, Raised
from jmars.scheduler.graph import GraphActor
from jmars.scheduler.journal import Journal
from jmars.scheduler.service import SessionActor

__all__ = ["JournaledSession", "digest_of_table"]

LONGEST = 64 * 2**20  # bytes of a journal that is not made shorter

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class JournaledSession:
    """What a host reaches of a scheduler apart, under the name "session"; other methods are SessionActor's own."""

    def __init__(self, session: SessionActor, journal: Journal) -> None:
        self._session, self._journal = session, journal
        self.tickets: dict[str, str] = {}  # of submissions: their jobs
        self.longest = LONGEST
        self._reports: dict[str, dict[str, Any]] = {}  # of ended jobs
        self._held: dict[str, list[int]] = {}  # by jobs that began anew
        self._untold: set[str] = set()  # ended jobs whose end is not written yet
        self.structures: set[bytes] = set()  # whose graphs are in the journal

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)
        return getattr(self._session, method)

    # -- what clients do
    def submit(
        self,
        blob: bytes,
        name: str,
        settings: dict[str, Any],
        ticket: str = "",
        structure: bytes = b"",
        bound: Sequence[Any] | None = None,
    ) -> str | Awaitable[str]:
        """As SessionActor's; the same ticket gives the same job."""
        if ticket in self.tickets:
            return self._when_written(self.tickets[ticket])
        job = self._session.submit(blob, name, settings, ticket, structure, bound)
        if bound is not None and structure not in self.structures:
            self.structures.add(structure)
            self._journal.note("structure", structure, blob, settings)
        whole = (blob, settings) if bound is None else None
        self._note_job(job, ticket, structure, bound, whole)
        return self._when_written(job)

    def again(self, structure: bytes, bound: Sequence[Any], name: str, ticket: str = "") -> str | Awaitable[str]:
        """As SessionActor's; the same ticket gives the same job."""
        if ticket in self.tickets:
            return self._when_written(self.tickets[ticket])
        if structure not in self.structures:
            return ""  # it could not be run again by who comes after us
        job = self._session.again(structure, bound, name, ticket)
        if job:
            self._note_job(job, ticket, structure, bound, None)
        return self._when_written(job)

    def cancel(self, job: str) -> None:
        """As SessionActor's."""
        self._journal.note("cancel", job)
        self._session.cancel(job)

    def withdraw(self, ticket: str) -> None:
        """As SessionActor's."""
        self._journal.note("withdraw", ticket)
        self._session.withdraw(ticket)

    def keep(self, key: str, first: int, count: int) -> str | Awaitable[str]:
        """As SessionActor's; the same chunks may come twice."""
        if self._session.meta.tensors.get(key) != list(range(first, first + count)):
            self._journal.note("keep", key, first, count)
            self._session.keep(key, first, count)
        return self._when_written(key)

    def drop(self, keys: Sequence[str]) -> None:
        """As SessionActor's."""
        self._journal.note("drop", list(keys))
        self._session.drop(keys)

    # -- what workers report
    def finished(
        self,
        job: str,
        operands: list[int],
        worker: int,
        sizes: Mapping[int, tuple[int, ...]] | None = None,
        microseconds: Sequence[int] = (),
    ) -> None:
        """As SessionActor's."""
        self._journal.note("finished", job, _packed(operands), worker, sizes, _packed(microseconds))
        self._session.finished(job, operands, worker, sizes, microseconds)

    def failed(self, job: str, operand: int, worker: int, error: Raised) -> None:
        """As SessionActor's."""
        self._journal.note("failed", job, operand, error)
        self._session.failed(job, operand, worker, error)

    def lost(self, job: str, operands: list[int], worker: int, why: str, how: str = "signal") -> None:
        """As SessionActor's."""
        self._journal.note("lost", job, _packed(operands), why, how)
        self._session.lost(job, operands, worker, why, how)

    def chunks_lost(self, chunks: list[int], why: str) -> None:
        """As SessionActor's."""
        self._journal.note("chunks_lost", list(chunks), why)
        self._session.chunks_lost(chunks, why)

    def missing(self, job: str, operands: list[int], chunks: list[int], why: str) -> None:
        """As SessionActor's."""
        self._journal.note("chunks_lost", list(chunks), why)
        self._session.missing(job, operands, chunks, why)

    # -- what happens here
    def opening(self, table: JobTable) -> None:
        """A job, or its next stage, is about to be opened on the workers."""
        self._journal.note("open", table.job, table.number, table.base, len(table.program), digest_of_table(table))

    def ended(self, report: dict[str, Any], tell: Callable[[], None]) -> None:
        """A job has ended; written before anybody hears of it by `tell`."""
        graph = self._session.graph(report["job"])
        self._journal.note("end", report, *_left(graph, self._session))
        self._untold.add(graph.job)
        self._journal.when_written(lambda: self._tell_end(report, tell))

    def untold(self, job: str) -> str:
        """Why nobody is told of a job's end yet, or (of "") why clients wait at all; "" where nobody does."""
        waits = job in self._untold if job else self._journal.trouble
        return f"the scheduler's journal {self._journal.trouble}" if waits else ""

    def known_end(self, report: dict[str, Any]) -> None:
        """A job had ended with this report before we were there."""
        self._reports[report["job"]] = report

    def compact(self) -> None:
        """Where nothing runs and the journal is long, let it tell only what still matters.

        Graphs are not among that: who runs one again is asked to send it once more.
        """
        if self._journal.size < self.longest or self._session.active or self._journal.trouble:
            return
        self._reports = {job: one for job, one in self._reports.items() if self._session.remembers(job) is not None}
        ticket_of = {job: ticket for ticket, job in self.tickets.items() if job in self._reports}
        self.tickets = {ticket: job for job, ticket in ticket_of.items()}
        meta = self._session.meta
        told: list[tuple[Any, ...]] = []
        for job, report in self._reports.items():
            graph = self._session.graph(job)
            told.append(("job", job, graph.number, graph.name, ticket_of.get(job, ""), b"", None, None))
            told.append(("end", report, graph.over(), {}, {}))
        shapes = {
            chunk: meta.shapes[chunk] for chunks in meta.tensors.values() for chunk in chunks if chunk in meta.shapes
        }
        told += [("tensors", dict(meta.tensors), shapes)]
        if self._journal.begin_again(told):
            self.structures.clear()

    def begin_anew(
        self,
        job: str,
        name: str,
        ticket: str,
        blob: bytes,
        settings: dict[str, Any],
        structure: bytes,
        bound: Sequence[Any] | None,
        held: list[int],
    ) -> None:
        """Run a job from its beginning under its old id; `held` are chunks to be let go of at its end."""
        graph = self._session.revived(job, self._session.number + 1, name, ticket)
        self._held[job] = held
        self._note_job(job, ticket, structure, bound, (blob, settings) if bound is None else None)
        self._session.prepare(graph, blob, settings, structure, bound)
        self._journal.flush()

    def _note_job(
        self, job: str, ticket: str, structure: bytes, bound: Sequence[Any] | None, whole: tuple[bytes, Any] | None
    ) -> None:
        graph = self._session.graph(job)
        self._journal.note("job", job, graph.number, graph.name, ticket, structure, bound, whole)
        if ticket:
            self.tickets[ticket] = job

    def _tell_end(self, report: dict[str, Any], tell: Callable[[], None]) -> None:
        job, meta = report["job"], self._session.meta
        self._untold.discard(job)
        self._session.around.port.free_chunks(meta.release(self._held.pop(job, [])))
        self._reports[job] = report
        tell()

    def _when_written(self, answer: str) -> str | Awaitable[str]:
        """An answer, as soon as who comes after us would give the same."""
        self._journal.flush()
        if not self._journal.trouble:
            return answer
        written: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._journal.when_written(lambda: None if written.done() else written.set_result(answer))
        return written


def digest_of_table(table: JobTable) -> bytes:
    """16 bytes that are equal where a graph was compiled to the same operands under the same numbers."""
    programs = [_ADDRESS.sub("", repr(program)) for program in table.programs]
    rows = [programs, list(table.program), [list(row) for row in table.inputs], list(table.nbytes), list(table.stored)]
    return hashlib.blake2b(marshal.dumps(rows, 2), digest_size=16).digest()


def _left(graph: GraphActor, session: SessionActor) -> tuple[dict[str, Any], dict[str, list[int]], dict[int, Any]]:
    """What an ended job tells of itself, the tensors that it left by key, and shapes of their chunks."""
    meta = session.meta
    tensors = {key: meta.tensors[key] for key in graph.results if key in meta.tensors}
    shapes = {chunk: meta.shapes[chunk] for chunks in tensors.values() for chunk in chunks if chunk in meta.shapes}
    return graph.over(), tensors, shapes


def _packed(numbers: Sequence[int]) -> bytes:
    return np.array(numbers, "<u4").tobytes()
