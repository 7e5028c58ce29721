"""ShardHolders: the scheduler processes of a cluster that hold shards of jobs, beside the scheduler that leads.

Each is `python -m jmars scheduler` with a socket in the cluster's private folder. One that ends is started again; until
then the leader has its shards (scheduler/remote_shard.py). All end with the standard input that the host holds.
Source: docs/decisions/0050-schedulers-by-replay.md.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from jmars.scheduler.shards import serve_shards

__all__ = ["ShardHolders", "hold_shards"]

log = logging.getLogger("jmars.host")

LOOK_SECONDS = 0.2  # between two looks whether a process has ended
PAUSE_SECONDS = 1.0  # before one is started again


class ShardHolders:
    """Processes that hold shards.

    Parameters
    ----------
    count
        How many; their names are scheduler-1 and so on.
    folder
        Private folder of the cluster, for the sockets.
    path
        `sys.path` of the processes.
    moved
        Called with name, process id and state ("running", "lost") of a process.
    """

    def __init__(self, count: int, folder: str, path: list[str], moved: Callable[[str, int, str], None]) -> None:
        self._path, self._moved = path, moved
        self._key = secrets.token_hex(32)
        self._sockets = {f"scheduler-{number}": os.path.join(folder, f"s{number}") for number in range(1, count + 1)}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._watching: asyncio.Task[None] | None = None

    @property
    def orders(self) -> dict[str, Any]:
        """What a leader needs to reach the processes."""
        return {"key": self._key, "sockets": self._sockets}

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of those that live, by name."""
        return {name: process.pid for name, process in self._processes.items() if process.poll() is None}

    def start(self) -> None:
        """Start the processes."""
        for name in self._sockets:
            self._start(name)
        self._watching = asyncio.ensure_future(self._watch())

    def close(self) -> None:
        """End the processes."""
        if self._watching is not None:
            self._watching.cancel()
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()

    def _start(self, name: str) -> None:
        process = subprocess.Popen([sys.executable, "-P", "-m", "jmars", "scheduler"], stdin=subprocess.PIPE)
        assert process.stdin is not None
        orders = {"holds": self._sockets[name], "key": self._key, "path": self._path}
        process.stdin.write(json.dumps(orders).encode() + b"\n")
        process.stdin.flush()  # and open as long as this process lives
        self._processes[name] = process

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for name, process in list(self._processes.items()):
                if process.poll() is None:
                    continue
                log.warning("%s, process %d, has ended: %s", name, process.pid, process.returncode)
                assert process.stdin is not None
                process.stdin.close()
                self._moved(name, process.pid, "lost")
                await asyncio.sleep(PAUSE_SECONDS)
                self._start(name)
                self._moved(name, self._processes[name].pid, "restarted")


def hold_shards(orders: Mapping[str, Any]) -> None:
    """Be such a process until the host closes standard input."""
    threading.Thread(target=serve_shards, args=(orders["holds"], bytes.fromhex(orders["key"])), daemon=True).start()
    sys.stdin.buffer.read()
    os._exit(0)
