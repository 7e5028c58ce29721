"""The gateway's connection to its cluster.

`ClusterConnection` calls actors of the cluster with a time limit and reports ended jobs and the end of the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from jmars.actors import ActorChannel, Mailbox, connect, remote_method
from jmars.actors.registry import Entry
from jmars.errors import ClusterLostError

__all__ = ["PATIENCE", "ClusterConnection"]

PATIENCE = 8.0  # seconds that a cluster may take to answer


class ClusterConnection:
    """An authenticated channel to the cluster.

    Parameters
    ----------
    entry
        The cluster.
    ended
        Called with the report of each job that ends.
    """

    def __init__(self, entry: Entry, ended: Callable[[dict[str, Any]], None]) -> None:
        self.entry = entry
        self.lost = asyncio.Event()  # set when the cluster is gone
        self._ended = ended
        self._channel: ActorChannel | None = None

    async def open(self) -> None:
        """Connects; raises ClusterLostError or AuthenticationError."""
        mailbox = Mailbox()
        mailbox.add("jobs", _Jobs(self._ended))
        self._channel = await connect(self.entry.socket, self.entry.token, mailbox, lambda _: self.lost.set())
        await self.ask("session", "call_me", "web")  # a fixed name: the next gateway gets this gateway's tensors

    async def ask(self, actor: str, method: str, *args: Any, patience: float = PATIENCE) -> Any:
        """Calls `actor.method(*args)` on the cluster and returns the answer.

        Raises
        ------
        ClusterLostError
            If the connection is closed, or the cluster does not answer within `patience` seconds.
        """
        assert self._channel is not None
        try:
            async with asyncio.timeout(patience):
                return await self._channel.ask(actor, method, *args)
        except TimeoutError:
            raise ClusterLostError(
                f"cluster {self.entry.id} has not answered for {patience:g} s; it may be stopped or busy: try again"
            ) from None

    def tell(self, actor: str, method: str, *args: Any) -> None:
        """Calls a method without waiting for the answer."""
        assert self._channel is not None
        self._channel.tell(actor, method, *args)

    def close(self) -> None:
        """Closes the channel."""
        if self._channel is not None:
            self._channel.close()


class _Jobs:
    """The actor "jobs"; the cluster calls it when a job ends."""

    def __init__(self, ended: Callable[[dict[str, Any]], None]) -> None:
        self._told = ended

    @remote_method
    def ended(self, report: dict[str, Any]) -> None:
        """Passes on the report of an ended job."""
        self._told(report)

    @remote_method
    def stalled(self, told: dict[str, Any]) -> None:
        """Ignores stalls: the job's events contain them."""

    @remote_method
    def scaled(self, facts: dict[str, Any]) -> None:
        """Ignores a new number of workers: the summary tells it."""

    @remote_method
    def broken(self, why: str) -> None:
        """Ignores the end of the control process: the channel ends too."""

    @remote_method
    def stopped(self, by: str) -> None:
        """Ignores the end of the cluster: the channel ends too."""
