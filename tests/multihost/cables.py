"""Cables between two machines, and what may happen to them.

    silence   packets are dropped and nobody is told: a firewall, a switch, a lost route; both ways or one way
    unplug    the network card of one end says that the cable is out
    slow      so many bytes a second
    reset     open TCP connections end with RST, as a firewall does that has lost its table

A cable that delays packets is a `SlowCable`: Debian's kernels have `tc netem`, others do not, so a program carries the
packets. Source: ip-neighbour(8), tc-tbf(8), ss(8).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from tests.multihost.machines import Machine, run_here

__all__ = ["Cable", "SlowCable"]

_CARD = {"10.77.0.1": "02:00:00:00:00:01", "10.77.0.2": "02:00:00:00:00:02"}  # network card by address
_NOBODY = "02:00:00:00:00:99"  # no network card: a packet to it arrives and is dropped


class Cable:
    """A cable between two machines, whose network cards are called `eth0`.

    Attributes
    ----------
    a, b
        The machines.
    addresses
        Address by name of the machine.
    """

    def __init__(self, a: Machine, b: Machine) -> None:
        self.a, self.b = a, b
        self.addresses = {a.name: "10.77.0.1", b.name: "10.77.0.2"}
        self._connect()
        for machine in (a, b):
            address = self.addresses[machine.name]
            machine.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
            machine.run("ip", "link", "set", "eth0", "address", _CARD[address], "up")
        for machine in (a, b):
            self._lead(machine)

    def _connect(self) -> None:
        ends = ["eth0", "netns", str(self.a.pid), "type", "veth", "peer", "name", "eth0", "netns", str(self.b.pid)]
        run_here("ip", "link", "add", *ends)

    def _lead(self, machine: Machine, card: str = "") -> None:
        """Send the packets of a machine to a network card, the other machine's by default; it does not look for it."""
        peer = self._address_beyond(machine)
        machine.run("ip", "neigh", "replace", peer, "lladdr", card or _CARD[peer], "dev", "eth0", "nud", "permanent")

    @contextmanager
    def silence(self, *senders: Machine) -> Iterator[None]:
        """Drop the packets of these machines, of both by default, until the end of the block."""
        machines = senders or (self.a, self.b)
        try:
            for machine in machines:
                self._lead(machine, _NOBODY)
            yield
        finally:
            for machine in machines:
                self._lead(machine)

    @contextmanager
    def unplug(self, machine: Machine) -> Iterator[None]:
        """Take the cable out of a machine until the end of the block."""
        machine.run("ip", "link", "set", "eth0", "down")
        try:
            yield
        finally:
            machine.run("ip", "link", "set", "eth0", "up")
            self._lead(machine)  # which the machine forgot with the cable

    @contextmanager
    def slow(self, bandwidth: int) -> Iterator[None]:
        """Carry at most `bandwidth` bytes a second each way until the end of the block."""
        for machine in (self.a, self.b):
            limit = ["rate", f"{8 * bandwidth}bit", "burst", "128kb", "latency", "300ms"]
            machine.run("tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", *limit)
        try:
            yield
        finally:
            for machine in (self.a, self.b):
                machine.run("tc", "qdisc", "del", "dev", "eth0", "root")

    def reset(self) -> None:
        """End the TCP connections between the machines with RST, at both ends."""
        for machine in (self.a, self.b):
            machine.run("ss", "--kill", "--tcp", "dst", self._address_beyond(machine))

    def _address_beyond(self, machine: Machine) -> str:
        return self.addresses[(self.b if machine is self.a else self.a).name]


class SlowCable(Cable):
    """A cable whose packets take `delay` seconds each way."""

    def __init__(self, a: Machine, b: Machine, delay: float) -> None:
        self._delay = delay
        super().__init__(a, b)

    def _connect(self) -> None:
        if not os.path.exists("/dev/net/tun"):
            pytest.skip("needs /dev/net/tun, which this kernel or container lacks")
        relay = Path(__file__).with_name("relay.py")
        command = [sys.executable, "-I", "-S", relay, str(self.a.pid), str(self.b.pid), str(self._delay)]
        self._relay = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._relay.stdout is not None
        if self._relay.stdout.readline() != b"up\n":
            raise RuntimeError("the slow cable did not start; its error stands above")

    def __enter__(self) -> Self:
        return self

    @contextmanager
    def weather(self, delay: float, jitter: float = 0.0, loss: float = 0.0) -> Iterator[None]:
        """Delay packets by up to `jitter` seconds more, so that they pass one another, and drop a share of them."""
        self._set(delay, jitter, loss)
        try:
            yield
        finally:
            self._set(self._delay, 0.0, 0.0)

    def _set(self, *weather: float) -> None:
        assert self._relay.stdin is not None and self._relay.stdout is not None
        self._relay.stdin.write(" ".join(map(str, weather)).encode())
        self._relay.stdin.flush()
        assert self._relay.stdout.readline() == b"ok\n"

    def __exit__(self, *_error: object) -> None:
        """End the program that carries the packets."""
        for pipe in (self._relay.stdin, self._relay.stdout):
            assert pipe is not None
            pipe.close()
        self._relay.wait(60)
