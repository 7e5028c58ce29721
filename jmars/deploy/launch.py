"""Launchers: start the process of a host, read the answer, and look after the process later.

    ticket, one line  ─▶  stdin of  PYTHON -P -m jmars host --join -
    answer            ◀─  the first line of stdout that is our JSON

The answer names process ids there. Later the host is asked, as a second opinion beside the host's own beats, whether
the processes run. The process belongs to the host: the end of the launcher or of the connection does not end
the process. `LocalLauncher`, below, is the launcher for this machine; `SshLauncher` and `InsideLauncher` start
processes elsewhere.

Output of a host's process: the answer in it, and its last words with secrets hidden.

Used by launchers. A login shell may print before the answer, and a broken installation prints in place of it.

A launcher for this machine: the process of another host runs beside us, as tests and `localhost` want it.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from jmars.deploy import host_processes
from jmars.deploy.host_processes import ProcessStat, read_stats, state_of
from jmars.errors import ClusterStartError

if TYPE_CHECKING:
    from jmars.deploy.inside_head import GuestProcess
    from jmars.deploy.launch_ssh import SshOutput, SshProcess
    from jmars.deploy.roster import Roster
    from jmars.deploy.tickets import Enrolment

HostProcess: TypeAlias = "LocalProcess | SshProcess | GuestProcess"  # that a launcher has started, and the way to it
ByteStream: TypeAlias = "asyncio.StreamReader | SshOutput"

log = logging.getLogger("jmars.host")

JOIN = ("-P", "-m", "jmars", "host", "--join", "-")  # arguments of Python on the host
ANSWER_SECONDS = 60.0  # until a host's process answers; importing from a slow network disk takes long
OPINION_SECONDS = 4.0  # for a second opinion: a host is suspect after 3 s and given up after 8
JANITOR_SECONDS = 8.0  # for the end of a host's processes; a janitor takes up to 5


class Launches:
    """The hosts that a head starts: `HostLaunches` at places, and `InsideLaunches` in workers of an engine.

    Parameters
    ----------
    port
        Where the head listens for hosts.
    """

    def __init__(self, roster: Roster, enrolment: Enrolment, port: int) -> None:
        self._roster, self._enrolment, self._port = roster, enrolment, port
        self._launched: dict[int, Launched] = {}  # by number

    @abstractmethod
    async def add(self, place: Mapping[str, Any], number: int) -> None:
        """Start a further host of a living cluster; raises ClusterError."""

    @abstractmethod
    async def end_host(self, number: int, patience: float) -> None:
        """Wait for the end of a host that was told to end; kill it after `patience` seconds."""

    @abstractmethod
    async def end(self, patience: float) -> None:
        """Wait for the ends of all hosts, which were told to end; kill them after `patience` seconds."""

    def back(self, number: int) -> None:
        """A host is here again, in the same process, with another janitor."""

    def gave_up(self, number: int) -> None:
        """A silent host was given up; it may be started again."""

    async def opinion(self, number: int) -> str:
        """State of a host's control process: "running", "stopped", "gone"; "" where no answer comes."""
        launched = self._launched.get(number)
        if launched is None:
            return ""
        pid = launched.answer["pid"]
        return (await launched.is_alive([pid]) or {}).get(pid, "")

    async def _end(self, numbers: Collection[int], patience: float) -> None:
        """`end` for these hosts."""
        ended = await asyncio.gather(
            *[self._launched[number].end(patience) for number in numbers], return_exceptions=True
        )
        for number, sure in zip(numbers, ended, strict=True):
            if sure is not True:
                log.warning("whether host %d has ended is not known (%s); its lease ends it", number, sure)


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
        program = f"{inspect.getsource(host_processes)}\ntell_end({births}, {patience}, {JANITOR_SECONDS - 2})\n"
        try:
            data = await self._process.run(
                [self._python, "-I", "-S", "-"], program.encode(), patience + JANITOR_SECONDS
            )
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
    """Send the ticket to a process that was started, and wait for its answer; see `LocalLauncher.start`.

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


PID_LINE = "jmars process"  # begins a line of output, and its process id follows
_PIECE = 2**14  # bytes that are read at once
_MOST_NOISE = 2**18  # bytes before the answer
_KEPT = 16_000  # bytes of output
_SHOWN = 2_000  # characters of output in an error


class LastWords:
    """The last words of a host, with the ticket and its secret hidden.

    Parameters
    ----------
    ticket
        The line that the host was sent.
    """

    def __init__(self, ticket: bytes) -> None:
        self._heard = b""
        self._hidden = [ticket.decode(errors="replace").strip(), *_secrets_in(ticket)]

    def __repr__(self) -> str:
        return f"LastWords({self.text()!r})"

    def add(self, data: bytes) -> None:
        """Append output; the beginning of much output is dropped."""
        self._heard = (self._heard + data)[-_KEPT:]

    def text(self) -> str:
        """The end of the output, fit to be shown."""
        return self.shown(self._heard)

    def shown(self, data: bytes) -> str:
        """The end of other output of the host, without the secret and without characters that a terminal obeys."""
        text = data.decode(errors="replace")
        for secret in filter(None, self._hidden):
            text = text.replace(secret, "…")
        return printable(text)[-_SHOWN:].strip()


class HostOutput:
    """Reads the output of a host's process: the answer first, then all that follows, so that no writer waits.

    Attributes
    ----------
    pid
        Process id on the host, if the output told it before the answer; else 0.
    """

    def __init__(self, out: ByteStream, err: ByteStream, words: LastWords) -> None:
        self.words, self.pid = words, 0
        self._out = out
        self._tasks = [asyncio.create_task(self._drain(err))]

    async def answer(self) -> dict[str, Any] | None:
        """The answer; None if the output ends without one, or is longer than any login shell's."""
        begun, noise = b"", 0
        while noise < _MOST_NOISE and (data := await self._out.read(_PIECE)):
            *lines, begun = (begun + data).split(b"\n")
            for line in lines:
                answer = answer_in(line)
                if answer is not None:
                    self._tasks.append(asyncio.create_task(self._drain(self._out)))
                    return answer
                if told := re.fullmatch(rf"{PID_LINE} (\d{{1,9}})".encode(), line):
                    self.pid = int(told[1])
                else:
                    self.words.add(line + b"\n")
            noise += len(data)
        self.words.add(begun)
        if noise < _MOST_NOISE:
            await asyncio.wait(self._tasks)  # all of stderr, for the error
        return None

    def stop(self) -> None:
        """Read no more."""
        for task in self._tasks:
            task.cancel()

    async def _drain(self, stream: ByteStream) -> None:
        while data := await stream.read(_PIECE):
            self.words.add(data)


def printable(text: str) -> str:
    """A text without characters that a terminal obeys."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def answer_in(line: bytes) -> dict[str, Any] | None:
    """The answer of a host, if a line of output is one: `{"pid": 12, "janitor": 13, …}` or `{"error": "…"}`.

    Examples
    --------
    >>> answer_in(b'{"host": 3, "pid": 12, "janitor": 0}')
    {'host': 3, 'pid': 12, 'janitor': 0}
    >>> answer_in(b'Welcome!')
    """
    try:
        told = json.loads(line)
    except ValueError:
        return None
    if not isinstance(told, dict):
        return None
    if isinstance(told.get("error"), str):
        return told
    pid, janitor = told.get("pid"), told.get("janitor")
    fits = all(type(number) is int and 0 <= number < 2**31 for number in (pid, janitor))
    return told if fits and pid else None


def no_answer(
    host: str, python: str, status: int | None, words: str, failure: str = "did not start"
) -> ClusterStartError:
    """The error for a process that ended without an answer.

    Parameters
    ----------
    host
        Name and place.
    python
        The interpreter that was asked for.
    status
        Its exit status, negative for a signal; None if not known.
    words
        The end of its output.
    failure
        The predicate of the error's first sentence.
    """
    lower = words.lower()
    if "unknown option: -p" in lower:
        why = f"its {python} is older than Python 3.11; name a newer interpreter with python="
    elif "no module named jmars" in lower or "no module named 'jmars'" in lower:
        why = f"its {python} has no jmars; install jmars there, or name the interpreter that has it with python="
    elif "usage: python -m jmars" in lower:
        why = "its jmars is too old to join a cluster; install the version that is here"
    elif status == 126 or "permission denied" in lower:
        why = f"its {python} cannot be executed; name another interpreter with python="
    elif status == 127 or "not found" in lower or "no such file" in lower:
        why = f"it has no program {python}; name an interpreter with python="
    elif status is not None and status < 0:
        why = f"its process was ended by signal {-status} before it answered; see the log of that machine"
    else:
        ended = "" if status is None else f" with status {status}"
        why = f"its process ended{ended} before it answered"
    return ClusterStartError(f"{host} {failure}: {why}. Its last words:\n{words or '(none)'}")


def late_answer(host: str, seconds: float, words: str) -> ClusterStartError:
    """The error for a process that did not answer within so many seconds."""
    return ClusterStartError(
        f"{host} did not start: its process did not answer within {seconds:g} s; look at the load and the disks of "
        f"that machine, and at what a login waits for there. Its last words:\n{words or '(none)'}"
    )


def _secrets_in(ticket: bytes) -> list[str]:
    try:
        told = json.loads(ticket)
    except ValueError:
        return []
    return [str(told["secret"])] if isinstance(told, dict) and told.get("secret") else []


class LocalLauncher:
    """Starts the process of a host on this machine.

    Parameters
    ----------
    python
        The interpreter; by default the one that runs us.
    patience
        Seconds that its answer may take.
    """

    place = "localhost"

    def __init__(self, python: str | None = None, patience: float = ANSWER_SECONDS) -> None:
        self._python = python or sys.executable
        self._patience = patience

    async def start(self, ticket: bytes, name: str, environment: Mapping[str, str]) -> Launched:
        """Start a process and wait for its answer.

        Parameters
        ----------
        ticket
            One line of JSON, which is written to the process's stdin.
        name
            The host's name, for errors.
        environment
            Variables that the process gets beside those of the place; not for secrets.

        Raises
        ------
        ClusterStartError
            If no process answers, or if it answers with an error; what was started is ended.
        """
        try:
            process = subprocess.Popen(
                [self._python, *JOIN],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        except OSError as error:
            raise no_answer(f"{name} ({self.place})", self._python, None, str(error)) from error
        child = LocalProcess(process)
        await child.listen()
        return await hear(child, ticket, name, self.place, self._python, self._patience)


class LocalProcess:
    """A child process of ours, which may outlive our event loop."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._transports: list[asyncio.BaseTransport] = []
        self.out, self.err = asyncio.StreamReader(), asyncio.StreamReader()

    async def listen(self) -> None:
        """Read the output from now on."""
        loop = asyncio.get_running_loop()
        for pipe, reader in ((self._process.stdout, self.out), (self._process.stderr, self.err)):
            protocol = asyncio.StreamReaderProtocol(reader)
            transport, _ = await loop.connect_read_pipe(lambda protocol=protocol: protocol, pipe)  # type: ignore[misc]
            self._transports.append(transport)

    async def send(self, line: bytes) -> None:
        """Write to stdin; a line fits in the pipe."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, and its output says why

    async def status(self) -> int:
        """Exit status, after the end; negative for a signal. Of other launchers None where the host does not say."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        if self._process.poll() is None:
            watch = os.pidfd_open(self._process.pid)
            loop.add_reader(watch, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(watch)
                os.close(watch)
        return self._process.wait()

    async def kill(self, pid: int = 0) -> None:
        """End the process and the children of the process, with SIGKILL."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        await self.status()
        await self.close()

    async def run(self, words: Sequence[str], stdin: bytes, seconds: float) -> bytes | None:
        """Standard output of a command on this machine; None if the command does not end within `seconds`."""
        pipe = subprocess.PIPE
        command = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        try:
            async with asyncio.timeout(seconds):
                return (await command.communicate(stdin))[0]
        except TimeoutError:
            return None
        finally:
            if command.returncode is None:
                command.kill()
                await command.wait()

    async def close(self) -> None:
        """Let go of the process; where it goes on, a thread waits for its end, so that it does not stay a zombie."""
        for transport in self._transports:
            transport.close()
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass  # something was still to be written
        if self._process.poll() is None:
            threading.Thread(target=self._process.wait, name="jmars-reaper", daemon=True).start()
