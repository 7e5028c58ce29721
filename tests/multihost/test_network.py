"""The harness: machines are apart, cables do what is said of them, and nothing stays behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jmars.deploy.control_process import ended_within
from tests.house.source import ROOT
from tests.multihost.cables import Cable, SlowCable
from tests.multihost.machines import Machine, need_machines

pytestmark = pytest.mark.root

BRIEF = 0.2  # seconds in which nothing arrives


@contextmanager
def connected(head: Machine, far: Machine, cable: Cable) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A TCP connection between the machines: the end of the head, the end of the other machine."""
    with far.network():
        listener = socket.create_server((cable.addresses["far"], 7000))
    with listener:
        with head.network():
            near = socket.create_connection((cable.addresses["far"], 7000), timeout=5)
        other, _ = listener.accept()
    with near, other:
        near.settimeout(60)
        other.settimeout(60)
        yield near, other


def nothing_arrives(end: socket.socket) -> bool:
    end.settimeout(BRIEF)
    try:
        end.recv(1)
    except TimeoutError:
        return True
    else:
        return False
    finally:
        end.settimeout(60)


@pytest.fixture
def pair(head: Machine, far: Machine, cable: Cable) -> Iterator[tuple[socket.socket, socket.socket]]:
    with connected(head, far, cable) as ends:
        yield ends


def test_machines_are_apart(head, far, cable):
    assert [machine.run("uname", "-n") for machine in (head, far)] == ["head\n", "far\n"]
    assert far.run("ip", "-brief", "link").count("\n") == 2  # lo and eth0
    assert os.getpid() not in far.pids().values()
    with socket.create_server(("127.0.0.1", 0)) as ours, far.network(), pytest.raises(ConnectionRefusedError):
        socket.create_connection(ours.getsockname(), timeout=5)


def test_the_test_is_back_in_its_own_network_after_an_error(head):
    before = os.readlink("/proc/thread-self/ns/net")
    with pytest.raises(ZeroDivisionError), head.network():
        assert os.readlink("/proc/thread-self/ns/net") != before
        _ = 1 / 0
    assert os.readlink("/proc/thread-self/ns/net") == before


def test_a_machine_ends_with_all_its_processes(far):
    far.run("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & setsid sleep 1000 >/dev/null 2>&1 &")
    sleepers = [pid for number, pid in far.pids().items() if number != 1]
    assert len(sleepers) == 2
    far.crash()
    assert [pid for pid in sleepers if os.path.exists(f"/proc/{pid}")] == []


@pytest.mark.long
def test_a_killed_test_run_leaves_no_machine():
    need_machines()
    program = "from tests.multihost.machines import Machine; print(Machine('left').pid, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as run:
        pid = int(run.stdout.readline())
        run.kill()
        assert ended_within(pid, 60)


def test_what_was_sent_into_silence_arrives_after_it(pair, cable):
    near, other = pair
    with cable.silence():
        near.sendall(b"x")
        other.sendall(b"y")
        assert nothing_arrives(other) and nothing_arrives(near)
    assert (other.recv(9), near.recv(9)) == (b"x", b"y")


def test_a_half_open_cut_is_silent_one_way(pair, cable, far):
    near, other = pair
    with cable.silence(far):
        near.sendall(b"x")
        assert other.recv(9) == b"x"
        other.sendall(b"y")
        assert nothing_arrives(near)
    assert near.recv(9) == b"y"


@pytest.mark.long
@pytest.mark.parametrize("end", ["head", "far"])
def test_an_unplugged_cable_carries_nothing(pair, cable, head, far, end):
    near, other = pair
    with cable.unplug(head if end == "head" else far):
        near.sendall(b"x")
        assert nothing_arrives(other)
    assert other.recv(9) == b"x"


@pytest.mark.long
def test_a_slow_cable_has_its_bandwidth(pair, cable):
    near, other = pair
    size, bandwidth = 2_000_000, 4_000_000
    with cable.slow(bandwidth):
        start = time.monotonic()
        sender = threading.Thread(target=near.sendall, args=(bytes(size),))
        sender.start()
        arrived = 0
        while arrived < size:
            arrived += len(other.recv(2**16))
        took = time.monotonic() - start
        sender.join()
    assert took > 0.7 * size / bandwidth  # the first 128 kB pass at once


def test_a_reset_ends_connections(pair, cable):
    near, other = pair
    cable.reset()
    for end in (near, other):
        with pytest.raises(ConnectionError):
            end.recv(1)


def test_a_switched_off_machine_is_silent(pair, far):
    """No RST and no FIN comes from a machine without power."""
    near, _ = pair
    far.crash()
    assert nothing_arrives(near)


@pytest.mark.long
def test_a_delay_is_paid_each_way(head, far):
    delay = 0.05
    with SlowCable(head, far, delay) as cable, connected(head, far, cable) as (near, other):
        start = time.monotonic()
        near.sendall(b"x")
        other.sendall(other.recv(1))
        assert near.recv(1) == b"x"
        assert time.monotonic() - start >= 2 * delay
        with cable.silence():
            near.sendall(b"y")
            assert nothing_arrives(other)
        assert other.recv(1) == b"y"
