"""Bytes of a pull are those of the chunk, from memory or a file, whole or in part, one host or several."""

from __future__ import annotations

import os

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jmars.storage.spill import CHECKED
from tests.contract.transport.carriers import carriers, noise, pulled, pump

MB = 2**20
CHUNK = 20 * MB + 77
DATA = noise(CHUNK)
INTO = 32 * MB


@pytest.fixture(scope="module")
def pair():
    """Two hosts; chunk 1 lies in the second one's memory."""
    with carriers(0, 1) as hosts:
        hosts[1].fill(1, 4096, DATA)
        yield hosts


@pytest.fixture(scope="module")
def spilled(pair, tmp_path_factory):
    """The same, and chunk 2 is spilled."""
    pair[1].spill(2, tmp_path_factory.mktemp("spilled"), DATA)
    return pair


EDGES = st.one_of(st.integers(0, 100), st.integers(0, CHUNK), st.sampled_from([CHECKED, MB, 2 * MB, 4 * MB, CHUNK]))


@settings(max_examples=100)
@given(EDGES, EDGES, st.integers(0, 5000), st.sampled_from([1, 2]))
@example(0, CHUNK, 0, 1)
@example(0, CHUNK, 0, 2)
@example(7, 7, 1, 1)
@example(7, 7, 1, 2)
@example(MB - 1, MB, 3, 2)
def test_bytes_come_as_they_are_and_nothing_beside_them(spilled, start, stop, odd, chunk):
    reader, source = spilled
    start, stop = sorted((start, stop))
    size = stop - start
    around = b"around" * 100
    at = INTO + odd
    reader.memory[at - 600 : at] = reader.memory[at + size : at + size + 600] = around
    reader.memory[at : at + size] = bytes(size)
    ticket = reader.pull(chunk, start, stop, at, source)
    assert pulled(spilled, reader, ticket) == ""
    assert reader.pulled[ticket][1:3] == (1, size)
    assert reader.memory[at : at + size] == DATA[start:stop]
    assert reader.memory[at - 600 : at] == reader.memory[at + size : at + size + 600] == around
    pump(spilled, lambda: not source.open_requests)


@pytest.mark.long
def test_many_small_pulls_are_all_right(pair):
    reader, source = pair
    tickets = [reader.pull(1, 1001 * n, 1001 * n + 1 + n, INTO + 8192 * n, source) for n in range(2000)]
    pump(pair, lambda: all(ticket in reader.pulled for ticket in tickets))
    assert {reader.pulled[ticket][0] for ticket in tickets} == {""}
    for n in range(2000):
        assert reader.memory[INTO + 8192 * n :][: 1 + n] == DATA[1001 * n :][: 1 + n]


def test_both_directions_at_once(pair):
    one, other = pair
    one.fill(3, 24 * MB, DATA[: 5 * MB])
    back = other.pull(3, 0, 5 * MB, 48 * MB, one)
    there = one.pull(1, 0, CHUNK, INTO, other)
    pump(pair, lambda: back in other.pulled and there in one.pulled)
    assert one.memory[INTO : INTO + CHUNK] == DATA and other.memory[48 * MB : 53 * MB] == DATA[: 5 * MB]


def test_an_urgent_pull_overtakes_a_large_one(pair):
    reader, source = pair
    large = reader.pull(1, 0, CHUNK, INTO, source, urgency=5)
    pump(pair, lambda: source.asked and source.asked[-1][2] == 1)
    urgent = reader.pull(1, 0, 100, 0, source, urgency=-3)
    pump(pair, lambda: large in reader.pulled)
    assert list(reader.pulled)[-2:] == [urgent, large]


def test_what_a_host_does_not_have_is_an_error_that_tells_chunk_and_host(pair):
    reader, source = pair
    error = pulled(pair, reader, reader.pull(99, 0, 10, INTO, source))
    assert "chunk 99" in error and "host 1: no chunk 99 here" in error


def test_bytes_beyond_a_chunk_are_refused(pair):
    reader, source = pair
    before = reader.memory[INTO : INTO + 100]
    error = pulled(pair, reader, reader.pull(1, CHUNK - 10, CHUNK + 1, INTO, source))
    assert "are no part of the chunk" in error and reader.memory[INTO : INTO + 100] == before
    pump(pair, lambda: not source.open_requests)


def test_an_unknown_holder_is_an_error(pair):
    reader, source = pair
    assert "none of its holders is known" in pulled(pair, reader, reader.pull(1, 0, 10, INTO, (7, 1)))
    assert "none of its holders is known" in pulled(pair, reader, reader.pull(1, 0, 10, INTO, (1, 2)))
    assert pulled(pair, reader, reader.pull(1, 0, 10, INTO, (7, 1), source)) == ""


def test_the_link_is_measured_and_told_without_a_further_pull(pair):
    reader, source = pair
    assert pulled(pair, reader, reader.pull(1, 0, CHUNK, INTO, source)) == ""
    pump(pair, lambda: 1 in reader.links)
    bandwidth, latency = reader.links[1]
    assert bandwidth > 0 and 0 < latency < 5


@pytest.mark.parametrize("damage", ["flipped", "short", "gone"])
def test_a_damaged_file_is_read_from_the_next_holder_and_told(damage, tmp_path):
    with carriers(0, 1, 2) as hosts:
        reader, source, other = hosts
        path = source.spill(2, tmp_path, DATA)
        other.fill(2, 4096, DATA)
        if damage == "flipped":
            with open(path, "r+b") as file:
                file.seek(15 * MB)
                file.write(bytes([DATA[15 * MB] ^ 1]))
        elif damage == "short":
            os.truncate(path, 15 * MB)
        else:
            os.unlink(path)
        ticket = reader.pull(2, 0, CHUNK, INTO, source, other)
        assert pulled(hosts, reader, ticket) == "" and reader.pulled[ticket][1] == 2
        assert reader.memory[INTO : INTO + CHUNK] == DATA
        pump(hosts, lambda: not source.open_requests)
        assert any(error for _, error in source.given.values())
        if damage != "gone":  # the blocks before are as good as they were
            assert pulled(hosts, reader, reader.pull(2, 0, 8 * MB, INTO, source)) == ""


def test_all_hosts_read_from_all(tmp_path):
    size = 3 * MB + 1
    with carriers(0, 1, 2) as hosts:
        for host in hosts:
            host.fill(host.number, 4096, noise(size, host.number))
            host.spill(10 + host.number, tmp_path, noise(size, 10 + host.number))
        tickets = []
        for reader in hosts:
            places = iter(range(8 * MB, 64 * MB, 4 * MB))
            for source in hosts:
                if source is not reader:
                    for chunk in (source.number, 10 + source.number):
                        at = next(places)
                        tickets.append((reader, reader.pull(chunk, 0, size, at, source), chunk, at))
        pump(hosts, lambda: all(ticket in reader.pulled for reader, ticket, _, _ in tickets))
        for reader, ticket, chunk, at in tickets:
            assert reader.pulled[ticket][0] == "" and reader.memory[at : at + size] == noise(size, chunk)
