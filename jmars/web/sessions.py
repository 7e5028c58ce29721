"""A gateway's sessions, arrays and graphs, written to an SQLite file at each change.

So a gateway that was killed is started again with the same sessions. The file has a row for each session, array and
graph, and the document of each graph, which is read only to compute a lost result again. The file need only outlive the
process, so nothing is synced to the disk.
Source: docs/explanation/seeds.md, "Submitting a job".
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from jmars.errors import StorageError
from jmars.model.status import TERMINAL, JobState
from jmars.web.npy_stream import dtype_of
from jmars.web.problems import Problem

GRAPHS = 1000  # of a session
EMPTY = 50  # graphs of a session that have ended and have no results left
Lengths = tuple[tuple[int, ...], ...]


class UploadedArray(Struct):
    """An array that a client uploaded.

    Attributes
    ----------
    key
        Key of the stored tensor, in C order.
    fortran
        Whether the stored tensor has the axes in reverse order.
    """

    key: str
    dtype: Any  # as from named_dtype
    chunks: Lengths
    fortran: bool = False

    def described(self, name: str) -> dict[str, Any]:
        """Shape, dtype and chunks as JSON."""
        return {"name": name} | shown(self.dtype, self.chunks[::-1] if self.fortran else self.chunks)


class GraphResult(Struct):
    """A result of a graph.

    Attributes
    ----------
    key
        Key of the stored tensor.
    chunks
        None until all lengths are known.
    borrowed
        Whether another record retains the tensor: it is an uploaded array, or another graph's result, unchanged.
    """

    key: str
    dtype: Any  # as from named_dtype
    chunks: Lengths | None
    borrowed: bool = False

    def described(self) -> dict[str, Any]:
        """Shape, dtype and chunks as JSON."""
        return shown(self.dtype, self.chunks)


class SubmittedGraph(Struct):
    """A submitted graph: a job of the cluster.

    Attributes
    ----------
    temporary
        Keys of arrays contained in the document, or consumed by it; released when the job has ended.
    submitted
        Seconds since the epoch.
    """

    id: str
    name: str
    results: dict[str, GraphResult]
    temporary: list[str] = []
    submitted: float = field(default_factory=time.time)
    state: str = str(JobState.PREPARING)
    error: dict[str, Any] | None = None

    @property
    def ended(self) -> bool:
        """Whether the graph is in a final state."""
        return self.state in TERMINAL

    def retained_keys(self) -> list[str]:
        """Keys of tensors that the graph retains on the cluster, now or once computed."""
        return [*self.temporary, *(one.key for one in self.results.values() if not one.borrowed)]


class WebSession(Struct):
    """The arrays and graphs of a client program."""

    id: str
    name: str
    created: float
    arrays: dict[str, UploadedArray] = {}
    graphs: dict[str, SubmittedGraph] = {}

    def described(self) -> dict[str, Any]:
        """The session as JSON."""
        return {
            "id": self.id,
            "name": self.name,
            "created": self.created,
            "arrays": list(self.arrays),
            "graphs": list(self.graphs),
        }

    def array(self, name: str) -> UploadedArray:
        """An array by name; raises Problem."""
        found = self.arrays.get(name)
        if found is None:
            raise Problem(404, "UnknownArray", f"session {self.id} has no array {name!r}", "PUT it first")
        return found

    def graph(self, name: str) -> SubmittedGraph:
        """A graph by id; raises Problem."""
        found = self.graphs.get(name)
        if found is None:
            raise Problem(404, "UnknownTaskError", f"session {self.id} has no graph {name!r}", "GET …/graph lists them")
        return found

    def check_graph_count(self) -> None:
        """Raises Problem if the session has the most graphs allowed."""
        if len(self.graphs) >= GRAPHS:
            hint = "DELETE results that are done, or the session"
            raise Problem(429, "TooManyGraphs", f"session {self.id} has {GRAPHS} graphs", hint)

    def forget_empty_graphs(self) -> list[str]:
        """Forgets the oldest ended graphs without results; the last 50 stay, so that clients can read their state.

        Returns the ids of the forgotten graphs.
        """
        empty = [name for name, graph in self.graphs.items() if graph.ended and not graph.results][:-EMPTY]
        for name in empty:
            del self.graphs[name]
        return empty

    def retained_keys(self) -> list[str]:
        """Keys of all tensors that the session retains on the cluster."""
        found = [one.key for one in self.arrays.values()]
        for graph in self.graphs.values():
            found += graph.retained_keys()
        return found


class SessionStore:
    """All sessions of a gateway; each change is written to the file `path`."""

    MOST = 1000

    def __init__(self, path: Path | None) -> None:
        self.file = SessionFile(path)
        self.known: dict[str, WebSession] = {}
        for session, kind, name, body in self.file.rows():
            if kind == "session":
                self.known[session] = msgspec.convert(body, WebSession)
            elif kind == "array":
                self.known[session].arrays[name] = msgspec.convert(body, UploadedArray)
            else:
                self.known[session].graphs[name] = msgspec.convert(body, SubmittedGraph)

    def create(self, name: str) -> WebSession:
        """Opens a session."""
        if len(self.known) >= self.MOST:
            raise Problem(429, "TooManySessions", f"{self.MOST} sessions are open", "DELETE those that are done")
        made = WebSession(secrets.token_hex(8), name, time.time())
        self.file.put(made.id, "session", "", {"id": made.id, "name": made.name, "created": made.created})
        self.known[made.id] = made  # after the write: without its row the session would be lost at a restart
        return made

    def close(self, session: WebSession) -> None:
        """Forgets a session."""
        self.file.drop_all(session.id)  # first: if the write fails, the client can try again
        del self.known[session.id]

    def find(self, name: str) -> WebSession:
        """A session by id; raises Problem."""
        found = self.known.get(name)
        if found is None:
            raise Problem(404, "UnknownSession", f"there is no session {name!r}", "POST /api/session makes one")
        return found

    def graph_of_job(self, job: str) -> tuple[WebSession, SubmittedGraph] | None:
        """The graph of a job, and the session."""
        return next(((one, one.graphs[job]) for one in self.known.values() if job in one.graphs), None)

    def graph_of_result(self, key: str) -> tuple[WebSession, SubmittedGraph] | None:
        """The session and graph that retain a tensor as a result; None for other tensors."""
        for session in self.known.values():
            for graph in session.graphs.values():
                if any(one.key == key and not one.borrowed for one in graph.results.values()):
                    return session, graph
        return None

    def save_graph(self, session: WebSession, name: str) -> None:
        """Writes the state of a graph, or deletes its row if the graph is gone."""
        self._note(session, name, session.graphs.get(name))

    # -- changes of file and memory together: if the write fails, neither changes
    def add_array(self, session: WebSession, name: str, array: UploadedArray) -> None:
        """Records a stored array."""
        self.file.put(session.id, "array", name, to_builtins(array))
        session.arrays[name] = array

    def remove_array(self, session: WebSession, name: str) -> None:
        """Forgets an array."""
        self.file.drop(session.id, "array", name)
        del session.arrays[name]

    def add_graph(
        self, session: WebSession, graph: SubmittedGraph, source: dict[str, Any], consumed: Sequence[str]
    ) -> None:
        """Records a submitted graph, made from `source`; the graph takes over the arrays `consumed`."""
        with self.file.transaction():
            self.file.put(session.id, "graph", graph.id, to_builtins(graph), source)
            for name in consumed:
                self.file.drop(session.id, "array", name)
        session.graphs[graph.id] = graph
        for name in consumed:
            del session.arrays[name]

    def remove_result(self, session: WebSession, graph: SubmittedGraph, name: str) -> GraphResult:
        """Forgets a result, and then graphs without results."""
        left = replace(graph, results={one: result for one, result in graph.results.items() if one != name})
        after = replace(session, graphs=session.graphs | {graph.id: left})
        forgotten = after.forget_empty_graphs()
        with self.file.transaction():
            for one in [graph.id, *forgotten]:
                self._note(after, one, after.graphs.get(one))
        for one in forgotten:
            del session.graphs[one]
        return graph.results.pop(name)

    def source(self, session: WebSession, graph: SubmittedGraph) -> dict[str, Any] | None:
        """The document of a graph, with settings and fingerprint."""
        return self.file.source(session.id, graph.id)

    def _note(self, session: WebSession, name: str, graph: SubmittedGraph | None) -> None:
        if graph is None:
            self.file.drop(session.id, "graph", name)
        elif session.id in self.known:  # else the session was closed meanwhile
            self.file.put(session.id, "graph", name, to_builtins(graph))


def new_file(path: Path, text: str) -> None:
    """Writes a file of mode 0600 that appears with the whole text at once."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "w") as file:
        file.write(text)
    os.replace(temporary, path)


def shown(dtype: Any, chunks: Sequence[Sequence[int]] | None) -> dict[str, Any]:
    """Shape, dtype, bytes and chunks as JSON; null if unknown."""
    shape = None if chunks is None else [sum(axis) for axis in chunks]
    size = None if shape is None else int(np.prod(shape, dtype=object)) * dtype_of(dtype).itemsize
    return {"shape": shape, "dtype": dtype, "nbytes": size, "chunks": chunks}


_TABLES = """
PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS record (session TEXT, kind TEXT, name TEXT, body TEXT, PRIMARY KEY (session, kind, name));
CREATE TABLE IF NOT EXISTS source (session TEXT, name TEXT, body TEXT, PRIMARY KEY (session, name));
"""
_UPSERT = "ON CONFLICT DO UPDATE SET body = excluded.body"  # keeps the row's position


class SessionFile:
    """Rows by session, kind and name; a later write replaces the row.

    Parameters
    ----------
    path
        The file, made with mode 0600 if it is not there; None for memory.

    Raises
    ------
    StorageError
        By each method that writes, where the disk has no room.

    Examples
    --------
    >>> file = SessionFile(None)
    >>> file.put("s1", "graph", "job-1", {"state": "running"}); file.put("s1", "graph", "job-1", {"state": "failed"})
    >>> list(file.rows()), file.source("s1", "job-1")
    ([('s1', 'graph', 'job-1', {'state': 'failed'})], None)
    >>> file.close()
    """

    def __init__(self, path: Path | None) -> None:
        self._folder = "memory" if path is None else str(path.parent)
        if path is not None:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        self._file = sqlite3.connect(":memory:" if path is None else path, isolation_level=None)
        self._file.executescript(_TABLES)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Writes all changes of the block, or none if the block raises."""
        self._write("BEGIN IMMEDIATE")
        try:
            yield
            self._write("COMMIT")
        except BaseException:
            if self._file.in_transaction:  # SQLite itself rolls some back when the disk is full
                self._file.execute("ROLLBACK")
            raise

    def put(
        self, session: str, kind: str, name: str, body: dict[str, Any], source: dict[str, Any] | None = None
    ) -> None:
        """Writes a row, and the document of a graph."""
        self._write(f"INSERT INTO record VALUES (?, ?, ?, ?) {_UPSERT}", session, kind, name, json.dumps(body))
        if source is not None:
            self._write("INSERT OR REPLACE INTO source VALUES (?, ?, ?)", session, name, json.dumps(source))

    def drop(self, session: str, kind: str, name: str) -> None:
        """Deletes a row, and a graph's document."""
        self._write("DELETE FROM record WHERE session = ? AND kind = ? AND name = ?", session, kind, name)
        if kind == "graph":
            self._write("DELETE FROM source WHERE session = ? AND name = ?", session, name)

    def drop_all(self, session: str) -> None:
        """Deletes all rows of a session."""
        with self.transaction():
            self._write("DELETE FROM record WHERE session = ?", session)
            self._write("DELETE FROM source WHERE session = ?", session)

    def rows(self) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
        """Yields (session, kind, name, body) of all rows, in the order of their first write."""
        for session, kind, name, body in self._file.execute("SELECT * FROM record ORDER BY rowid"):
            yield session, kind, name, json.loads(body)

    def source(self, session: str, graph: str) -> dict[str, Any] | None:
        """The document of a graph, with settings and fingerprint; None if there is none."""
        asked = "SELECT body FROM source WHERE session = ? AND name = ?"
        found = self._file.execute(asked, (session, graph)).fetchone()
        return None if found is None else json.loads(found[0])

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _write(self, words: str, *values: str) -> None:
        try:
            self._file.execute(words, values)
        except sqlite3.OperationalError as error:
            raise StorageError(f"sessions cannot be written ({error}); make room in {self._folder}") from error
