"""Submits, describes and cancels graphs on the cluster for the HTTP handlers; keeps and releases their arrays.

Bytes of results pass through results.py instead. `Guard` checks that a request carries the gateway's token, its host
name, and no foreign origin. The token comes in a header that no page of other sites can set, so there are no cookies
and no forged requests. Host is checked against DNS rebinding, Origin against pages of other sites. Repeated wrong
tokens are slowed down.
Source: docs/explanation/seeds.md, "Submitting a job" and "Cancelling a job"; RFC 6750 (bearer tokens); Jupyter Server's
`check_host`.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import secrets
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import cloudpickle
import numpy as np

from jmars.actors.registry import Entry
from jmars.config import TASK_DEFAULTS, config
from jmars.errors import StorageError, UnknownTaskError
from jmars.model.messages import Failure, Submission
from jmars.model.status import TERMINAL, JobState
from jmars.storage.chunks import checksum
from jmars.switches import checked
from jmars.tensor.operand import Splits, TensorData, is_known
from jmars.tensor.splits import chunk_boxes
from jmars.tensor.tensor import Tensor
from jmars.tensor.tensor_graph import Stored, TensorGraph
from jmars.web.call_document import build
from jmars.web.npy_stream import dtype_of, named_dtype
from jmars.web.operand_document import OPERANDS, graph_of
from jmars.web.problems import Problem, problem_from_report
from jmars.web.results import MOVING, PATIENCE, ClusterConnection, ResultReader, ResultRecovery, fingerprint
from jmars.web.sessions import GraphResult, SessionStore, SubmittedGraph, UploadedArray, WebSession

log = logging.getLogger("jmars.web")

STATE = "web-sessions.db"  # in the cluster's private folder
EARLY = 100  # reports of jobs whose graph is not recorded yet
BUILDERS = 4  # documents built at the same time; of a session, at most a single document
QUEUE = 32  # documents in memory, being built or waiting


class Gateway:
    """A cluster behind HTTP.

    Parameters
    ----------
    entry
        The cluster.
    token
        The gateway's token; the cluster has another.
    allow_functions
        Whether documents may hold pickles.

    Attributes
    ----------
    counts
        The gateway's own counters for /metrics, by name and labels.
    """

    def __init__(self, entry: Entry, token: str, allow_functions: bool = False) -> None:
        self.entry = entry
        self._allow_functions = allow_functions
        self.guard = Guard(token)
        self.cluster = ClusterConnection(entry, self._job_ended)
        self.sessions = SessionStore(Path(entry.folder) / STATE if entry.folder else None)
        self.counts: Counter[tuple[str, ...]] = Counter()
        self._early_reports: dict[str, dict[str, Any]] = {}  # reports by job
        self._abandoned_jobs: set[str] = set()  # jobs of sessions that are closed
        self._building: defaultdict[str, asyncio.Lock] = defaultdict(
            asyncio.Lock
        )  # builds a session's documents in turn
        self._builders = asyncio.Semaphore(BUILDERS)  # few in all: building holds the interpreter
        self._submitting = 0  # documents that are being submitted
        self._report_waiters: dict[str, asyncio.Future[dict[str, Any]]] = {}  # reports of jobs of our own
        self._recovery = ResultRecovery(self.sessions.graph_of_result, self.sessions.source, self)
        self.reader = ResultReader(self.cluster, self._recovery, self.counts)

    # -- graphs
    async def submit(self, session: WebSession, document: Mapping[str, Any]) -> SubmittedGraph:
        """Builds the graph of a document and starts the computation.

        Raises
        ------
        DocumentError, SettingError, Problem
            If the document makes no graph, or has an unknown setting or key.
        """
        session.check_graph_count()
        if self._submitting >= QUEUE:
            raise Problem(503, "Busy", f"{QUEUE} graphs are being built already", "send the graph again in a second")
        self._submitting += 1
        try:
            return await self._submit(session, document)
        finally:
            self._submitting -= 1

    async def _submit(self, session: WebSession, document: Mapping[str, Any]) -> SubmittedGraph:
        """Builds and submits a graph within the limit of `submit`."""
        settings, name, consumed = _options(session, document)
        reads: dict[str, str] = {}
        data = await self.build(session, document, reads, noted=reads)
        graph = TensorGraph.of(list(data.values()))
        source = {"document": document, "reads": reads, "settings": settings, "fingerprint": fingerprint(graph)}
        made = SubmittedGraph("", name, {name: _result(one) for name, one in data.items()})
        made.temporary = await self._store_arrays(graph)
        told = (False, [(one.key, one.dtype, one.chunks, None) for one in made.results.values()])  # for Cluster.job(id)
        try:
            made.id = await self._submit_job(graph, name, settings, told)
        except BaseException:
            self.drop(made.retained_keys())
            raise
        made.name, kept = name or made.id, made.retained_keys()
        consumed = [one for one in consumed if one in session.arrays]
        made.temporary += [session.arrays[one].key for one in consumed]
        for one in made.results.values():
            if one.key in made.temporary:  # an array that is itself a result stays as long as that
                made.temporary.remove(one.key)
                one.borrowed = False
        try:
            self.sessions.find(session.id)  # raises if the session was closed meanwhile
            self.sessions.add_graph(session, made, source, consumed)
        except BaseException:  # the client gets an error, so the graph must not run
            await self._abandon_job(made.id, kept)
            raise
        early = self._early_reports.pop(made.id, None)
        if early is not None:
            self._finish_graph(made, early)
            self._save_end(session, made.id)
        return made

    async def describe(self, session: WebSession, graph: SubmittedGraph, wait: float = 0.0) -> dict[str, Any]:
        """Describes a graph's state and results; with `wait`, waits up to so many seconds for the end."""
        told: dict[str, Any] = {}
        try:
            if wait > 0 and not graph.ended:
                await self.cluster.ask("session", "wait", graph.id, wait, patience=wait + PATIENCE)
            told = await self.cluster.ask("session", "describe", graph.id)
        except UnknownTaskError:
            told = {"state": str(JobState.FAILED), "error": "the job ended long ago, while no gateway was open"}
        if not graph.ended and told["state"] in TERMINAL:  # the job ended while no gateway was open
            error = Failure("OperandError", told["error"]) if told["error"] else None
            self._finish_graph(graph, {"state": told["state"], "error": error, "line": None})
            self._save_end(session, graph.id)
        elif not graph.ended:
            graph.state = told["state"]
        succeeded = graph.state == JobState.SUCCEEDED
        return {
            "id": graph.id,
            "session": session.id,
            "name": graph.name,
            "state": graph.state,
            "progress": 1.0 if succeeded else float(told.get("progress", 0.0)),
            "started": graph.submitted,
            "elapsed": told.get("elapsed"),
            "eta": told.get("eta"),
            "operands": told.get("operands"),
            "counts": told.get("counts"),
            "error": graph.error,
            "results": {name: one.described() for name, one in graph.results.items()},
        }

    async def cancel(self, graph: SubmittedGraph) -> None:
        """Requests cancellation of a graph; no effect on an ended graph."""
        if not graph.ended:
            await self.cluster.ask("session", "cancel", graph.id)

    async def result(self, session: WebSession, graph: SubmittedGraph, name: str) -> GraphResult:
        """Looks up a result that can be read now; raises Problem with the reason otherwise."""
        found = graph.results.get(name)
        if found is None:
            known = ", ".join(list(graph.results)[:20])
            raise Problem(404, "UnknownResult", f"graph {graph.id} has no result {name!r}", f"it has {known}")
        if not graph.ended:
            await self.describe(session, graph)
        if graph.state != JobState.SUCCEEDED:
            why = graph.error["message"] if graph.error else f"it is {graph.state}"
            line = graph.error["line"] if graph.error else None
            hint = "send the graph again" if graph.ended else "GET the graph with ?wait=30 first"
            raise Problem(409, "NotReadyError", f"graph {graph.id} has no results: {why}", hint, line)
        if found.chunks is None:
            raise Problem(
                410, "GoneError", f"the shape of {name!r} is lost: an earlier gateway had it", "send the graph again"
            )
        return found

    def release(self, session: WebSession, graph: SubmittedGraph, name: str) -> None:
        """Releases a result; later requests for the result fail."""
        found = self.sessions.remove_result(session, graph, name)
        if not found.borrowed and found.key not in graph.retained_keys():
            self.drop([found.key])

    # -- sessions and arrays
    async def close_session(self, session: WebSession) -> None:
        """Cancels a session's running graphs and releases all arrays and results; later requests fail."""
        self.sessions.close(session)
        self._building.pop(session.id, None)
        running = [graph for graph in session.graphs.values() if not graph.ended]
        self._abandoned_jobs |= {graph.id for graph in running}
        self.drop(session.retained_keys())
        for graph in running:
            self._early_reports.pop(graph.id, None)
            graph.state = str(JobState.CANCELLED)  # for requests that stream events or wait
        asked = (self.cluster.ask("session", "cancel", graph.id) for graph in running)
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, BaseException) and not isinstance(answer, UnknownTaskError):
                raise answer

    def drop(self, keys: Sequence[str]) -> None:
        """Releases tensors on the cluster."""
        if keys:
            self.cluster.tell("session", "drop", list(keys))

    async def store(self, key: str, splits: Splits, parts: AsyncIterator[bytes]) -> None:
        """Stores bytes as the tensor `key`: `parts` gives the bytes of each chunk, in C order of the grid, as they
        arrive.

        On any error no chunk stays on the cluster.
        """
        count = math.prod(map(len, splits))
        first = await self.cluster.ask("session", "take_chunks", count)
        try:
            chunk = first
            async for part in parts:
                size, sent = len(part), checksum(part)
                await self.cluster.ask("passing", "put", chunk, 0, size, part, sent, patience=MOVING)
                chunk += 1
            await self.cluster.ask("session", "keep", key, first, count)
        except BaseException:
            self.cluster.tell("store", "abandon", first, count)
            raise

    # -- used by ResultRecovery and by `submit`
    async def build(
        self,
        session: WebSession,
        document: Mapping[str, Any],
        reads: Mapping[str, str],
        noted: dict[str, str] | None = None,
    ) -> dict[str, TensorData]:
        """Builds the nodes of a document, which may read only the tensors in `reads`; adds the tensors it names to
        `noted`.
        """

        def tensor(name: str) -> Tensor | None:
            found = self._find_stored(session, name)
            if found is not None and noted is not None:
                noted[name] = found.key
            return None if found is None or reads.get(name) != found.key else _tensor(found)

        async with self._building[session.id], self._builders:
            if OPERANDS not in document:
                return await asyncio.to_thread(build, document, tensor)
            return await asyncio.to_thread(graph_of, document, tensor, allow_functions=self._allow_functions)

    async def run(self, graph: TensorGraph, name: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Runs a graph to the end; returns the report."""
        temporary = await self._store_arrays(graph)
        try:
            job = await self._submit_job(graph, name, settings)
            if job in self._early_reports:
                return self._early_reports.pop(job)
            awaited = self._report_waiters[job] = asyncio.get_running_loop().create_future()
            try:
                report: Mapping[str, Any] = await awaited
                return report
            finally:
                self._report_waiters.pop(job, None)
        finally:
            self.drop(temporary)

    def close(self) -> None:
        """Closes the connection, the session file and recoveries in progress."""
        self._recovery.close()
        self.cluster.close()
        self.sessions.file.close()

    # -- private
    async def _submit_job(self, graph: TensorGraph, name: str, settings: Mapping[str, Any], told: Any = None) -> str:
        """Submits a graph to the cluster; returns the job's id."""
        ticket, blob = secrets.token_hex(8), await asyncio.to_thread(cloudpickle.dumps, graph)
        try:
            sent = Submission(blob, name, dict(settings), ticket, results=told)
            return str(await self.cluster.ask("session", "submit", sent))
        except BaseException:  # the job may have begun all the same, if the answer came too late
            self.cluster.tell("session", "withdraw", ticket)
            raise

    def _find_stored(self, session: WebSession, name: str) -> UploadedArray | GraphResult | None:
        """Finds stored data by name: an uploaded array, or GRAPH/NAME for a result of the session."""
        graph, _, result = name.rpartition("/")
        one = session.graphs[graph].results.get(result) if graph in session.graphs else session.arrays.get(name)
        if one is None or one.chunks is None:
            return None
        if isinstance(one, GraphResult) and session.graphs[graph].state != JobState.SUCCEEDED:
            return None
        return one

    async def _store_arrays(self, graph: TensorGraph) -> list[str]:
        """Stores the arrays that the document contains; returns their keys."""
        stored: list[str] = []
        try:
            for number, array, splits in graph.arrays():
                key = graph.metas[number].key
                await self.store(key, splits, _parts(array, splits))
                stored.append(key)
                graph.replace_by_stored(number, key)
        except BaseException:
            self.drop(stored)
            raise
        return stored

    def _job_ended(self, report: dict[str, Any]) -> None:
        """Handles the cluster's report that a job has ended."""
        job = report["job"]
        found = self.sessions.graph_of_job(job)
        if found is not None:
            session, graph = found
            self._finish_graph(graph, report)
            self._save_end(session, job)
        elif job in self._report_waiters:
            self._report_waiters.pop(job).set_result(report)
        elif job in self._abandoned_jobs:
            self._abandoned_jobs.discard(job)
            self.drop(report["results"])
        else:  # possibly a job of ours whose `submit` has not returned yet
            self._early_reports[job] = report
            for old in list(self._early_reports)[:-EARLY]:
                del self._early_reports[old]

    async def _abandon_job(self, job: str, keys: Sequence[str]) -> None:
        """Cancels a job that no session records, and releases the tensors."""
        if self._early_reports.pop(job, None) is None:
            self._abandoned_jobs.add(job)  # its results are released at its end
        self.drop(keys)
        await self.cluster.ask("session", "cancel", job)

    def _save_end(self, session: WebSession, job: str) -> None:
        """Saves that a graph has ended; on a full disk, the next gateway asks the cluster instead."""
        try:
            self.sessions.save_graph(session, job)
        except StorageError as error:
            log.warning("the end of %s is not written down: %s", job, error)

    def _finish_graph(self, graph: SubmittedGraph, report: Mapping[str, Any]) -> None:
        """Records the state, error and result shapes of a graph that has ended."""
        graph.state = report["state"]
        graph.error = problem_from_report(report["error"], report["line"])
        if graph.state == JobState.CANCELLED:
            graph.error = Problem(0, "JobCancelledError", f"{graph.id} was cancelled", "send it again").as_json()
        settled = report.get("settled") or {}
        for one in graph.results.values():
            told = settled.get(one.key)
            if told is not None:
                one.chunks = tuple(map(tuple, told))
        self.drop(graph.temporary if graph.state == JobState.SUCCEEDED else graph.retained_keys())
        graph.temporary = []


def _tensor(one: UploadedArray | GraphResult) -> Tensor:
    """Wraps a stored array or result as a tensor."""
    assert one.chunks is not None
    data = TensorData(Stored(), tuple(map(sum, one.chunks)), dtype_of(one.dtype), one.chunks)
    data.key = one.key
    stored = Tensor(data)
    return stored.transpose() if isinstance(one, UploadedArray) and one.fortran else stored


def _options(session: WebSession, document: Mapping[str, Any]) -> tuple[dict[str, Any], str, list[str]]:
    """Reads settings, name and consumed arrays from a document."""
    unknown = document.keys() - {"nodes", OPERANDS, "results", "settings", "name", "consumes"}
    if unknown:
        raise Problem(422, "DocumentError", f"a graph has no {sorted(unknown)[0][:100]!r}", "see /api/openapi.json")
    given, name, consumed = document.get("settings", {}), document.get("name", ""), document.get("consumes", [])
    if not isinstance(given, dict) or not isinstance(name, str) or not isinstance(consumed, list):
        raise Problem(422, "DocumentError", "settings is an object, name a text, consumes a list", "leave them out")
    for one in consumed:
        session.array(one if isinstance(one, str) else repr(one))
    settings = {**TASK_DEFAULTS, **checked(given), "combine_size": config.combine_size}
    return settings, name[:200], list(dict.fromkeys(consumed))


def _result(data: TensorData) -> GraphResult:
    chunks = data.chunks if is_known(data.chunks) else None
    return GraphResult(data.key, named_dtype(data.dtype), chunks, isinstance(data.op, Stored))


async def _parts(array: np.ndarray[Any, Any], splits: Splits) -> AsyncIterator[bytes]:
    """The chunks of an array as bytes."""
    for box in chunk_boxes(splits):
        index: Any = (*box, ...)
        yield np.ascontiguousarray(array[index]).tobytes()


FAILURES = 10  # wrong tokens in a second; further wrong tokens get status 429, the right token always passes
_NAMES = ("127.0.0.1", "localhost", "[::1]")


class Refusal(Exception):
    """The reason why a request is refused.

    Attributes
    ----------
    status
        401 for a missing or wrong token, 403 for a foreign name or site, 429 for too many wrong tokens.
    hint
        What to do.
    """

    def __init__(self, status: int, message: str, hint: str) -> None:
        super().__init__(message)
        self.status, self.hint = status, hint


class Guard:
    """Checks the headers of requests; one guard for each gateway.

    Parameters
    ----------
    token
        Text that must follow "Bearer " in Authorization.
    now
        Seconds on a clock that never goes back.

    Examples
    --------
    >>> guard = Guard("secret", now=lambda: 0.0)
    >>> guard.check(8080, "127.0.0.1:8080", None, "Bearer secret")
    >>> guard.check(8080, "evil.example:8080", None, "Bearer secret")
    Traceback (most recent call last):
    jmars.web.gateway.Refusal: this gateway is not called 'evil.example:8080'
    """

    def __init__(self, token: str, now: Callable[[], float] = time.monotonic) -> None:
        self.token = token
        self._now = now
        self._failures: deque[float] = deque(maxlen=FAILURES)  # when the last wrong tokens came

    def check(self, port: int, host: str | None, origin: str | None, authorization: str | None) -> None:
        """Checks the headers of a request; returns if the request may be answered.

        Parameters
        ----------
        port
            Where the gateway listens.
        host, origin, authorization
            Headers of the request; None where they are missing.

        Raises
        ------
        Refusal
            If the request may not be answered.
        """
        ours = {f"{name}:{port}" for name in _NAMES}
        if (host or "").lower() not in ours:
            raise Refusal(403, f"this gateway is not called {(host or '')[:100]!r}", f"use http://127.0.0.1:{port}")
        if origin is not None and not _is_ours(origin, ours):
            raise Refusal(403, f"a page of {origin[:100]!r} may not ask here", "ask from a program, without Origin")
        kind, _, token = (authorization or "").partition(" ")
        if kind.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self.token.encode()):
            return
        if authorization is not None:  # a missing header is no guess
            now = self._now()
            if len(self._failures) == FAILURES and now - self._failures[0] < 1.0:
                raise Refusal(429, "too many wrong tokens", "wait a second")
            self._failures.append(now)
        raise Refusal(
            401, "no token, or not that of this gateway", "send the header that the gateway's header file holds"
        )


def _is_ours(origin: str, ours: set[str]) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme == "http" and parts.netloc.lower() in ours
