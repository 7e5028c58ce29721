"""JoinTickets: tickets for hosts that people or batch systems start while the cluster lives.

A ticket is for a single host or for several hosts, which share the secret and get numbers as they come.
"""

from __future__ import annotations

import asyncio
import math
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from jmars.actors.tls import HEAD, Identity
from jmars.actors.tls_server import TlsServer
from jmars.deploy.enrolment import Enrolment
from jmars.deploy.roster import Roster
from jmars.deploy.tickets import Ticket

__all__ = ["LOOPBACK", "JoinTickets", "own_addresses"]

LOOPBACK = "127.0.0.1"
LEASE = 30.0  # seconds of silence of the head, after which a host ends
_AWAY = ("192.0.2.1", "2001:db8::1")  # reserved for documentation: the way there is the way to other machines


class JoinTickets:
    """Makes the tickets of a cluster.

    Parameters
    ----------
    listen
        Listens for hosts of other machines, too.
    """

    def __init__(
        self, cluster: str, roster: Roster, enrolment: Enrolment, listen: Callable[[], Awaitable[TlsServer]]
    ) -> None:
        self._cluster, self._roster, self._enrolment, self._listen = cluster, roster, enrolment, listen
        self._server: TlsServer | None = None
        self._opening = asyncio.Lock()
        self._made = 0
        self._again: dict[int, tuple[int, bytes]] = {}  # tickets of hosts that joined, by number

    async def make(self, settings: Mapping[str, Any], hosts: int, seconds: float, addresses: Sequence[str]) -> bytes:
        """A ticket as a line of JSON with the secret.

        Parameters
        ----------
        settings
            Of the hosts: limit, workers, threads, spill and gpus; None for a host's defaults.
        hosts
            How many may join by it.
        seconds
            For how long.
        addresses
            Of this machine, as the hosts reach it; empty for those that the machine knows itself.
        """
        port = await self.port()
        asked, secret = self._invite(seconds, hosts, self._roster.expect_new)
        return Ticket(
            self._cluster,
            "a host that joins",
            *asked,
            tuple(f"[{one}]:{port}" if ":" in one else f"{one}:{port}" for one in addresses or own_addresses()),
            self._enrolment.authority.certificate,
            secret,
            settings["limit"],
            settings["workers"],
            settings["threads"],
            settings["spill"],
            LEASE,
            settings["gpus"],
        ).line()

    async def port(self) -> int:
        """Port for hosts of any machine."""
        async with self._opening:
            if self._server is None:
                self._server = await self._listen()
        return self._server.port

    def again(self, number: int) -> tuple[int, bytes]:
        """Number and secret of the ticket by which a host joins again after it was given up, however often."""
        if number not in self._again:
            seat = partial(self._roster.expect_again, number)
            asked, secret = self._invite(math.inf, sys.maxsize, seat)
            self._again[number] = asked.incarnation, secret
        return self._again[number]

    def _invite(self, seconds: float, hosts: int, seat: Callable[[], Identity]) -> tuple[Identity, bytes]:
        self._made += 1
        asked = Identity(HEAD, self._made)
        return asked, self._enrolment.invite(asked, self._roster.now(), seconds, hosts, seat)

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()


def own_addresses() -> list[str]:
    """Names and addresses by which hosts may reach this machine: of routes to other machines, the name, loopback."""
    found = []
    for family, address in zip((socket.AF_INET, socket.AF_INET6), _AWAY, strict=True):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((address, 9))  # sends nothing: the system chooses a route
                found.append(str(probe.getsockname()[0]))
        except OSError:
            continue  # no way to other machines by this family
    return list(dict.fromkeys([*found, socket.gethostname(), LOOPBACK]))
