"""A cluster's socket without a cluster: answers what the Jupyter server part asks, from a list of events."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from pathlib import Path
from typing import Any

from jmars.actors import Mailbox, remote_method, serve
from jmars.errors import ClusterError

TOKEN = "secret-token-of-the-cluster"


class Cluster:
    """The actor "cluster"."""

    def __init__(self, jobs: list[dict[str, Any]]) -> None:
        self.listed, self.cancelled, self.channels = jobs, [], set()

    @remote_method
    def summary(self) -> dict[str, Any]:
        return {"workers": 2, "jobs": len(self.listed)}

    @remote_method
    def jobs(self) -> list[dict[str, Any]]:
        return self.listed

    @remote_method
    def cancel(self, job: str) -> None:
        if job not in [row["id"] for row in self.listed]:
            raise ClusterError(f"there is no job {job!r} here")
        self.cancelled.append(job)
        for channel in list(self.channels):
            channel.tell("jobs", "ended", {"job": job})


class Events:
    """The actor "session"."""

    def __init__(self, events: list[Any]) -> None:
        self.events = events

    @remote_method
    def read(self, since: int, job: str) -> tuple[list[Any], int]:
        return [event for event in self.events if event[0] > since and event[3] in ("", job)], len(self.events)


class FakeCluster:
    """Serves on a thread while the `with` block runs, registered in `runtime_dir`."""

    def __init__(self, runtime_dir: Path, events: list[Any], name: str = "fake-1") -> None:
        self.id = name
        self.actor = Cluster([{"id": "job-1", "name": "cell 1", "state": "running", "elapsed": 1.0}])
        self.events = Events(events)
        self._folder = tempfile.TemporaryDirectory()  # its path is short, as a socket's must be
        self._socket = Path(self._folder.name) / "control"
        self.registry = runtime_dir / f"{name}.json"
        self._mailbox = Mailbox()
        self._mailbox.add("cluster", self.actor)
        self._mailbox.add("session", self.events)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> FakeCluster:
        self._thread.start()
        assert self._ready.wait(60)
        entry = {"id": self.id, "name": "local", "socket": str(self._socket), "token": TOKEN, "pid": 1, "kernel_pid": 1}
        self.registry.touch(mode=0o600)
        self.registry.write_text(json.dumps(entry))
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self.registry.unlink(missing_ok=True)
        self._folder.cleanup()

    def _work(self) -> None:
        async def run() -> None:
            self._stop = asyncio.Event()
            server = await serve(
                self._socket, self._mailbox, TOKEN, self.actor.channels.add, self.actor.channels.discard
            )
            self._ready.set()
            await self._stop.wait()
            server.close()
            for channel in list(self.actor.channels):
                channel.close()
            await asyncio.sleep(0)  # so that the transports close before the loop does

        self._loop.run_until_complete(run())
        self._loop.close()
