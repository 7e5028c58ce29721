"""Hosts for tests: each has an arena, a zygote and a real carrier; this process is the control process of all."""

from __future__ import annotations

import dataclasses
import mmap
import os
import random
import select
import socket
from contextlib import contextmanager

import pytest

from jmars.actors.frames import Decoder, pack, unpack
from jmars.processes.zygote import start_zygote
from jmars.storage.chunks import ChunkRange
from jmars.storage.spill import write_chunk
from tests.transport.certificates import identity

ARENA = 64 * 2**20
_open = set()  # hosts of this process
UCX = {"ucx": "no"}  # what hosts are started with
WAYS = {"tls": "", "ucx-tcp": "tcp", "ucx-memory": "posix,sysv"}  # transports, and UCX_TLS
PATIENCE = 30.0  # seconds that a test waits for a message; only a failing test waits so long


class CarrierHost:
    """A host with a carrier.

    Attributes
    ----------
    places
        Place of each chunk; requests for other chunks are answered with "none".
    answers
        How many requests are still answered; None for all.
    asked, given, pulled, withdrawn, links, transports
        Reports of the carrier; `given` by request, `pulled` by ticket: (error, host, bytes, microseconds);
        `transports`: host, transport and reason, in order.
    """

    def __init__(self, who, bind="127.0.0.1:0", arena=ARENA):
        self.who, self.number, self.holder = who, who.host, (who.host, who.incarnation)
        self.places, self.answers = {}, None
        self.asked, self.given, self.pulled, self.withdrawn, self.links = [], {}, {}, set(), {}
        self.transports = []
        self.port = self._ticket = 0
        self._waiting = []
        self._status = None
        self._decoder = Decoder()
        self.fd = os.memfd_create("jmars-test")
        os.ftruncate(self.fd, arena)
        self.memory = mmap.mmap(self.fd, arena)
        others = [end.fileno() for host in _open for end in (host.link, host.zygote.link)]  # each must hear its own end
        self.zygote = start_zygote(self.fd, arena, others)
        self.zygote.link.settimeout(PATIENCE)
        self.link, theirs = socket.socketpair()
        self.zygote.fork("carrier", "carrier", [theirs.fileno()])
        theirs.close()
        _open.add(self)
        kind, _, self.pid = self.of_zygote()
        assert kind == "forked"
        self.send("begin", dataclasses.asdict(who) | {"bind": bind} | UCX)
        pump([self], lambda: self.port)

    def of_zygote(self):
        """The next message of the zygote."""
        return unpack(self.zygote.link.recv(4096))

    def send(self, *message):
        """Send an order."""
        self.link.sendall(pack(message))

    def knows(self, other, address=None):
        """Tell of another host."""
        self.send("peer", *other.holder, address or f"127.0.0.1:{other.port}")

    def fill(self, chunk, offset, data):
        """Put a chunk into memory."""
        self.memory[offset : offset + len(data)] = data
        self.places[chunk] = ("memory", offset, len(data))

    def spill(self, chunk, folder, data):
        """Put a chunk into a file; returns its path."""
        name, sums = write_chunk(str(folder), memoryview(data))
        path = os.path.join(folder, name)
        self.places[chunk] = ("file", path, sums, len(data))
        return path

    def pull(self, chunk, start, stop, offset, *holders, urgency=0):
        """Order a pull; returns the ticket."""
        self._ticket += 1
        pairs = [getattr(holder, "holder", holder) for holder in holders]
        self.send("pull", self._ticket, ChunkRange(chunk, start, stop, offset, (0, urgency)), pairs)
        return self._ticket

    def receive(self):
        """Handle the messages that have come."""
        data = self.link.recv(2**18)
        if not data:
            raise EOFError(f"the carrier of host {self.number} ended")
        for kind, *args in self._decoder.feed(data):
            if kind == "listening":
                (self.port,) = args
            elif kind == "asked":
                self.asked.append(tuple(args))
                self._waiting.append((args[0], args[2]))
            elif kind == "given":
                assert args[0] not in self.given, "a request ended twice"
                self.given[args[0]] = tuple(args[1:])
            elif kind == "pulled":
                assert args[0] not in self.pulled and args[0] not in self.withdrawn, "a pull ended twice"
                self.pulled[args[0]] = tuple(args[1:])
            elif kind == "withdrawn":
                assert args[0] not in self.withdrawn, "a pull ended twice"
                self.withdrawn.update(args)
            elif kind == "transport":
                self.transports.append(tuple(args))
            else:
                assert kind == "link"
                self.links[args[0]] = tuple(args[1:])
        self.answer()

    def answer(self):
        """Answer requests that wait."""
        while self._waiting and self.answers != 0:
            request, chunk = self._waiting.pop(0)
            self.send("give", request, self.places.get(chunk, ("none", f"no chunk {chunk} here")))
            self.answers = None if self.answers is None else self.answers - 1

    @property
    def open_requests(self):
        """Requests that were answered with a place and have not ended."""
        waiting = {request for request, _ in self._waiting}
        placed = {request for request, _, chunk, _, _ in self.asked if chunk in self.places}
        return placed - self.given.keys() - waiting

    def status(self):
        """The carrier's wait status, after its end."""
        while self._status is None:
            kind, *args = self.of_zygote()
            if kind == "exited":
                self._status = args[1]
        return self._status

    def close(self):
        """Hang up; the carrier and the zygote end."""
        _open.discard(self)
        self.link.close()
        self.status()
        self.zygote.link.close()
        os.waitpid(self.zygote.pid, 0)
        self.memory.close()
        os.close(self.fd)


def pump(hosts, until):
    """Handle messages of hosts until something holds."""
    while not until():
        ready, _, _ = select.select([host.link for host in hosts], [], [], PATIENCE)
        assert ready, "no carrier says anything"
        for host in hosts:
            if host.link in ready:
                host.receive()


def pulled(hosts, host, ticket):
    """The error of a pull, after its end."""
    pump(hosts, lambda: ticket in host.pulled)
    return host.pulled[ticket][0]


@contextmanager
def carriers(*identities, acquainted=True):
    """Hosts with these identities, or numbered from 0."""
    hosts = []
    try:
        for who in identities:
            hosts.append(CarrierHost(identity(who) if isinstance(who, int) else who))
        for one in hosts if acquainted else ():
            for other in hosts:
                if one is not other:
                    one.knows(other)
        yield hosts
    finally:
        for host in hosts:
            host.close()


@contextmanager
def moving_by(transport):
    """Hosts that are started within move parts in this way, a key of WAYS."""
    with pytest.MonkeyPatch.context() as patch:
        if WAYS[transport]:
            patch.setenv("UCX_TLS", WAYS[transport])
            patch.setitem(UCX, "ucx", "always")
        yield


def noise(size, seed=0):
    """Bytes that differ from each other."""
    return random.Random(seed).randbytes(size)
