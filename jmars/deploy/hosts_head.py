"""HostsHead: the head of a cluster of several hosts: scheduler, clients and roster, and no workers of its own.

Source: docs/explanation/seeds.md, "Architecture".

The process of a head: `python -m jmars head`, for a cluster of several hosts; see `inside_dask`, `inside_ray`.

Orders come as one JSON line from standard input; the end of standard input is the kernel's end. The answer comes when
all hosts have joined.

Memory and status of several hosts as of one: sums, and workers under names of their hosts.

Events of the hosts of a cluster: hosts that join or are lost, links, and chunks that move from host to host.

Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from jmars.actors.tls import server_context
from jmars.actors.tls_link import serve_tls
from jmars.deploy import memory
from jmars.deploy.batch import BatchLaunch
from jmars.deploy.beats import beats_door
from jmars.deploy.ca import CertificateAuthority
from jmars.deploy.clients import UnsharedStore
from jmars.deploy.control_process import take_orders
from jmars.deploy.elastic_hosts import ElasticHosts
from jmars.deploy.folders import Folders
from jmars.deploy.head import ClusterHead, WhyService
from jmars.deploy.host_launches import HostLaunches
from jmars.deploy.hosts_host import LOCAL
from jmars.deploy.janitor import start_janitor
from jmars.deploy.launch import Launches
from jmars.deploy.roster import CommonBits, HostsChunks, Roster
from jmars.deploy.tickets import LOOPBACK, Enrolment, JoinTickets, strangers
from jmars.errors import JmarsError
from jmars.model import events
from jmars.model.status import NO_STATUS, HostStatus
from jmars.plan import Profile, Workers
from jmars.plan.costs import is_gpu_key
from jmars.plan.devices import hosts_with_gpus
from jmars.scheduler import Machine
from jmars.scheduler.host_jobs import HostRow
from jmars.scheduler.host_links import HostLinks
from jmars.scheduler.hosts import Hosts
from jmars.tensor.engine import NoComputeEngine, set_engine

log = logging.getLogger("jmars.host")

INFO_SECONDS = 3.0  # for a host to tell its memory
HOSTS_END_SECONDS = 3.0  # for hosts to end by themselves
RETURN_SECONDS = 45.0  # for a silent host: the rest of its lease after it was given up, and the time to join


class HostsHead(ClusterHead):
    """Scheduler, clients and roster; `orders` are those of `hosts_host.hosts_head`."""

    hosts_start_again = True  # with other variables of the environment

    def __init__(self, orders: dict[str, Any], folders: Folders, janitor: int) -> None:
        super().__init__(orders, folders)
        self.janitor = janitor
        self.hosts = Hosts()
        self._events = HostsEvents()
        self.roster = Roster(self.hosts, self._costs, self._changed, self._events.transferred)
        self.roster.ucx = orders.get("ucx", "no")
        self._links = HostLinks(self._events.linked)
        self.roster.passed = self._links.passed
        self._profile = Profile()
        self._tickets: JoinTickets
        self._told: dict[int, dict[str, Any]] = {}  # what hosts said of themselves last, by number
        self._status: HostStatus = NO_STATUS
        self._moved = 0
        self._memory: dict[str, Any] = {}  # of all hosts, as `info` told it last
        self._states: dict[int, str] = {}  # of hosts, as events told them last
        self._elastic: ElasticHosts | None = None
        self._ends: asyncio.TimerHandle | None = None  # of a cluster without hosts
        self._gave_up: Callable[[int], None] = lambda number: None  # called for a host given up for its silence

    async def run(self, kernel_end: int) -> None:
        """Start the hosts, and serve until told to end, or the kernel is gone (`kernel_end` closes).

        Raises
        ------
        ClusterStartError
            If a host does not come up.
        """
        self.end_with(kernel_end)
        authority = CertificateAuthority(self.orders["id"])
        enrolment = Enrolment(authority)
        context = server_context(authority.issue("head"), strangers=True)
        address = await self.prepare()
        beats = beats_door(self.roster.check, self.roster.vouch)
        listen = partial(serve_tls, port=0, context=context, accept=self.roster.accept, beats=beats)
        listen = partial(listen, strangers=strangers(enrolment))
        members = await listen(address)
        self._tickets = JoinTickets(self.roster, enrolment, partial(listen, ""))
        self.roster.again = self._tickets.again
        bits = CommonBits(self.roster, self.orders["same_bits"], self.hosts_start_again)
        self.roster.environment = bits.environment
        launches = self.launches(enrolment, members.port)
        self.roster.opinion, self.roster.back, self._gave_up = launches.opinion, launches.back, launches.gave_up
        order, output = self.orders.get("batch"), Path(self.folders.folder) / "batch"
        batch = BatchLaunch(order, self.roster, self._tickets, output) if order else None
        watching = asyncio.ensure_future(self.roster.watch())
        try:
            await self.start_hosts(launches)
            if batch is not None:
                await batch.start()
            await bits.agree()
            passing = HostsChunks(self.roster)
            plans = memory.plan_bytes(memory.default_limit())
            set_engine(NoComputeEngine(self.limit, self.n_workers))  # tensors are built here where a graph unfolds
            scheduler = self.make_scheduler(self.hosts, self.hosts.names, plans, self._tell_standing)
            self._elastic = ElasticHosts(
                self.roster, launches, self.orders["hosts"], passing.is_coming, scheduler.session.demand
            )
            watch = WhyService(lambda: self._status, lambda: self._moved, scheduler.reasons, self.stalled)
            self.serve_with(scheduler, UnsharedStore(passing.abandon), watch, passing)
            answer = partial(self.orders["answer"], {"pid": os.getpid(), "janitor": self.janitor})
            await self.serve_clients(partial(self._events.connect, scheduler.note), answer, engine="hosts")
        finally:
            watching.cancel()
            if self._elastic is not None:
                self._elastic.close()
            self.ended.set()
            self.roster.tell_all("member", "end", "the cluster is closed")
            await launches.end(HOSTS_END_SECONDS)
            if batch is not None:
                await batch.end(HOSTS_END_SECONDS)
            self.roster.close()
            members.close()
            self._tickets.close()
            self.folders.remove()

    def _tell_standing(self) -> None:
        """Tell a new scheduler of the hosts and links that there are."""
        for number, state in self._states.items():
            self._events.moved(number, self.roster.names[number], state, "")
        self._links.tell_all()

    async def prepare(self) -> str:
        """Address at which hosts dial this process, "" for all addresses of this machine."""
        return LOOPBACK if all(place["place"] == LOCAL for place in self.orders["hosts"]) else ""

    def launches(self, enrolment: Enrolment, port: int) -> Launches:
        """Starts and ends hosts; the hosts dial `port`."""
        places, far_port = self.orders["hosts"], self._tickets.port
        return HostLaunches(places, self.roster, enrolment, port, far_port)

    async def start_hosts(self, launches: Any) -> None:
        """Start the hosts; raises ClusterStartError."""
        await launches.start()

    def _costs(self, profile: dict[str, Any]) -> None:
        """Costs that a host measured; costs of GPUs stay where the host has measured none."""
        if any(row.gpus for row in self.hosts.rows.values()):
            known = self._profile.costs
            on_gpus = known.as_data(filter(is_gpu_key, known))
            profile = {"pcie": self._profile.pcie, **profile, "costs": on_gpus | profile["costs"]}
        self._profile = Profile.of(profile)

    def _changed(self, number: int, state: str, why: str) -> None:
        """A host joined, is lost, or has a new state."""
        self._states[number] = state
        is_empty = bool(not self.hosts.here and self.hosts.rows and not self.ended.is_set() and self._actors)
        awaited = self._await_hosts(is_empty)
        self._events.moved(number, self.roster.names[number], state, why + awaited)
        if state == "lost":
            self._links.lost(number)
            if number in self.roster.silent:
                self._gave_up(number)
        if is_empty and not awaited:
            self.give_up("all of its hosts are gone")

    def _await_hosts(self, is_empty: bool) -> str:
        """Wait for a silent host where no host is here, with an end; returns that in words."""
        self.hosts.awaits = is_empty and self.hosts_may_come()
        if self._ends is not None and not self.hosts.awaits:
            self._ends.cancel()
            self._ends = None
        if not self.hosts.awaits:
            return ""
        if self._ends is None:
            told = f"all of its hosts are gone, and none was back within {RETURN_SECONDS:g} s"
            self._ends = asyncio.get_running_loop().call_later(RETURN_SECONDS, self.give_up, told)
        return f"; no host is left, and the cluster ends unless one is back within {RETURN_SECONDS:g} s"

    def hosts_may_come(self) -> bool:
        """Whether a host may come by itself."""
        return bool(self.roster.silent)

    # -- for clients
    @property
    def n_hosts(self) -> int:
        """Hosts that the cluster has."""
        return len(self.hosts.here)

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The bounds of `adapt` while the number of hosts follows the work."""
        return self._elastic.bounds if self._elastic is not None else None

    def _here(self) -> list[HostRow]:
        """Hosts of the cluster; awaited hosts where no host is here: clients choose chunks for some size."""
        return self.hosts.here or [self.hosts.rows[number] for number in sorted(self.roster.silent)]

    @property
    def n_workers(self) -> int:
        """Workers of all hosts, on cores and on GPUs."""
        return sum(row.workers for row in self._here())

    @property
    def limit(self) -> int:
        """Bytes of memory that all hosts may take together."""
        return sum(self.roster.facts[row.number]["limit"] for row in self._here())

    @property
    def capacity(self) -> int:
        """Bytes of the shared memories of all hosts."""
        return sum(row.memory for row in self._here())

    async def ready(self) -> dict[str, Any]:
        """The facts that a client needs; planners use "machines"."""
        return self.facts() | {
            "workers": sum(row.cores for row in self._here()),
            "machines": self._rows(self._planned_on()),
        }

    async def info(self) -> dict[str, Any]:
        """Hosts, workers, memory; see Cluster.info."""
        plans = await self.scheduler.plans()
        told = await self.roster.ask_all("member", "info", patience=INFO_SECONDS)
        here, rows = memory.private_bytes(os.getpid()), self.hosts.rows
        total = summed([one["memory"] for one in told.values()]) if told else emptied(self._memory)
        self._memory = total
        total["peak"] = self.peak = max(self.peak, total.get("resident", 0))  # lost hosts tell theirs no more
        own = {"head": here} | {name: memory.private_bytes(pid) for name, pid in self.scheduler.pids.items()}
        processes = {
            f"{rows[number].name}/{name}": size
            for number, one in told.items()
            for name, size in one["memory"]["processes"].items()
        }
        return {
            "id": self.orders["id"],
            "name": self.orders["name"],
            "hosts": [self._host_info(row, told.get(row.number)) for _, row in sorted(rows.items())],
            "host": {"pid": os.getpid(), "memory": here},
            "scheduler": self.scheduler_info(own.get("scheduler", here)),
            "workers": [
                {**worker, "name": f"{rows[number].name}/{worker['name']}", "host": rows[number].name}
                for number, one in told.items()
                for worker in one["workers"]
            ],
            "janitor": {"pid": self.janitor},
            "memory": total | {"processes": processes | own},
            "plans": plans,
            "links": self._links.info({number: row.name for number, row in rows.items()}),
            **(self._elastic.info() if self._elastic is not None else {}),
        }

    def _host_info(self, row: HostRow, told: dict[str, Any] | None) -> dict[str, Any]:
        found = {"number": row.number, "name": row.name, "state": self._state(row)}
        found |= {"workers": row.workers, "gpus": len(row.gpus), "capacity": row.memory}
        if told is None:  # it is gone, or does not answer
            return found | {"memory": None, "pid": 0, "janitor": 0, "fetched": 0, "relayed": 0}
        found |= {"memory": told["memory"], "pid": told["pid"], "janitor": told["janitor"]["pid"]}
        return found | {"fetched": told["fetched"], "relayed": told["relayed"]}

    def _state(self, row: HostRow) -> str:
        told = self._states.get(row.number, "")
        return told if told in ("leaving", "lost", "left") else "here"

    async def scale(self, n: int | Sequence[str]) -> None:
        """Have so many hosts, or further hosts at new places; see ElasticHosts."""
        assert self._elastic is not None
        await self._elastic.scale(n)

    async def adapt(self, least: int, most: int) -> None:
        """Have the number of hosts follow the work; see ElasticHosts."""
        assert self._elastic is not None
        self._elastic.adapt(least, most)

    async def evacuate(self, names: Sequence[str]) -> None:
        """Have hosts leave; see ElasticHosts."""
        assert self._elastic is not None
        await self._elastic.evacuate(names)

    async def ticket(self, settings: dict[str, Any], hosts: int, seconds: float, addresses: list[str]) -> bytes:
        """A ticket by which hosts can join from now on; see JoinTickets.make."""
        return await self._tickets.make(settings, hosts, seconds, addresses)

    # -- memory
    def job_ended(self, report: Mapping[str, Any]) -> None:
        """A job has ended: log memory and transfers, and tell the clients."""
        self._events.flush()
        self._log_memory()
        super().job_ended(report)

    async def look(self) -> None:
        """Move operands that wait while a host has nothing to do; log memory, and jobs that do not move."""
        for shift in self.hosts.balance(time.monotonic()):
            log.info("%d operands go from host %d to host %d", shift.count, shift.source, shift.target)
        told = await self.roster.ask_all("member", "look", patience=INFO_SECONDS)
        self._told = told
        for number, one in told.items():
            self._links.measured(number, one["links"], one["transports"])
        self._status = merged_status({self.hosts.rows[number].name: one["status"] for number, one in told.items()})
        self._moved = sum(one["moved"] for one in told.values())
        self._log_memory()
        await self.watch.look()

    def _log_memory(self) -> None:
        nothing = {"pid": 0, "pss": 0, "running": 0, "done": 0}
        workers: list[dict[str, Any]] = []
        for row in self.hosts.rows.values():
            rows = self._told[row.number]["memory"]["workers"] if row.number in self._told and row.here else []
            known = {one["name"]: one for one in rows}
            workers += [{**nothing, **known.get(name.rpartition("/")[2], {}), "name": name} for name in row.names]
        told = merged_memory({number: one["memory"] for number, one in self._told.items()}, workers)
        told["peak"] = self.peak = max(self.peak, told["resident"])  # hosts that are lost tell theirs no more
        self.scheduler.note(events.MEMORY_CHANGED, "", told)

    # -- for the scheduler
    def _machine(self) -> Machine:
        """The hosts as machines without common memory, and their GPUs."""
        on = self._planned_on()
        rows = Workers.build(**self._rows(on))
        numbers, memory = [row.first for row in on], int(rows.memory.sum())
        gpus = [(place, worker, size) for place, row in enumerate(on) for worker, size in row.warm_gpus()]
        if gpus:
            rows = hosts_with_gpus(rows, [(place, size) for place, _, size in gpus], self._profile.pcie)
            numbers += [worker for _, worker, _ in gpus]
        row_of = {row.number: place for place, row in enumerate(on)}

        def held_by(chunk: int) -> int:
            return next((row_of[number] for number in self.hosts.places.holders(chunk) if number in row_of), -1)

        by_worker = [row_of.get(number, -1) for number in self.hosts.host_of]
        machine = Machine(self._profile, memory, rows=rows, numbers=numbers, row_of_chunk=held_by)
        return replace(machine, row_of_worker=by_worker)

    def _planned_on(self) -> list[HostRow]:
        """Hosts that stay; where no host is left, all hosts that ever were."""
        return self.hosts.staying or list(self.hosts.rows.values())

    def _rows(self, hosts: list[HostRow]) -> dict[str, Any]:
        """Arguments of `Workers.build`."""
        numbers = [row.number for row in hosts]
        return {
            "n": len(hosts),
            "cores": [row.cores for row in hosts],
            "memory": [row.memory for row in hosts],
            "bandwidth": self._links.bandwidth(numbers).tolist(),
            "latency": self._links.latency(numbers),
            "disk": [self.roster.facts[row.number]["disk"] for row in hosts],
        }


def main(make: Callable[[dict[str, Any], Folders, int], HostsHead] = HostsHead) -> None:
    """Be a head, which `make` gives, until the cluster ends."""
    orders, kernel_end, answer = take_orders()
    folders = Folders(**orders["folders"])
    lock = folders.lock()  # held until both the janitor and this process have ended
    janitor, alive = start_janitor(folders, orders["kernel"], [kernel_end, answer])

    def say(told: dict[str, Any]) -> None:
        os.write(answer, json.dumps(told).encode() + b"\n")
        os.close(answer)

    async def serve_until_the_end() -> None:
        try:
            await make(orders | {"answer": say}, folders, janitor).run(kernel_end)
        except JmarsError as error:
            say({"error": str(error), "kind": "start"})
        os._exit(0)  # what a thread still compiles is of no use

    asyncio.run(serve_until_the_end())
    del lock, alive


def summed(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums of numbers by name, of nested mappings too; of other values the first that is not empty.

    Examples
    --------
    >>> summed([{"a": 1, "of": {"b": 2}, "full": ""}, {"a": 3, "of": {"b": 4, "c": 1}, "full": "no"}])
    {'a': 4, 'of': {'b': 6, 'c': 1}, 'full': 'no'}
    """
    found: dict[str, Any] = {}
    for one in told:
        for name, value in one.items():
            known = found.get(name)
            if isinstance(value, Mapping):
                found[name] = summed([known or {}, value])
            elif isinstance(value, int | float) and not isinstance(value, bool):
                found[name] = value + (known or 0)
            else:
                found[name] = known or value
    return found


def emptied(told: Mapping[str, Any]) -> dict[str, Any]:
    """The same names with numbers that are 0, for a cluster without hosts.

    Examples
    --------
    >>> emptied({"a": 1, "of": {"b": 2.5}, "full": "no"})
    {'a': 0, 'of': {'b': 0}, 'full': ''}
    """
    return {
        name: emptied(one) if isinstance(one, Mapping) else "" if isinstance(one, str) else 0
        for name, one in told.items()
    }


def merged_status(status_by_host: Mapping[str, HostStatus]) -> HostStatus:
    """Status of all hosts, for who asks why a job does not move; by name of the host."""

    def named(host: str, key: str, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        return [{**row, key: f"{host}/{row[key]}"} for row in rows]

    told: list[Any] = [NO_STATUS, *status_by_host.values()]
    lists: Callable[[str], list[Any]] = lambda name: [row for one in told for row in one[name]]  # noqa: E731
    return {
        "workers": [row for host, one in status_by_host.items() for row in named(host, "name", one["workers"])],
        "queued": summed([one["queued"] for one in told]),
        "line": lists("line"),
        "waiting": summed([one["waiting"] for one in told]),
        "reading": lists("reading"),
        "memory": summed([one["memory"] for one in told]),  # type: ignore[typeddict-item]
        "disk": summed([one["disk"] for one in told]),  # type: ignore[typeddict-item]
        "deaths": [row for host, one in status_by_host.items() for row in named(host, "worker", one["deaths"])],
    }


def merged_memory(told: Mapping[int, Mapping[str, Any]], workers: list[dict[str, Any]]) -> dict[str, Any]:
    """Memory of all hosts for a MEMORY_CHANGED event.

    Parameters
    ----------
    told
        By number of the host.
    workers
        Rows of the workers of all hosts that ever were.
    """
    names = ["used", "device", "device_memory", "resident", "limit", "peak"]
    names += ["spilled", "spilled_total", "reloaded_total"]
    sums = {name: sum(one[name] for one in told.values()) for name in names}
    own = ("used", "resident", "spilled", "limit")
    hosts = [{"host": number} | {name: one[name] for name in own} for number, one in told.items()]
    return sums | {"workers": workers, "hosts": hosts}


Note = Callable[[str, str, dict[str, Any]], None]  # logs an event: kind, job, data

MARKED = 16  # transfers of an event whose marks are told
EVERY = 0.1  # seconds between two events about chunks that moved


class MovedChunks:
    """Sums of transfers that were not told yet, by pair of hosts.

    Examples
    --------
    >>> moved = MovedChunks()
    >>> moved.add(0, 1, chunks=1, nbytes=100, seconds=0.5)
    >>> moved.add(1, 0, chunks=1, nbytes=7, seconds=0.25)
    >>> moved.add(0, 1, chunks=2, nbytes=50, seconds=0.25, ahead=2)
    >>> moved.take()
    {'from': 0, 'to': 1, 'chunks': 3, 'bytes': 150, 'seconds': 0.75, 'marks': [], 'ahead': 2}
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[int, int], tuple[int, int, float, list[list[int]], int]] = {}

    def add(
        self,
        source: int,
        target: int,
        chunks: int,
        nbytes: int,
        seconds: float,
        marks: Sequence[Sequence[int]] = (),
        ahead: int = 0,
    ) -> None:
        """Add chunks that a host read from another host; the marks of the newest MARKED are kept."""
        known = self._sums.get((source, target), (0, 0, 0.0, [], 0))
        told = [*known[3], *map(list, marks)][-MARKED:]
        self._sums[source, target] = known[0] + chunks, known[1] + nbytes, known[2] + seconds, told, known[4] + ahead

    def take(self) -> dict[str, Any] | None:
        """The sums of the pair that has waited longest, as an event's data; None if there are none."""
        pair = next(iter(self._sums), None)
        if pair is None:
            return None
        chunks, nbytes, seconds, marks, ahead = self._sums.pop(pair)
        told = {"from": pair[0], "to": pair[1], "chunks": chunks, "bytes": nbytes, "seconds": round(seconds, 6)}
        return told | {"marks": marks, "ahead": ahead}


class HostsEvents:
    """Logs the events, those about moved chunks at most ten times a second."""

    def __init__(self) -> None:
        self._note: Note | None = None
        self._early: list[tuple[str, str, dict[str, Any]]] = []  # from before there was a log
        self._chunks = MovedChunks()
        self._timer: asyncio.TimerHandle | None = None

    def connect(self, note: Note) -> None:
        """Log with `note` from now on, what was told before first."""
        self._note = note
        early, self._early = self._early, []
        for told in early:
            note(*told)

    def moved(self, host: int, name: str, state: str, why: str) -> None:
        """A host joined, or has another state."""
        self._tell(events.HOST_MOVED, {"host": host, "name": name, "state": state, "why": why})

    def transferred(self, source: int, target: int, *told: Any) -> None:
        """Chunks moved from host `source` to host `target`: the further arguments of `MovedChunks.add`."""
        self._chunks.add(source, target, *told)
        if self._timer is None:
            self._next()

    def linked(self, link: dict[str, Any]) -> None:
        """A link between two hosts was measured."""
        self._tell(events.LINK_MEASURED, link)

    def flush(self) -> None:
        """Log all transfers now: a job has ended, and whoever reads its events reads no further."""
        while (found := self._chunks.take()) is not None:
            self._tell(events.CHUNKS_MOVED, found)

    def _next(self) -> None:
        found = self._chunks.take()
        self._timer = None
        if found is not None:
            self._tell(events.CHUNKS_MOVED, found)
            self._timer = asyncio.get_running_loop().call_later(EVERY, self._next)

    def _tell(self, kind: str, data: dict[str, Any]) -> None:
        if self._note is None:
            self._early.append((kind, "", data))
        else:
            self._note(kind, "", data)
