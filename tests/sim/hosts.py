"""One simulated run of several hosts: `run_hosts(seed, 3)`.

Real are head (`HostsHead` with scheduler, `Hosts`, roster, membership, balance), hosts (`Member`), links
(`LastingChannel` over `TlsLink`), and what moves chunks (`Puller`, `ChunkServer`, lanes). Made up are network,
processes, disks and time. The first host is spared what would lose it, so that the cluster goes on.
"""

from __future__ import annotations

import asyncio
import os
import random as everybodys
from random import Random
from typing import Any

from jmars.actors.tls import HEAD, Identity
from jmars.actors.tls_link import TlsServer, _Door
from jmars.deploy.elastic_hosts import evacuate
from jmars.deploy.head import InProcessScheduler, WhyService
from jmars.deploy.hosts_head import HostsHead
from jmars.deploy.roster import HostsChunks
from jmars.errors import ClusterError
from jmars.model.status import OperandState as S
from jmars.storage.chunks import ChunkElements, checksum, received
from tests.deploy.guests_here import no_opinion
from tests.sim import checks
from tests.sim.client import Wrong
from tests.sim.executor import Executor
from tests.sim.faults import Faults
from tests.sim.members import PAGES, SimHost
from tests.sim.network import End, Network, Wire
from tests.sim.world import Report, Reports, ScribblingArena, World, command, run_world

__all__ = ["HostsWorld", "run_hosts"]

LOOK = 0.5  # seconds between two looks of the head
QUIET, LEASES = 5.0, 45.0  # seconds after the last job, and where hosts were lost or silent


class Listener(TlsServer):
    """The head's door, without sockets."""

    def __init__(self, accept: Any) -> None:
        self._strangers, self._beats, self._accept = None, None, accept
        self._unproved = {}

    def enter(self, end: End, who: Identity) -> None:
        """A host has connected."""
        connection: Any = end
        Wire(end, who).attach(_Door(self, connection, f"10.0.0.{who.host}"))


class SimHead(HostsHead):
    """The head without processes, files and clients."""

    def __init__(self, world: HostsWorld) -> None:
        orders = {"id": "sim", "name": "sim", "token": "", "kernel": 0, "detach": False, "same_bits": True}
        super().__init__(orders, None, 0)  # type: ignore[arg-type]
        self._world = world
        self.roster.again, self.roster.environment = lambda number: (0, b""), lambda *host: {}
        self.roster.opinion, self.roster.back = no_opinion, lambda number: None
        self.passing = self.chunks = HostsChunks(self.roster)
        world.echoes.of_head(self)

    def begin(self) -> None:
        """Schedule jobs, in this process or in one of its own."""
        scheduler = self.scheduler = self._scheduler()
        self.watch = WhyService(lambda: self._status, lambda: self._moved, scheduler.reasons, lambda _: None)
        self._events.connect(scheduler.note)

    def _scheduler(self) -> Any:
        world = self._world
        world.machine = self._machine
        if world.faults.apart:
            return world.schedule_apart(self.hosts, world.loop.random, self._tell_standing)
        ours = 2**22, self.job_ended, self._machine, self.read_chunk
        scheduler = InProcessScheduler(self.hosts, self.hosts.names, *ours)
        world._session = scheduler.session
        world._session.log._now = world.loop.time  # type: ignore[attr-defined]
        world.tap(world._session.log)
        self.hosts.connect(Reports(world))
        return scheduler

    def job_ended(self, report: Any) -> None:
        """Tell the client."""
        self._events.flush()
        self._world.ended(dict(report))

    def _changed(self, number: int, state: str, why: str) -> None:
        """A host is lost only where something could lose it."""
        if state == "lost" and not self.ended.is_set():
            faults = self._world.faults
            if not (faults.cuts or faults.host_deaths or faults.host_stops) or number == 1:
                raise Wrong(f"host {number} is lost: {why}; nothing excuses that")
            self._world.lost = True
        super()._changed(number, state, why)

    def give_up(self, why: str) -> None:
        """The first host is never lost."""
        raise Wrong(f"the cluster ends: {why}")


class HostsWorld(World):
    """A cluster of several hosts that is none."""

    def __init__(self, seed: int, hosts: int, faults: Faults | None = None) -> None:
        drawn = Faults.drawn_for_hosts(Random(-1 - seed), hosts) if faults is None else faults
        super().__init__(seed, drawn)
        self._hosts: list[SimHost] = []
        self.port = 0
        self.lost = False  # whether a host was
        self._count = hosts
        self._next = hosts + 1
        self._left: set[int] = set()  # hosts that were evacuated
        self._leaving: list[asyncio.Task[None]] = []
        everybodys.seed(seed)  # what pauses between dials are drawn from

    @property
    def hosts(self) -> list[Any]:
        """All that ever were."""
        return self._hosts

    @property
    def machines(self) -> list[Any]:
        """Hosts that are not over."""
        return [host for host in self.hosts if not host.over]

    @property
    def is_spread(self) -> bool:
        """Always."""
        return True

    def gpus_of(self, number: int) -> int:
        """Number of GPUs of a host."""
        return 0

    def mains_of(self, arena: Any, executor: Executor) -> dict[str, Any]:
        """What children of further roles do on a host."""
        return {}

    async def main(self) -> None:
        """The run."""
        self.network = self.loop.network = Network(self.loop, self.loop.random, self.trace, self.faults.late)
        self.head = SimHead(self)
        self.port = self.network.listen(Identity(HEAD, 1), Listener(self.head.roster.accept).enter)
        for number in range(1, self._count + 1):
            self._make(number)
        await asyncio.gather(*[host.join() for host in self.hosts])
        self.head.begin()
        self.client = self.make_client(Random(self.random.random()))
        watches = [asyncio.ensure_future(self.head.roster.watch()), asyncio.ensure_future(self._look())]
        self._plan_faults()
        self.loop.after = self._after
        await self.client.run()
        await asyncio.sleep(self._quiet())
        checks.check(self)
        checks.check_end(self)
        self._check_end()
        if not all(task.done() for task in self._leaving):
            raise Wrong("a host is still leaving")
        for task in [*watches, *self._leaving]:
            task.cancel() if not task.done() else task.result()
        self.head.ended.set()
        if self.apart is not None:
            self.apart.close()
        self.head.roster.tell_all("member", "end", "the cluster is closed")
        await asyncio.sleep(LEASES)
        left = [str(host) for host in self.hosts if not host.over]
        if left:
            raise Wrong(f"hosts go on after the end: {left}")
        self.head.roster.close()
        self.loop.after = lambda: None

    def close(self) -> None:
        """Remove files and memory."""
        for host in self.hosts:
            host.close()

    def _quiet(self) -> float:
        """Seconds until all work ends: pulls through a silence, or behind late bytes; leases; frozen processes."""
        faults = self.faults
        waits = self.lost or faults.cuts or faults.host_stops
        return LEASES if waits else 30.0 if faults.executor_stops or faults.late else QUIET

    def excuses(self) -> set[str]:
        """A host that is lost takes with it what no graph makes."""
        gone = {"ChunkLostError", "ClusterError", "ClusterLostError"} if self.lost else set()
        return super().excuses() | gone

    # -- chunks for the client
    async def read(self, chunk: int, size: int) -> bytes:
        """The first bytes of a chunk."""
        return await self.head.read_chunk(chunk, size)

    async def put(self, chunk: int, piece: Any) -> None:
        """Store a fresh chunk, perhaps in pieces."""
        data, passing = piece.tobytes(), self.head.chunks
        half = len(data) // 2
        if half and self.client.random.random() < self.faults.pieces:
            for start, part in ((0, data[:half]), (half, data[half:])):
                await passing.put(chunk, start, len(data), part, checksum(part))
        else:
            await passing.put(chunk, 0, len(data), data, checksum(data))

    def abandon(self, first: int, count: int) -> None:
        """Give fresh chunks up."""
        self.head.chunks.abandon(first, count)

    async def get(self, chunk: int, shape: Any, dtype: Any) -> Any:
        """The values of a chunk."""
        import numpy as np

        strides = np.empty(shape, dtype).strides
        wanted = ChunkElements(chunk, 0, np.dtype(dtype).itemsize, shape, strides)
        data, sent = await self.head.chunks.gather(wanted)
        return np.frombuffer(received(data, sent, f"chunk {chunk}"), dtype).reshape(shape)

    # -- checks
    def check_job(self, graph: Any) -> None:
        """The port's books agree with the scheduler's rows."""
        run, port = graph.stage, self.head.hosts
        job = port.jobs.get(graph.job)
        if job is None or run._stopping or job.closing or self.apart is not None:
            return  # of a scheduler apart reports and orders are on their way
        rows, table = run.operands, run.table
        under_way = {one for one, state in enumerate(rows.state) if state in (S.READY, S.RUNNING, S.CANCELLING)}
        if set(job.at) != under_way:
            raise Wrong(f"{graph.job}: hosts have {sorted(job.at)}, ready or running are {sorted(under_way)}")
        here = sum(1 << row.number for row in port.here)
        for operand, state in enumerate(rows.state):
            mask = port.places.have.get(table.chunk[operand], 0)
            if mask & ~here:
                raise Wrong(f"{graph.job}: chunk {table.chunk[operand]} is at {mask:b}, hosts are {here:b}")
            if state == S.FINISHED and not mask and table.program[operand] >= 0:  # else its first reader finds out
                raise Wrong(f"{graph.job}: chunk {table.chunk[operand]} of operand {operand} is needed and nowhere")

    def _check_end(self) -> None:
        port = self.head.hosts
        places = port.places
        left = {"jobs": port.jobs, "have": places.have, "know": places.know, "size": places.size}
        left |= {"heard": places.heard, "shape": places.shape, "coming": self.head.chunks._coming}
        wrong = {name: value for name, value in left.items() if value}
        if wrong:
            raise Wrong(f"left behind at the head: {wrong}")

    # -- own
    def _make(self, number: int) -> SimHost:
        fd = os.memfd_create("sim")
        arena = ScribblingArena(fd, 4096 * self.random.choice(PAGES))
        arena.fd = fd  # type: ignore[attr-defined]
        host = SimHost(self, number, arena, 1 + self.seed * number % 3, self.gpus_of(number))
        self.hosts.append(host)
        return host

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            await self.head.look()

    def _plan_faults(self) -> None:
        faults, random = self.faults, self.loop.random
        plans = {
            self._cut: faults.cuts,
            self._reset: faults.resets,
            self._kill: faults.host_deaths,
            self._stop: faults.host_stops,
            self._newcomer: faults.newcomers,
            self._leave: faults.leavers,
        }
        for plan, count in plans.items():
            for _ in range(count):
                self.loop.call_later(random.expovariate(1.0), plan)

    def _alive(self) -> list[SimHost]:
        return [host for host in self.hosts if not host.over and not self.network.is_off(host.number)]

    def _cut(self) -> None:
        """Nothing passes between two hosts, or between one and all others, both ways or one."""
        random = self.loop.random
        seconds = random.choice((0.3, 2.0, 5.0, 12.0, 40.0)) * random.random()
        several = [host.number for host in self._alive() if host.number > 1]
        if not several:
            return
        one = random.choice(several)
        others = random.choice(([0], [0, *several], [random.choice([1, *several])]))
        ways = [way for other in others if other != one for way in ((one, other), (other, one))]
        if random.random() < 0.3:
            ways = ways[random.randint(0, 1) :: 2]
        if ways:
            self.network.silence(ways, seconds)

    def _reset(self) -> None:
        host = self.loop.random.choice(self._alive() or self._hosts[:1])
        self.trace(f"connections of {host} are reset")
        self.network.reset(host.number)

    def _kill(self) -> None:
        """A host is switched off, or its control process is killed."""
        random = self.loop.random
        hosts = [host for host in self._alive() if host.number > 1]
        if not hosts:
            return
        host, told = random.choice(hosts), random.random() < 0.5
        self.trace(f"{host} is {'killed' if told else 'switched off'}")
        if told:
            self.network.reset(host.number)
            self.loop.call_later(0.1, self._tell_end, host)
        self.loop.call_later(0.05, self._off, host)

    def _off(self, host: SimHost) -> None:
        self.network.switch_off(host.number)
        host.finish()
        self._perhaps_return(host.number)

    def ended_host(self, host: SimHost) -> None:
        """A host has ended; one that was given up comes back now and then."""
        given_up = self.head.hosts.rows.get(host.number)
        if (
            given_up is not None
            and not given_up.here
            and host.number not in self._left
            and not self.head.ended.is_set()
        ):
            self._perhaps_return(host.number)

    def _perhaps_return(self, number: int) -> None:
        if self.loop.random.random() < self.faults.returns:
            self.loop.call_later(self.loop.random.uniform(0.1, 20.0), self._return, number)

    def _tell_end(self, host: SimHost) -> None:
        if self.head.roster.membership.state(host.identity) not in ("", "gone"):
            self.head.roster.vouch(host.identity, 0.0, True)

    def _return(self, number: int) -> None:
        """A host is started again under its number, by a launcher."""
        row = self.head.hosts.rows.get(number)
        if row is None or row.here or self.head.ended.is_set():
            return
        self.trace(f"host {number} is started again")
        self.network.switch_on(number)
        host = self._make(number)
        host.joining = asyncio.ensure_future(host.try_to_join())  # type: ignore[attr-defined]

    def _stop(self) -> None:
        """The control process of a host is stopped for a while; its janitor tells so."""
        random = self.loop.random
        hosts = [host for host in self._alive() if host.number > 1]
        if hosts:
            host, seconds = random.choice(hosts), random.choice((1.0, 5.0, 15.0))
            self.trace(f"the control process of {host} is stopped for {seconds} s")
            self.network.silence([(host.number, 0), (0, host.number)], seconds)

    def _leave(self) -> None:
        """A host is asked to leave: other hosts take its chunks first."""
        names = [row.number for row in self.head.hosts.staying if row.number > 1]
        if names:
            number = self.loop.random.choice(names)
            self.trace(f"host {number} is asked to leave")
            self._leaving.append(asyncio.ensure_future(self._evacuate(number)))

    async def _evacuate(self, number: int) -> None:
        try:
            await evacuate(self.head.roster, number, self.head.chunks.is_coming)
        except ClusterError as error:
            self.trace(f"host {number} does not leave: {error}")
        else:
            self.trace(f"host {number} has left")
            self._left.add(number)

    def _newcomer(self) -> None:
        """A host joins that nobody had."""
        if self.head.ended.is_set():
            return
        host = self._make(self._next)
        self._next += 1
        self.trace(f"{host} comes")
        host.joining = asyncio.ensure_future(host.try_to_join())  # type: ignore[attr-defined]


def run_hosts(seed: int, hosts: int, faults: Faults | None = None) -> Report:
    """Simulate one run of several hosts.

    Raises
    ------
    Failed
        If a promise was broken.
    """
    return run_world(HostsWorld(seed, hosts, faults), again=command(seed, hosts))
