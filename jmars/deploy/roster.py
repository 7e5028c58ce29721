"""Roster: the hosts of a cluster in the head: links, reports, and reads through the head.

`HostsChunks` passes the bytes of chunks between clients and hosts, as the head's actor "passing". Clients send and read
pieces; the host that has a chunk takes the piece out of it.

`CommonBits` has all hosts compute the same bits: a host with CPU features that another host lacks starts again without
these features.
Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from jmars.actors import Mailbox, TurnBatch, remote_method
from jmars.actors.lasting import LastingChannel
from jmars.actors.tls import HEAD, Identity
from jmars.deploy.host_facts import HostFacts, check_versions, own_facts, same_bits
from jmars.errors import ChunkLostError, ClusterError, ClusterLostError, ClusterStartError, HostRefusedError
from jmars.model.messages import ChunksLost, Order, Report
from jmars.scheduler.host_jobs import HostRow
from jmars.scheduler.hosts import Hosts
from jmars.scheduler.membership import Change, HostBack, HostGone, HostSuspect, Membership
from jmars.storage.chunks import ChunkElements

log = logging.getLogger("jmars.host")

SILENCE_LOOK_SECONDS = 0.5
SILENT = ("silent", "stopped", "busy")  # reasons of HostGone for which a host may be heard again


class MemberLink:
    """Sends orders to a host, those of a turn of the loop in one message."""

    def __init__(self, channel: LastingChannel) -> None:
        self.channel = channel
        self.order = TurnBatch[Order](partial(channel.tell, "workers", "take")).add


class Roster:
    """Hosts that joined, by number.

    Parameters
    ----------
    hosts
        The port of the scheduler.
    costs
        Called with the measured costs of operands on a host.
    changed
        Called with the number of a host that joined or is lost, its state and the reason.
    transferred
        Called after a transfer: numbers of both hosts, chunks, bytes, seconds.

    Attributes
    ----------
    opinion
        Asks a launcher what the control process of a host does.
    passed
        Called after a read of a host by the head: numbers of both hosts, bytes, seconds.
    come
        Set at each join; cleared by the caller that waits.
    back
        Called with the number of a host that is here again, in the same process.
    ucx
        Whether hosts read chunks by UCX: "no", "auto" or "always".
    again
        Gives a given-up host the number of a ticket and the secret to join again; 0 for no ticket.
    silent
        Hosts that were given up for their silence, and that may join again.
    two_listen
        Set when two hosts can be dialled.
    environment
        Gives the variables for a restart of a host, by name and facts; empty if the host may join.

    The callables are set before the first host joins.
    """

    opinion: Callable[[int], Awaitable[str]]
    passed: Callable[[int, int, int, float], None]
    back: Callable[[int], None]
    again: Callable[[int], tuple[int, bytes]]
    environment: Callable[[str, HostFacts], dict[str, str]]

    def __init__(
        self,
        hosts: Hosts,
        costs: Callable[[dict[str, Any]], None],
        changed: Callable[[int, str, str], None],
        transferred: Callable[[int, int, int, int, float, Sequence[Sequence[int]], int], None],
    ) -> None:
        self.hosts, self.costs, self.changed, self.transferred = hosts, costs, changed, transferred
        self.links: dict[int, MemberLink] = {}
        self.names: dict[int, str] = {}  # of hosts that may join
        self.facts: dict[int, dict[str, Any]] = {}
        self.channels: dict[int, LastingChannel] = {}
        self.addresses: dict[int, str] = {}  # of hosts that listen for others
        self.two_listen = asyncio.Event()
        self.membership = Membership()
        self.come = asyncio.Event()
        self.ucx = "no"
        self.on_news: dict[int, Callable[[], None]] = {}  # called when a host that leaves has reported, or is gone
        self._asking: dict[int, asyncio.Task[None]] = {}
        self._lost: dict[int, str] = {}  # hosts that are not back, and why they were given up
        self._barred: dict[int, str] = {}  # hosts that may not come back, and why
        self.silent: set[int] = set()
        self._heard: dict[int, float] = {}  # when the membership was told last

    def expect(self, number: int, name: str) -> Identity:
        """A host of this number is started, and may join."""
        self.names[number] = name
        return self.membership.expect(number, self.now())

    def expect_new(self) -> Identity:
        """A host of a fresh number may join; the name follows at the join."""
        return self.expect(max(self.names, default=HEAD) + 1, "")

    def bar(self, number: int, why: str) -> None:
        """A host that was given up may not join again."""
        self._barred[number] = why
        self.silent.discard(number)

    def expect_again(self, number: int) -> Identity:
        """A host that was given up, or seems to be here still, may join again; raises HostRefusedError if barred."""
        if number in self._barred:
            raise HostRefusedError(f"host {number} cannot join again: {self._barred[number]}")
        if number in self.links:
            self.channels[number].give_up("it joins again")
        return self.expect(number, self.names[number])

    def named(self, number: int, machine: str) -> str:
        """Name of a host; a host without a name gets the machine's."""
        if not self.names[number]:
            self.names[number] = f"host-{number}-{re.sub('[^0-9A-Za-z.-]', '_', machine[:64])}"
        return self.names[number]

    def check(self, identity: Identity) -> None:
        """Raise HostRefusedError for a host that is not expected, was given up, or is barred."""
        why = self.membership.refuses(identity, self.now()) or self._barred.get(identity.host, "")
        if why:
            raise HostRefusedError(why)

    def accept(self, identity: Identity) -> LastingChannel:
        """The channel of a host whose certificate was checked; raises HostRefusedError as `check` does."""
        self.check(identity)
        channel = self.channels.get(identity.host)
        if channel is None or channel.closed:
            seat = Seat(self, identity.host)
            down, end = seat.down, seat.ended
            channel = LastingChannel(seat.mailbox, Identity(HEAD, 1), identity, on_down=down, on_end=end)
            self.channels[identity.host] = channel
        return channel

    def vouch(self, identity: Identity, stopped: float, ended: bool) -> None:
        """The janitor of a host tells how the host's control process is; see `BeatsActor`."""
        if ended:
            self._act(self.membership.end(identity, self.now(), "its process has ended"))
        else:
            self._act(self.membership.vouch(identity, self.now(), stopped))

    async def watch(self) -> None:
        """Judge hosts by their silence, for ever."""
        while True:
            await asyncio.sleep(SILENCE_LOOK_SECONDS)
            try:
                self._look()
            except Exception as error:  # a fault of ours at one host: the others are judged on
                what = {"message": "hosts could not be judged by their silence", "exception": error}
                asyncio.get_running_loop().call_exception_handler(what)

    def _look(self) -> None:
        for number, channel in list(self.channels.items()):
            if not channel.closed and channel.last_heard > self._heard.get(number, 0.0):  # else it is no news
                self._heard[number] = channel.last_heard
                self._act(self.membership.beat(channel.peer, channel.last_heard))
        self._act(self.membership.look(self.now()))

    def _act(self, changes: Sequence[Change]) -> None:
        for change in changes:
            number = change.identity.host
            match change:
                case HostSuspect(_, why):
                    log.warning("%s", why)
                    self._suspect(number, True, why)
                case HostBack(_, silent):
                    self._suspect(number, False, f"it is heard again after {silent:.1f} s")
                case HostGone(identity, how, why):
                    channel = self.channels.get(number)
                    if channel is not None and channel.peer == identity:  # else it never came, or came again
                        if how in SILENT and number not in self._barred:
                            self.silent.add(number)
                        channel.give_up(why)

    def _suspect(self, number: int, is_suspect: bool, why: str) -> None:
        if number in self.links:
            self.hosts.suspect(number, is_suspect)
            self.changed(number, "suspect" if is_suspect else "back", why)
            if is_suspect:
                self.ask_for(number)

    def ask_for(self, number: int) -> None:
        """Ask the launcher of a silent host whether its process runs; give the host up where it has ended."""
        if number not in self._asking:
            task = self._asking[number] = asyncio.ensure_future(self._ask_for(number))
            task.add_done_callback(lambda _: self._asking.pop(number))

    async def _ask_for(self, number: int) -> None:
        channel = self.channels[number]
        end = self.now() + self.membership.silence.gone
        while not channel.closed and not channel.up and self.now() < end:
            if await self.opinion(number) == "gone" and not channel.closed:
                self._act(self.membership.end(channel.peer, self.now(), "its process has ended"))
            await asyncio.sleep(SILENCE_LOOK_SECONDS)

    def now(self) -> float:
        """Seconds of the clock for beats of hosts and for tickets."""
        return asyncio.get_running_loop().time()

    def close(self) -> None:
        """End all links."""
        for channel in self.channels.values():
            channel.close()

    def join(self, number: int, facts: dict[str, Any]) -> HostRow:
        """A host joined."""
        self.facts[number] = facts
        self.membership.joined(self.channels[number].peer, self.now())
        link = MemberLink(self.channels[number])
        sizes = (facts[name] for name in ("workers", "memory", "room", "gpus"))
        row = self.hosts.add(number, self.names[number], link.order, *sizes)
        self.links[number] = link
        self.silent.discard(number)
        what = "host %d (%s) joined with %d workers, %d of them GPUs, and %d bytes"
        log.info(what, number, row.name, row.workers, len(row.gpus), row.memory)
        if len(self.links) > 1:
            self.tell_all("peers", "begin", self.ucx)
        for other, address in self.addresses.items():
            link.channel.tell("peers", "add_peer", other, self.channels[other].peer.incarnation, address)
        peer, before = self.channels[number].peer, self._lost.pop(number, "")
        why = f"it is back as incarnation {peer.incarnation}; {before}" if before else ""
        if before:
            self.back(number)
        self.changed(number, "joined", why)
        self.come.set()
        return row

    def listens(self, number: int, address: str) -> None:
        """Other hosts can read chunks of a host at "address:port"."""
        self.addresses[number] = address
        if len(self.addresses) > 1:
            self.two_listen.set()
        for other, link in self.links.items():
            if other != number:
                link.channel.tell("peers", "add_peer", number, self.channels[number].peer.incarnation, address)

    def left(self, number: int) -> None:
        """A host leaves; further hosts keep the chunks."""
        channel = self.links[number].channel
        channel.tell("member", "end", "the host was evacuated")
        self.lost(number, "it was evacuated", "left")
        patience = self.membership.silence.gone  # seconds; a host that is not reached meanwhile answers nothing more
        asyncio.get_running_loop().call_later(patience, channel.give_up, f"host {number} was evacuated")

    def heard_of(self, number: int) -> None:
        """The state of a host has changed."""
        if number in self.on_news:
            self.on_news[number]()

    def lost(self, number: int, why: str, state: str = "lost") -> None:
        """A host is gone for good."""
        self.membership.end(self.channels[number].peer, self.now(), why)
        if self.links.pop(number, None) is not None:
            log.warning("host %d (%s) is gone: %s", number, self.names[number], why)
            self.addresses.pop(number, None)
            self.tell_all("peers", "drop_peer", *self.channels[number].peer)
            self.hosts.lost(number, why, state)
            self._lost[number] = why
            self.changed(number, state, why)
            self.heard_of(number)

    def tell_all(self, actor: str, method: str, *args: Any) -> None:
        """Call a method of all hosts without waiting."""
        for link in self.links.values():
            link.channel.tell(actor, method, *args)

    async def ask_all(self, actor: str, method: str, *args: Any, patience: float) -> dict[int, Any]:
        """Answers of all hosts by number; a host that does not answer within `patience` seconds is left out."""

        async def ask(number: int, link: MemberLink) -> tuple[int, Any]:
            try:
                async with asyncio.timeout(patience):
                    return number, await link.channel.ask(actor, method, *args)
            except (TimeoutError, ClusterLostError) as error:
                log.debug("host %d does not answer %s.%s: %s", number, actor, method, error)
                return number, None

        answers = await asyncio.gather(*[ask(number, link) for number, link in list(self.links.items())])
        return {number: told for number, told in answers if told is not None}

    def holders(self, chunk: int) -> list[int]:
        """Hosts that have a chunk; raises ChunkLostError where none has."""
        found = [number for number in self.hosts.places.holders(chunk) if number in self.links]
        if not found:
            raise ChunkLostError(f"chunk {chunk} is no longer on the cluster; compute it again")
        return found


class Seat:
    """The actors of the head for one host: "roster", "reports" and "relay"."""

    def __init__(self, roster: Roster, number: int) -> None:
        self._roster, self.number = roster, number
        self.mailbox = Mailbox()
        for name in ("roster", "reports", "relay"):
            self.mailbox.add(name, self)

    @remote_method
    def join(self, facts: dict[str, Any]) -> dict[str, Any]:
        """The host joins; returns facts of the cluster."""
        if self.number in self._roster.links:
            raise HostRefusedError(f"host {self.number} has joined already")
        told = {
            name: HostFacts.of_wire(one) for name, one in (("the head", own_facts().to_wire()), ("it", facts["host"]))
        }
        check_versions(told)
        name, again = self._roster.named(self.number, str(facts["machine"])), self._roster.again(self.number)
        environment = self._roster.environment(name, told["it"])
        if environment:
            return {"first": -1, "again": again, "environment": environment}
        return {"first": self._roster.join(self.number, facts).first, "again": again, "environment": {}}

    @remote_method
    def listens(self, address: str) -> None:
        """Other hosts can read chunks of the host there."""
        if self.number in self._roster.links:
            self._roster.listens(self.number, address)

    @remote_method
    def take(self, reports: Sequence[Report]) -> None:
        """Reports of the host's workers."""
        if self.number in self._roster.links:
            self._roster.hosts.take(self.number, reports)
            self._roster.heard_of(self.number)

    @remote_method
    def carried(
        self, source: int, chunks: int, nbytes: int, seconds: float, marks: Sequence[Sequence[int]], ahead: int
    ) -> None:
        """Chunks came to the host from another host; the arguments are those of `Transfers`."""
        self._roster.transferred(source, self.number, chunks, nbytes, seconds, marks, ahead)

    @remote_method
    def warm(self) -> None:
        """Answers when all reports that the host sent before were taken, such as reports of warm GPUs."""

    @remote_method
    def costs(self, profile: dict[str, Any]) -> None:
        """Measured costs of operands on the host."""
        self._roster.costs(profile)

    @remote_method
    async def read(self, host: int, chunk: int, start: int, stop: int) -> tuple[bytes, bytes]:
        """Bytes of a chunk of a remote host, and the checksum."""
        link = self._roster.links.get(host)
        if link is None:
            raise ClusterLostError(f"host {host} is gone")
        begun = time.monotonic()
        data, sent = await link.channel.ask("serving", "read", chunk, start, stop)
        chunks = 1 if start == 0 else 0  # else a further piece of one
        seconds = time.monotonic() - begun
        self._roster.transferred(host, self.number, chunks, len(data), seconds, (), 0)
        self._roster.passed(host, self.number, len(data), seconds)
        return data, sent

    def down(self, channel: LastingChannel, why: str) -> None:
        """The link broke; it may come again, unless the process has ended."""
        self._roster.ask_for(self.number)

    def ended(self, channel: LastingChannel, why: str) -> None:
        """The link has ended for good."""
        self._roster.lost(self.number, why)


class HostsChunks:
    """The actor "passing"; has the methods of EngineChunks."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._coming: dict[int, list[int]] = {}  # chunk that comes in pieces: its host, and bytes that have not come
        self._turn = 0

    @remote_method
    async def gather(self, asked: Sequence[Any]) -> tuple[bytes, bytes]:
        """`ChunkElements`, and their checksum."""
        chunk = ChunkElements(*asked).chunk
        error: Exception | None = None
        tried: set[int] = set()
        while further := [number for number in self._roster.holders(chunk) if number not in tried]:
            number = further[0]
            tried.add(number)
            channel = self._roster.links[number].channel
            try:
                data, sent = await channel.ask("passing", "gather", asked)
            except (ChunkLostError, ClusterLostError) as problem:  # of a copy that was evicted, or of a host that went
                error = problem
                if isinstance(problem, ChunkLostError):
                    self._roster.hosts.take(number, [ChunksLost([chunk], str(problem))])
                continue
            return data, sent
        raise ChunkLostError(f"chunk {chunk} is no longer on the cluster ({error}); compute it again") from error

    @remote_method
    async def put(self, chunk: int, start: int, size: int, data: bytes, sent: bytes) -> None:
        """As ChunkTransferActor's."""
        if chunk not in self._coming:
            self._coming[chunk] = [self._next_host(), size]
        coming = self._coming[chunk]
        number = coming[0]
        link = self._roster.links.get(number)
        if link is None:
            raise ClusterError(f"the host that took chunk {chunk} is gone; send the array again")
        await link.channel.ask("passing", "put", chunk, start, size, data, sent)
        coming[1] -= len(data)
        if self._coming.get(chunk) is not coming:
            link.channel.tell("passing", "abandon", chunk, 1)
            raise ClusterError(f"chunk {chunk} was given up before it was stored; store it again")
        if coming[1] <= 0:
            del self._coming[chunk]
            if number not in self._roster.links:
                raise ClusterError(f"the host that took chunk {chunk} is gone; send the array again")
            self._roster.hosts.places.stored(chunk, number, size)
            self._roster.heard_of(number)

    def _next_host(self) -> int:
        """Hosts take turns."""
        numbers = sorted(row.number for row in self._roster.hosts.staying if row.number in self._roster.links)
        if not numbers:
            raise ClusterLostError("no host of the cluster is here; wait until one is back, or start a new cluster")
        self._turn += 1
        return numbers[self._turn % len(numbers)]

    def is_coming(self, number: int) -> bool:
        """Whether a chunk is on its way to a host."""
        return any(host == number for host, _ in self._coming.values())

    def abandon(self, first: int, count: int) -> None:
        """Free fresh chunks that come in pieces or were stored."""
        for chunk in range(first, first + count):
            coming = self._coming.pop(chunk, None)
            link = None if coming is None else self._roster.links.get(coming[0])
            if coming is not None:
                self._roster.heard_of(coming[0])
            if link is not None:
                link.channel.tell("passing", "abandon", chunk, 1)
        self._roster.hosts.free_chunks(range(first, first + count))


AGAIN_SECONDS = 60.0  # for hosts to start again


class CommonBits:
    """Tells hosts the environment with which to start again.

    Parameters
    ----------
    is_wanted
        Whether hosts must compute the same bits.
    start_again
        Whether hosts can start again; False for child processes of an engine's workers.
    """

    def __init__(self, roster: Roster, is_wanted: bool, start_again: bool = True) -> None:
        self._roster, self._is_wanted, self._can_start_again = roster, is_wanted, start_again
        self._told: dict[str, dict[str, str]] = {}  # variables by host
        self._are_fixed = False  # the features of the present hosts

    def environment(self, name: str, facts: HostFacts) -> dict[str, str]:
        """Variables with which a host that joins must start again; empty for a host that may join.

        Raises
        ------
        ClusterStartError
            If no environment does it, or the host lacks features that present hosts use.
        """
        others = self._facts()
        if not self._is_wanted or not others:
            return {}
        found = same_bits({**others, name: facts}).environment
        if self._are_fixed and any(found[other] for other in others):
            raise ClusterStartError(
                f"{name} has an older CPU than the hosts that are here, and the last bits of a value would depend on "
                "the host that computes it; start a cluster with this host, or with same_bits=False"
            )
        return self._tell(name, found[name])

    async def agree(self) -> None:
        """Have hosts with further features start again, and return when all have joined again.

        Raises
        ------
        ClusterStartError
            If no environment does it, or a host does not come back.
        """
        while self._is_wanted:
            found = same_bits(self._facts())
            numbers = {row.name: row.number for row in self._roster.hosts.here}
            again = {numbers[name]: self._tell(name, told) for name, told in found.environment.items() if told}
            if not again:
                for note in [*found.notes, *(f"{name} runs with {_shell(told)}" for name, told in self._told.items())]:
                    log.warning("%s", note)
                break
            await self._start_again(again)
        self._are_fixed = True

    # -- own
    async def _start_again(self, environments: dict[int, dict[str, str]]) -> None:
        before = {number: self._roster.channels[number] for number in environments}
        for number, environment in environments.items():
            before[number].tell("member", "start_again", environment)
        try:
            async with asyncio.timeout(AGAIN_SECONDS):
                channels, links = self._roster.channels, self._roster.links
                while any(channels[number] is old or number not in links for number, old in before.items()):
                    self._roster.come.clear()
                    await self._roster.come.wait()
        except TimeoutError:
            names = ", ".join(self._roster.names[number] for number in environments)
            raise ClusterStartError(
                f"{names} did not start again within {AGAIN_SECONDS:g} s, without CPU features that other hosts lack; "
                "see the logs there, or start with same_bits=False"
            ) from None

    def _tell(self, name: str, environment: dict[str, str]) -> dict[str, str]:
        if environment and not self._can_start_again:
            raise ClusterStartError(
                f"{name} has another CPU than other hosts, and the last bits of a value would depend on the host that "
                f"computes it; set {_shell(environment)} in the environment there, or start with same_bits=False"
            )
        if environment and self._told.get(name) == environment:
            raise ClusterStartError(
                f"{name} has another CPU than other hosts even with {_shell(environment)}, and the last bits of a "
                "value would depend on the host that computes it; start with same_bits=False"
            )
        if environment:
            self._told[name] = environment
        return environment

    def _facts(self) -> dict[str, HostFacts]:
        facts = self._roster.facts
        return {row.name: HostFacts.of_wire(facts[row.number]["host"]) for row in self._roster.hosts.here}


def _shell(variables: dict[str, str]) -> str:
    """Variables of an environment as a shell takes them."""
    return " ".join(f"{variable}='{value}'" for variable, value in variables.items())
