"""Forks executors and the mover in milliseconds, from a single-threaded process that has imported all their modules.

The control process forks the zygote first, before any thread starts. The zygote only forks, and reports how a child
ended or why there is none. The zygote ends when the control process hangs up, and so do all children, as their sockets
close. It replaces multiprocessing's forkserver, which listens on a socket open to local users (CVE-2022-42919).

The mover process writes chunks to disk and reads them back, so that no other process waits for a disk. Orders:
`("spill", chunk, offset, size)`; `("load", chunk, offset, size, name, checksums)`; `("gather", ticket, offset,
pieces)`, which concatenates pieces of chunks, where a piece is `(offset, size)` of memory or `(name, start, size,
checksums, skip, take)` of a file: bytes [start, start + size) are read and checked, and `take` bytes after the first
`skip` are used; or `(size,)`, bytes that the mover leaves to others; `("delete", name)`; `("sweep", names)`, which
deletes all files except `names`. Answers: `("disk", direct)` once, whether files bypass the page cache; `("spilled",
chunk, name, checksums, error)`; `("loaded", chunk, error)`; `("gathered", ticket, piece, error)`, where `error` is ""
or a text, and `piece` the piece that failed. The zygote forks the mover when the first chunk is spilled.
Source: Android's zygote, `frameworks/base/core/java/com/android/internal/os/Zygote.java`.
"""

from __future__ import annotations

import errno
import mmap
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from jmars.actors.frames import pack, recv_message, unpack
from jmars.errors import StorageError
from jmars.model.limits import PAGE
from jmars.processes.executor import BatchSemaphore, run_executor
from jmars.processes.output import take_streams
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


_LONGEST = 4096  # bytes of a message


class Zygote:
    """The control process's end: requests children, and hears of their ends."""

    def __init__(self, pid: int, link: socket.socket) -> None:
        self.pid = pid
        self.link = link
        link.setblocking(False)

    def fork(self, name: str, role: str, fds: Sequence[int], *args: Any) -> None:
        """Request a child with descriptors: a socket, and for an executor a semaphore and the pipe of its output.

        The answer comes over the link. Raises OSError if the request cannot be sent now.
        """
        socket.send_fds(self.link, [pack((name, role, args))[4:]], fds)

    def read(self) -> list[Any]:
        """Messages since the last call; EOFError after the zygote's end.

        `("forked", name, pid)`, `("failed", name, errno)` or `("exited", pid, status, most bytes in memory)`.
        """
        messages: list[Any] = []
        while True:
            try:
                data = self.link.recv(_LONGEST)
            except BlockingIOError:
                return messages
            except ConnectionError as error:
                raise EOFError from error
            if not data:
                raise EOFError
            messages.append(unpack(data))


def start_zygote(arena_fd: int, arena_size: int, close: list[int]) -> Zygote:
    """Fork the zygote, and close the descriptors `close` there. Call this before any thread starts."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid:
        theirs.close()
        return Zygote(pid, ours)
    try:
        ours.close()
        for fd in close:
            os.close(fd)
        serve_forks(theirs, partial(_become, arena_fd, arena_size))
    except BaseException:  # the last frame of a child: log the reason, then end
        traceback.print_exc()
    finally:
        os._exit(1)


def serve_forks(link: socket.socket, become: Callable[[str, Sequence[int], tuple[Any, ...]], None]) -> None:
    """Fork children that call `become(role, descriptors, arguments)`, until the other end of `link` hangs up."""
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(link, select.POLLIN)
    poll.register(wake_read, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == wake_read:
                os.read(wake_read, 512)
                _reap(link)
                continue
            message, fds, _, _ = socket.recv_fds(link, _LONGEST, 3)
            if not message:
                os._exit(0)
            name, role, args = unpack(message)
            try:
                if len(fds) < 1 + 2 * (role in ("executor", "gpu")):  # the system had no number left for one
                    raise OSError(errno.EMFILE, "no descriptor left")
                pid = os.fork()
            except OSError as error:
                for one in fds:
                    os.close(one)
                link.send(pack(("failed", name, error.errno))[4:])
                continue
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.close(wake_read)
                os.close(wake_write)
                link.close()
                _end_after(partial(become, role, fds, args))
            for one in fds:
                os.close(one)
            link.send(pack(("forked", name, pid))[4:])


def _reap(link: socket.socket) -> None:
    while True:
        try:
            pid, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        link.send(pack(("exited", pid, status, used.ru_maxrss * 1024))[4:])


def _end_after(run: Callable[[], None]) -> None:
    """Run a child until the end of this process."""
    code = 1
    try:
        run()
        code = 0
    except BaseException:  # the last frame of a child: its log tells the reason
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _become(arena_fd: int, arena_size: int, role: str, fds: Sequence[int], args: tuple[Any, ...]) -> None:
    """Run an executor, a mover or a carrier."""
    link = socket.socket(fileno=fds[0])
    if role in ("executor", "gpu"):
        take_streams(fds[2])
    if role == "executor":
        run_executor(link, arena_fd, arena_size, BatchSemaphore(fds[1]), *args)
    elif role == "gpu":
        from jmars.processes.gpu_batches import GpuBatches  # only hosts with a GPU import the device floor

        workers, name = args
        gpu = partial(GpuBatches, name)
        run_executor(link, arena_fd, arena_size, BatchSemaphore(fds[1]), workers, gpu)
    elif role == "carrier":
        from jmars.processes.carrier import run_carrier  # only hosts of a cluster of several hosts have a carrier

        run_carrier(link, arena_fd, arena_size)
    else:
        run_mover(link, arena_fd, arena_size, *args)
