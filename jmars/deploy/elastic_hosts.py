"""ElasticHosts: hosts of a living cluster that come and leave as users ask.

Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from jmars.deploy.evacuation import evacuate
from jmars.deploy.host_launches import HostLaunches
from jmars.deploy.hosts_chunks import HostsChunks
from jmars.deploy.roster import Roster
from jmars.errors import ClusterError

__all__ = ["ElasticHosts"]

END_SECONDS = 5.0  # for the processes of a host that left


class ElasticHosts:
    """Changes the hosts of a cluster, a single change at a time."""

    def __init__(self, roster: Roster, launches: HostLaunches, passing: HostsChunks) -> None:
        self._roster, self._launches, self._passing = roster, launches, passing
        self._changing = asyncio.Lock()

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
                raise ClusterError(f"there is no host {unknown[0]!r}; the cluster has {', '.join(sorted(staying))}")
            if len(set(names)) == len(staying):
                raise ClusterError("all hosts are to leave, and none would be left; close the cluster instead")
            for name in dict.fromkeys(names):
                await self._evacuate(staying[name])

    async def _evacuate(self, number: int) -> None:
        await evacuate(self._roster, number, self._passing.is_coming)
        await self._launches.end_host(number, END_SECONDS)
