"""Door: what the handlers ask for, done on the cluster: graphs submitted, told, cancelled; arrays kept and let go of.

It holds no bytes of arrays; those pass through uploads.py and fetching.py. Used by the handlers.
Source: seed 003, "作业提交" and "取消作业".
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from itertools import accumulate, product
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from jmars.actors.registry import Entry
from jmars.config import TASK_DEFAULTS, config
from jmars.errors import UnknownTaskError
from jmars.model.states import TERMINAL, JobState
from jmars.switches import checked
from jmars.tensor.graph import Stored, TensorGraph
from jmars.tensor.operand import Splits, TensorData
from jmars.tensor.tensor import Tensor
from jmars.tensor.unknown import is_known
from jmars.web.document import build
from jmars.web.guard import Guard
from jmars.web.link import PATIENCE, Link
from jmars.web.npy import dtype_of, named_dtype
from jmars.web.operands import OPERANDS, graph_of
from jmars.web.problems import Problem, of_report
from jmars.web.sessions import Array, Graph, Result, Session, Sessions
from jmars.web.slices import Read, Selection, pieces, reads

__all__ = ["Door"]

STATE = "web-sessions.json"  # in the cluster's private folder
EARLY = 100  # reports of jobs that no graph is known for yet
AT_ONCE = 64  # chunks of a piece that are asked for at the same time
MOVING = 600.0  # seconds that a chunk may take to find room, or to come back from disk


class Door:
    """One cluster behind HTTP.

    Parameters
    ----------
    entry
        The cluster.
    token
        Of the door, not of the cluster.

    Attributes
    ----------
    counts
        What /metrics tells of the door itself, by name and labels.
    """

    def __init__(self, entry: Entry, token: str) -> None:
        self.entry = entry
        self.guard = Guard(token)
        self.link = Link(entry, self._ended)
        self.sessions = Sessions(Path(entry.folder) / STATE if entry.folder else None)
        self.counts: Counter[tuple[str, ...]] = Counter()
        self._early: dict[str, dict[str, Any]] = {}  # reports by job
        self._unwanted: set[str] = set()  # jobs of sessions that are closed
        self._building = asyncio.Lock()  # one document at a time: building takes the interpreter

    # -- graphs
    async def submit(self, session: Session, document: Mapping[str, Any]) -> Graph:
        """Start computing what a document asks for.

        Raises
        ------
        DocumentError, SettingError, Problem
            If it makes no graph, has an unknown setting, or another key.
        """
        session.check_room()
        settings, name, consumed = _options(session, document)
        async with self._building:
            make = graph_of if OPERANDS in document else build
            data = await asyncio.to_thread(make, document, lambda name: self._tensor(session, name))
            graph = TensorGraph.of(list(data.values()))
        made = Graph("", name, {name: _result(one) for name, one in data.items()})
        made.temporary = await self._store_arrays(graph)
        ticket = secrets.token_hex(8)
        try:
            blob = await asyncio.to_thread(cloudpickle.dumps, graph)
            told = (
                False,
                [(one.key, one.dtype, one.chunks, None) for one in made.results.values()],
            )  # for Cluster.job(id)
            args = (blob, name, settings, ticket, b"", None, told)
            made.id = await self.link.ask("session", "submit", *args)
        except BaseException:  # it may have begun all the same, when the answer came too late
            self.link.tell("session", "withdraw", ticket)
            self.drop(made.kept())
            raise
        made.name = name or made.id
        made.temporary += [session.arrays.pop(one).key for one in consumed if one in session.arrays]
        for one in made.results.values():
            if one.key in made.temporary:  # an array that is itself a result stays as long as that
                made.temporary.remove(one.key)
                one.borrowed = False
        if session.id not in self.sessions.known:  # it was closed meanwhile
            self._unwanted.add(made.id)
            self.drop(made.kept())
            await self.link.ask("session", "cancel", made.id)
            raise Problem(404, "UnknownSession", f"session {session.id} was closed", "POST /api/session makes one")
        session.graphs[made.id] = made
        early = self._early.pop(made.id, None)
        if early is not None:
            self._settle(made, early)
        self.sessions.save()
        return made

    async def describe(self, session: Session, graph: Graph, wait: float = 0.0) -> dict[str, Any]:
        """How a graph stands; with `wait`, when it has ended or so many seconds have passed."""
        told: dict[str, Any] = {}
        try:
            if wait > 0 and not graph.ended:
                await self.link.ask("session", "wait", graph.id, wait, patience=wait + PATIENCE)
            told = await self.link.ask("session", "describe", graph.id)
        except UnknownTaskError:
            told = {"state": str(JobState.FAILED), "error": "it ended long ago, while no door was open"}
        if not graph.ended and told["state"] in TERMINAL:  # it ended while no door was there to hear of it
            error = None if told["error"] is None else ("OperandError", told["error"], "", b"", "")
            self._settle(graph, {"state": told["state"], "error": error, "line": None})
            self.sessions.save()
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

    async def cancel(self, graph: Graph) -> None:
        """Ask for the end of a graph; no effect when it has ended."""
        if not graph.ended:
            await self.link.ask("session", "cancel", graph.id)

    async def result(self, session: Session, graph: Graph, name: str) -> Result:
        """A result that can be read now; raises Problem with the reason where it cannot."""
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
                410, "GoneError", f"the shape of {name!r} was told to an earlier door", "send the graph again"
            )
        return found

    def release(self, session: Session, graph: Graph, name: str) -> None:
        """Let go of one result; it cannot be read any more."""
        found = graph.results.pop(name, None)
        if found is not None and not found.borrowed and found.key not in graph.kept():
            self.drop([found.key])
        session.forget_empty()
        self.sessions.save()

    # -- sessions and arrays
    async def close_session(self, session: Session) -> None:
        """Cancel what runs and let go of everything; from here on nobody finds it."""
        del self.sessions.known[session.id]
        self.sessions.save()
        running = [graph for graph in session.graphs.values() if not graph.ended]
        self._unwanted |= {graph.id for graph in running}
        self.drop(session.kept())
        for graph in running:
            self._early.pop(graph.id, None)
            graph.state = str(JobState.CANCELLED)  # for those that listen or wait
        asked = (self.link.ask("session", "cancel", graph.id) for graph in running)
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, BaseException) and not isinstance(answer, UnknownTaskError):
                raise answer

    def drop(self, keys: Sequence[str]) -> None:
        """Nobody needs these tensors any more."""
        if keys:
            self.link.tell("session", "drop", list(keys))

    async def store(self, key: str, splits: Splits, parts: AsyncIterator[bytes]) -> None:
        """Make bytes the tensor `key`: `parts` gives those of each chunk, in C order of the grid, as they come.

        Whatever goes wrong, nothing stays on the cluster.
        """
        count = math.prod(map(len, splits))
        first = await self.link.ask("session", "take_chunks", count)
        try:
            chunk = first
            async for part in parts:
                await self.link.ask("passing", "put", chunk, part, patience=MOVING)
                chunk += 1
            await self.link.ask("session", "keep", key, first, count)
        except BaseException:
            self.link.tell("store", "abandon", first, count)
            raise

    async def read(
        self, key: str, dtype: np.dtype[Any], splits: Splits, selection: Selection
    ) -> AsyncGenerator[bytes, None]:
        """The elements of a selection in C order, as bytes, piece by piece."""
        chunks = await self.link.ask("session", "chunks", key)
        coming: asyncio.Task[bytes] | None = None  # the next piece is read while the last one is sent
        try:
            for box in pieces(selection.ranges, dtype.itemsize):
                before, coming = coming, asyncio.ensure_future(self._piece(box, chunks, dtype, splits))
                if before is not None:
                    yield await before
            if coming is not None:
                yield await coming
        finally:
            if coming is not None:
                coming.cancel()

    # -- own
    async def _piece(self, box: Sequence[range], chunks: Sequence[int], dtype: np.dtype[Any], splits: Splits) -> bytes:
        """The elements of a box, from all chunks that it meets."""
        piece = np.empty([len(one) for one in box], dtype)
        parts = list(reads(box, splits, dtype.itemsize))
        for some in (parts[i : i + AT_ONCE] for i in range(0, len(parts), AT_ONCE)):
            answers = [self._part(chunks[one.chunk], one, dtype.itemsize) for one in some]
            for one, data in zip(some, await asyncio.gather(*answers)):
                target: Any = (*one.target, ...)
                piece[target] = np.frombuffer(data, dtype).reshape(one.shape)
        self.counts["bytes", "out"] += piece.nbytes
        return piece.tobytes()

    async def _part(self, chunk: int, part: Read, itemsize: int) -> bytes:
        asked = chunk, part.start, itemsize, part.shape, part.strides
        found: bytes = await self.link.ask("passing", "gather", *asked, patience=MOVING)
        return found

    def _tensor(self, session: Session, name: str) -> Tensor | None:
        """What lies on the cluster as a tensor: an uploaded array, or GRAPH/NAME, a result of the session."""
        graph, _, result = name.rpartition("/")
        one = session.graphs[graph].results.get(result) if graph in session.graphs else session.arrays.get(name)
        if one is None or one.chunks is None:
            return None
        if isinstance(one, Result) and session.graphs[graph].state != JobState.SUCCEEDED:
            return None
        data = TensorData(Stored(), tuple(map(sum, one.chunks)), dtype_of(one.dtype), one.chunks)
        data.key = one.key
        stored = Tensor(data)
        return stored.transpose() if isinstance(one, Array) and one.fortran else stored

    async def _store_arrays(self, graph: TensorGraph) -> list[str]:
        """Store the arrays that stood in the document; returns their keys."""
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

    def _ended(self, report: dict[str, Any]) -> None:
        """The cluster says that a job has ended."""
        job = report["job"]
        graph = self.sessions.graph(job)
        if graph is not None:
            self._settle(graph, report)
            self.sessions.save()
        elif job in self._unwanted:
            self._unwanted.discard(job)
            self.drop(report["results"])
        else:  # it may be ours: `submit` has not been answered yet
            self._early[job] = report
            for old in list(self._early)[:-EARLY]:
                del self._early[old]

    def _settle(self, graph: Graph, report: Mapping[str, Any]) -> None:
        """A graph has ended."""
        graph.state = report["state"]
        graph.error = of_report(report["error"], report["line"])
        if graph.state == JobState.CANCELLED:
            graph.error = Problem(0, "JobCancelledError", f"{graph.id} was cancelled", "send it again").as_json()
        settled = report.get("settled") or {}
        for one in graph.results.values():
            told = settled.get(one.key)
            if told is not None:
                one.chunks = tuple(map(tuple, told))
        self.drop(graph.temporary if graph.state == JobState.SUCCEEDED else graph.kept())
        graph.temporary = []


def _options(session: Session, document: Mapping[str, Any]) -> tuple[dict[str, Any], str, list[str]]:
    """Settings, name, and arrays to consume, of a document."""
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


def _result(data: TensorData) -> Result:
    chunks = data.chunks if is_known(data.chunks) else None
    return Result(data.key, named_dtype(data.dtype), chunks, isinstance(data.op, Stored))


async def _parts(array: np.ndarray[Any, Any], splits: Splits) -> AsyncIterator[bytes]:
    """The chunks of an array as bytes."""
    axes: list[list[slice]] = [
        [slice(stop - n, stop) for stop, n in zip(accumulate(lengths), lengths)] for lengths in splits
    ]
    for box in product(*axes):
        index: Any = (*box, ...)
        yield np.ascontiguousarray(array[index]).tobytes()
