"""Append-only file that lets a scheduler resume the work of a dead scheduler.

A record is msgpack behind length and checksum, so that a record cut short by the process's death is left out. Records
are written at the end of the event loop's turn, and before any answer to a client. Where the disk has no room they
wait in memory, and so do the answers; the work goes on. The file is not synced to disk: the file need only outlive the
process, since all chunks are lost with the machine. A record costs 0.3 to 0.4 µs an operand.

JournaledSession: a SessionActor with journaled calls and reports, so that the next process can resume.

Calls may come twice, when a scheduler died before the answer: a ticket joins them. `resuming` reads the journal.
Clients get an answer only after the journal has the record: where the disk has no room, answers wait.
Source: docs/decisions/0027-scheduler-apart.md; docs/explanation/seeds.md, "Future work".
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import marshal
import os
import pickle
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgpack
from msgspec.structs import replace

from jmars.actors import remote_method
from jmars.errors import StorageError
from jmars.model.messages import (
    ChunksLost,
    Failed,
    Finished,
    InputsMissing,
    JobTable,
    Report,
    Submission,
    Warned,
    WorkerLost,
    pack_record,
    unpack_record,
)
from jmars.scheduler.graph_actor import GraphActor
from jmars.scheduler.scheduler_context import EndedStage
from jmars.scheduler.session_actor import SessionActor

log = logging.getLogger("jmars.scheduler")

RETRY_SECONDS = 0.25  # between two tries to write on a full disk

_HEAD = struct.Struct("<II")  # bytes of the record, and their CRC-32
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Journal:
    """Writer of a journal.

    Parameters
    ----------
    path
        Its file, made with mode 0600 if it is not there.
    later
        Calls a function soon, when what happens now has happened.
    after
        Calls a function after so many seconds; None where nobody waits for room, and a full disk is an error.

    Attributes
    ----------
    size
        Bytes of the file.
    trouble
        Why what was noted last is not in it yet; "" where all is.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     journal = Journal(path := os.path.join(folder, "journal"), later=lambda call: None)
    ...     journal.note("drop", ["t-1"])
    ...     journal.close()
    ...     list(read_journal(path))
    [('drop', ('t-1',))]
    """

    def __init__(
        self,
        path: str,
        later: Callable[[Callable[[], None]], Any],
        after: Callable[[float, Callable[[], None]], Any] | None = None,
    ) -> None:
        self._path, self._later, self._after = path, later, after
        self.trouble = ""
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self.size = _cut_torn_end(path, self._fd)
        self._waiting: list[bytes] = []
        self._answers: list[Callable[[], None]] = []  # what happens once all is written
        self._retrying = False

    def note(self, *record: Any) -> None:
        """Append a record, soon."""
        body: bytes = msgpack.packb(record, default=pack_record, use_bin_type=True, unicode_errors="surrogatepass")
        if not self._waiting:
            self._later(self.flush)
        self._waiting.append(_HEAD.pack(len(body), zlib.crc32(body)))
        self._waiting.append(body)

    def flush(self) -> None:
        """Write all noted records now; where there is no room, as soon as there is.

        Raises
        ------
        StorageError
            If it cannot be written.
        """
        data = b"".join(self._waiting)
        self._waiting.clear()
        try:
            while data:
                count = os.write(self._fd, data)
                data = data[count:]
                self.size += count
        except OSError as error:
            self._waiting.append(data)  # begins within a record, perhaps, of which the file has the rest
            self._refused(error)
            return
        self.trouble = ""
        answers, self._answers = self._answers, []
        for answer in answers:
            answer()

    def when_written(self, answer: Callable[[], None]) -> None:
        """Call `answer` when all that was noted is in the file: now, where the disk has room."""
        self._answers.append(answer)
        self.flush()

    def _refused(self, error: OSError) -> None:
        """Retry later after the disk took no more."""
        self.trouble = f"{self._path} cannot be written ({error.strerror}); make room in {os.path.dirname(self._path)}"
        if self._after is None or error.errno not in _NO_ROOM:
            raise StorageError(f"the journal {self.trouble}") from error
        if not self._retrying:
            self._retrying = True
            self._after(RETRY_SECONDS, self._retry)

    def _retry(self) -> None:
        self._retrying = False
        self.flush()

    def begin_again(self, records: Iterable[tuple[Any, ...]]) -> bool:
        """Replace the file by these records; a process that dies meanwhile leaves the old file.

        Returns whether that was possible: where there is no room for a second file, the old file stays.
        """
        self.flush()
        if self.trouble:  # half a record may be in the old file, and its other half belongs there
            return False
        beside = f"{self._path}.new"
        try:
            if os.path.exists(beside):
                os.unlink(beside)
            fresh = Journal(beside, lambda call: None)
        except OSError as error:
            log.warning("the journal stays long: %s", error)
            return False
        for record in records:
            fresh.note(*record)
        try:
            fresh.flush()
        except StorageError as error:
            log.warning("%s stays long: %s", self._path, error)
            os.close(fresh._fd)
            os.unlink(beside)
            return False
        os.replace(beside, self._path)
        os.close(self._fd)
        self._fd, self.size = fresh._fd, fresh.size
        return True

    def close(self) -> None:
        """Write all noted records, and close the file."""
        self.flush()
        os.close(self._fd)


def read_journal(path: str) -> Iterator[tuple[Any, ...]]:
    """Records of a journal, up to the first torn record; none where there is no file."""
    try:
        with open(path, "rb") as file:
            for body, _ in _bodies(file.read()):
                yield msgpack.unpackb(
                    body, ext_hook=unpack_record, use_list=False, strict_map_key=False, unicode_errors="surrogatepass"
                )
    except FileNotFoundError:
        return


def _bodies(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Bodies of whole records, with their ends."""
    at = 0
    while len(data) - at >= _HEAD.size:
        size, checksum = _HEAD.unpack_from(data, at)
        end = at + _HEAD.size + size
        body = data[at + _HEAD.size : end]
        if len(body) < size or zlib.crc32(body) != checksum:
            return
        yield body, end
        at = end


def _cut_torn_end(path: str, fd: int) -> int:
    """Cut half a record off the end, so that the next record follows a whole one; returns the remaining bytes."""
    with open(path, "rb") as file:
        ends = [end for _, end in _bodies(file.read())]
    size = ends[-1] if ends else 0
    os.ftruncate(fd, size)
    return size


LONGEST = 64 * 2**20  # bytes of a journal that is not made shorter
JOURNALED = Finished, Warned, Failed, WorkerLost, ChunksLost  # reports that a next scheduler acts on again

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class JournaledSession:
    """Calls of the actor "session", and reports, that a next scheduler needs; SessionActor answers the other calls."""

    def __init__(self, session: SessionActor, journal: Journal) -> None:
        self._session, self._journal = session, journal
        session.context.stage_ended, session.context.stage_values = self.stage_ended, self.stage_values
        self.tickets: dict[str, str] = {}  # of submissions: their jobs
        self.longest = LONGEST
        self._reports: dict[str, dict[str, Any]] = {}  # of ended jobs
        self._held: dict[str, list[int]] = {}  # by jobs that began anew
        self._unreported: set[str] = set()  # ended jobs whose end is not written yet
        self.structures: set[bytes] = set()  # whose graphs are in the journal

    # -- for clients
    @remote_method
    async def submit(self, submission: Submission) -> str:
        """As SessionActor's; the same ticket gives the same job."""
        if submission.ticket in self.tickets:
            return await self._written(self.tickets[submission.ticket])
        if not submission.graph and submission.structure not in self.structures:
            return ""  # the next scheduler could not run it again
        job = await self._session.submit(submission)
        if job:
            self._note_job(job, submission)
        return await self._written(job)

    @remote_method
    async def cancel(self, job: str) -> None:
        """As SessionActor's."""
        self._journal.note("cancel", job)
        await self._session.cancel(job)

    @remote_method
    def withdraw(self, ticket: str) -> None:
        """As SessionActor's."""
        self._journal.note("withdraw", ticket)
        self._session.withdraw(ticket)

    @remote_method
    async def keep(self, key: str, first: int, count: int) -> None:
        """As SessionActor's; the same chunks may come twice."""
        if self._session.meta.tensors.get(key) != list(range(first, first + count)):
            self._journal.note("keep", key, first, count)
            await self._session.keep(key, first, count)
        await self._written(key)

    @remote_method
    def drop(self, keys: Sequence[str]) -> None:
        """As SessionActor's."""
        self._journal.note("drop", list(keys))
        self._session.drop(keys)

    # -- what workers report
    def report(self, report: Report) -> None:
        """As SessionActor's."""
        if isinstance(report, InputsMissing):
            self._journal.note("report", ChunksLost(report.chunks, report.why))
        elif isinstance(report, JOURNALED):
            self._journal.note("report", report)
        self._session.report(report)

    # -- what happens here
    def opening(self, table: JobTable) -> None:
        """Note that a job, or its next stage, is about to be opened on the workers."""
        self._journal.note("open", table.job, table.number, table.base, len(table.program), digest_of_table(table))

    def stage_ended(self, job: str, stage: int, ended: EndedStage) -> None:
        """Note the chunks and lengths of a stage before the workers hear of the end of the stage."""
        told = dict(ended.chunks), dict(ended.lengths), dict(ended.shapes)
        self._journal.note("stage", job, self._session.graph(job).number, stage, pickle.dumps(told))
        self._journal.flush()

    def stage_values(self, job: str, stage: int, values: Mapping[int, Any]) -> None:
        """Note the values that decide the next stage."""
        self._journal.note("values", job, self._session.graph(job).number, stage, pickle.dumps(dict(values)))

    def ended(self, report: dict[str, Any], tell: Callable[[], None]) -> None:
        """Note the end of a job; `tell` is called after the record is written."""
        graph = self._session.graph(report["job"])
        self._journal.note("end", report, *_left(graph, self._session))
        self._unreported.add(graph.job)
        self._journal.when_written(lambda: self._tell_end(report, tell))

    def unreported(self, job: str) -> str:
        """Why a job's end is not reported to clients yet (of "": why any answer waits); "" where no answer waits."""
        waits = job in self._unreported if job else self._journal.trouble
        return f"the scheduler's journal {self._journal.trouble}" if waits else ""

    def known_end(self, report: dict[str, Any]) -> None:
        """A job had ended with this report before we were there."""
        self._reports[report["job"]] = report

    def compact(self) -> None:
        """Shorten a long journal while no job runs to the records that still matter.

        Graphs are dropped: a client that runs a graph again is asked to send it once more.
        """
        if self._journal.size < self.longest or self._session.active or self._journal.trouble:
            return
        self._reports = {job: one for job, one in self._reports.items() if job in self._session.graphs}
        ticket_of = {job: ticket for ticket, job in self.tickets.items() if job in self._reports}
        self.tickets = {ticket: job for job, ticket in ticket_of.items()}
        meta = self._session.meta
        told: list[tuple[Any, ...]] = []
        for job, report in self._reports.items():
            graph = self._session.graph(job)
            told.append(("job", job, graph.number, Submission(b"", graph.name, ticket=ticket_of.get(job, ""))))
            told.append(("end", report, graph.over(), {}, {}))
        shapes = {
            chunk: meta.shapes[chunk] for chunks in meta.tensors.values() for chunk in chunks if chunk in meta.shapes
        }
        told += [("tensors", dict(meta.tensors), shapes)]
        if self._journal.begin_again(told):
            self.structures.clear()

    def begin_anew(self, job: str, submission: Submission, held: list[int]) -> None:
        """Run a job from the beginning under the old id; `held` are chunks to release at the job's end."""
        graph = self._session.register_job(job, self._session.number + 1, submission.name, submission.ticket)
        self._held[job] = held
        self._note_job(job, submission)
        self._session.prepare(graph, submission)
        self._journal.flush()

    def _note_job(self, job: str, submission: Submission) -> None:
        graph = self._session.graph(job)
        if submission.bindings is not None:
            if submission.graph and submission.structure not in self.structures:
                self.structures.add(submission.structure)
                self._journal.note(
                    "structure", replace(submission, name="", ticket="", bindings=None, results=None, values=())
                )
            submission = replace(submission, graph=b"")
        self._journal.note("job", job, graph.number, replace(submission, name=graph.name, results=None, values=()))
        if submission.ticket:
            self.tickets[submission.ticket] = job

    def _tell_end(self, report: dict[str, Any], tell: Callable[[], None]) -> None:
        job, meta = report["job"], self._session.meta
        self._unreported.discard(job)
        self._session.context.port.free_chunks(meta.release(self._held.pop(job, [])))
        self._reports[job] = report
        tell()

    async def _written(self, answer: str) -> str:
        """An answer, as soon as the next scheduler would give the same."""
        self._journal.flush()
        if self._journal.trouble:
            written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._journal.when_written(lambda: None if written.done() else written.set_result(None))
            await written
        return answer


def digest_of_table(table: JobTable) -> bytes:
    """16 bytes that are equal where a graph was compiled to the same operands under the same numbers."""
    programs = [_ADDRESS.sub("", repr(program)) for program in table.programs]
    rows = [programs, list(table.program), [list(row) for row in table.inputs], list(table.nbytes), list(table.stored)]
    return hashlib.blake2b(marshal.dumps(rows, 2), digest_size=16).digest()


def _left(graph: GraphActor, session: SessionActor) -> tuple[dict[str, Any], dict[str, list[int]], dict[int, Any]]:
    """Measurements of an ended job, the tensors that it left by key, and shapes of their chunks."""
    meta = session.meta
    tensors = {key: meta.tensors[key] for key in graph.results if key in meta.tensors}
    shapes = {chunk: meta.shapes[chunk] for chunks in tensors.values() for chunk in chunks if chunk in meta.shapes}
    return graph.over(), tensors, shapes
