"""BatchLaunch: hosts of a cluster that one command of a batch system starts: `srun` of SLURM, `mpiexec` of MPI.

    srun --ntasks=4 …  PYTHON -m jmars host --join FILE     the same line on each node, or several times on a node

The hosts share a ticket: a file that only the user can read, in a folder that all nodes have. The head stays beside the
kernel, as on every cluster of several hosts.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from jmars.deploy.batch_words import join_words
from jmars.deploy.hosts_host import QUEUE_SECONDS
from jmars.deploy.join_tickets import JoinTickets
from jmars.deploy.roster import Roster
from jmars.errors import ClusterStartError

__all__ = ["BatchLaunch"]

_LAST_WORDS = 4000  # bytes of the command's output in an error
_KILL_SECONDS = 2.0


def _private_folder() -> Path:
    """A folder in the user's home, which nodes share; only the user can open it.

    Raises
    ------
    ClusterStartError
        If it cannot be made, or others may open it.
    """
    folder = Path.home() / ".cache" / "jmars" / "tickets"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise ClusterStartError(f"no folder for tickets can be made at {folder}: {error.strerror}") from error
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise ClusterStartError(f"others may open the folder {folder}, in which tickets lie; run: chmod 700 {folder}")
    return folder


class BatchLaunch:
    """Starts the hosts, and ends the command.

    Parameters
    ----------
    order
        `command` (words), `hosts` (how many join), and of each host `limit`, `workers`, `threads`, `spill` and `gpus`;
        `addresses` of this machine.
    output
        File for the output of the command.
    """

    def __init__(self, order: Mapping[str, Any], roster: Roster, tickets: JoinTickets, output: Path) -> None:
        self._order, self._roster, self._tickets, self._output = order, roster, tickets, output
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Run the command, and wait until all hosts have joined.

        Raises
        ------
        ClusterStartError
            If the command cannot be run, or ends before.
        """
        hosts, addresses = int(self._order["hosts"]), self._order["addresses"]
        line = await self._tickets.make(self._order, hosts, QUEUE_SECONDS, addresses)
        ticket = _private_folder() / secrets.token_hex(8)
        fd = os.open(ticket, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as file:
                file.write(line)
            await self._run([*self._order["command"], *join_words(ticket)], hosts)
        finally:
            ticket.unlink(missing_ok=True)

    async def _run(self, words: Sequence[str], hosts: int) -> None:
        with open(self._output, "wb") as output:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *words, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output
                )
            except OSError as error:
                raise ClusterStartError(f"{words[0]} cannot be run: {error.strerror}") from error
        ended = asyncio.ensure_future(self._process.wait())
        try:
            while len(self._roster.links) < hosts:
                self._roster.come.clear()
                came = asyncio.ensure_future(self._roster.come.wait())
                await asyncio.wait([ended, came], return_when=asyncio.FIRST_COMPLETED)
                came.cancel()
                if ended.done():
                    raise self._failed(words, ended.result())
        finally:
            ended.cancel()

    async def end(self, patience: float) -> None:
        """Wait for the end of the command, whose hosts were told to end; end it after `patience` seconds."""
        process = self._process
        if process is None:
            return
        for end, seconds in ((None, patience), (process.terminate, _KILL_SECONDS), (process.kill, None)):
            if end is not None:
                with suppress(ProcessLookupError):
                    end()
            try:
                async with asyncio.timeout(seconds):
                    await process.wait()
                return
            except TimeoutError:
                continue

    def _failed(self, words: Sequence[str], status: int) -> ClusterStartError:
        told = self._output.read_bytes()[-_LAST_WORDS:].decode(errors="replace").strip() or "(none)"
        here, hosts = len(self._roster.links), self._order["hosts"]
        return ClusterStartError(
            f"`{shlex.join(words)}` ended with status {status} when {here} of {hosts} hosts had joined; its last words:"
            f"\n{told}"
        )
