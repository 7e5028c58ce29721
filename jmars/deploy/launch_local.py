"""A launcher for this machine: the process of another host runs beside us, as tests and `localhost` want it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

from jmars.deploy.host_output import no_answer
from jmars.deploy.launch import ANSWER_SECONDS, JOIN, Launched, hear

__all__ = ["LocalLauncher"]


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
        """Start a process and wait for its answer; see `Launcher.start`."""
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
    """A child process of ours, which may outlive our event loop; see `HostProcess`."""

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
        """Exit status, after the end."""
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
