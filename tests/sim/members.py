"""A host that joined: the real `Member` with simulated processes, its link to the head, its janitor's beats, its lease.

A host that is lost goes on for a while, as real ones do that nobody hears: it must harm nobody. It ends when it learns
that it was given up, or by its lease.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from jmars.actors.lasting import LastingChannel
from jmars.actors.tls import HEAD, Identity
from jmars.actors.tls_link import connect_tls
from jmars.deploy.host_machine import HostMachine
from jmars.deploy.member import Member
from jmars.deploy.member_process import _lease
from jmars.dispatch.workers import WARMING
from jmars.errors import JmarsError
from jmars.worker import ExecutionActor
from jmars.worker.chunk_exchange import CarrierLink
from jmars.worker.store import StoreActor
from tests.sim.client import Wrong
from tests.sim.disk import Disk
from tests.sim.executor import Executor
from tests.sim.lanes import Carrier
from tests.sim.network import CLUSTER, Context, address_of
from tests.sim.processes import Child, SimChildren

if TYPE_CHECKING:
    from tests.sim.hosts import HostsWorld

__all__ = ["SimHost"]

BEAT = 0.5  # seconds between two beats of the janitor
PAGES = (160, 168, 192)  # of 4096 bytes, in an arena


class SimMachine(HostMachine):
    """Workers, store and memory of a simulated host."""

    def __init__(
        self,
        orders: dict[str, Any],
        folders: SimFolders,
        children: Any,
        janitor: int,
        arena: Any,
        ended: Any,
    ) -> None:
        self.arena, self.janitor, self.limit = arena, janitor, arena.capacity
        self.children = children
        gpus = orders["gpus"]
        workers = orders["workers"] + len(gpus)
        self.execution = ExecutionActor(arena, children, workers, folders.make_spill, folders.disk_room, gpus=gpus)
        self.execution.ledger.save = self.execution.ledger.load = lambda: None  # type: ignore[method-assign]
        self.store = StoreActor(self.execution)
        self.peak = 0

    async def look(self, more: dict[str, int]) -> None:
        """Nothing is measured."""

    def standing(self) -> dict[str, Any]:
        """Memory as the head adds it up."""
        names = ["used", "device", "device_memory", "resident", "spilled", "spilled_total", "reloaded_total"]
        names += ["limit", "peak"]
        return {**dict.fromkeys(names, 0), "workers": []}


class SimMember(Member):
    """A member of simulated parts."""

    machine_of = SimMachine  # type: ignore[assignment]


class SimFolders:
    """The spill folder of a host."""

    def __init__(self, host: SimHost) -> None:
        self._host = host
        self.spill = str(host.disk.folder)

    def make_spill(self) -> str:
        """The folder."""
        return self.spill

    def disk_room(self) -> int:
        """Bytes that may be spilled."""
        return self._host.faults.disk_size - self._host.disk.used

    def remove(self) -> None:
        """The run removes it."""


class SimHost:
    """One host of a simulated cluster, under one incarnation.

    Attributes
    ----------
    over
        Whether it is switched off or has ended: nothing of it matters any more.
    """

    def __init__(self, world: HostsWorld, number: int, arena: Any, workers: int, gpus: int = 0) -> None:
        self.world, self.number, self.faults, self.arena = world, number, world.faults, arena
        self.identity: Identity = world.head.roster.expect(number, f"host-{number}")
        self.over = False
        self.stopped = 0.0  # when its control process was stopped
        self.executor, self.disk = Executor(arena), Disk(arena)
        world.folders.append(str(self.disk.folder))
        mains = {"executor": self.executor.main, "mover": self.disk.main, "carrier": self._carry}
        mains |= world.mains_of(arena, self.executor)
        self.children = SimChildren(world.loop, world.faults, mains, self._trace)
        children: Any = self.children
        folders: Any = SimFolders(self)
        orders = {"workers": workers, "gpus": [f"fake:{one}" for one in range(gpus)]}
        self.member = SimMember(orders, folders, children, 0, arena)
        self.execution, self.store = self.member.machine.execution, self.member.machine.store
        exchange = self.member.exchange
        credentials: Any = _NoCredentials()
        exchange.joined(CLUSTER, *self.identity, credentials, f"10.0.0.{number}")
        self.member._address = f"10.0.0.{number}"
        self._watch_source(exchange.carrier)
        world.echoes.of_host(self)
        self._tasks: list[asyncio.Task[None]] = []

    def __str__(self) -> str:
        return f"host {self.number}"

    async def join(self) -> None:
        """Join the cluster; raises JmarsError."""
        member = self.member
        link = member.link = LastingChannel(member.mailbox, self.identity, Identity(HEAD, 0))
        context: Any = Context(self.identity)
        await connect_tls(link, [address_of(0, self.world.port)], context, CLUSTER)
        await link.ask("roster", "join", member.facts())
        member.start()
        while any(worker.state == WARMING for worker in self.execution.workers):
            await asyncio.sleep(0.01)
        lease = _lease(link, self.world.random.choice((8.0, 30.0)))
        self._tasks = [asyncio.ensure_future(work) for work in (self._beats(), self._end(link, lease))]

    async def try_to_join(self) -> None:
        """Join if the cluster will have it."""
        try:
            await self.join()
        except JmarsError as error:
            self._trace(f"it does not join: {error}")
            self.finish()

    def finish(self) -> None:
        """It ends: its processes are gone, and its memory."""
        if not self.over:
            self._trace("it ends")
        self.over = True
        self.member.exchange.carrier.close()
        self.execution.close()
        self.children.close()

    def close(self) -> None:
        """Remove files and memory."""
        self.disk.close()
        os.close(self.arena.fd)

    # -- own
    async def _end(self, link: LastingChannel, lease: Coroutine[Any, Any, None]) -> None:
        """End by the lease, by an order, or because the link has ended for good."""
        ends = [asyncio.ensure_future(one) for one in (lease, self.member.ended.wait(), link.ended.wait())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in [*ends, self._tasks[0]]:
            task.cancel()
        link.close()
        self._trace(f"its link has ended: {link.why}")
        self.finish()
        self.world.ended_host(self)

    async def _beats(self) -> None:
        world = self.world
        while True:
            await asyncio.sleep(BEAT)
            passes = world.network.passes(self.number, 0) and world.network.passes(0, self.number)
            if passes and world.head.roster.membership.state(self.identity) not in ("", "gone"):
                world.head.roster.vouch(self.identity, world.loop.now - self.stopped if self.stopped else 0.0, False)

    async def _carry(self, child: Child) -> None:
        await Carrier(self, child).main()

    def _watch_source(self, link: CarrierLink) -> None:
        """A request of another host is answered in the same turn, without memory: hosts never wait for each other."""
        answer = link._answer

        def watched(request: int, chunk: int) -> None:
            before = self.arena.used
            answer(request, chunk)
            if self.arena.used != before:
                raise Wrong(f"host {self.number} takes memory, to serve chunk {chunk}")

        link._answer = watched  # type: ignore[method-assign]

    def _trace(self, line: str) -> None:
        self.world.trace(f"host {self.number}.{self.identity.incarnation}: {line}")


class _NoCredentials:
    key = certificate = ca = b""
