"""Forks executors in milliseconds, from a single-threaded process that has imported all their modules.

The control process forks the zygote first, before any thread starts. The zygote only forks, and reports how a child
ended or why there is none. The zygote ends when the control process hangs up, and so do all children, as their sockets
close. It replaces multiprocessing's forkserver, which listens on a socket open to local users (CVE-2022-42919).
Source: Android's zygote, `frameworks/base/core/java/com/android/internal/os/Zygote.java`.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from typing import Any

from jmars.actors.frames import pack, unpack
from jmars.processes.executor import BatchSemaphore, run_executor
from jmars.processes.mover import run_mover

_LONGEST = 4096  # bytes of a message


class Zygote:
    """The control process's end: requests children, and hears of their ends."""

    def __init__(self, pid: int, link: socket.socket) -> None:
        self.pid = pid
        self.link = link
        link.setblocking(False)

    def fork(self, name: str, role: str, fds: Sequence[int], *args: Any) -> None:
        """Request a child with descriptors: a socket, and for an executor a semaphore.

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
        _serve(theirs, arena_fd, arena_size)
    except BaseException:  # the last frame of a child: log the reason, then end
        traceback.print_exc()
    finally:
        os._exit(1)


def _serve(link: socket.socket, arena_fd: int, arena_size: int) -> None:
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
            message, fds, _, _ = socket.recv_fds(link, _LONGEST, 2)
            if not message:
                os._exit(0)
            name, role, args = unpack(message)
            try:
                if len(fds) < 1 + (role in ("executor", "gpu")):  # descriptors were dropped for lack of free numbers
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
                _become(role, fds, arena_fd, arena_size, args)
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


def _become(role: str, fds: Sequence[int], arena_fd: int, arena_size: int, args: tuple[Any, ...]) -> None:
    """Run an executor, a mover or a carrier until the end of this process."""
    code = 1
    try:
        link = socket.socket(fileno=fds[0])
        if role == "executor":
            run_executor(link, arena_fd, arena_size, BatchSemaphore(fds[1]), *args)
        elif role == "gpu":
            from jmars.processes.gpu_batches import GpuBatches  # only hosts with a GPU import the device floor

            threads, workers, name = args
            gpu = partial(GpuBatches, name)
            run_executor(link, arena_fd, arena_size, BatchSemaphore(fds[1]), threads, workers, gpu)
        elif role == "carrier":
            from jmars.processes.carrier import run_carrier  # only hosts of a cluster of several hosts have a carrier

            run_carrier(link, arena_fd, arena_size)
        else:
            run_mover(link, arena_fd, arena_size, *args)
        code = 0
    except BaseException:  # the last frame of a child: its log tells the reason
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
