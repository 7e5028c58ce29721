"""Starts a host of a cluster as a process on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from jmars.deploy.ending import ended_within
from jmars.deploy.environment import process_environment
from jmars.deploy.tickets import Ticket

__all__ = ["LaunchedMember", "launch_here"]


class LaunchedMember:
    """A host that was started."""

    def __init__(self, process: asyncio.subprocess.Process, ticket: Ticket) -> None:
        self.process, self.number, self.name = process, ticket.host, ticket.name
        self.janitor = 0

    async def failed(self) -> str:
        """Wait for the end of a host that does not come up, or for ever; returns the reason."""
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        told: dict[str, Any] = json.loads(line) if line else {"error": "its process ended without a word"}
        if "error" not in told:
            self.janitor = told["janitor"]
            await asyncio.Event().wait()
        return f"host {self.name} did not come up: {told['error']}"

    async def end(self, patience: float) -> None:
        """Wait until the host has ended, by force after `patience` seconds."""
        try:
            async with asyncio.timeout(patience):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        if self.janitor:
            await asyncio.to_thread(ended_within, self.janitor, patience)  # it ends last


async def launch_here(ticket: Ticket) -> LaunchedMember:
    """Start a host; the ticket goes by standard input."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "jmars",
        "host",
        "--join",
        "-",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
        env=process_environment(ticket.threads or 1) | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdin is not None
    process.stdin.write(ticket.line())
    process.stdin.close()
    return LaunchedMember(process, ticket)
