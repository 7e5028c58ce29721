"""HostLaunches: starts the hosts of a cluster at their places, and ends them.

All hosts start at once. Each gets a ticket by its launcher and answers when its workers can compute.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from jmars.deploy.control_process import process_settings
from jmars.deploy.hosts_host import LOCAL
from jmars.deploy.launch import Launches, LocalLauncher
from jmars.deploy.launch_ssh import SshLauncher
from jmars.deploy.roster import Roster
from jmars.deploy.tickets import LEASE, LOOPBACK, Enrolment
from jmars.errors import JmarsError

Result = TypeVar("Result")

log = logging.getLogger("jmars.host")

END_LOOK_SECONDS = 5.0  # between two questions whether the process of a given-up host has ended
LOCAL_LEASE = 8.0  # seconds of silence of the head, after which a host on this machine ends


class HostLaunches(Launches):
    """The hosts that the head starts.

    Parameters
    ----------
    places
        As of `hosts_host.hosts_head`.
    port
        Where the head listens for the hosts at `places`.
    far_port
        Gives a port where the head listens for hosts on any machine.
    """

    def __init__(
        self,
        places: Sequence[Mapping[str, Any]],
        roster: Roster,
        enrolment: Enrolment,
        port: int,
        far_port: Callable[[], Awaitable[int]],
    ) -> None:
        super().__init__(roster, enrolment, port)
        self._places, self._far_port = places, far_port
        self._is_open = any(_is_far(place) for place in places)  # the head listens on all addresses
        self._known: list[str] = []  # addresses of this machine that hosts reach
        self._recognizing: set[asyncio.Task[None]] = set()
        self._placed: dict[int, Mapping[str, Any]] = {}  # places of hosts that were started
        self._returning: dict[int, asyncio.Task[None]] = {}  # looks after hosts that were given up

    async def start(self) -> None:
        """Start hosts at all places.

        Raises
        ------
        ClusterStartError
            If a host does not come up; the others are ended.
        """
        await self._launch(dict(enumerate(self._places, start=1)), self._port)  # the head is number 0

    async def add(self, place: Mapping[str, Any], number: int) -> None:
        """Start a further host of a living cluster.

        Raises
        ------
        ClusterStartError
            If the host does not come up.
        """
        port = await self._far_port() if _is_far(place) and not self._is_open else self._port
        await self._launch({number: place}, port)

    async def _launch(self, numbered: Mapping[int, Mapping[str, Any]], port: int) -> None:
        by_ssh = {n: SshLauncher(place["place"], place["python"]) for n, place in numbered.items() if _is_far(place)}
        try:
            logins = [launcher.address_here(numbered[n]["name"]) for n, launcher in by_ssh.items()]
            ours = dict(zip(by_ssh, await _all(logins), strict=True))  # addresses of this machine on the way to hosts
            self._known = [*dict.fromkeys([*self._known, *filter(None, ours.values())])]
            starts = []
            for n, place in numbered.items():
                if n in by_ssh:
                    addresses = [*filter(None, [ours[n]]), socket.gethostname()]
                    starts.append(self._start(by_ssh[n], n, place, addresses, port, LEASE))
                else:  # other hosts know the further addresses; the first one is there though a network goes away
                    known = [LOOPBACK, *(self._known if self._is_open else [])]
                    starts.append(self._start(LocalLauncher(), n, place, known, port, LOCAL_LEASE))
            await _all(starts)
        finally:
            for launcher in by_ssh.values():
                await launcher.close()

    async def _start(
        self,
        launcher: LocalLauncher | SshLauncher,
        number: int,
        place: Mapping[str, Any],
        addresses: Sequence[str],
        port: int,
        lease: float,
    ) -> None:
        """Start a host; `addresses` of this machine are tried in that order."""
        name = str(place["name"])
        identity = self._roster.expect(number, name)
        secret = self._enrolment.invite(identity, time.monotonic())
        ticket = self._enrolment.ticket(name, identity, secret, addresses, port, place, lease)
        before, self._placed[number] = self._launched.get(number), place
        self._launched[number] = await launcher.start(ticket, name, process_settings(place["threads"]))
        if before is not None:
            await before.close()
        log.info("host %d (%s) runs: %s", number, launcher.place, self._launched[number].answer)

    def back(self, number: int) -> None:
        """A host is here again, in the same process: learn the process id of the new janitor."""
        launched = self._launched.get(number)
        if launched is not None:  # else another way than ours started it
            task = asyncio.ensure_future(launched.recognize_again(self._roster.facts[number]["janitor"]))
            self._recognizing.add(task)
            task.add_done_callback(self._recognizing.discard)

    def gave_up(self, number: int) -> None:
        """A silent host was given up: start the host again once its process has ended, unless the host comes back."""
        if number in self._placed and number not in self._returning:
            task = self._returning[number] = asyncio.ensure_future(self._return(number))
            task.add_done_callback(lambda _: self._returning.pop(number, None))

    async def _return(self, number: int) -> None:
        """Ask the place of a given-up host again and again; without a link there is no answer, and nothing happens."""
        awaited = self._roster.silent  # without hosts that are back, or may not come back
        while number in awaited and number in self._launched:
            await asyncio.sleep(END_LOOK_SECONDS)
            if await self.opinion(number) != "gone" or number not in awaited or number not in self._placed:
                continue
            log.info("the process of host %d has ended: it is started again", number)
            try:
                await self.add(self._placed[number], number)
            except JmarsError as error:
                log.warning("host %d could not be started again: %s", number, error)

    async def end_host(self, number: int, patience: float) -> None:
        """Wait for the end of a host that was told to end; kill it after `patience` seconds."""
        self._placed.pop(number, None)
        launched = self._launched.pop(number, None)  # None: another way than ours started it
        if launched is not None and not await launched.end(patience):
            log.warning("whether host %d has ended is not known; its lease ends it", number)

    async def end(self, patience: float) -> None:
        """Wait for the ends of all hosts, which were told to end; kill them after `patience` seconds."""
        for task in list(self._returning.values()):
            task.cancel()
        self._placed.clear()
        await self._end(list(self._launched), patience)


def _is_far(place: Mapping[str, Any]) -> bool:
    return bool(place["place"] != LOCAL)


async def _all(works: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Results of works that run at once; after an error the others are cancelled, and have ended."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
