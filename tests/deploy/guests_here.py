"""This process as a worker of an engine, and a head without clients: for tests of guests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from jmars.actors.tls import Identity, server_context
from jmars.actors.tls_link import serve_tls
from jmars.deploy.ca import CertificateAuthority
from jmars.deploy.roster import Roster
from jmars.deploy.tickets import Enrolment, Ticket, strangers
from jmars.errors import ClusterLostError
from jmars.scheduler.hosts import Hosts

WHO = Identity(1, 1)


@dataclass
class Here:
    """This process as the worker of an engine."""

    key = place = "this process"
    address, cores, memory, spill = "127.0.0.1", 1, 4 * 10**8, None
    wire: bytes = b""  # all that went over the engine's connection
    gone: bool = False

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        if self.gone:
            raise ClusterLostError("the worker is gone")
        answer = await asyncio.to_thread(function, *args)
        self.wire += repr((args, answer)).encode()
        return answer


async def no_opinion(number: int) -> str:
    """No launcher is asked for the state of a host."""
    return ""


@asynccontextmanager
async def head() -> AsyncIterator[tuple[Roster, CertificateAuthority, Ticket]]:
    """A head that expects one guest, and the guest's ticket."""
    authority = CertificateAuthority("5f3a9c01")
    roster = Roster(Hosts(), lambda profile: None, lambda *moved: None, lambda *transfer: None)
    roster.again, roster.environment = lambda number: (0, b""), lambda *host: {}
    roster.opinion = no_opinion
    context = server_context(authority.issue("head"), strangers=True)
    server = await serve_tls("127.0.0.1", 0, context, roster.accept, strangers(Enrolment(authority)))
    try:
        roster.expect(1, "host-1")
        address = (f"127.0.0.1:{server.port}",)
        yield (
            roster,
            authority,
            Ticket("5f3a9c01", "host-1", 1, 1, address, authority.certificate, None, 4 * 10**8, 1, 1),
        )
    finally:
        roster.close()
        server.close()
        await asyncio.sleep(0)
