"""The control process's ends of child processes.

`ChildLink` frames orders and decodes reports. `Children` starts children through the zygote and reports an end only
after the zygote saw it, so that the child cannot write to shared memory any more. If the system has no process or
file to give, `Children` tries again, less and less often.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Callable, Iterable
from typing import Any

from jmars.actors.frames import Decoder, pack
from jmars.errors import ProtocolError
from jmars.processes.executor import BatchSemaphore
from jmars.processes.executor_messages import GPU_LOST
from jmars.processes.output import PIPE_BYTES
from jmars.processes.vitals import ProcessUsage, Vital, descendants, kills_for_memory, private_now, use, vitals
from jmars.processes.zygote import Zygote
from jmars.units import format_bytes

RETRY_SECONDS, LONGEST_RETRY = 0.05, 2.0  # before the first and the longest retry of a start; doubled each time


class ChildLink(asyncio.Protocol):
    """Connection to a child process.

    Attributes
    ----------
    how
        How the child ended: "signal", "exit", "memory" (killed for its memory), "stopped" (killed because it hung), or
        the reason given to `kill`.
    peak
        Peak of resident bytes, shared memory counted; 0 until the child has ended.
    semaphore
        Revokes batches that the child has not begun.

    Parameters
    ----------
    printed
        Takes bytes that the child writes to standard output and error; None: the child shares the output of this
        process.
    """

    def __init__(
        self,
        name: str,
        received: Callable[[ChildLink, Any], None],
        ended: Callable[[ChildLink, str], None],
        printed: Callable[[bytes], None] | None = None,
    ) -> None:
        self.name = name
        self.pid = 0
        self.alive = True
        self.how = ""
        self.peak = 0
        self.semaphore: BatchSemaphore | None = None
        self._silent = False
        self._posted = 0  # batches posted before the child runs
        self._on_message, self._on_end, self._on_output = received, ended, printed
        self._output = -1  # our end of the pipe
        self._decoder = Decoder()
        self._transport: asyncio.WriteTransport | None = None
        self._waiting: list[bytes] = []

    def send(self, message: Any) -> None:
        """Send a message, once the child runs."""
        frame = pack(message)
        if self._transport is None:
            self._waiting.append(frame)
        else:
            self._transport.write(frame)

    def post(self) -> None:
        """Let the child begin a further batch."""
        if not self.pid:
            self._posted += 1
        elif self.semaphore is not None:
            self.semaphore.post()

    def unsend(self) -> None:
        """Drop all messages if the child does not run yet."""
        if not self.pid:
            self._waiting.clear()
            self._posted = 0

    def waiting_batches(self) -> int:
        """Number of batches posted before the child ran; 0 from the second call on."""
        posted, self._posted = self._posted, 0
        return posted

    def revoke(self) -> bool:
        """Revoke the last batch unless the child has begun; returns whether the batch was revoked."""
        return self.semaphore is not None and self.alive and self.semaphore.acquire()

    def silence(self) -> None:
        """Ignore all further messages of the child."""
        self._silent = True

    def kill(self, how: str = "") -> None:
        """Kill the process at once, or as soon as it runs, even if stopped; never a later process with the same pid."""
        if not self.pid:
            self.how = self.how or how
        elif self.alive:
            self.how = self.how or how
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected: send the waiting messages."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self.alive:
            transport.close()
            return
        for frame in self._waiting:
            transport.write(frame)
        self._waiting.clear()

    def open_output(self, pipe: int) -> None:
        """Read the child's output from our end of its pipe."""
        self._output = pipe
        os.set_blocking(pipe, False)  # the child has the other end
        asyncio.get_running_loop().add_reader(pipe, self._read_output)

    def close_output(self) -> None:
        """Read no more of the child's output."""
        if self._output >= 0:
            asyncio.get_running_loop().remove_reader(self._output)
            os.close(self._output)
            self._output = -1

    def _read_output(self) -> None:
        """Read the child's output, at most a full pipe."""
        try:
            data = os.read(self._output, PIPE_BYTES) if self._output >= 0 else None
        except BlockingIOError:  # the child has written nothing
            data = None
        if data == b"":
            self.close_output()
        elif data and self._on_output is not None:
            self._on_output(data)

    def data_received(self, data: bytes) -> None:
        """Handle messages; messages of a dead child come too late, since the operands run again already."""
        if not self.alive or self._silent:
            return
        self._read_output()  # it was written before what the messages tell
        try:
            for message in self._decoder.feed(data):
                self._on_message(self, message)
        except ProtocolError:
            self.kill()  # a child with malformed messages is replaced
        except Exception as error:  # asyncio would close the socket, and hide an OSError
            what = {"message": f"a message of {self.name} could not be handled", "exception": error}
            asyncio.get_running_loop().call_exception_handler(what)
            self.kill()  # the child's state is uncertain: its successor gets the orders again

    def connection_lost(self, exc: Exception | None) -> None:
        """The child hung up; kill a process that lives on without a socket."""
        self.kill()

    def close(self) -> None:
        """Hang up; the child ends by itself."""
        if self._transport is not None:
            self._transport.close()
        if self.semaphore is not None:
            self.semaphore.close()

    def ended(self, why: str) -> None:
        """The zygote saw the process end, or the process cannot die and is given up."""
        if self.alive:
            self._read_output()
            self.close_output()
            self.alive = False
            self._on_end(self, why)
            self.close()


class Children:
    """The child processes of a host by name.

    Attributes
    ----------
    trouble
        Why no process can be started just now; "" where that is not so.
    """

    def __init__(self, zygote: Zygote, zygote_lost: Callable[[], None]) -> None:
        self.trouble = ""
        self._zygote = zygote
        self._zygote_lost = zygote_lost
        self._links: dict[str, ChildLink] = {}
        self._by_pid: dict[int, ChildLink] = {}
        self._starting: dict[str, tuple[str, tuple[Any, ...], float]] = {}  # name: role, args, seconds before a retry
        self._ends: dict[str, socket.socket] = {}  # our ends of children that are being forked
        self._tasks: set[asyncio.Task[Any]] = set()
        self._retries: dict[str, asyncio.TimerHandle] = {}
        self._memory_kills = kills_for_memory()
        self._after_end: dict[int, Callable[[], None]] = {}  # of processes that were given up
        asyncio.get_running_loop().add_reader(zygote.link, self._read_zygote)

    @property
    def zygote(self) -> int:
        """Pid of the zygote."""
        return self._zygote.pid

    def start(self, link: ChildLink, role: str, *args: Any) -> None:
        """Fork a process for `link`, as soon as the system has resources."""
        self._links[link.name] = link
        self._starting[link.name] = (role, args, RETRY_SECONDS)
        self._try(link)

    def _try(self, link: ChildLink) -> None:
        self._retries.pop(link.name, None)
        role, args, _ = self._starting[link.name]
        ours = theirs = semaphore = None
        pipe: tuple[int, ...] = ()
        try:
            ours, theirs = socket.socketpair()
            fds = [theirs.fileno()]
            if role in ("executor", "gpu"):
                semaphore = BatchSemaphore()
                pipe = os.pipe()
                fds += [semaphore.fd, pipe[1]]
            self._zygote.fork(link.name, role, fds, *args)
        except OSError as error:
            for one in (ours, theirs, semaphore):
                if one is not None:
                    one.close()
            for fd in pipe:
                os.close(fd)
            if error.errno in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN):
                return  # the zygote is gone, and the cluster with it: `_read_zygote` reports that
            self._try_later(link, f"{error.strerror} (errno {error.errno})")
            return
        theirs.close()
        ours.setblocking(False)
        if pipe:
            os.close(pipe[1])
            link.open_output(pipe[0])
        link.semaphore, self._ends[link.name] = semaphore, ours

    def _try_later(self, link: ChildLink, why: str) -> None:
        """The system has no process or file to give: try again later."""
        self.trouble = why
        role, args, wait = self._starting[link.name]
        self._starting[link.name] = (role, args, min(2 * wait, LONGEST_RETRY))
        self._retries[link.name] = asyncio.get_running_loop().call_later(wait, self._try, link)

    def pids(self) -> dict[str, int]:
        """Process ids by name."""
        return {link.name: pid for pid, link in self._by_pid.items() if link.alive}

    def _read_zygote(self) -> None:
        try:
            messages = self._zygote.read()
        except EOFError:
            asyncio.get_running_loop().remove_reader(self._zygote.link)
            self._zygote_lost()
            return
        for message in messages:
            if message[0] == "forked":
                _, name, pid = message
                self._forked(self._links[name], pid)
            elif message[0] == "failed":
                _, name, number = message
                link = self._links[name]
                self._ends.pop(name).close()
                link.close_output()
                if link.semaphore is not None:
                    link.semaphore.close()
                self._try_later(link, f"{os.strerror(number)} (errno {number})")
            else:
                _, pid, status, peak = message
                self._ended(pid, status, peak)

    def _forked(self, link: ChildLink, pid: int) -> None:
        link.pid = pid
        for _ in range(link.waiting_batches()):
            link.post()
        self._by_pid[pid] = link
        del self._starting[link.name]
        self.trouble = ""
        end = self._ends.pop(link.name)
        task = asyncio.ensure_future(asyncio.get_running_loop().create_unix_connection(lambda: link, sock=end))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if link.how:
            link.kill()

    def _ended(self, pid: int, status: int, peak: int) -> None:
        link = self._by_pid.pop(pid, None)
        if link is None:
            return
        link.peak = peak
        if not link.how:
            link.how = "exit" if not os.WIFSIGNALED(status) else "signal"
            if link.name.startswith("gpu-") and os.waitstatus_to_exitcode(status) == GPU_LOST:
                link.how = "gpu"
            if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
                kills = kills_for_memory()
                if kills > self._memory_kills:
                    link.how = "memory"
                self._memory_kills = kills
        after_end = self._after_end.pop(pid, None)
        if after_end is not None:
            after_end()
        else:
            link.ended(ending(status, link.how, peak))

    def vitals(self, pids: Iterable[int]) -> dict[int, Vital]:
        """States of processes, by pid."""
        return vitals(pids)

    def private(self, pid: int) -> int:
        """Private bytes of a process and all descendants."""
        return sum(map(private_now, [pid, *descendants(pid)]))

    def use(self, pid: int) -> ProcessUsage | None:
        """Resources that a process has used; None if the system does not tell."""
        return use(pid)

    def kill_all(self, link: ChildLink, how: str) -> None:
        """Kill a process and all descendants."""
        started = descendants(link.pid)
        link.kill(how)
        for pid in started:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def wake_zygote(self) -> None:
        """Continue the zygote if a signal has stopped it."""
        os.kill(self._zygote.pid, signal.SIGCONT)

    def give_up(self, link: ChildLink, why: str, after_end: Callable[[], None]) -> None:
        """A killed process cannot die: go on as after a death, and call `after_end` after the real end."""
        self._after_end[link.pid] = after_end
        link.ended(why)

    def close(self) -> None:
        """Hang up on all children and the zygote."""
        asyncio.get_running_loop().remove_reader(self._zygote.link)
        for timer in self._retries.values():
            timer.cancel()
        for end in self._ends.values():
            end.close()
        for link in self._links.values():
            link.close_output()
        for link in self._by_pid.values():
            link.close()
        self._zygote.link.close()


def ending(status: int, how: str = "", peak: int = 0) -> str:
    """A wait status in words."""
    if how == "memory":
        most = f" (it had {format_bytes(peak)} in memory)" if peak else ""
        return f"killed for the memory that it took{most}"
    if how == "cancelled":
        return "ended by jmars for its cancelled job"
    if how == "stopped":
        return "ended because it did not run any more: stopped by a signal or frozen"
    if how == "gpu":
        return "ended because its GPU lost its context"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        hint = " (often the system's out-of-memory killer)" if number == signal.SIGKILL else ""
        return f"killed by {name}{hint}"
    return f"ended with exit status {os.waitstatus_to_exitcode(status)}"
