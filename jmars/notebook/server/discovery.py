"""Clusters of this user, found by their registry files, and one connection to each.

The browser never sees a socket or a token. Used by handlers.py.
Source: shared design, "labextension and server extension" (discovery without touching the kernel).
"""

from __future__ import annotations

import asyncio
from typing import Any

from jmars.actors import registry
from jmars.actors.channel import Channel, Mailbox, connect
from jmars.actors.registry import Entry
from jmars.errors import ClusterLostError

__all__ = ["Finder"]

_ANSWER = 3.0  # seconds that a cluster may take to answer


class _Deaf:
    """The actor "jobs": a cluster tells all who are connected when a job ends; the side bar reads it in the events."""

    def ended(self, report: Any) -> None:
        """Nothing to do."""


class Finder:
    """Clusters by id, and what they answer. One per Jupyter server; used on its event loop alone."""

    def __init__(self) -> None:
        self._channels: dict[str, Channel] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._mailbox = Mailbox()
        self._mailbox.add("jobs", _Deaf())

    def entries(self) -> list[Entry]:
        """The clusters that are registered, by id."""
        return registry.entries()

    async def ask(self, cluster: str, actor: str, method: str, *args: Any) -> Any:
        """What `actor.method(*args)` gives on a cluster.

        Raises
        ------
        KeyError
            If no such cluster is registered.
        ClusterLostError
            If it does not answer in time.
        """
        entry = next((entry for entry in self.entries() if entry.id == cluster), None)
        if entry is None:
            raise KeyError(cluster)
        try:
            async with asyncio.timeout(_ANSWER):
                kept = self._channels.get(cluster)
                channel = await self._channel(entry)
                try:
                    return await channel.ask(actor, method, *args)
                except ClusterLostError:
                    if channel is not kept:
                        raise
                # The kept connection had ended without our knowing: a new one may do.
                self._drop(cluster)
                return await (await self._channel(entry)).ask(actor, method, *args)
        except TimeoutError:
            self._drop(cluster)
            raise ClusterLostError(
                f"cluster {cluster} has not answered for {_ANSWER:g} s; it may be stopped or very busy: try again"
            ) from None

    def close(self) -> None:
        """Cut all connections."""
        for cluster in list(self._channels):
            self._drop(cluster)

    async def _channel(self, entry: Entry) -> Channel:
        """The connection to a cluster, made when there is none."""
        async with self._locks.setdefault(entry.id, asyncio.Lock()):
            channel = self._channels.get(entry.id)
            if channel is None or channel.closed:
                self._forget_ended()
                channel = self._channels[entry.id] = await connect(entry.socket, entry.token, self._mailbox)
            return channel

    def _forget_ended(self) -> None:
        for cluster in [cluster for cluster, channel in self._channels.items() if channel.closed]:
            del self._channels[cluster]
        self._locks = {cluster: lock for cluster, lock in self._locks.items() if lock.locked()}

    def _drop(self, cluster: str) -> None:
        channel = self._channels.pop(cluster, None)
        if channel is not None:
            channel.close()
