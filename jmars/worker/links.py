"""The control process's end of each child process.

`ChildLink` frames what is written and decodes what arrives; `Children` starts children through the zygote and tells
when one is gone: only after the zygote saw it end, so that nothing of it can still write to shared memory.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from jmars.actors.frames import Decoder, pack
from jmars.errors import ProtocolError
from jmars.worker.zygote import Zygote

__all__ = ["ChildLink", "Children", "ending"]


class ChildLink(asyncio.Protocol):
    """One child process: what to send it, and whom to tell what it says."""

    def __init__(
        self, name: str, heard: Callable[[ChildLink, Any], None], gone: Callable[[ChildLink, str], None]
    ) -> None:
        self.name = name
        self.pid = 0
        self.alive = True
        self._heard, self._gone = heard, gone
        self._decoder = Decoder()
        self._transport: asyncio.WriteTransport | None = None
        self._waiting: list[bytes] = []

    def send(self, message: Any) -> None:
        """Write a message; before the child is up it waits here."""
        frame = pack(message)
        if self._transport is None:
            self._waiting.append(frame)
        else:
            self._transport.write(frame)

    def kill(self) -> None:
        """End the process at once, even a stopped one; never another that has its number now."""
        if self.pid and self.alive:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The child's socket is ours: write what waited."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        for frame in self._waiting:
            transport.write(frame)
        self._waiting.clear()

    def data_received(self, data: bytes) -> None:
        """Messages of the child; what a dead one said last comes too late: its operands run again already."""
        if not self.alive:
            return
        try:
            for message in self._decoder.feed(data):
                self._heard(self, message)
        except ProtocolError:
            self.kill()  # a child that talks nonsense is replaced
        except Exception as error:  # asyncio would hang up on the child, and of an OSError not even say why
            what = {"message": f"what {self.name} said could not be acted on", "exception": error}
            asyncio.get_running_loop().call_exception_handler(what)

    def connection_lost(self, exc: Exception | None) -> None:
        """The child hung up; a process that lives on without its socket is ended."""
        self.kill()

    def close(self) -> None:
        """Hang up; the child ends itself."""
        if self._transport is not None:
            self._transport.close()

    def ended(self, why: str) -> None:
        """The zygote saw the process end."""
        if self.alive:
            self.alive = False
            self._gone(self, why)
            self.close()


class Children:
    """The child processes of a host by name."""

    def __init__(self, zygote: Zygote, zygote_lost: Callable[[], None]) -> None:
        self._zygote = zygote
        self._zygote_lost = zygote_lost
        self._links: dict[str, ChildLink] = {}
        self._by_pid: dict[int, ChildLink] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        asyncio.get_running_loop().add_reader(zygote.link, self._heard_zygote)

    def start(self, link: ChildLink, role: str, *args: Any) -> None:
        """Fork a process for `link`."""
        ours, theirs = socket.socketpair()
        self._links[link.name] = link
        self._zygote.fork(link.name, role, theirs, *args)
        theirs.close()
        ours.setblocking(False)
        task = asyncio.ensure_future(asyncio.get_running_loop().create_unix_connection(lambda: link, sock=ours))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def pids(self) -> dict[str, int]:
        """Process ids by name."""
        return {link.name: pid for pid, link in self._by_pid.items()}

    def _heard_zygote(self) -> None:
        try:
            messages = self._zygote.read()
        except EOFError:
            asyncio.get_running_loop().remove_reader(self._zygote.link)
            self._zygote_lost()
            return
        for message in messages:
            if message[0] == "forked":
                _, name, pid = message
                link = self._links[name]
                link.pid = pid
                self._by_pid[pid] = link
            else:
                _, pid, status = message
                ended = self._by_pid.pop(pid, None)
                if ended is not None:
                    ended.ended(ending(status))

    def close(self) -> None:
        """Hang up on all children and the zygote."""
        asyncio.get_running_loop().remove_reader(self._zygote.link)
        for link in self._by_pid.values():
            link.close()
        self._zygote.link.close()


def ending(status: int) -> str:
    """What a wait status says, in words."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        hint = " (often the system's out-of-memory killer)" if number == signal.SIGKILL else ""
        return f"killed by {name}{hint}"
    return f"ended with exit status {os.waitstatus_to_exitcode(status)}"
