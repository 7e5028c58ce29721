"""ElasticHosts: hosts of a living cluster that come and leave, as users ask or as there is work.

Source: docs/explanation/seeds.md, "Architecture".

Evacuates a host: running operands end there, other hosts keep the chunks, then the host leaves the cluster.

No operand runs again. A host that dies meanwhile counts as lost; a host stays where no host has room for the chunks.
Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from jmars.deploy.hosts_host import host_name
from jmars.deploy.launch import Launches
from jmars.deploy.roster import Roster
from jmars.errors import ClusterError, ClusterLostError, ClusterStartError, text_of
from jmars.scheduler.elastic import Demand, Elastic, Evacuation, least_holders

log = logging.getLogger("jmars.host")

END_SECONDS = 5.0  # for the processes of a host that left
LOOK_SECONDS = 1.0  # between two looks at the work that waits


class ElasticHosts:
    """Changes the hosts of a cluster, a single change at a time.

    Parameters
    ----------
    places
        Settings of hosts by place, as of `hosts_host.hosts_head`: at most one host runs at a place.
    is_coming
        Tells whether a client is sending a chunk to a host.
    demand
        Gives the work that waits: seconds, and operands that could run.
    """

    def __init__(
        self,
        roster: Roster,
        launches: Launches,
        places: Sequence[Mapping[str, Any]],
        is_coming: Callable[[int], bool],
        demand: Callable[[], Awaitable[tuple[float, int]]],
    ) -> None:
        self._roster, self._launches, self._is_coming, self._demand = roster, launches, is_coming, demand
        self._places = list(places)
        self._at = {number: place for place, number in enumerate(range(1, len(places) + 1))}  # by host
        self._forgotten: set[int] = set()  # new places at which no host came up
        self._changing = asyncio.Lock()
        self._elastic: Elastic | None = None
        self._following: asyncio.Task[None] | None = None
        self._why = ""  # why the last change failed

    # -- what users ask for
    async def scale(self, wanted: int | Sequence[str]) -> None:
        """Have so many hosts, or further hosts at new places; ends `adapt`.

        Raises
        ------
        ClusterStartError
            If hosts do not come up; the remaining hosts go on.
        ClusterError
            If there are not so many places, or a host cannot leave.
        """
        self._elastic = None
        async with self._changing:
            if not isinstance(wanted, int):
                await self._extend(wanted)
                return
            await self._scale(wanted)

    def adapt(self, least: int, most: int) -> None:
        """Have between `least` and `most` hosts from now on, as there is work; raises ClusterError as `scale`."""
        self._check(least)
        self._check(most)
        self._elastic = Elastic(least, most)
        if self._following is None or self._following.done():
            self._following = asyncio.ensure_future(self._follow())

    async def evacuate(self, names: Sequence[str]) -> None:
        """Have hosts leave, in turn; running operands end there, and no operand runs again.

        Raises
        ------
        ClusterError
            If there is no such host, no host would be left, or no host has room for the chunks of a host.
        """
        async with self._changing:
            staying = {row.name: row.number for row in self._roster.hosts.staying}
            unknown = [name for name in names if name not in staying]
            if unknown:
                raise ClusterError(f"no host {unknown[0]!r} is here; the cluster has {', '.join(sorted(staying))}")
            if len(set(names)) == len(staying):
                raise ClusterError("all hosts are to leave, and none would be left; close the cluster instead")
            for name in dict.fromkeys(names):
                await self._evacuate(staying[name])

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The bounds of `adapt` while the number of hosts follows the work."""
        return (self._elastic.least, self._elastic.most) if self._elastic is not None else None

    def info(self) -> dict[str, Any]:
        """Places, and bounds of `adapt`; see Cluster.info."""
        adapts = self._elastic and {"least": self._elastic.least, "most": self._elastic.most, "why": self._why}
        places = [place["place"] for at, place in enumerate(self._places) if at not in self._forgotten]
        return {"places": places, "adapt": adapts}

    def close(self) -> None:
        """Change no hosts any more."""
        if self._following is not None:
            self._following.cancel()

    # -- own
    @property
    def _staying(self) -> list[int]:
        return [row.number for row in self._roster.hosts.staying]

    def _free(self) -> list[int]:
        """Places without a host, in the order in which users named the places."""
        taken = {self._at[number] for number in self._staying if number in self._at}
        return [place for place in range(len(self._places)) if place not in taken | self._forgotten]

    def _check(self, wanted: int) -> None:
        """Raise ClusterError for a number of hosts that the cluster cannot have."""
        most = len(self._staying) + len(self._free())
        if wanted < 1:
            raise ClusterError(f"a cluster has 1 host or more, not {wanted}; to end the cluster, stop it")
        if wanted > most:
            raise ClusterError(
                f"{wanted} hosts are more than the {most} that the places of the cluster allow, a host at each; name "
                'further places: scale(["node-9"])'
            )

    async def _scale(self, wanted: int) -> None:
        self._check(wanted)
        more = wanted - len(self._staying)
        if more > 0:
            await self._start(self._free()[:more])
        elif more < 0:
            for number in least_holders(self._roster.hosts.places, self._staying, -more):
                await self._evacuate(number)

    async def _extend(self, wanted: Sequence[str]) -> None:
        """Start hosts at new places, with the settings of the first place; failed places are forgotten."""
        if not self._places:
            raise ClusterError(
                "a batch system started the hosts of this cluster, so hosts at further places have no settings; "
                "let further hosts join by a file: cluster.ticket(path)"
            )
        for place in wanted:
            host_name(0, place)  # raises for a text that is no place
        first = len(self._places)
        self._places += [{**self._places[0], "place": place} for place in wanted]
        try:
            await self._start(range(first, len(self._places)))
        finally:
            self._forgotten.update(set(range(first, len(self._places))) & set(self._free()))

    async def _start(self, places: Sequence[int]) -> None:
        """Start hosts at places, all at once; hosts that were lost there do not come back."""
        lost = [number for number, place in self._at.items() if place in places and number not in self._staying]
        for number in lost:
            self._roster.bar(number, "another host was started at its place")
        await asyncio.gather(*[self._launches.end_host(number, 0.0) for number in lost])
        numbers = range(first := max(self._roster.names, default=0) + 1, first + len(places))
        starts = []
        for number, place in zip(numbers, places, strict=True):
            self._at[number] = place
            settings = self._places[place]
            name = self._roster.names[number] = host_name(number, settings["place"])  # nobody else gets the number
            starts.append(self._launches.add({**settings, "name": name}, number))
        failed = [one for one in await asyncio.gather(*starts, return_exceptions=True) if one is not None]
        if failed:
            told = "; ".join(str(one) for one in failed)
            came = len(places) - len(failed)
            raise ClusterStartError(
                f"{came} of {len(places)} hosts came up, and the cluster goes on with these: {told}"
            )

    async def _evacuate(self, number: int) -> None:
        await evacuate(self._roster, number, self._is_coming)
        await self._launches.end_host(number, END_SECONDS)

    async def _follow(self) -> None:
        """Have as many hosts as the work that waits is worth, until `scale` is called; a failed look ends nothing."""
        while self._elastic is not None:
            try:
                await self._look(self._elastic)
            except Exception as error:  # whatever a launch raises: later looks may succeed
                self._why = text_of(error)
                log.warning("the number of hosts could not follow the work: %s", self._why, exc_info=_unexpected(error))
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, elastic: Elastic) -> None:
        here, executors = self._staying, sum(row.cores for row in self._roster.hosts.staying)
        wanted = elastic.look(asyncio.get_running_loop().time(), len(here), executors, Demand(*await self._demand()))
        if here and wanted != len(here):
            log.info("%d hosts are wanted, and there are %d", wanted, len(here))
            async with self._changing:
                await self._scale(wanted)
            self._why = ""


def _unexpected(error: Exception) -> Exception | None:
    """The error, if its place in the source is worth a look."""
    return None if isinstance(error, ClusterError) else error


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
            places.located(chunk, host)  # it hears when the chunk is freed
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
