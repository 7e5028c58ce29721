"""InsideHead: the head of a cluster with hosts in the workers of an engine.

The head is a process beside the kernel and ends with the kernel; workers dial the head.

InsideLaunches: a host in each worker of an engine, for as long as the worker is there.

Workers come and go: a new worker gets a host, and after the end of a host the worker gets a fresh host, under a new
number.
`inside_dask` and `inside_ray` have the two kinds of `Hosting`.

A launcher for workers of an engine: a host is a child process of a worker, a *guest*, and ends with it.

The engine's own connection carries a ticket without a secret, the guest's request for a certificate, and the
certificate: a listener there cannot join in the guest's place.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import socket
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from jmars.actors.tls import Identity
from jmars.deploy.ca import CertificateAuthority
from jmars.deploy.control_process import process_settings
from jmars.deploy.folders import Folders
from jmars.deploy.hosts_head import HostsHead
from jmars.deploy.launch import ANSWER_SECONDS, Launched, Launches, hear
from jmars.deploy.member import own_address
from jmars.deploy.roster import Roster
from jmars.deploy.tickets import LOOPBACK, Enrolment
from jmars.engines import guests
from jmars.errors import ClusterError, ClusterStartError, text_of

PROBE_SECONDS = 10.0  # for two hosts to come up and to reach each other


class InsideHead(HostsHead):
    """Scheduler, clients and roster; `orders` are those of `hosts_host.inside_head`.

    Parameters
    ----------
    connect
        Makes the engine's `Hosting` from its orders.
    """

    hosts_start_again = False  # they are child processes of workers

    def __init__(
        self, orders: dict[str, Any], folders: Folders, janitor: int, connect: Callable[[dict[str, Any]], Hosting]
    ) -> None:
        super().__init__(orders, folders, janitor)
        self._hosting = connect(orders["engine"])
        self._launches: InsideLaunches | None = None

    async def prepare(self) -> str:
        """Connect to the engine; returns the address to listen at, "" for all of this machine."""
        await self._hosting.start()
        return LOOPBACK if all(is_loopback(one) for one in self._hosting.heads()) else ""

    def launches(self, enrolment: Enrolment, port: int) -> InsideLaunches:
        """Starts and ends the hosts."""
        self._launches = InsideLaunches(self._hosting, self.roster, enrolment, port)
        return self._launches

    async def start_hosts(self, launches: Any) -> None:
        """Start the hosts; for a probe within PROBE_SECONDS, with a way between two of them."""
        if not self.orders["probe"]:
            await launches.start(FOUND_SECONDS)
            return
        begun = time.monotonic()
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await launches.start(PROBE_SECONDS, least=2)
                await self._check_way()
        except TimeoutError:
            raise ClusterStartError(
                f"two hosts did not come up and reach each other within {PROBE_SECONDS:g} s"
            ) from None
        took = time.monotonic() - begun
        two = "two hosts came up and reached each other" if len(self.roster.links) > 1 else "the only host came up"
        self.orders["why"] = f"{two} within {took:.1f} s"

    async def _check_way(self) -> None:
        """Raise ClusterStartError where two hosts cannot reach each other."""
        if len(self.roster.links) < 2:
            return
        await self.roster.two_listen.wait()
        one, other = list(self.roster.addresses)[:2]
        for here, there in ((one, other), (other, one)):
            address = self.roster.addresses[there]
            why = await self.roster.links[here].channel.ask("peers", "dial", address)
            if why:
                names = self.roster.names
                raise ClusterStartError(f"{names[here]} cannot reach {names[there]} at {address}: {why}")

    def _changed(self, number: int, state: str, why: str) -> None:
        if state in ("lost", "left") and self._launches is not None:
            self._launches.lost(number)
        super()._changed(number, state, why)

    def hosts_may_come(self) -> bool:
        """Whether a worker of the engine is to get a further host."""
        return super().hosts_may_come() or (self._launches is not None and self._launches.keeps)

    async def scale(self, n: int | Sequence[str]) -> None:
        """Raise ClusterError."""
        assert self._launches is not None
        await self._launches.add({}, 0)

    async def adapt(self, least: int, most: int) -> None:
        """Raise ClusterError."""
        await self.scale(least)

    async def evacuate(self, names: Sequence[str]) -> None:
        """Raise ClusterError."""
        await self.scale(0)

    async def info(self) -> dict[str, Any]:
        """Engine, hosts, workers, memory; see Cluster.info."""
        kind, orders = self._hosting.kind, self.orders
        security = (
            f"hosts prove themselves by certificates, and everything between them is encrypted; {kind}'s connection "
            f"carries requests for certificates and no keys. {self._hosting.security()}"
        )
        engine = {"kind": kind.lower(), "address": self._hosting.address, "mode": "inside"}
        return await super().info() | {
            "engine": engine,
            "mode": "inside",
            "why": orders["why"],
            "security": security,
            "promises": [],
        }


log = logging.getLogger("jmars.host")

FOUND_SECONDS = 60.0
WORKERS_SECONDS = 20.0  # for workers that cannot take a host yet
LOOK_SECONDS = 1.0  # between two looks at the engine's workers
INSIDE_LEASE = 8.0  # seconds of silence of the head, after which a host ends
TRIES = 5  # starts of hosts in a worker that fail one after the other
LONG_LIFE = 30.0  # seconds; a host that lived shorter counts as a start that failed
PAUSE = 1.0  # seconds before the next try


def is_loopback(address: str) -> bool:
    """Whether an address is one of this machine alone."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


class Hosting:
    """An engine with workers where hosts can live.

    Attributes
    ----------
    kind
        "Dask" or "Ray".
    address
        As a user would give it.
    """

    kind: str
    address: str

    @abstractmethod
    async def start(self) -> None:
        """Connect; raises ClusterStartError."""

    @abstractmethod
    async def look(self, patience: float = 0.0) -> Mapping[str, Berth]:
        """Workers that can take a host now, by key; `patience` is how long to wait for workers that cannot yet."""

    async def hold(self, key: str, guest: str) -> None:
        """Take the slots of a worker until a guest there has ended; no effect where the engine keeps them for us."""

    def heads(self) -> Sequence[str]:
        """Addresses of this machine for the workers: on the way to the engine, and by name."""
        ours = own_address([self.address.rpartition("://")[2].partition("/")[0]])
        return (ours,) if is_loopback(ours) else (ours, socket.gethostname())

    @abstractmethod
    def security(self) -> str:
        """How the engine's own connections are protected, in a sentence."""

    @abstractmethod
    async def close(self) -> None:
        """Free all slots, and hang up."""


class InsideLaunches(Launches):
    """The hosts in an engine's workers.

    Parameters
    ----------
    hosting
        An engine that is connected.
    port
        Where the head listens for hosts.
    """

    def __init__(self, hosting: Hosting, roster: Roster, enrolment: Enrolment, port: int) -> None:
        super().__init__(roster, enrolment, port)
        self._hosting = hosting
        self._berths: Mapping[str, Berth] = {}
        self._keepers: dict[str, asyncio.Task[None]] = {}  # by berth
        self._first: dict[str, asyncio.Future[None]] = {}  # a first host is there, or the error
        self._in: dict[int, Berth] = {}
        self._lost: dict[int, asyncio.Event] = {}
        self._left: set[str] = set()  # workers whose host was told to leave
        self._looking: asyncio.Task[None] | None = None

    async def start(self, seconds: float = FOUND_SECONDS, least: int = 1) -> None:
        """Start a host in each worker, and look for other workers from now on.

        Parameters
        ----------
        seconds
            How long to wait; hosts that are late join later.
        least
            Hosts that must be there then, or as many as there are workers.

        Raises
        ------
        ClusterStartError
            If there is no worker, or fewer hosts come up than there must be.
        """
        await self._look(min(seconds, WORKERS_SECONDS))
        where = f"the {self._hosting.kind} cluster at {self._hosting.address}"
        if not self._berths:
            raise ClusterStartError(
                f"{where} has no workers whose cores are free for hosts; start some, or use mode='tasks', which waits"
            )
        first = list(self._first.values())
        await asyncio.wait(first, timeout=seconds)
        errors = [error for one in first if one.done() and (error := one.exception()) is not None]
        up = sum(one.done() for one in first) - len(errors)
        if up < min(least, len(first)):
            if errors:
                raise errors[0]
            raise ClusterStartError(f"{up} of {len(first)} hosts on {where} came up within {seconds:g} s")
        self._looking = asyncio.ensure_future(self._look_on())

    async def add(self, place: Mapping[str, Any], number: int) -> None:
        """Raise ClusterError: hosts follow the engine's workers."""
        raise ClusterError(
            f"hosts follow the workers of {self._hosting.kind}: scale the {self._hosting.kind} cluster itself, and "
            "new workers get hosts within seconds"
        )

    def lost(self, number: int) -> None:
        """A host is gone for good."""
        if number in self._lost:
            self._lost[number].set()

    @property
    def keeps(self) -> bool:
        """Whether workers get further hosts."""
        return any(not one.done() for one in self._keepers.values())

    async def opinion(self, number: int) -> str:
        """State of a host's control process: "running", "stopped", "gone"; "" where no answer comes."""
        berth = self._in.get(number)
        if berth is not None and berth.key not in self._berths:
            return "gone"  # with its worker
        return await super().opinion(number)

    async def end_host(self, number: int, patience: float) -> None:
        """Wait for the end of a host that was told to end; kill it after `patience` seconds. Its worker gets none."""
        berth = self._in.get(number)
        if berth is None:
            return  # another way than ours started it
        self._left.add(berth.key)
        if not await self._launched[number].end(patience):
            log.warning("whether host %d has ended is not known; its lease ends it", number)

    async def end(self, patience: float) -> None:
        """Wait for the ends of all hosts, which were told to end; kill them after `patience` seconds."""
        tasks = [*self._keepers.values(), *filter(None, [self._looking])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        here = [number for number, berth in self._in.items() if berth.key in self._berths]
        await self._end(here, patience)
        await self._hosting.close()

    # -- own
    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._look()
            except (ClusterError, OSError) as error:  # hosts go on; they do not need the engine
                log.warning("the workers of %s cannot be listed: %s", self._hosting.kind, text_of(error))

    async def _look(self, patience: float = 0.0) -> None:
        """Start keepers for new workers."""
        self._berths = await self._hosting.look(patience)
        for key, berth in self._berths.items():
            if key not in self._keepers:
                first = self._first[key] = asyncio.get_running_loop().create_future()
                first.add_done_callback(lambda one: one.cancelled() or one.exception())  # it may be nobody's
                self._keepers[key] = asyncio.ensure_future(self._keep(berth, first))
        for number, berth in self._in.items():
            if berth.key not in self._berths and not self._lost[number].is_set():
                self._roster.ask_for(number)
        for key in [key for key in self._keepers if key not in self._berths]:
            self._keepers.pop(key).cancel()
            self._first.pop(key).cancel()

    async def _keep(self, berth: Berth, first: asyncio.Future[None]) -> None:
        """Have a host in a worker until the worker is gone, or starts fail again and again."""
        failures = 0
        loop = asyncio.get_running_loop()
        while failures < TRIES:
            begun = loop.time()
            try:
                number = await self._start(berth)
            except ClusterStartError as error:
                log.warning("%s", error)
                if not first.done():
                    first.set_exception(error)
            else:
                if not first.done():
                    first.set_result(None)
                await self._lost[number].wait()
                if berth.key in self._left:
                    return
                await self._launched.pop(number).end()
                del self._in[number]
                failures = 0 if loop.time() - begun > LONG_LIFE else failures
            failures += 1
            await asyncio.sleep(PAUSE * failures)
        log.error("hosts end again and again in %s: it gets none any more", berth.place)

    async def _start(self, berth: Berth) -> int:
        """Start a host in a worker; returns its number, never used before."""
        number = max(self._roster.names, default=0) + 1  # the head is number 0
        name = f"host-{number}" if is_loopback(berth.address) else f"host-{number}-{berth.address}"
        identity = self._roster.expect(number, name)
        settings = {"limit": berth.memory, "workers": berth.cores, "threads": 1, "spill": berth.spill, "gpus": 0}
        heads = self._hosting.heads()
        ticket = self._enrolment.ticket(name, identity, None, heads, self._port, settings, INSIDE_LEASE)
        self._lost[number] = asyncio.Event()
        launcher = InsideLauncher(berth, self._enrolment.authority, identity)
        self._launched[number] = await launcher.start(ticket, name, process_settings(1))
        self._in[number] = berth
        log.info("host %d (%s) runs: %s", number, berth.place, self._launched[number].answer)
        await self._hosting.hold(berth.key, launcher.guest)
        return number


CALL_SECONDS = 5.0  # beyond what a function may take: the way to the worker and back


@dataclass(eq=False)
class Berth:
    """A worker of an engine, where a host can live."""

    key: str  # the engine's name of the worker, unique in its lifetime
    place: str  # name of the worker for people
    address: str  # of its machine
    cores: int  # that a host may take
    memory: int | None  # bytes that a host may take; None for half of those that are available
    spill: str | None  # folder for chunks on disk; None for the host's default

    @abstractmethod
    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function in a thread of the worker; raises ClusterLostError where the worker is gone."""


class InsideLauncher:
    """Starts the process of a host in a worker of an engine.

    Parameters
    ----------
    identity
        The host.

    Attributes
    ----------
    guest
        Name of the guest in its worker.
    """

    def __init__(self, berth: Berth, authority: CertificateAuthority, identity: Identity) -> None:
        self.place, self.guest = berth.place, f"{authority.cluster}-{identity.host}-{identity.incarnation}"
        self._berth = berth
        self._certified = partial(authority.sign, identity=identity)

    async def start(self, ticket: bytes, name: str, environment: Mapping[str, str]) -> Launched:
        """Start a process there and wait for the answer; see `LocalLauncher.start`."""
        guest = GuestProcess(self._berth, self.guest, self._certified, environment)
        try:
            return await hear(guest, ticket, name, self.place, guests.THIS_PYTHON, ANSWER_SECONDS + CALL_SECONDS)
        except (ClusterStartError, asyncio.CancelledError):
            raise
        except Exception as error:  # of the engine, of a worker that has left
            raise ClusterStartError(f"{name} ({self.place}) did not start: {text_of(error)}") from error


class GuestProcess:
    """A host's process in a worker of an engine, with the methods of `LocalProcess`.

    Parameters
    ----------
    name
        Of the guest, used once.
    certified
        Makes a certificate from a request, both as PEM text.
    """

    def __init__(
        self, berth: Berth, name: str, certified: Callable[[bytes], bytes], environment: Mapping[str, str]
    ) -> None:
        self._berth, self._name = berth, name
        self._certified, self._environment = certified, dict(environment)
        self.out, self.err = asyncio.StreamReader(), asyncio.StreamReader()
        self.err.feed_eof()  # both are one stream there

    async def send(self, line: bytes) -> None:
        """Start the process with a ticket, give it a certificate, and take all output up to the answer."""
        said = await self._berth.call(guests.begin, self._name, line, self._environment, ANSWER_SECONDS)
        request = _request_in(said)
        if request:
            certificate = json.dumps({"certificate": self._certified(request).decode("ascii")}).encode() + b"\n"
            said += await self._berth.call(guests.certify, self._name, certificate, ANSWER_SECONDS)
        self.out.feed_data(said)
        self.out.feed_eof()

    async def status(self) -> int | None:
        """Exit status of the process when it has ended."""
        status: int | None = await self._berth.call(guests.wait_end, self._name)
        return status

    async def kill(self, pid: int) -> None:
        """End the process by SIGKILL, also before it has begun."""
        try:
            await self._berth.call(guests.end, self._name)
        except ClusterError:
            pass  # its worker has ended, and it with its worker

    async def run(self, words: Sequence[str], stdin: bytes, seconds: float) -> bytes | None:
        """Standard output of a command on the worker's machine; None if no answer comes within `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                output: bytes | None = await self._berth.call(guests.command, list(words), stdin, seconds)
                return output
        except (ClusterError, TimeoutError):
            return None

    async def close(self) -> None:
        """The connection belongs to the engine."""


def _request_in(said: bytes) -> bytes:
    """The request for a certificate in a guest's output, else empty."""
    for line in said.splitlines():
        if line.startswith(guests.REQUEST):
            return str(json.loads(line)["request"]).encode()
    return b""
