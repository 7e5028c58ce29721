"""Member: the control process of a host that joined a cluster of several hosts.

It computes as the control process of a cluster on one machine does, and serves no clients: orders come over the link to
the head, reports go there. Source: docs/explanation/seeds.md, "Architecture" and "Execution in a worker".
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Any

from jmars.actors import Mailbox, TurnBatch, remote_method
from jmars.actors.lasting import LastingChannel
from jmars.actors.tls import Credentials
from jmars.actors.tls_link import format_address, parse_address
from jmars.deploy.folders import Folders
from jmars.deploy.host_facts import own_facts
from jmars.deploy.host_machine import HostMachine
from jmars.deploy.tickets import Ticket
from jmars.model.messages import JobClosed, Report
from jmars.storage import Arena
from jmars.storage.chunks import ChunkRange, received
from jmars.worker import Zygote
from jmars.worker.chunk_exchange import WITHDRAWN, ChunkExchange, ChunkKeepingActor, ServingActor
from jmars.worker.host_status import host_status
from jmars.worker.remote_scheduler import HostOrders, RecoverySnapshot, RemoteScheduler
from jmars.worker.store import ChunkTransferActor

log = logging.getLogger("jmars.host")

COSTS_SECONDS = 1.0  # between two messages about measured costs
PIECE = 4 * 2**20  # bytes of a message that brings a part of a chunk


class Member:
    """The objects of a host's control process.

    Parameters
    ----------
    ticket
        What the head said of the host: `workers`, `limit`, and `gpus`, names of GPUs.

    Attributes
    ----------
    mailbox
        Actors for the head.
    ended
        Set when the host is to end.
    again
        Set when the host is to start again, with the variables of `environment`.
    started
        Set when the executors are forked; the head may ask before, as soon as it has answered the join.
    link
        To the head; set before `start`.
    break_jobs
        Reports that the running jobs fail for a reason.
    """

    link: LastingChannel
    machine_of = HostMachine  # makes the machine; the simulation has another one

    def __init__(self, ticket: dict[str, Any], folders: Folders, zygote: Zygote, janitor: int, arena: Arena) -> None:
        self.ended, self.again, self.started = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.environment: dict[str, str] = {}
        self.folders = folders
        self.machine = self.machine_of(ticket, folders, zygote, janitor, arena, self.ended.set)
        execution = self.machine.execution
        known = RecoverySnapshot(execution.held)
        reports = RemoteScheduler(self._report, known)
        execution.connect(reports)
        self.mailbox = Mailbox()
        self.exchange = ChunkExchange(
            execution, self.machine.children, folders.spill, self._pull_by_head, self._listening
        )
        self._orders = HostOrders(execution, reports, known, self.exchange.open_lanes)
        self._orders.hold()  # those of running jobs come with the answer to the join
        self.mailbox.add("workers", self._orders)
        store = self.machine.store
        self.mailbox.add("passing", ChunkTransferActor(store, arena.memory), store)
        self.mailbox.add("serving", ServingActor(execution, arena.memory, folders.spill))
        self.mailbox.add("member", self)
        self.mailbox.add("keeping", ChunkKeepingActor(execution))
        self.mailbox.add("peers", self.exchange)
        self.break_jobs = self._orders.break_jobs
        self._batch = TurnBatch[Report](lambda reports: self.link.tell("reports", "take", reports))
        self._told_costs = 0.0
        self._pulls: set[asyncio.Task[str]] = set()

    def facts(self) -> dict[str, Any]:
        """Facts of this host for the head: numbers of workers, bytes, process id of the janitor."""
        arena, folders = self.machine.arena, self.folders
        return {
            "workers": len(self.machine.names),
            "gpus": self.machine.n_gpus,
            "host": own_facts().to_wire(),
            "machine": socket.gethostname(),
            "limit": self.machine.limit,
            "memory": arena.capacity,
            "room": arena.capacity + folders.disk_room(),
            "disk": self.machine.execution.ledger.profile.disk,
            "janitor": self.machine.janitor,
        }

    # -- to the head
    def _report(self, report: Report) -> None:
        if isinstance(report, JobClosed):
            self.tell_carried()
        if isinstance(report, JobClosed) and time.monotonic() - self._told_costs > COSTS_SECONDS:
            self._told_costs = time.monotonic()
            profile = self.machine.execution.ledger.profile.as_data()
            if not self.machine.n_gpus:
                del profile["pcie"]
            self.link.tell("reports", "costs", profile)
        self._batch.add([report])

    def tell_carried(self) -> None:
        """Tell of chunks that came from other hosts since the last call."""
        for host, told in self.exchange.carrier.take_transfers().items():
            self.link.tell("reports", "carried", host, *told)

    # -- chunks of other hosts
    def joined(self, ticket: Ticket, credentials: Credentials) -> None:
        """The host has joined as the ticket says."""
        self._address = own_address(ticket.head)
        self.exchange.joined(ticket.cluster, *ticket.identity, credentials, self._address)

    def _listening(self, port: int) -> None:
        self.link.tell("roster", "listens", format_address(self._address, port))

    def _pull_by_head(
        self, wanted: ChunkRange, hosts: Sequence[int], done: Callable[[str], None]
    ) -> Callable[[], None]:
        """Read bytes of a chunk of another host, which the head passes on; a `Pull`."""
        task = asyncio.ensure_future(self._relayed(wanted, hosts))
        self._pulls.add(task)

        def ended(task: asyncio.Task[str]) -> None:
            self._pulls.discard(task)
            done(WITHDRAWN if task.cancelled() else task.result())

        def withdraw() -> None:
            task.cancel()

        task.add_done_callback(ended)
        return withdraw

    async def _relayed(self, wanted: ChunkRange, hosts: Sequence[int]) -> str:
        """Read a range through the head; returns the error."""
        chunk, start, stop, offset, *_ = wanted
        error = f"no host is known that has chunk {chunk}"
        for host in hosts:
            try:
                for at in range(start, stop, PIECE):
                    until = min(stop, at + PIECE)
                    data, sent = await self.link.ask("relay", "read", host, chunk, at, until)
                    where = offset + at - start
                    self.machine.arena.memory[where : where + len(data)] = received(data, sent, f"chunk {chunk}")
            except Exception as problem:  # of the other host, of the link: another holder may do
                error = f"chunk {chunk} could not be read from host {host}: {problem}"
                log.warning("%s", error)
            else:
                return ""
        return error

    # -- for the head, beside orders
    @remote_method
    async def look(self) -> dict[str, Any]:
        """Report processes that came or went; the memory, and the status for who asks why a job does not move."""
        await self.started.wait()
        machine = self.machine
        await machine.look({})
        self.tell_carried()
        return {
            "memory": machine.standing(),
            "status": host_status(machine.execution),
            "moved": machine.moved(),
            "links": dict(self.exchange.carrier.links),
            "transports": dict(self.exchange.carrier.transports),
        }

    @remote_method
    async def info(self) -> dict[str, Any]:
        """Processes and memory; see Cluster.info."""
        await self.started.wait()
        machine = self.machine
        private = await machine.private({})
        return {
            "workers": machine.workers_info(private),
            "memory": machine.memory_info(private),
            "relayed": self.exchange.relayed,
            "fetched": machine.execution.chunks.fetched,
            "pid": os.getpid(),
            "janitor": {"pid": machine.janitor},
        }

    @remote_method
    def start_again(self, environment: dict[str, str]) -> None:
        """Start the host again with these variables."""
        self.environment = dict(environment)
        self.again.set()

    @remote_method
    def end(self, why: str) -> None:
        """End the host."""
        log.info("the host ends: %s", why)
        self.ended.set()

    # -- the life of the process
    def start(self) -> None:
        """Fork the executors."""
        self.machine.start()
        self._orders.release()
        self.started.set()

    async def ready(self, seconds: float) -> None:
        """Wait until workers can compute and the head knows the GPUs.

        Raises ClusterStartError, and TimeoutError if the head does not answer within `seconds` then.
        """
        await self.machine.ready()
        if self.machine.n_gpus:
            async with asyncio.timeout(seconds):
                await self.link.ask("reports", "warm")

    async def close(self) -> None:
        """End all processes, and remove all files."""
        self.exchange.carrier.close()
        await self.machine.close()
        self.folders.remove()


def own_address(heads: Sequence[str]) -> str:
    """The address of this machine on the way to the head, where other hosts reach it, too.

    Examples
    --------
    >>> own_address(["127.0.0.1:4711"])
    '127.0.0.1'
    """
    found = "127.0.0.1"
    for head in heads:
        try:
            where, port = parse_address(head)
            family, _, _, _, address = socket.getaddrinfo(where, port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect(address)  # sends nothing: the system chooses a route
                found = str(probe.getsockname()[0])
        except OSError as error:
            log.info("no way to %s: %s", head, error)
            continue
        if not ip_address(found.partition("%")[0]).is_loopback:  # else other hosts do not reach it
            break
    return found
