"""One simulated run: real scheduler, real host, everything around them made up.

`run(seed)` gives a `Report`; a run that breaks a promise raises `Failed`, which says how to run it again and shows the
last of what happened.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import xxhash

from jmars.model import events, messages
from jmars.model.messages import Finished, JobClosed, Spilled, Started
from jmars.scheduler import EventLog, SessionActor
from jmars.scheduler.hosts import Hosts
from jmars.scheduler.ranking import Machine
from jmars.storage import Arena
from jmars.tensor.engine import NoComputeEngine, current_engine, set_engine
from jmars.worker import ExecutionActor
from jmars.worker.store import StoreActor
from tests.sim import checks
from tests.sim.apart import SimApart
from tests.sim.client import Client, Wrong
from tests.sim.disk import Disk
from tests.sim.echoes import Echoes
from tests.sim.executor import Executor
from tests.sim.faults import Faults
from tests.sim.loop import VirtualLoop, virtual_clocks
from tests.sim.processes import SimChildren

__all__ = ["Failed", "Report", "ScribblingArena", "World", "run", "run_world"]

SHOWN = 60  # lines of a failed run's trace
LONGEST = 3600.0  # virtual seconds after which a run hangs
STALL = 2.0  # seconds for which the control process stands still at most


class Failed(Exception):
    """A run broke a promise."""


@dataclass
class Report:
    """How a run went."""

    seed: int
    seconds: float = 0.0  # virtual
    steps: int = 0
    operands: int = 0
    spilled: int = 0
    trace: int = 0  # digest of all that happened
    faults: str = ""
    ends: list[str] = field(default_factory=list)
    fetched: int = 0  # bytes that hosts read from other hosts
    lost: int = 0  # hosts
    echoes: dict[str, int] = field(default_factory=dict)  # by handler


class ScribblingArena(Arena):
    """Memory that is given back is overwritten at once, so that nobody can read what is free."""

    changes = 0  # slots given out or back since the checks looked

    def allocate(self, size: int, last: bool = False) -> int | None:
        """Give a slot out."""
        self.changes += 1
        return super().allocate(size, last)

    def free(self, offset: int) -> None:
        """Give a slot back."""
        size = self.size_of(offset)
        self.changes += 1
        self.memory[offset : offset + size] = b"\xdb" * size
        super().free(offset)


class Reports:
    """The scheduler's port as the host has it: now and then a report comes twice."""

    def __init__(self, world: World) -> None:
        self._world = world

    def report(self, report: messages.Report) -> None:
        """Hand it on, some of them twice."""
        self._world.session.report(report)
        may_repeat = isinstance(report, Started | Finished | JobClosed | Spilled)
        if may_repeat and self._world.loop.random.random() < self._world.faults.repeats:
            self._world.trace(f"{report} comes twice")
            self._world.session.report(report)


class World:
    """A cluster that is none."""

    def __init__(self, seed: int, faults: Faults | None = None) -> None:
        self.seed = seed
        self.lines: list[str] = []
        random = Random(seed)
        self.loop = VirtualLoop(Random(random.random()))
        self.faults = Faults.drawn(random) if faults is None else faults
        self.drawn = str(self.faults)
        self.fold = checks.Fold(self._stored)
        self.fd = -1
        self.folders = ["\0"]  # of spilled chunks
        self.checked = -1  # events told when the operands were checked last
        self.random = random
        self.apart: SimApart | None = None
        self.echoes = Echoes(self)
        self.gpus: Sequence[str] = ()
        self.machine: Callable[[], Machine] | None = None  # what the scheduler plans for
        self._session: SessionActor
        self._digest = xxhash.xxh3_64()
        self._tickets = itertools.count()

    @property
    def hosts(self) -> list[Any]:
        """Whatever has an arena, executors, a disk and a store: here the world itself."""
        return [self]

    @property
    def machines(self) -> list[Any]:
        """Hosts that are not over."""
        return [self]

    @property
    def is_spread(self) -> bool:
        """Whether reports and orders may be on their way."""
        return self.apart is not None

    def build(self) -> None:
        """Put it together, inside of the running loop."""
        random = self.random
        workers = random.randint(1, 4)
        self.fd = os.memfd_create("sim")
        self.arena = ScribblingArena(self.fd, 4096 * random.choice((192, 224, 256)))
        self.executor, self.disk = Executor(self.arena), Disk(self.arena)
        self.folders = [str(self.disk.folder)]
        mains = {"executor": self.executor.main, "mover": self.disk.main} | self.more_mains()
        self.children = SimChildren(self.loop, self.faults, mains, self.trace)
        children: Any = self.children
        self.execution = ExecutionActor(
            self.arena,
            children,
            workers + len(self.gpus),
            lambda: "/spill",
            lambda: self.faults.disk_size - self.disk.used,
            gpus=self.gpus,
        )
        self.echoes.of_machine(self.execution)
        self.execution.ledger.save = lambda: None  # type: ignore[method-assign]  # what is learnt here is not true
        self.log = EventLog(now=self.loop.time)
        self.tap(self.log)
        names = [worker.name for worker in self.execution.workers]
        self.store = StoreActor(self.execution)
        self.client = self.make_client(Random(random.random()))
        if self.faults.apart:
            self.schedule_apart(self.execution, random)
        else:
            self._session = SessionActor(self.execution, names, self.log, self.ended)
            self._session.context.read_chunk = self.read
            self._session.context.machine = self.machine
            self.execution.connect(Reports(self))
        self.execution.start()

    def schedule_apart(
        self, workers: ExecutionActor | Hosts, random: Random, standing: Callable[[], None] = lambda: None
    ) -> SimApart:
        """Have a scheduler in a process of its own, which dies now and then."""
        self.apart = SimApart(self, workers, standing)
        for _ in range(self.faults.scheduler_deaths):
            self.loop.call_later(random.expovariate(0.7), self.apart.kill)
        return self.apart

    def more_mains(self) -> dict[str, Any]:
        """What children of further roles do."""
        return {}

    def make_client(self, random: Random) -> Client:
        """The client, with choices of its own."""
        return Client(self, random)

    @property
    def session(self) -> SessionActor:
        """The scheduler's session; of several that died, the last one's."""
        return self._session if self.apart is None else self.apart.session

    async def main(self) -> None:
        """The run."""
        self.build()
        self.loop.after = self._after
        await self.client.run()
        await asyncio.sleep(30.0)  # what is under way ends, and what is frozen thaws and dies
        checks.check(self)
        checks.check_end(self)
        if self.apart is not None:
            self.apart.close()
        self.execution.close()
        self.children.close()
        self.loop.after = lambda: None

    def excuses(self) -> set[str]:
        """Errors that a job may end with, for what goes wrong here."""
        excused = set()
        if self.faults.disk_refuses or self.faults.disk_size < 2**40:
            excused |= {"StorageError", "MemoryLimitError"}
        if any(host.disk.lost for host in self.machines):
            excused.add("ChunkLostError")  # of what no graph of the job makes
        return excused

    def trace(self, line: str) -> None:
        """Something happened."""
        line = f"{self.loop.now:10.4f}  {line}"
        for folder in self.folders:
            line = line.replace(folder, "the folder")
        self._digest.update(line.encode())
        self.lines.append(line)
        if len(self.lines) > 4 * SHOWN:
            del self.lines[: 2 * SHOWN]

    def report(self) -> Report:
        """How it went."""
        return Report(
            self.seed,
            self.loop.now,
            self.loop.steps,
            sum(host.executor.ran for host in self.hosts),
            sum(host.execution.chunks.spilled for host in self.hosts),
            self._digest.intdigest(),
            self.drawn,
            self.client.ends,
            sum(host.execution.chunks.fetched for host in self.hosts),
            echoes=self.echoes.heard,
        )

    def __str__(self) -> str:
        return "the host"

    def check_job(self, graph: Any) -> None:
        """More to check of a job that runs."""

    # -- chunks for the client
    async def put(self, chunk: int, piece: Any) -> None:
        """Store a fresh chunk."""
        slot = await self.store.reserve(chunk, piece.nbytes)
        await asyncio.sleep(self.client.random.expovariate(1000))
        np.ndarray(piece.shape, piece.dtype, self.arena.memory, slot)[...] = piece
        self.store.seal(chunk)

    def abandon(self, first: int, count: int) -> None:
        """Give fresh chunks up."""
        self.store.abandon(first, count)

    async def get(self, chunk: int, shape: Any, dtype: Any) -> Any:
        """The values of a chunk."""
        ticket = f"fetch-{next(self._tickets)}"
        try:
            (slot,) = await self.store.pin(ticket, [chunk])
            await asyncio.sleep(self.client.random.expovariate(1000))
            return np.ndarray(shape, dtype, self.arena.memory, slot).copy()
        finally:
            self.store.unpin(ticket)

    def close(self) -> None:
        """Remove files and memory."""
        if self.fd >= 0:
            self.disk.close()
            os.close(self.fd)

    # -- own
    def _after(self) -> None:
        if self.loop.now > LONGEST:
            raise Wrong(f"the run has not ended after {LONGEST:g} s")
        if self.faults.stalls and self.loop.random.random() < self.faults.stalls:
            self.loop.now += self.loop.random.random() * STALL
        checks.check(self)

    def ended(self, report: dict[str, Any]) -> None:
        ended = self.client.ended.setdefault(report["job"], self.loop.create_future())
        if ended.done():
            raise Wrong(f"{report['job']} has ended twice")
        ended.set_result(report)

    async def read(self, chunk: int, size: int) -> bytes:
        ticket = f"value-{chunk}"
        try:
            (offset,) = await self.store.pin(ticket, [chunk])
            return self.arena.memory[offset : offset + size]
        finally:
            self.store.unpin(ticket)

    def _stored(self, job: str, operand: int) -> bool:
        run = self.session.graphs[job].stage
        return run is not None and run.table.program[operand] < 0

    def tap(self, log: EventLog) -> None:
        """Hear of every event."""
        append = log.append
        fold = self.fold = checks.Fold(self._stored)

        def tapped(kind: str, job: str, data: dict[str, Any], *rest: Any) -> Any:
            if fold is not self.fold:
                return append(kind, job, data, *rest)  # of a scheduler that is dead
            fold.told(kind, job, data)
            if kind == events.OPERANDS_MOVED:
                ids = list(memoryview(data["ids"]).cast("I"))
                self.trace(f"{job} {ids} -> {data['state']} on {data['worker']}")
            elif kind == events.JOB_MOVED:
                self.trace(f"{job} {data['state']} {data['error'] or ''}")
            elif kind not in (events.GRAPH_BUILT, events.MEMORY_CHANGED, events.SCHEDULER_MOVED):
                self.trace(f"{job} {kind} {data}")
            return append(kind, job, data, *rest)

        log.append = tapped  # type: ignore[method-assign]


def run(seed: int, faults: Faults | None = None, prepare: Callable[[World], None] = lambda _: None) -> Report:
    """Simulate one run.

    Raises
    ------
    Failed
        If a promise was broken.
    """
    return run_world(World(seed, faults), prepare)


def command(seed: int, hosts: int = 1) -> str:
    """The command that simulates the run of a seed."""
    return f"python -m tests.sim {f'--hosts {hosts} ' if hosts > 1 else ''}--from {seed} --seeds 1"


def run_world(world: World, prepare: Callable[[World], None] = lambda _: None, again: str = "") -> Report:
    """Simulate the run of a world; `again` is the command that repeats a failed run, that of a host by default."""
    before = current_engine()
    set_engine(NoComputeEngine(2**30, 2))  # as in the scheduler's process; tests that come later compute values
    prepare(world)
    asyncio.set_event_loop(None)
    try:
        with virtual_clocks(world.loop):
            try:
                world.loop.run_until_complete(world.main())
            finally:
                _end(world)
        return world.report()
    except Exception as error:
        raised = "".join(f"\nalso raised: {context.get('exception')!r}" for context in world.loop.failures[:3])
        shown = "\n".join(world.lines[-SHOWN:])
        raise Failed(
            f"seed {world.seed}: {type(error).__name__}: {error}{raised}\nfaults: {world.drawn}\n{shown}\n"
            f"again: {again or command(world.seed)}"
        ) from error
    finally:
        world.loop.close()
        world.close()
        set_engine(before)


def _end(world: World) -> None:
    """Whatever is still under way ends, within the loop as it ran."""
    world.loop.after = lambda: None
    asyncio._set_running_loop(world.loop)
    try:
        for _ in range(2):
            for _ in range(100):
                if world.loop._ready:  # type: ignore[attr-defined]
                    world.loop._run_once()
            for task in asyncio.all_tasks(world.loop):
                task.cancel()
    finally:
        asyncio._set_running_loop(None)
