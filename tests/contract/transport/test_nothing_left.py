"""A carrier holds no more after many pulls and lost links than before, and ends with its control process."""

from __future__ import annotations

import os
import time

import pytest

from jmars.transport import pulling
from tests.contract.transport.carriers import carriers, noise, pulled, pump
from tests.contract.transport.rogue import proxy

MB = 2**20
INTO = 32 * MB


def held(pid):
    """Descriptors and threads of a process."""
    return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))


def settle(host, before):
    """Wait until a carrier holds no more than before: threads that end tell nobody."""
    end = time.monotonic() + 30
    while held(host.pid) > before and time.monotonic() < end:
        pulled([host], host, host.pull(1, 0, 1, 0, (9, 9)))
    assert held(host.pid) == before


def quiet(host):
    """What a carrier holds once its lanes have ended."""
    found = [held(host.pid)]
    while len(found) < 5 or len(set(found[-5:])) > 1:
        time.sleep(0.1)
        found.append(held(host.pid))
    return found[-1]


def test_lanes_that_broke_leave_nothing(tmp_path, transport):
    with carriers(0, 1) as hosts, proxy(hosts[1].port) as between:
        reader, source = hosts
        data = noise(5 * MB)
        source.fill(1, 4096, data)
        source.spill(2, tmp_path, data)
        before = [held(host.pid) for host in hosts]
        reader.knows(source, between.address)
        files = (0, 1)  # the thread that reads files stays
        for round_ in range(5):
            if round_ == 2 and transport != "tls":  # UCX keeps what it opened first
                between.after(0, "cut").wait()
                before, files = [quiet(host) for host in hosts], (0, 0)
            reached = between.after(2 * MB if transport == "tls" else 1500, "cut")
            tickets = [reader.pull(chunk, 0, 5 * MB, INTO + 8 * MB * chunk, source) for chunk in (1, 2)]
            pump(hosts, lambda tickets=tickets: all(ticket in reader.pulled for ticket in tickets))
            assert reached.is_set() and {reader.pulled[ticket][0] for ticket in tickets} == {""}, round_
        pump(hosts, lambda: not source.open_requests)
        between.after(0, "cut").wait()
        if transport == "ucx-tcp":  # UCX keeps up to two sockets of a connection that broke under a message
            for host, (fds, threads) in zip(hosts, before):
                assert quiet(host)[0] <= fds + 2 * 3 and quiet(host)[1] == threads
            return
        settle(reader, before[0])
        settle(source, tuple(a + b for a, b in zip(before[1], files)))


def test_an_idle_lane_is_closed_and_dialled_again(monkeypatch, transport):
    monkeypatch.setattr(pulling, "IDLE_SECONDS", 0.1)
    with carriers(0, 1) as hosts:
        reader, source = hosts
        source.fill(1, 4096, noise(100))
        if transport != "tls":  # UCX keeps what it opened first
            assert pulled(hosts, reader, reader.pull(1, 0, 100, INTO, source)) == ""
        before = [held(host.pid) if transport == "tls" else quiet(host) for host in hosts]
        for _ in range(2):
            assert pulled(hosts, reader, reader.pull(1, 0, 100, INTO, source)) == ""
            for host, most in zip(hosts, before):
                settle(host, most)


@pytest.mark.parametrize("busy", [False, True])
def test_a_carrier_ends_with_its_control_process(busy):
    with carriers(0, 1) as hosts:
        reader, source = hosts
        source.fill(1, 4096, noise(20 * MB))
        reader.pull(1, 0, 20 * MB, INTO, source)
        if busy:
            pump(hosts, lambda: len(source.asked) > 3)
        else:
            pump(hosts, lambda: reader.pulled)
        for host in hosts:
            host.link.close()
            assert host.status() == 0


def test_a_port_that_was_taken_is_replaced():
    with carriers(0) as (host,):
        from tests.contract.transport.carriers import CarrierHost
        from tests.transport.certificates import identity

        other = CarrierHost(identity(1), bind=f"127.0.0.1:{host.port}")
        try:
            assert other.port not in (0, host.port)
        finally:
            other.close()
