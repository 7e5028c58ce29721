"""Sessions in an SQLite file, so that a gateway started again after a kill has the same sessions.

The file has a row for each session, array and graph, and the document of each graph, which is read only to compute a
lost result again. The file need only outlive the process, so nothing is synced to the disk.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jmars.errors import StorageError

__all__ = ["SessionFile"]

_TABLES = """
PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS record (session TEXT, kind TEXT, name TEXT, body TEXT, PRIMARY KEY (session, kind, name));
CREATE TABLE IF NOT EXISTS source (session TEXT, name TEXT, body TEXT, PRIMARY KEY (session, name));
"""
_UPSERT = "ON CONFLICT DO UPDATE SET body = excluded.body"  # the row stays where it is


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
