"""Evacuates a host: running operands end there, other hosts keep the chunks, then the host leaves the cluster.

No operand runs again. A host that dies meanwhile counts as lost; a host stays where no host has room for the chunks.
Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from jmars.deploy.roster import Roster
from jmars.errors import ClusterError, ClusterLostError
from jmars.scheduler.elastic import Evacuation

__all__ = ["evacuate"]

log = logging.getLogger("jmars.host")


async def evacuate(roster: Roster, number: int, is_coming: Callable[[int], bool]) -> None:
    """Have a host leave.

    Parameters
    ----------
    is_coming
        Tells whether a client is sending a chunk to a host.

    Raises
    ------
    ClusterLostError
        If the host is lost meanwhile.
    ClusterError
        If the host has to stay: it is the last host, or no host has room for the chunks.
    """
    hosts, row, awake = roster.hosts, roster.hosts.rows[number], asyncio.Event()
    evacuation = Evacuation(hosts.places, number)
    hosts.leave(number)
    roster.changed(number, "leaving", "")
    roster.on_news[number] = awake.set
    try:
        while row.here:
            awake.clear()
            memory = {one.number: one.memory for one in hosts.here if one.takes}
            if not memory:
                raise ClusterError(f"{row.name} stays, since no other host can take what it has; add a host first")
            asked = evacuation.next(memory)
            if asked:
                await asyncio.gather(*[_keep(roster, evacuation, *one) for one in asked.items()])
            elif hosts.is_busy(number) or is_coming(number) or not hosts.close_at(number):
                await awake.wait()
            else:
                log.info("host %d leaves, %d of its chunks stay elsewhere", number, len(evacuation.kept))
                roster.left(number)
                return
    except ClusterError as error:
        hosts.stay(number)
        roster.changed(number, "back", str(error))
        raise
    finally:
        del roster.on_news[number]
    raise ClusterLostError(f"{row.name} was lost while other hosts took its chunks; what only it had is computed again")


async def _keep(roster: Roster, evacuation: Evacuation, host: int, chunks: Sequence[int]) -> None:
    """Ask a host to keep chunks."""
    hosts, link = roster.hosts, roster.links.get(host)
    places = hosts.places
    chunks = [chunk for chunk in chunks if places.holders(chunk)]  # some may have been freed since they were chosen
    kept: list[int] = []
    if link is not None and chunks:
        for chunk in chunks:
            places.told(chunk, host)  # it hears when the chunk is freed
        holders = [[one for one in places.holders(chunk) if one != host] for chunk in chunks]
        shapes = {chunk: places.shape[chunk] for chunk in chunks if chunk in places.shape}
        sizes = [places.size[chunk] for chunk in chunks]
        try:
            kept = await link.channel.ask("keeping", "keep", list(chunks), sizes, holders, shapes or None)
        except ClusterLostError as error:
            log.info("host %d cannot keep chunks of host %d: %s", host, evacuation.number, error)
    if hosts.rows[host].here:  # else other hosts are asked
        hosts.kept(host, kept)
        evacuation.done(host, [chunk for chunk in chunks if chunk in places.have], kept)
