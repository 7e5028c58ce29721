"""The scheduler apart: the real `SchedulerProcess` and its journal behind a slow wire, killed and started again.

`SimApart` is to the simulated host, or to the head of several hosts, what `SchedulerSubprocess` is to the real one: it
keeps the snapshot, starts the next scheduler when one died, tells it how the workers stand, and asks it what the last
one did not answer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jmars.actors import Mailbox, actor_proxy, remote_method
from jmars.deploy.scheduler_process import SchedulerProcess
from jmars.deploy.scheduler_subprocess import machine_as_data
from jmars.errors import ClusterLostError
from jmars.model.messages import Report
from jmars.scheduler import SessionActor, WhyActor
from jmars.scheduler.hosts import Hosts
from jmars.worker import ExecutionActor
from jmars.worker.remote_scheduler import Orders, RecoverySnapshot, RemoteScheduler
from tests.sim.wire import Peer, Wire

if TYPE_CHECKING:
    from tests.sim.world import World

__all__ = ["SimApart"]

START_SECONDS = 0.1  # that a scheduler takes to start, on average


class SimApart:
    """The host's end of its scheduler; methods of the session are asked by `ask`."""

    def __init__(self, world: World, workers: ExecutionActor | Hosts, standing: Callable[[], None]) -> None:
        self._world, self._workers, self._tell_standing = world, workers, standing
        self._wire = Wire(world.loop, world.faults)
        self._known = RecoverySnapshot(workers.held)
        self._reports = RemoteScheduler(self._report, self._known)
        workers.connect(self._reports)
        mailbox = Mailbox()
        mailbox.add("workers", Orders(workers, self._reports, self._known))
        mailbox.add("host", self)
        self._incarnation = 0
        self._hearing = False
        self._next: asyncio.TimerHandle | None = None  # start of the next scheduler, between two
        self._up = asyncio.Event()
        self._over: set[str] = set()
        self.process: SchedulerProcess
        self._peer = Peer(self._wire, "host", "scheduler", mailbox, 1, self._met)
        self.journal = str(world.hosts[0].disk.folder.with_suffix(".journal"))
        self.reasons = actor_proxy(WhyActor, "why", self._ask, lambda *_: None)
        self._start()

    @property
    def session(self) -> SessionActor:
        """The session of the scheduler that is up, or was last."""
        return self.process._session

    @property
    def active(self) -> bool:
        """Whether a job has not ended."""
        return self.session.active

    def note(self, kind: str, job: str, data: dict[str, Any]) -> None:
        """Log an event of the hosts."""
        if self._hearing:
            self._tell_machine()
            self._peer.tell("scheduler", "note", kind, job, data)

    def _tell_machine(self) -> None:
        if self._world.machine is not None:
            self._peer.tell("scheduler", "machine", *machine_as_data(self._world.machine()))

    async def ask(self, method: str, *args: Any) -> Any:
        """What the session answers, or that of the next scheduler."""
        return await self._ask("session", method, *args)

    async def _ask(self, actor: str, method: str, *args: Any) -> Any:
        while True:
            while not self._up.is_set():
                await self._up.wait()
            incarnation = self._incarnation
            try:
                return await self._peer.ask(actor, method, *args)
            except ClusterLostError:
                if incarnation == self._incarnation and self._up.is_set():
                    raise  # its own answer

    # -- what the scheduler tells and asks
    @remote_method
    def job_ended(self, report: dict[str, Any]) -> None:
        """A job has ended; told twice perhaps, by two schedulers."""
        if report["job"] not in self._over:
            self._over.add(report["job"])
            self._world.ended(report)

    @remote_method
    async def read_chunk(self, chunk: int, size: int) -> bytes:
        """The first bytes of a chunk."""
        return await self._world.read(chunk, size)

    # -- the life of the process
    def kill(self) -> None:
        """The scheduler dies; what it did not write is lost, what it sent may still arrive."""
        if not self._up.is_set():
            return
        self._world.trace(f"scheduler {self._incarnation} is killed")
        self._up.clear()
        self._hearing = False
        process, journal = self.process, self.process._journal
        process.channel.die()  # type: ignore[attr-defined]
        journal._waiting = []
        journal.note = journal.flush = lambda *_: None  # type: ignore[method-assign]
        os.close(journal._fd)
        self._peer.forget()
        self._next = self._world.loop.call_later(self._world.loop.random.expovariate(1 / START_SECONDS), self._start)

    def close(self) -> None:
        """End it all."""
        self._up.clear()
        self._peer.die()
        if self._next is None:
            self.process.channel.die()  # type: ignore[attr-defined]
            os.close(self.process._journal._fd)
        else:
            self._next.cancel()
        os.unlink(self.journal)

    def _start(self) -> None:
        self._incarnation += 1
        self._next = None
        world = self._world
        orders = {
            "journal": self.journal,
            "incarnation": self._incarnation,
            "plan_bytes": 2**22,
        }
        process = self.process = SchedulerProcess(orders)
        process._log._now = world.loop.time  # type: ignore[attr-defined]
        world.tap(process._log)
        peer: Any = Peer(self._wire, "scheduler", "host", process.mailbox, self._incarnation, lambda: None)
        process.channel = peer

    def _met(self) -> None:
        """A new scheduler says hello: tell it how this host stands; what the one before did not hear stands there."""
        self._resuming = asyncio.ensure_future(self._resume(self._incarnation))
        self._resuming.add_done_callback(lambda task: task.cancelled() or task.result())  # raises what it raised

    async def _resume(self, incarnation: int) -> None:
        bringing = self._world.client.bringing
        self._hearing = True
        self._peer.tell("scheduler", "workers", *self._workers.standing())
        self._tell_machine()
        asked = asyncio.ensure_future(self._peer.ask("scheduler", "resume", self._known.as_data(bringing)))
        for report in await asked:
            self.job_ended(report)
        self._world.trace(f"scheduler {incarnation} is up")
        self._up.set()
        self._tell_standing()

    def _report(self, report: Report) -> None:
        if self._hearing:
            self._peer.tell("reports", "take", [report])
