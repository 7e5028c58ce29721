"""The janitor: a process that removes processes, files and memory that SIGKILL leaves.

The janitor runs in a separate session, and waits for two ends: of the kernel that started the cluster, and of the
control process. When the kernel ends, the control process has a second to end in order; then the whole process group is
killed, stopped processes too, and the cluster's folders are removed. PR_SET_PDEATHSIG would fire when the *thread* that
started the cluster ends, prctl(2).
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from jmars.deploy.folders import Folders

if TYPE_CHECKING:  # a cluster of one host has none
    from jmars.deploy.beats import Beats

LEAVE = b"leave\n"  # the control process starts again: end all others, remove the files, and go

KERNEL_GRACE = 1.0  # seconds for an orderly end after the kernel's


def start_janitor(folders: Folders, kernel: int, close: list[int], beats: Beats | None = None) -> tuple[int, int]:
    """Fork the janitor; returns a pid and a descriptor that must stay open for as long as this process lives.

    Parameters
    ----------
    kernel
        Process whose end ends the cluster, 0 where it outlives all others.
    close
        Descriptors that the janitor must not keep; the cluster's lock is not among them, both of us hold it.
    beats
        Gets what is written to the returned descriptor.
    """
    ours_end, watched = os.pipe()
    control = os.getpid()
    pid = os.fork()
    if pid:
        os.close(ours_end)
        return pid, watched
    try:
        os.setsid()
        for fd in [watched, *close]:
            os.close(fd)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        end = _watch(ours_end, kernel, beats)
        if end == "control" and beats is not None:
            beats.control_ended()
        _kill_group(control, spared=control if end == "leave" else 0)
        folders.remove()
    except BaseException:  # the last frame of a child: say why
        traceback.print_exc()
    finally:
        os._exit(0)


def _watch(control_end: int, kernel: int, beats: Beats | None) -> str:
    """Wait for the end of the cluster; returns "control" if the control process has ended, "leave" if the control
    process starts again, else "": the kernel has ended and the grace is over, or `beats` ended the cluster.
    """
    with ExitStack() as stack:
        over, end = (stack.enter_context(one) for one in socket.socketpair())
        poll = select.poll()
        poll.register(control_end, select.POLLIN)
        poll.register(over, select.POLLIN)
        try:
            if kernel:
                pidfd = os.pidfd_open(kernel)
                stack.callback(os.close, pidfd)
                poll.register(pidfd, select.POLLIN)
        except ProcessLookupError:
            return _ends_in_grace(control_end)  # the kernel is gone already
        lines = b""
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if control_end in ready:
                data = os.read(control_end, 65536)
                if not data:
                    return "control"
                *complete, lines = (lines + data).split(b"\n")
                for line in complete:
                    if line + b"\n" == LEAVE:
                        return "leave"
                    if beats is not None:
                        beats.hear(line, partial(end.send, b"."))
            elif over.fileno() in ready:
                return ""
            elif ready:
                return _ends_in_grace(control_end)


def _ends_in_grace(control_end: int) -> str:
    """ "control" if the control process ends by itself soon after the kernel."""
    last = select.poll()
    last.register(control_end, select.POLLIN)
    return "control" if last.poll(KERNEL_GRACE * 1000) else ""


def _kill_group(group: int, spared: int = 0) -> None:
    """End every process of the group but `spared`, and wait until none runs."""
    deadline = time.monotonic() + 5
    while (running := [pid for pid in _running(group) if pid != spared]) and time.monotonic() < deadline:
        try:
            if spared:
                for pid in running:
                    os.kill(pid, signal.SIGKILL)
            else:
                os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            if not spared:
                return
        select.poll().poll(2)  # ms; nothing tells a stranger when they have ended


def _running(group: int) -> Iterator[int]:
    """Processes of the group that run; a zombie does not."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stat:
                    state, _, of_group = stat.read().rpartition(b") ")[2].split()[:3]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(of_group) == group and state not in (b"Z", b"X"):
                yield int(name)
