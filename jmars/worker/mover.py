"""The mover process: writes chunks to disk and reads them back, so that nobody else waits for a disk.

Messages in: `("spill", chunk, offset, size)` and `("load", chunk, offset, size, name, checksum)` and
`("delete", name)`. Messages out: `("spilled", chunk, name, checksum, error)` and `("loaded", chunk, error)`; `error` is
"" or the text of what went wrong. Forked by the zygote when the first chunk must go.
"""

from __future__ import annotations

import mmap
import os
import socket

from jmars.actors.frames import pack, recv_message
from jmars.errors import StorageError
from jmars.storage.spill import delete_chunk, read_chunk, write_chunk

__all__ = ["run_mover"]


def run_mover(link: socket.socket, arena_fd: int, arena_size: int, folder: str) -> None:
    """Serve until the control process hangs up."""
    memory = memoryview(mmap.mmap(arena_fd, arena_size))
    read = link.makefile("rb").read
    while True:
        try:
            message = recv_message(read)
        except (EOFError, ConnectionError):
            os._exit(0)
        if message[0] == "spill":
            _, chunk, offset, size = message
            name, checksum, error = "", 0, ""
            try:
                name, checksum = write_chunk(folder, memory[offset : offset + size])
            except StorageError as problem:
                error = str(problem)
            link.sendall(pack(("spilled", chunk, name, checksum, error)))
        elif message[0] == "load":
            _, chunk, offset, size, name, checksum = message
            error = ""
            try:
                read_chunk(folder, name, checksum, memory[offset : offset + size])
            except StorageError as problem:
                error = str(problem)
            link.sendall(pack(("loaded", chunk, error)))
        else:
            delete_chunk(folder, message[1])
