"""Chunks between two hosts beside a plain TLS socket: python -m tests.benchmarks transfer [--check].

Two carriers, each a process with an arena, move chunks as they do for hosts: with requests, urgency, checksums of each
32 KiB and slots that may be let go. Beside them two processes copy as many bytes between shared memory by one blocking
TLS 1.3 connection of the same settings, with nothing around it. Rounds are interleaved; the ratio is of the medians.
Goal: 0.7 of the plain socket's bytes a second. Pulls of 4 KiB are timed one after another, a round trip by five
processes and threads, and a thousand at once; CPU is that of both ends.
"""

from __future__ import annotations

import argparse
import mmap
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection

from jmars.transport.tls_sockets import HostIdentity, accept, dial
from tests.benchmarks.machine import cpu_between, cpu_by_process, describe, this_machine
from tests.contract.transport.carriers import UCX, CarrierHost, noise, pump
from tests.transport.certificates import identity

SHARE = 0.7  # goal
MIB = 2**20
WINDOW = 64 * MIB  # bytes of shared memory that are sent and received
RECORD = MIB  # bytes that the plain socket is given at once
SMALL = 4096  # bytes of a small pull


def _send(raw: socket.socket, who: HostIdentity, orders: Connection) -> None:
    """The plain sender: so many bytes as it is told, again and again."""
    memory = memoryview(mmap.mmap(-1, WINDOW))
    memory[:] = noise(MIB) * (WINDOW // MIB)
    link, _ = accept(who.context(is_server=True), who, raw, lambda *_: "")
    link.settimeout(None)
    while size := orders.recv():
        for start in range(0, size, RECORD):
            link.sendall(memory[start % WINDOW : start % WINDOW + RECORD])


def _receive(who: HostIdentity, other: HostIdentity, address: str, orders: Connection) -> None:
    """The plain receiver: tells when all bytes have come."""
    memory = memoryview(mmap.mmap(-1, WINDOW))
    link = dial(who.context(is_server=False), who, other.host, other.incarnation, address)
    link.settimeout(None)
    orders.send("connected")
    while size := orders.recv():
        got = 0
        while got < size:
            at = got % WINDOW
            got += link.recv_into(memory[at : min(WINDOW, at + size - got)])
        orders.send("received")


@contextmanager
def plain_socket() -> Iterator[tuple[Callable[[int], None], list[int]]]:
    """Two processes with a TLS connection: a function that moves bytes, and the numbers of the processes."""
    fork = get_context("fork")
    ours, theirs = identity(10), identity(11)
    (to_sender, sender_end), (to_receiver, receiver_end) = fork.Pipe(), fork.Pipe()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        receiver = fork.Process(target=_receive, args=(theirs, ours, address, receiver_end), daemon=True)
        receiver.start()
        raw, _ = listener.accept()
    sender = fork.Process(target=_send, args=(raw, ours, sender_end), daemon=True)
    sender.start()
    raw.close()
    assert to_receiver.recv() == "connected"

    def move(size: int) -> None:
        to_receiver.send(size)
        to_sender.send(size)
        to_receiver.recv()

    assert sender.pid and receiver.pid
    try:
        yield move, [sender.pid, receiver.pid]
    finally:
        for end, process in ((to_sender, sender), (to_receiver, receiver)):
            end.send(0)
            process.join()


@contextmanager
def two_carriers(chunk: int) -> Iterator[tuple[Callable[[int], None], Callable[[int], None], list[int]]]:
    """Two hosts: functions that move bytes by chunks of `chunk` bytes, and small chunks; and their processes."""
    source, reader = CarrierHost(identity(0), arena=2 * WINDOW), CarrierHost(identity(1), arena=2 * WINDOW)
    hosts = [source, reader]
    try:
        reader.knows(source)
        source.knows(reader)
        for number in range(WINDOW // chunk):
            source.fill(number, number * chunk, noise(chunk, number))
        source.fill(-1, WINDOW, noise(SMALL))

        def move(size: int) -> None:
            tickets = []
            for start in range(0, size, chunk):
                number = start % WINDOW // chunk
                tickets.append(reader.pull(number, 0, chunk, number * chunk, source, urgency=number))
            pump(hosts, lambda: reader.pulled.keys() >= set(tickets))
            assert not any(reader.pulled[ticket][0] for ticket in tickets)

        def move_small(count: int) -> None:
            tickets = {reader.pull(-1, 0, SMALL, WINDOW + SMALL * place, source) for place in range(count)}
            pump(hosts, lambda: reader.pulled.keys() >= tickets)

        yield move, move_small, [host.pid for host in hosts]
        assert bytes(reader.memory[:WINDOW]) == bytes(source.memory[:WINDOW])
    finally:
        for host in hosts:
            host.close()


def timed(move: Callable[[int], None], size: int, processes: list[int]) -> tuple[float, float]:
    """Bytes a second, and seconds of CPU a GB."""
    before, start = cpu_by_process(processes), time.perf_counter()
    move(size)
    took = time.perf_counter() - start
    return size / took, cpu_between(before, cpu_by_process(processes)) / size * 1e9


def main() -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser("python -m tests.benchmarks transfer", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--mib", type=int, default=256, help="MiB of a round, a multiple of 64")
    parser.add_argument("--chunk", type=int, default=16, help="MiB of a chunk, a divisor of 64")
    parser.add_argument("--ucx", action="store_true", help="carriers move parts by UCX, as UCX_TLS says")
    parser.add_argument("--check", action="store_true", help="exit 1 when the goal is missed")
    given = parser.parse_args()
    UCX["ucx"] = "always" if given.ucx else "no"
    print(f"machine: {this_machine()}")
    size = given.mib * MIB
    figures: dict[str, list[tuple[float, float]]] = {"plain TLS socket": [], "carriers": []}
    small: dict[int, list[float]] = {1: [], 1000: []}
    with plain_socket() as (plain, plain_pids), two_carriers(given.chunk * MIB) as (move, move_small, carrier_pids):
        works = {"plain TLS socket": (plain, plain_pids), "carriers": (move, carrier_pids)}
        for number in range(given.rounds + 1):
            for name in [*works][:: 1 if number % 2 else -1]:
                found = timed(works[name][0], size, works[name][1])
                if number:  # the first round dials, and touches memory
                    figures[name].append(found)
        for count in [1] * 300 + [1000] * 7:
            start = time.perf_counter()
            move_small(count)
            small[count].append(1e6 * (time.perf_counter() - start) / count)
    for name, some in figures.items():
        cpu = statistics.median(cpu for _, cpu in some)
        print(f"{name:17}{describe([speed / 1e9 for speed, _ in some], 'GB/s')}, {cpu:.2f} s of CPU a GB")
    for count, some_small in small.items():
        print(f"a pull of 4 KiB, {count} at once: {describe(some_small, 'µs')}")
    plainly, ours = ([speed for speed, _ in some] for some in figures.values())
    share, best = statistics.median(ours) / statistics.median(plainly), max(ours) / max(plainly)
    missed = share < SHARE
    print(
        f"share of the plain socket {share:.2f}, best to best {best:.2f}; goal {SHARE}: {'MISSED' if missed else 'met'}"
    )
    return int(missed and given.check)


if __name__ == "__main__":
    sys.exit(main())
