"""Processes of another host: whether they run, and how they are ended. Uses the standard library only.

The text of this module is also sent to a host's Python, which need not have jmars any more, to end what is left there.
A process is known by its id and by its time of start: ids are given again. Source: proc(5), pidfd_open(2).
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessStat:
    """State of a process at one moment.

    Attributes
    ----------
    state
        Letter of /proc/PID/stat: R, S, D, T, t, Z, X or I.
    started
        Time of start, in clock ticks after the host's boot.
    """

    state: str
    started: int


def read_stats(text: str) -> dict[int, ProcessStat]:
    """Processes by id, from the contents of /proc/PID/stat files."""
    found = {}
    for pid, state, rest in re.findall(r"^(\d+) \(.*\) (\w) (.*)$", text, flags=re.MULTILINE):
        if len(fields := rest.split()) > 18:
            found[int(pid)] = ProcessStat(state, int(fields[18]))
    return found


def state_of(now: ProcessStat | None, before: ProcessStat | None) -> str:
    """A process is "running", "stopped" (by a signal or a debugger), or "gone", also where another has its id now."""
    if now is None or now.state in "ZX" or (before is not None and now.started != before.started):
        return "gone"
    return "stopped" if now.state in "Tt" else "running"


def end_processes(births: dict[int, int], patience: float, seconds: float) -> list[int]:
    """Wait for the first process, and kill it if it does not end; the others end after it, or are killed.

    Parameters
    ----------
    births
        Time of start by process id, in clock ticks after boot; the control process is the first.
    patience
        Seconds that the first one may take.
    seconds
        Seconds that the others may take then.

    Returns
    -------
    list of int
        Processes that have not ended.
    """
    watched: dict[int, int] = {}  # process id: pidfd
    for pid, started in births.items():
        try:
            fd = os.pidfd_open(pid)
            with open(f"/proc/{pid}/stat") as file:  # read after the pidfd is open, so both mean one process
                stat = read_stats(file.read()).get(pid)
        except (ProcessLookupError, FileNotFoundError):
            continue
        if stat is not None and stat.started == started and stat.state not in "ZX":
            watched[pid] = fd
        else:
            os.close(fd)
    first = {pid: fd for pid, fd in watched.items() if pid == next(iter(births))}
    _signal([first[pid] for pid in _wait(first, patience)], signal.SIGKILL)
    _signal([watched[pid] for pid in watched if pid not in first], signal.SIGCONT)  # a stopped janitor removes nothing
    left = _wait(watched, seconds)
    _signal([watched[pid] for pid in left], signal.SIGKILL)
    left = _wait({pid: watched[pid] for pid in left}, 1.0)
    for fd in watched.values():
        os.close(fd)
    return left


def _signal(fds: list[int], number: int) -> None:
    for fd in fds:
        try:
            signal.pidfd_send_signal(fd, number)
        except ProcessLookupError:
            pass


def _wait(watched: dict[int, int], seconds: float) -> list[int]:
    """Processes that have not ended after `seconds`; pidfds by process id."""
    deadline = time.monotonic() + seconds
    poll = select.poll()
    left = {fd: pid for pid, fd in watched.items()}
    for fd in left:
        poll.register(fd, select.POLLIN)
    while left and (remaining := deadline - time.monotonic()) > 0:
        for fd, _ in poll.poll(remaining * 1000):
            poll.unregister(fd)
            del left[fd]
    return list(left.values())


def tell_end(births: dict[int, int], patience: float, seconds: float) -> None:
    """End processes and write "ended", or the ids of processes that have not ended, to stdout."""
    left = end_processes(births, patience, seconds)
    sys.stdout.write(f"left {left}\n" if left else "ended\n")
