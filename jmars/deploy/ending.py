"""Waits for processes of a cluster that are no children of this process."""

from __future__ import annotations

import os
import select
import signal

__all__ = ["end_control", "ended_within", "is_stopped"]


def ended_within(pid: int, seconds: float) -> bool:
    """Whether a process has ended, or does so within `seconds`."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(watch, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(watch)


def end_control(pid: int, janitor: int, seconds: float) -> None:
    """Wait until the control process has ended, by force after `seconds`, and then the janitor, the last process.

    No effect without a janitor: then the head is a part of a program of the user's, which goes on.
    """
    if not janitor:
        return
    if not ended_within(pid, seconds):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    ended_within(janitor, seconds)


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, by a signal or a debugger."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b") ")[2][:1] in (b"T", b"t")
    except (FileNotFoundError, ProcessLookupError):
        return False
