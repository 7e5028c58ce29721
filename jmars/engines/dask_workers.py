"""Workers of a Dask cluster: addresses, memory and versions, and workers that a nanny ended for memory.

Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from jmars.engines.dask_worker import MEGABYTE, RESOURCE, inspect_worker
from jmars.engines.engine import EngineWorker
from jmars.errors import text_of
from jmars.model.versions import versions

__all__ = ["DaskWorkers", "can_dial", "cross", "identities"]

MEMORY_EVENTS = "worker-restart-memory"  # topic of Dask's nannies
ANSWER = 3.0  # seconds in which a new worker answers; later, the next look asks again
DIAL = 1.0  # seconds in which a worker can be reached from here, if at all

_logger = logging.getLogger(__name__)


async def cross(client: Any, call: Callable[[], Any], loop: asyncio.AbstractEventLoop | None = None) -> Any:
    """Call a function in the loop of a Dask client, or in any loop, and wait for the answer in this loop."""

    async def run() -> Any:
        answer = call()
        return await answer if inspect.isawaitable(answer) else answer

    there = loop or client.loop.asyncio_loop
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), there))


async def can_dial(address: str) -> bool:
    """Whether this machine can reach a worker; where not, data go through Dask's scheduler."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        async with asyncio.timeout(DIAL):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except (OSError, ValueError):
        return False
    writer.close()
    return True


async def identities(client: Any) -> Mapping[str, Any]:
    """Dask's facts about all workers, by address."""
    # Versions that lack n_workers tell all workers.
    is_new = "n_workers" in inspect.signature(client.scheduler_info).parameters
    identity = partial(client.scheduler.identity, **({"n_workers": -1} if is_new else {}))
    workers: Mapping[str, Any] = (await cross(client, identity))["workers"]
    return workers


@dataclass(eq=False)
class DaskWorkers:
    """Table of the workers that group tasks may use.

    Attributes
    ----------
    client
        A `distributed.Client` that runs.
    present
        Workers by address.
    refused
        Addresses of workers with other versions.
    """

    client: Any
    present: dict[str, EngineWorker] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    _pids: dict[str, int] = field(default_factory=dict)

    async def check(self) -> list[str]:
        """Refuses new workers with other versions; returns a sentence for each refused worker."""
        keys = [key for key in await self._addresses() if key not in self._pids]
        if not keys:
            return []
        here, wrong = versions(), []
        for key, told in zip(keys, await asyncio.gather(*map(self._inspect, keys)), strict=True):
            if isinstance(told, OSError):  # TimeoutError, too
                continue  # the worker dies, or is about to answer: the next look asks again
            if isinstance(told, BaseException):
                wrong.append(f"{key}: {type(told).__name__}: {text_of(told)}")
            elif told["versions"] != here:
                there = told["versions"]
                names = [name for name in here if there[name] != here[name]]
                wrong.append(f"{key} has {', '.join(f'{name} {there[name]}, not {here[name]}' for name in names)}")
            else:
                self._pids[key] = told["pid"]
                continue
            self.refused.add(key)
        return wrong

    async def look(self) -> tuple[list[EngineWorker], dict[str, str]]:
        """Workers that joined since the last look, and workers that left, with reasons."""
        there = set(await self._addresses())
        gone = [key for key in self.present if key not in there]
        killed = await self.killed_for_memory() if gone else set()
        left = {}
        for key in gone:
            del self.present[key]
            self._pids.pop(key, None)
            why = "its nanny ended it for memory" if key in killed else "it left the Dask cluster"
            left[key] = f"worker {key}: {why}"
        self.refused &= there
        came: list[EngineWorker] = []
        if there - set(self.present) - self.refused:
            for wrong in await self.check():
                _logger.warning("a Dask worker differs from this process and its results cannot be trusted: %s", wrong)
            came = await self._describe(there)
            self.present |= {worker.key: worker for worker in came}
        return came, left

    async def told_memory(self) -> dict[str, dict[str, Any]]:
        """Memory of the workers at their last heartbeat."""
        found: dict[str, dict[str, Any]] = {}
        for key, told in (await identities(self.client)).items():
            if key in self.present:
                metrics = told.get("metrics", {})
                spilled = metrics.get("spilled_bytes", {}).get("disk", 0)
                told_now = {"pid": self._pids.get(key), "resident": metrics.get("memory"), "spilled": spilled}
                found[key] = {name: figure for name, figure in told_now.items() if figure is not None}
        return found

    async def killed_for_memory(self) -> set[str]:
        """Workers that their nannies ended for memory."""
        with suppress(Exception):
            events = await cross(self.client, partial(self.client.get_events, MEMORY_EVENTS))
            return {event["worker"] for _, event in events}
        return set()

    async def _inspect(self, key: str) -> Any:
        """The answer of `inspect_worker` in a worker, or the error; one that is stopped holds up no other."""
        ask = partial(self.client.run, inspect_worker, workers=[key], on_error="return")
        try:
            async with asyncio.timeout(ANSWER):
                return (await cross(self.client, ask))[key]
        except OSError as error:
            return error

    async def _addresses(self) -> list[str]:
        return list(await cross(self.client, self.client.nthreads))

    async def _describe(self, there: set[str]) -> list[EngineWorker]:
        """New workers with declared memory; workers without are described at a later look."""
        found = []
        for key, told in (await identities(self.client)).items():
            memory = int(told.get("resources", {}).get(RESOURCE, 0)) * MEGABYTE
            if memory and key in there and key in self._pids and key not in self.present:
                host, name = str(told.get("host", "")), str(told.get("name", key))
                found.append(EngineWorker(key, name, host, int(told["nthreads"]), memory))
        return found
