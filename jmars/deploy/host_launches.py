"""HostLaunches: starts the hosts of a cluster at their places, and ends them.

All hosts start at once. Each gets a ticket by its launcher and answers when its workers can compute.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from jmars.deploy.enrolment import Enrolment
from jmars.deploy.environment import process_settings
from jmars.deploy.hosts_host import LOCAL
from jmars.deploy.launch import Launched, Launcher
from jmars.deploy.launch_local import LocalLauncher
from jmars.deploy.launch_ssh import SshLauncher
from jmars.deploy.roster import Roster
from jmars.deploy.ssh_words import SshPlace
from jmars.deploy.tickets import Ticket

__all__ = ["LOOPBACK", "HostLaunches", "addresses_of_head"]

log = logging.getLogger("jmars.host")

LOOPBACK = "127.0.0.1"
LOCAL_LEASE, LEASE = 8.0, 30.0  # seconds of silence of the head, after which a host ends


class HostLaunches:
    """The hosts that the head starts.

    Parameters
    ----------
    cluster
        Id of the cluster.
    places
        HostsHost's.
    port
        Where the head listens for hosts.
    """

    def __init__(
        self, cluster: str, places: Sequence[Mapping[str, Any]], roster: Roster, enrolment: Enrolment, port: int
    ) -> None:
        self._cluster, self._places, self._roster, self._enrolment = cluster, places, roster, enrolment
        self._port = port
        self._launched: dict[int, Launched] = {}

    async def start(self) -> None:
        """Start all hosts.

        Raises
        ------
        ClusterStartError
            If a host does not come up; the others are ended.
        """
        addresses = addresses_of_head([str(place["place"]) for place in self._places])
        numbered = list(enumerate(self._places, start=1))  # the head is number 0
        tasks = [asyncio.ensure_future(self._start(number, place, addresses)) for number, place in numbered]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    async def _start(self, number: int, place: Mapping[str, Any], addresses: Sequence[str]) -> None:
        name, where = str(place["name"]), str(place["place"])
        launcher: Launcher = LocalLauncher()
        if where != LOCAL:
            launcher = SshLauncher(where, place["python"])
        identity = self._roster.expect(number, name)
        ticket = Ticket(
            self._cluster,
            name,
            *identity,
            tuple(f"{address}:{self._port}" for address in addresses),
            self._enrolment.authority.certificate,
            self._enrolment.invite(identity, time.monotonic()),
            place["limit"],
            place["workers"] or None,
            place["threads"],
            place["spill"],
            LOCAL_LEASE if where == LOCAL else LEASE,
        )
        self._launched[number] = await launcher.start(ticket.line(), name, process_settings(place["threads"]))
        log.info("host %d (%s) runs: %s", number, where, self._launched[number].answer)

    async def opinion(self, number: int) -> str:
        """What the control process of a host does: "running", "stopped", "gone"; "" where nobody can tell."""
        launched = self._launched.get(number)
        if launched is None:
            return ""
        pid = launched.answer["pid"]
        return (await launched.is_alive([pid]) or {}).get(pid, "")

    async def end(self, patience: float) -> None:
        """Wait for the ends of all hosts, which were told to end; kill them after `patience` seconds."""
        ended = await asyncio.gather(*[one.end(patience) for one in self._launched.values()], return_exceptions=True)
        for number, sure in zip(self._launched, ended, strict=True):
            if sure is not True:
                log.warning("whether host %d has ended is not known (%s); its lease ends it", number, sure)


def addresses_of_head(places: Sequence[str]) -> list[str]:
    """Addresses by which hosts at these places reach this machine, the likeliest first."""
    found = [] if any(place != LOCAL for place in places) else [LOOPBACK]
    for place in places:
        if place != LOCAL:
            there = SshPlace.parse(place)
            try:
                *_, address = socket.getaddrinfo(there.host, 9, type=socket.SOCK_DGRAM)[0]
                family = socket.AF_INET6 if len(address) == 4 else socket.AF_INET
                with socket.socket(family, socket.SOCK_DGRAM) as probe:
                    probe.connect(address)  # sends nothing: the system chooses a route
                    found.append(str(probe.getsockname()[0]))
            except OSError as error:
                log.info("no route to %s is known before ssh finds one: %s", place, error)
    return list(dict.fromkeys([*found, *([] if found == [LOOPBACK] else [socket.gethostname()])]))
