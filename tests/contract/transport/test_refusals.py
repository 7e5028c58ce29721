"""Frames that no carrier sends, from hosts with valid proofs: the lane is closed, and nothing is written elsewhere."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack
from struct import Struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.storage.spill import block_sums
from jmars.transport import wire
from jmars.transport.serving import MOST_STRANGERS
from jmars.transport.tls_sockets import HELLO_SECONDS
from tests.contract.transport.carriers import carriers, noise, pulled, pump
from tests.contract.transport.rogue import read_frame, rogue_reader, rogue_source
from tests.contract.transport.test_losses import hasty
from tests.transport.certificates import identity

__all__ = ["hasty"]

SIZE = 100_000
DATA = noise(SIZE)
INTO = 2**20


def part(ticket, piece, offset, data, is_last, sums=None):
    sums = block_sums(memoryview(data)) if sums is None else sums
    return wire.part(ticket, piece, offset, len(data), sums, is_last) + data


def head(kind, length, ticket=1, piece=0):
    return Struct("<BBHIQ").pack(kind, 0, piece, ticket, length)


ANSWERS = {
    "noise": lambda ticket: noise(5000),
    "part of another ticket": lambda ticket: part(ticket + 1, 0, 0, DATA, True),
    "part of another piece": lambda ticket: part(ticket, 1, 0, DATA, True),
    "part behind the range": lambda ticket: part(ticket, 0, SIZE, DATA[:10], True),
    "part beyond the range": lambda ticket: part(ticket, 0, 0, DATA + b"x", True),
    "part that is not due": lambda ticket: part(ticket, 0, 10, DATA[10:], True),
    "part that comes twice": lambda ticket: part(ticket, 0, 0, DATA[:10], False) * 2,
    "part at a huge offset": lambda ticket: part(ticket, 0, 2**63, DATA, True),
    "end before the last byte": lambda ticket: part(ticket, 0, 0, DATA[:-1], True),
    "end without a byte": lambda ticket: wire.end(ticket, 0, SIZE),
    "end of what nobody asked for": lambda ticket: wire.end(ticket + 1, 0, 0),
    "claim of a huge part": lambda ticket: head(wire.PART, 2**40, ticket),
    "claim of a huge text": lambda ticket: head(wire.LOST, 2**20, ticket),
    "request": lambda ticket: wire.ask(1, 0, [(1, 0, 10)]),
    "unknown kind": lambda ticket: head(8, 20),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_source_of_foreign_frames_writes_nothing_beside_the_slot(name):
    def answer(link, read):
        while True:
            kind, _, ticket, _ = read()
            if kind == wire.ASK:
                link.sendall(ANSWERS[name](ticket))

    with carriers(0, 2) as (reader, other), rogue_source(identity(1), answer) as address:
        other.fill(1, 4096, DATA)
        reader.send("peer", 1, 1, address)
        reader.memory[:] = b"x" * len(reader.memory)
        ticket = reader.pull(1, 0, SIZE, INTO, (1, 1), other)
        assert pulled([reader, other], reader, ticket) == "" and reader.pulled[ticket][1] == 2
        assert reader.memory[INTO : INTO + SIZE] == DATA
        assert set(reader.memory[:INTO]) == set(reader.memory[INTO + SIZE :]) == {ord("x")}


def test_a_part_with_wrong_checksums_is_asked_elsewhere_and_then_an_error():
    def answer(link, read):
        while True:
            kind, _, ticket, _ = read()
            if kind == wire.ASK:
                link.sendall(part(ticket, 0, 0, DATA, True, sums=bytes(8 * 4)))

    with carriers(0, 2) as (reader, other), rogue_source(identity(1), answer) as address:
        other.fill(1, 4096, DATA)
        reader.send("peer", 1, 1, address)
        ticket = reader.pull(1, 0, SIZE, INTO, (1, 1), other)
        assert pulled([reader, other], reader, ticket) == "" and reader.memory[INTO : INTO + SIZE] == DATA
        error = pulled([reader], reader, reader.pull(1, 0, SIZE, INTO, (1, 1)))
        assert "host 1: bytes of chunk 1 changed on their way" in error


def test_a_source_that_goes_on_after_a_pull_was_withdrawn_writes_nothing():
    asked = threading.Event()

    def answer(link, read):
        while (frame := read())[0] != wire.ASK:
            pass
        asked.set()
        ticket = frame[2]
        while read()[0] != wire.DROP:
            pass
        link.sendall(part(ticket, 0, 0, DATA, True))
        while True:
            kind, _, ticket, _ = read()
            if kind == wire.ASK:
                link.sendall(part(ticket, 0, 0, DATA[:5], True))

    with carriers(0) as (reader,), rogue_source(identity(1), answer) as address:
        reader.send("peer", 1, 1, address)
        ticket = reader.pull(1, 0, SIZE, INTO, (1, 1))
        assert asked.wait(30)
        reader.send("withdraw", ticket)
        pump([reader], lambda: ticket in reader.withdrawn)
        assert pulled([reader], reader, reader.pull(1, 0, 5, 0, (1, 1))) == ""
        assert not any(reader.memory[INTO : INTO + SIZE]) and reader.memory[:5] == DATA[:5]


def test_a_host_that_is_not_known_is_refused():
    with carriers(0) as (host,), pytest.raises(PermissionError, match="host 5, incarnation 1 is not known"):
        rogue_reader(identity(5), host)


REQUESTS = {
    "noise": noise(5000),
    "part": part(1, 0, 0, DATA, True),
    "piece too large": wire.ask(1, 0, [(1, 0, 2**30)]),
    "piece backwards": wire.ask(1, 0, [(1, 10, 5)]),
    "ticket twice": wire.ask(1, 0, [(1, 0, 5)]) * 2,
    "no pieces": head(wire.ASK, 8) + bytes(8),
    "huge": head(wire.ASK, 2**50),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_reader_of_foreign_frames_is_cut_off_and_others_are_served(name):
    with carriers(0, 1) as hosts:
        reader, source = hosts
        source.fill(1, 4096, DATA)
        source.send("peer", 5, 1, "127.0.0.1:1")
        pulled(hosts, reader, reader.pull(1, 0, 10, INTO, source))
        source.answers = 0 if name == "ticket twice" else None
        with rogue_reader(identity(5), source) as link, pytest.raises((EOFError, OSError)):
            link.sendall(REQUESTS[name])
            while True:
                read_frame(link)
        source.answers = None
        assert pulled(hosts, reader, reader.pull(1, 0, SIZE, INTO, source)) == ""
        pump(hosts, lambda: not source.open_requests)


@settings(max_examples=30)
@given(st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=5))
def test_strangers_that_send_anything_are_cut_off(said):
    """Bytes before TLS; the carrier stays."""
    for data in said:
        with socket.create_connection(("127.0.0.1", _host().port)) as raw:
            try:
                raw.sendall(data)
                raw.shutdown(socket.SHUT_WR)
                while raw.recv(1000):
                    pass
            except OSError:  # it was cut off already
                pass
    assert "none of its holders" in pulled([_host()], _host(), _host().pull(1, 0, 1, 0, (9, 9)))


def test_strangers_that_say_nothing_keep_no_host_out():
    with carriers(0, 1) as hosts, ExitStack() as stack:
        reader, source = hosts
        for _ in range(MOST_STRANGERS):
            stack.enter_context(socket.create_connection(("127.0.0.1", source.port)))
        source.fill(1, 0, DATA)
        begun = time.monotonic()
        assert pulled(hosts, reader, reader.pull(1, 0, SIZE, INTO, source)) == ""
        assert time.monotonic() - begun < HELLO_SECONDS / 2  # not only when they were cut off for their silence


_hosts = []


def _host():
    return _hosts[0]


@pytest.fixture(scope="module", autouse=True)
def _one_host():
    with carriers(7) as hosts:
        _hosts.extend(hosts)
        yield
        _hosts.clear()
