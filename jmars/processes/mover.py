"""The mover process: writes chunks to disk and reads them back, so that no other process waits for a disk.

Orders: `("spill", chunk, offset, size)`; `("load", chunk, offset, size, name, checksums)`; `("gather", ticket,
offset, pieces)`, which concatenates pieces of chunks, where a piece is `(offset, size)` of memory or `(name, start,
size, checksums, skip, take)` of a file: bytes [start, start + size) are read and checked, and `take` bytes after the
first `skip` are used; or `(size,)`, bytes that the mover leaves to others; `("delete", name)`; `("sweep", names)`,
which deletes all files except `names`. Answers: `("disk", direct)` once, whether files bypass the page cache;
`("spilled", chunk, name, checksums, error)`; `("loaded", chunk, error)`; `("gathered", ticket, piece, error)`, where
`error` is "" or a text, and `piece` the piece that failed. The zygote forks the mover when the first chunk is
spilled.
"""

from __future__ import annotations

import mmap
import os
import socket
import sys
from collections.abc import Sequence
from typing import Any

from jmars.actors.frames import pack, recv_message
from jmars.errors import StorageError
from jmars.model.limits import PAGE
from jmars.storage.spill import (
    BLOCK,
    CHECKED,
    Span,
    delete_chunk,
    is_chunk_name,
    read_chunk,
    read_span,
    takes_direct,
    write_chunk,
)


class Mover:
    """Moves bytes between the arena and files of a folder."""

    def __init__(self, memory: memoryview, folder: str) -> None:
        self.memory, self.folder = memory, folder
        self.direct = takes_direct(folder)
        self._pages: mmap.mmap | None = None  # page-aligned buffer for parts of files

    def spill(self, chunk: int, offset: int, size: int) -> tuple[Any, ...]:
        """Write a chunk to a new file."""
        name, sums, error = "", b"", ""
        try:
            name, sums = write_chunk(self.folder, self.memory[offset : offset + size], self.direct)
        except StorageError as problem:
            error = str(problem)
        return ("spilled", chunk, name, sums, error)

    def load(self, chunk: int, offset: int, size: int, name: str, sums: bytes) -> tuple[Any, ...]:
        """Read a chunk from a file."""
        try:
            read_chunk(self.folder, name, sums, self.memory[offset : offset + size], self.direct)
        except StorageError as problem:
            return ("loaded", chunk, str(problem))
        return ("loaded", chunk, "")

    def gather(self, ticket: int, offset: int, pieces: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        """Concatenate pieces of chunks."""
        for place, piece in enumerate(pieces):
            if len(piece) == 1:
                offset += piece[0]
                continue
            if len(piece) == 2:
                at, take = piece
                self.memory[offset : offset + take] = self.memory[at : at + take]
                offset += take
                continue
            try:
                offset = self._gather_file(offset, *piece)
            except StorageError as problem:
                return ("gathered", ticket, place, str(problem))
        return ("gathered", ticket, -1, "")

    def _gather_file(self, offset: int, name: str, start: int, size: int, sums: bytes, skip: int, take: int) -> int:
        """Copy a piece of a file; returns the offset behind it."""
        if not skip and take == size and not offset % PAGE:
            span = Span(b"", size, 0, size)
            span.start, span.sums = start, sums
            read_span(self.folder, name, span, self.memory[offset : offset + size], self.direct)
            return offset + size
        if self._pages is None:
            self._pages = mmap.mmap(-1, BLOCK)
        done = 0
        end = start + size
        while done < take:
            span = Span(b"", end, start + skip + done, min(start + skip + take, start + skip + done + BLOCK // 2))
            blocks = slice((span.start - start) * 8 // CHECKED, None)
            span.sums = sums[blocks][: 8 * -(-span.nbytes // CHECKED)]
            view = memoryview(self._pages)[: span.nbytes]
            read_span(self.folder, name, span, view, self.direct)
            first = start + skip + done - span.start
            count = min(take - done, span.nbytes - first)
            self.memory[offset : offset + count] = view[first : first + count]
            offset, done = offset + count, done + count
        return offset

    def delete(self, name: str) -> None:
        """Delete a file."""
        delete_chunk(self.folder, name)

    def sweep(self, names: Sequence[str]) -> None:
        """Delete files that an earlier mover left and no chunk has."""
        known = set(names)
        for name in os.listdir(self.folder):
            if name not in known and is_chunk_name(name):
                delete_chunk(self.folder, name)


def run_mover(link: socket.socket, arena_fd: int, arena_size: int, folder: str) -> None:
    """Serve until the control process hangs up."""
    mover = Mover(memoryview(mmap.mmap(arena_fd, arena_size)), folder)
    read = link.makefile("rb").read
    sys.setswitchinterval(1e-5)  # a thread computes checksums while the main thread hands blocks to the disk
    link.sendall(pack(("disk", mover.direct)))
    while True:
        try:
            message = recv_message(read)
        except (EOFError, ConnectionError):
            os._exit(0)
        answer = getattr(mover, message[0])(*message[1:])
        if answer is not None:
            link.sendall(pack(answer))
