"""Launchers: start the process of a host, read the answer, and look after the process later.

    ticket, one line  ─▶  stdin of  PYTHON -P -m jmars host --join -
    answer            ◀─  the first line of stdout that is our JSON

The answer names process ids there. Later the host is asked, as a second opinion beside the host's own beats, whether
the processes run. The process belongs to the host: the end of the launcher or of the connection does not end
the process. `launch_local` and `launch_ssh` have the implementations.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from jmars.deploy import host_processes
from jmars.deploy.host_output import ByteStream, HostOutput, LastWords, late_answer, no_answer
from jmars.deploy.host_processes import ProcessStat, read_stats, state_of
from jmars.errors import ClusterStartError

__all__ = ["ANSWER_SECONDS", "JOIN", "HostProcess", "Launched", "Launcher", "Launches", "hear"]

JOIN = ("-P", "-m", "jmars", "host", "--join", "-")  # arguments of Python on the host
ANSWER_SECONDS = 60.0  # until a host's process answers; importing from a slow network disk takes long
OPINION_SECONDS = 4.0  # for a second opinion: a host is suspect after 3 s and given up after 8
END_SECONDS = 8.0  # for the end of a host's processes; a janitor takes up to 5
_LOG_BYTES = 4_000


class Launcher(Protocol):
    """Starts processes on one host."""

    place: str  # where, for errors and lists

    async def start(self, ticket: bytes, name: str, environment: Mapping[str, str]) -> Launched:
        """Start a host's process and wait for its answer.

        Parameters
        ----------
        ticket
            One line of JSON, which is written to the process's stdin.
        name
            The host's name, for errors.
        environment
            Variables that the process gets beside those that it has there; not for secrets.

        Raises
        ------
        ClusterStartError
            If no process answers, or if it answers with an error; what was started is ended.
        """
        ...


class HostProcess(Protocol):
    """A process that a launcher has started, and the way to its host."""

    @property
    def out(self) -> ByteStream:
        """Standard output."""
        ...

    @property
    def err(self) -> ByteStream:
        """Standard error."""
        ...

    async def send(self, line: bytes) -> None:
        """Write to stdin; no effect after the end of the process."""
        ...

    async def status(self) -> int | None:
        """Exit status, after the end; negative for a signal; None if the host does not say."""
        ...

    async def kill(self, pid: int) -> None:
        """End a process without an answer, and the connection; `pid` is 0 if unknown."""
        ...

    async def run(self, words: Sequence[str], stdin: bytes, seconds: float) -> bytes | None:
        """Standard output of a command on the host; None if the host cannot be reached within `seconds`."""
        ...

    async def close(self) -> None:
        """End the connection; processes there go on."""
        ...


class Launches(Protocol):
    """The hosts that a head starts: `HostLaunches`, and `InsideLaunches` for hosts in workers of an engine."""

    async def add(self, place: Mapping[str, Any], number: int) -> None:
        """Start a further host of a living cluster; raises ClusterError."""
        ...

    def back(self, number: int) -> None:
        """A host is here again, in the same process, with another janitor."""
        ...

    def gave_up(self, number: int) -> None:
        """A silent host was given up; it may be started again."""
        ...

    async def opinion(self, number: int) -> str:
        """State of a host's control process: "running", "stopped", "gone"; "" where no answer comes."""
        ...

    async def end_host(self, number: int, patience: float) -> None:
        """Wait for the end of a host that was told to end; kill it after `patience` seconds."""
        ...

    async def end(self, patience: float) -> None:
        """Wait for the ends of all hosts, which were told to end; kill them after `patience` seconds."""
        ...


class Launched:
    """A host's process that has answered.

    Attributes
    ----------
    place
        Where it runs.
    answer
        Its answer: `pid`, `janitor` and what else it says; `log`, if there, is the path of its log.
    """

    def __init__(
        self, place: str, python: str, answer: dict[str, Any], output: HostOutput, process: HostProcess
    ) -> None:
        self.place, self.answer = place, answer
        self._python, self._output, self._process = python, output, process
        self._births: dict[int, ProcessStat] | None = None

    def __repr__(self) -> str:
        return f"Launched({self.place!r}, pid {self.answer['pid']})"

    async def recognize(self) -> None:
        """Ask for start times, which tell the processes from later processes with the same ids."""
        self._births = await self._stats(self.pids)

    async def recognize_again(self, janitor: int) -> None:
        """The control process has started itself again, with another janitor."""
        self.answer = {**self.answer, "janitor": janitor}
        self._births = await self._stats(self.pids) or self._births

    @property
    def pids(self) -> list[int]:
        """Process ids on that host: the control process, and of the janitor, if any."""
        return [pid for pid in (self.answer["pid"], self.answer["janitor"]) if pid]

    async def is_alive(self, pids: Iterable[int] = ()) -> dict[int, str] | None:
        """States of processes of the host, as the host's kernel says.

        Parameters
        ----------
        pids
            Process ids there; by default those of the answer.

        Returns
        -------
        dict of int to str, or None
            "running", "stopped" (by a signal or a debugger) or "gone"; None if the host could not be asked within
            `OPINION_SECONDS`.
        """
        asked = list(pids) or self.pids
        found = await self._stats(asked)
        if found is None:
            return None
        return {pid: state_of(found.get(pid), (self._births or {}).get(pid)) for pid in asked}

    async def ended(self) -> int | None:
        """Wait for the end of the control process; never returns after the connection broke.

        Returns
        -------
        int or None
            Exit status, negative for a signal; None if the host does not say.
        """
        status = await self._process.status()
        states = await self.is_alive([self.answer["pid"]])
        if states is None or states[self.answer["pid"]] != "gone":
            await asyncio.Event().wait()
        return status

    async def log_tail(self) -> str:
        """The end of the host's log; of the output if the host named no log or cannot be reached."""
        log = self.answer.get("log")
        if isinstance(log, str) and os.path.isabs(log) and log.isprintable():
            data = await self._process.run(["tail", "-c", str(_LOG_BYTES), "--", log], b"", OPINION_SECONDS)
            if data:
                return self._output.words.shown(data)
        return self._output.words.text()

    async def end(self, patience: float = 0.0) -> bool:
        """Wait for the end of the control process, kill it after `patience` seconds, and wait for the janitor.

        Returns
        -------
        bool
            Whether all processes of the answer are known to have ended; False if the host could not be reached: then
            its lease ends them.
        """
        if self._births is None:  # ids alone may mean other processes by now
            await self.close()
            return False
        births = {pid: self._births[pid].started for pid in self.pids if pid in self._births}
        program = f"{inspect.getsource(host_processes)}\ntell_end({births}, {patience}, {END_SECONDS - 2})\n"
        try:
            data = await self._process.run([self._python, "-I", "-S", "-"], program.encode(), patience + END_SECONDS)
            return data is not None and data.endswith(b"ended\n")
        finally:
            await self.close()

    async def close(self) -> None:
        """End the connection; the host goes on."""
        self._output.stop()
        await self._process.close()

    async def _stats(self, pids: Sequence[int]) -> dict[int, ProcessStat] | None:
        """States of processes there; None if the host's kernel could not be asked."""
        command = ["cat", "/proc/self/stat", *(f"/proc/{pid}/stat" for pid in pids)]
        found = read_stats((await self._process.run(command, b"", OPINION_SECONDS) or b"").decode(errors="replace"))
        return found or None  # `cat` itself is missing where nothing could be read


async def hear(process: HostProcess, ticket: bytes, name: str, place: str, python: str, patience: float) -> Launched:
    """Send the ticket to a process that was started, and wait for its answer; see `Launcher.start`.

    Parameters
    ----------
    python
        The interpreter on the host.
    patience
        Seconds that the answer may take.
    """
    who = f"{name} ({place})"
    words = LastWords(ticket)
    output = HostOutput(process.out, process.err, words)
    try:
        async with asyncio.timeout(patience):
            await process.send(ticket.strip() + b"\n")
            answer = await output.answer()
            if answer is None:
                status = await process.status()
                output.pid = 0  # it has ended
                raise no_answer(who, python, status, words.text())
        if "error" in answer:
            raise ClusterStartError(f"{who} did not start: {words.shown(answer['error'].encode())}")
        launched = Launched(place, python, answer, output, process)
        await launched.recognize()
        return launched
    except BaseException as error:
        output.stop()
        await process.kill(output.pid)
        if isinstance(error, TimeoutError):
            raise late_answer(who, patience, words.text()) from None
        raise
