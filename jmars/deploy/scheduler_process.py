"""The scheduler in a separate process: `python -m jmars scheduler`.

A child of a detached cluster's host. The host writes orders as a JSON line to standard input and talks over an
inherited socket. The process ends with the socket. A journal keeps all that the next scheduler needs.
Source: docs/decisions/0027-scheduler-apart.md; docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle
import socket
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jmars.actors import ActorChannel, Mailbox, UnixGreeting, remote_method
from jmars.model import events
from jmars.model.messages import Report
from jmars.plan import Profile
from jmars.scheduler import EventLog, Machine, SessionActor, TaskManagerActor, WhyActor
from jmars.scheduler.journal import Journal, JournaledSession, read_journal
from jmars.scheduler.resuming import RemoteWorkers, Resuming
from jmars.scheduler.shards import RemotePlace, serve_shards
from jmars.tensor.engine import NoComputeEngine, set_engine

log = logging.getLogger("jmars.scheduler")

CHUNKS, EVENTS = 40, 32  # bits of the numbers that one incarnation gives: none gives those of another


class SchedulerProcess:
    """The actor "scheduler", and the mailbox of the process.

    Parameters
    ----------
    orders
        Written by `SchedulerSubprocess`: journal, incarnation, plan_bytes.
    """

    def __init__(self, orders: dict[str, Any]) -> None:
        self._orders = orders
        self.mailbox = Mailbox()
        self.channel: ActorChannel
        self._log = EventLog()
        self._log.last = (orders["incarnation"] - 1) << EVENTS
        self._workers = RemoteWorkers(lambda orders: self.channel.tell("workers", "take", orders))
        self._session = SessionActor(self._workers, (), self._log, self._job_ended, orders["plan_bytes"])
        self._session.tell_printed = lambda told: self.channel.tell("host", "printed", told)
        self._session.begin_chunks((orders["incarnation"] - 1) << CHUNKS)
        self._session.context.read_chunk = self._read_chunk
        holders = orders.get("holders", {"key": "", "sockets": {}})
        key = bytes.fromhex(holders["key"])
        places = [RemotePlace(name, path, key, self._shard_lost) for name, path in holders["sockets"].items()]
        self._session.context.places = {place.name: place for place in places}
        self._records = list(read_journal(orders["journal"]))
        loop = asyncio.get_running_loop()
        self._journal = Journal(orders["journal"], loop.call_soon, loop.call_later)
        self._noted = JournaledSession(self._session, self._journal)
        self._workers.opening = self._noted.opening
        self._reports = Reports(self._noted, self._workers)
        self.mailbox.add("scheduler", self)
        self.mailbox.add("session", self._noted, self._session)
        self.mailbox.add("reports", self._reports)
        self.mailbox.add("tasks", TaskManagerActor(self._session))
        self.mailbox.add("why", WhyActor(self._session, self._noted.unreported))

    # -- what the host says
    @remote_method
    async def resume(self, host: dict[str, Any]) -> list[dict[str, Any]]:
        """Go on where the scheduler before stopped; returns reports of jobs that had ended."""
        resuming = Resuming(self._session, self._noted, self._workers, self._give_up)
        await resuming.run(self._records, host)
        self._records = []
        state = "running" if self._orders["incarnation"] == 1 else "restarted"
        self._log.append(events.SCHEDULER_MOVED, "", {"state": state, "pid": os.getpid(), "name": "scheduler-0"})
        self._reports.go_on()
        return resuming.reports

    @remote_method
    def workers(self, names: Sequence[str], absent: Sequence[int]) -> None:
        """Take the names of all workers that ever were, and the numbers of the absent ones."""
        context = self._session.context
        context.workers[:] = names
        context.absent.clear()
        context.absent.update(absent)

    @remote_method
    def machine(self, profile: dict[str, Any], memory: int, fresh: int, gpus: Sequence[int], hosts: bytes) -> None:
        """Take measured costs of operands, the memory of the host and of its GPUs in bytes, and the rows of hosts."""
        machine = Machine(Profile.of(profile), memory, fresh, gpus=gpus)
        if hosts:
            rows, numbers, by_worker = pickle.loads(hosts)
            machine = replace(machine, rows=rows, numbers=numbers, row_of_worker=by_worker)
            machine = replace(machine, row_of_chunk=lambda chunk: self._workers.row_of_chunk(by_worker, chunk))
            self._workers.are_several = True
        self._session.plan_for(lambda: machine)()

    @remote_method
    def note(self, kind: str, job: str, data: dict[str, Any]) -> None:
        """Log an event of the host."""
        self._session.note(kind, job, data)

    @remote_method
    def plans(self) -> dict[str, int]:
        """How many structures are kept, and how often they served; dropped tensors are freed by then."""
        self._session.free_dropped()
        return self._session.plans.counts()

    @remote_method
    def ping(self) -> None:
        """Answered while this process runs."""

    # -- own
    def _job_ended(self, report: dict[str, Any]) -> None:
        self._noted.ended(report, lambda: self.channel.tell("host", "job_ended", report))
        asyncio.get_running_loop().call_soon(self._noted.compact)

    def _shard_lost(self, name: str, why: str) -> None:
        told = {"state": "shards taken over", "pid": os.getpid(), "name": name, "why": why}
        self._log.append(events.SCHEDULER_MOVED, "", told)
        log.warning("the shard of %s is taken over: %s", name, why)

    async def _read_chunk(self, chunk: int, size: int) -> bytes:
        found: bytes = await self.channel.ask("host", "read_chunk", chunk, size)
        return found

    async def _give_up(self, job: str, free: bool) -> None:
        await self.channel.ask("workers", "give_up", job, free)


class Reports:
    """The actor "reports": takes the host's reports, and keeps them until the scheduler has resumed."""

    def __init__(self, session: JournaledSession, workers: RemoteWorkers) -> None:
        self._session, self._workers = session, workers
        self._waiting: list[Report] | None = []

    @remote_method
    def take(self, reports: Sequence[Report]) -> None:
        """Act on reports in order; resulting orders go back in one message."""
        if self._waiting is not None:
            self._waiting += reports
            return
        self._workers.gather()
        try:
            for report in reports:
                self._act_on(report)
        finally:
            self._workers.send_gathered()

    def go_on(self) -> None:
        """Act on kept reports, and on later reports at once."""
        waiting, self._waiting = self._waiting or [], None
        for report in waiting:
            self._act_on(report)

    def _act_on(self, report: Report) -> None:
        self._workers.note(report)
        try:
            self._session.report(report)
        except Exception as error:  # half done is no way to go on: the next scheduler begins from the journal
            what = {"message": f"the report {type(report).__name__} could not be acted on", "exception": error}
            asyncio.get_running_loop().call_exception_handler(what)


def main() -> None:
    """Be a scheduler until the host hangs up."""
    orders = json.loads(sys.stdin.buffer.readline())
    sys.path[:] = orders["path"]
    if "holds" in orders:
        _hold_shards(orders)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    set_engine(NoComputeEngine(orders["limit"], orders["workers"]))  # tensors are built here where a graph unfolds
    asyncio.run(_serve(orders))


def _hold_shards(orders: dict[str, Any]) -> None:
    """Hold shards of jobs until the host closes standard input; `ShardHolders` starts such processes."""
    threading.Thread(target=serve_shards, args=(orders["holds"], bytes.fromhex(orders["key"])), daemon=True).start()
    sys.stdin.buffer.read()
    os._exit(0)


async def _serve(orders: dict[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_broken)
    process = SchedulerProcess(orders)
    theirs = socket.socket(fileno=orders["socket"])
    theirs.setblocking(False)
    greeting = UnixGreeting(orders["token"], server=True)
    _, process.channel = await loop.create_unix_connection(
        lambda: ActorChannel(process.mailbox, greeting, lambda _: os._exit(0)), sock=theirs
    )
    await asyncio.Event().wait()


def _broken(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A callback raised: the state is unknown, so the next scheduler begins from the journal."""
    log.error("%s", context["message"], exc_info=context.get("exception"))
    if context.get("exception") is not None:
        os._exit(1)
