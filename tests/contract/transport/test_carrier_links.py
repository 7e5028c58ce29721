"""CarrierLink and real carriers: a carrier that is killed on either side is replaced, and pulls end with the bytes."""

from __future__ import annotations

import mmap
import os
import select
import signal
import socket

import pytest

from jmars.actors.frames import Decoder, pack, unpack
from jmars.actors.tls import Credentials
from jmars.processes.zygote import start_zygote
from jmars.storage.chunks import ChunkRange
from jmars.worker.chunk_exchange import CarrierLink
from tests.contract.transport.carriers import PATIENCE, noise
from tests.transport.certificates import identity

MB = 2**20
ARENA = 64 * MB


class Process:
    """A carrier's end in the control process, without a loop."""

    def __init__(self, host):
        self.decoder = Decoder()
        self.link, theirs = socket.socketpair()
        host.zygote.fork("carrier", "carrier", [theirs.fileno()])
        theirs.close()
        self.pid = host.of_zygote("forked")[1]

    def send(self, message):
        try:
            self.link.sendall(pack(message))
        except ConnectionError:
            pass  # its end is told soon


class Linked:
    """A host with a CarrierLink."""

    def __init__(self, number, others):
        self.who = identity(number)
        self.places, self.pins, self.pulled = {}, [], {}
        self.fd = os.memfd_create("jmars-test")
        os.ftruncate(self.fd, ARENA)
        self.memory = mmap.mmap(self.fd, ARENA)
        close = [end.fileno() for other in others for end in (other.process.link, other.zygote.link)]
        self.zygote = start_zygote(self.fd, ARENA, close)
        self.zygote.link.settimeout(PATIENCE)
        self.ports = []
        self.link = CarrierLink(
            self.start, serve=self.serve, served=self.pins.remove, damaged=print, listening=self.ports.append
        )
        who = self.who
        self.link.begin(
            who.cluster, number, who.incarnation, Credentials(who.key, who.certificate, who.ca), "127.0.0.1"
        )

    def of_zygote(self, kind):
        while True:
            message = unpack(self.zygote.link.recv(4096))
            if message[0] == kind:
                return message[1:]

    def start(self):
        self.process = Process(self)
        return self.process

    def serve(self, chunk):
        self.pins.append(chunk)
        return self.places[chunk]

    def turn(self):
        """Handle what came, or the carrier's end."""
        process = self.process
        try:
            data = process.link.recv(2**18)
        except ConnectionError:
            data = b""
        for message in process.decoder.feed(data):
            self.link.received(process, message)
        if not data:
            process.link.close()
            self.of_zygote("exited")
            self.link.ended(process, "killed")

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)

    def pull(self, chunk, size, offset, source, name):
        wanted = ChunkRange(chunk, 0, size, offset, (0, 0))
        self.link.pull(wanted, [(source.who.host, 1)], lambda error: self.pulled.update({name: error}))

    def close(self):
        self.link.close()
        self.process.link.close()
        self.of_zygote("exited")
        self.zygote.link.close()
        os.waitpid(self.zygote.pid, 0)
        self.memory.close()
        os.close(self.fd)


def turn(hosts, until):
    while not until():
        ready, _, _ = select.select([host.process.link for host in hosts], [], [], PATIENCE)
        assert ready, "no carrier says anything"
        for host in hosts:
            if host.process.link in ready:
                host.turn()


@pytest.fixture
def hosts():
    found = []
    try:
        for number in (0, 1):
            found.append(Linked(number, found))
        turn(found, lambda: all(host.ports for host in found))
        for host, other in (found, found[::-1]):
            host.link.add_peer(other.who.host, 1, f"127.0.0.1:{other.ports[-1]}")
        yield found
    finally:
        for host in found:
            host.close()


@pytest.mark.parametrize("victim", [0, 1])
def test_pulls_end_with_the_bytes_though_a_carrier_is_killed(hosts, victim):
    reader, source = hosts
    data = noise(20 * MB)
    source.memory[4096 : 4096 + len(data)] = data
    source.places[1] = ("memory", 4096, len(data))
    reader.pull(1, len(data), 32 * MB, source, "first")
    turn(hosts, lambda: len(source.pins) > 1)
    hosts[victim].kill()
    turn(hosts, lambda: "first" in reader.pulled)
    assert reader.pulled == {"first": ""} and reader.memory[32 * MB :][: len(data)] == data
    turn(hosts, lambda: not source.pins)
    assert reader.ports[1:] == source.ports[1:] == []  # both listen where they did
    assert reader.link.take_transfers()[1].nbytes == len(data)


def test_a_slot_is_free_after_a_withdrawal_though_the_carrier_is_killed(hosts):
    reader, source = hosts
    source.places[1] = ("memory", 4096, 20 * MB)
    reader.pull(1, 20 * MB, 32 * MB, source, "first")
    turn(hosts, lambda: source.pins)
    freed = []
    reader.kill()
    reader.link.withdraw(1, lambda: freed.append(1))
    turn(hosts, lambda: freed)
    assert reader.pulled == {}
