"""Warns while a caller waits for a control process that does not answer; the caller goes on waiting.

The process may be suspended (SIGSTOP, a debugger, a frozen container) or starved, and then goes on later. A call to a
suspended peer would otherwise hang without a word.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from jmars.actors import ActorChannel
from jmars.deploy.control_process import ended_within, is_stopped
from jmars.errors import ClusterLostError
from jmars.units import format_seconds

__all__ = ["Silence", "beat", "reason"]

log = logging.getLogger("jmars.client")

BEAT = 1.0  # seconds between two questions
PATIENCE = 2.0  # seconds for an answer to why nothing moves: what does not answer is the reason
SILENT = 3.0  # seconds without an answer after which the first word is said; each next one after twice as long


class Silence:
    """Decides when and what to report of a control process that does not answer.

    Examples
    --------
    >>> silence = Silence("mine", 17)
    >>> silence.waited(2.0, stopped=True)
    ''
    >>> silence.waited(3.0, stopped=True)
    'the control process of mine (process 17) is stopped, for 3.00 s now; it goes on after `kill -CONT 17`'
    >>> silence.waited(4.0, stopped=True), silence.over(5.0)
    ('', 'mine answers again after 5.00 s')
    """

    def __init__(self, name: str, pid: int) -> None:
        self._name, self._pid = name, pid
        self._next = SILENT

    def waited(self, seconds: float, stopped: bool) -> str:
        """Text after so many seconds of waiting; "" where it is not time to speak."""
        if seconds < self._next:
            return ""
        self._next *= 2
        return unanswered(self._name, self._pid, seconds, stopped)

    def over(self, seconds: float) -> str:
        """Text after the answer; "" where nothing was said before."""
        said, self._next = self._next > SILENT, SILENT
        return f"{self._name} answers again after {format_seconds(seconds)}" if said else ""


def unanswered(name: str, pid: int, seconds: float, stopped: bool) -> str:
    """Text: a control process has not answered for so long, and what the user can do; `pid` is 0 on another machine."""
    if not pid:
        return (
            f"the control process of {name} has not answered for {format_seconds(seconds)}; that machine or the "
            "network may be busy"
        )
    who = f"the control process of {name} (process {pid})"
    if stopped:
        return f"{who} is stopped, for {format_seconds(seconds)} now; it goes on after `kill -CONT {pid}`"
    return f"{who} has not answered for {format_seconds(seconds)}; the machine may be busy, or the process frozen"


def reason(ask: Callable[..., Any], name: str, pid: int, *question: Any) -> str:
    """The cluster's answer to a question why; without an answer in time, a text about the silent control process.

    Raises
    ------
    ClusterLostError
        If the control process is gone.
    """
    began = time.monotonic()
    try:
        found = ask("why", *question, timeout=PATIENCE)
    except ClusterLostError:
        waited = time.monotonic() - began
        if waited < PATIENCE or (pid and ended_within(pid, 0)):
            raise
        return unanswered(name, pid, waited, is_stopped(pid))
    return str(found["text"] if isinstance(found, dict) else found)


async def beat(channel: ActorChannel, name: str, pid: int, busy: Callable[[], bool]) -> None:
    """Ping the control process each second in which a caller waits, until the connection ends.

    Parameters
    ----------
    channel
        To the cluster.
    name, pid
        What the cluster is called, and its control process.
    busy
        Whether somebody waits.
    """
    loop, silence = asyncio.get_running_loop(), Silence(name, pid)
    while not channel.closed:
        await asyncio.sleep(BEAT)
        if not (busy() or channel.waiting):
            continue
        began = loop.time()
        asked = asyncio.ensure_future(channel.ask("host", "ping"))
        try:
            while not (await asyncio.wait([asked], timeout=BEAT))[0]:
                text = silence.waited(loop.time() - began, is_stopped(pid))
                if text:
                    log.warning("%s", text)
            asked.result()
        except ClusterLostError:
            return  # told otherwise
        finally:
            asked.cancel()
        text = silence.over(loop.time() - began)
        if text:
            log.warning("%s", text)
