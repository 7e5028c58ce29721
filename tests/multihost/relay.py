"""Carries packets between two machines, each after a delay: `python relay.py PID PID SECONDS`.

The program is a cable: it makes a network card `eth0` in the network namespace of each process, and ends, and the cards
with it, when its stdin ends. A line "SECONDS JITTER LOSS" there changes the delay, what is added to it at random at
most, and the share of packets that are dropped; "ok" answers. Source: https://docs.kernel.org/networking/tuntap.html.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 2, 0x1000
CLONE_NEWNET = 0x40000000
MOST_WAITING = 2000  # packets; more are dropped, as a router does


def card(pid: int) -> int:
    """A new network card `eth0` of the namespace of a process."""
    libc = ctypes.CDLL(None, use_errno=True)
    space = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if libc.setns(space, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(space)
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", b"eth0", IFF_TAP | IFF_NO_PI))
    return fd


def carry(ends: tuple[int, int], delay: float) -> None:
    """Carry packets until stdin ends."""
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    jitter = loss = 0.0
    waiting: list[tuple[float, int, int, bytes]] = []  # when, number, to which end, packet
    number = 0
    while True:
        patience = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        readable, _, _ = select.select([0, *ends], [], [], patience)
        if 0 in readable:
            line = os.read(0, 100)
            if not line:
                return
            delay, jitter, loss = map(float, line.split())
            os.write(1, b"ok\n")
            continue
        for end in readable:
            packet = os.read(end, 65536)
            if len(waiting) < MOST_WAITING and random.random() >= loss:
                number += 1
                late = delay + jitter * random.random()
                heapq.heappush(waiting, (time.monotonic() + late, number, other[end], packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, end, packet = heapq.heappop(waiting)
            try:
                os.write(end, packet)
            except OSError:
                pass  # the card is down: a cable drops what nobody takes


if __name__ == "__main__":
    cards = card(int(sys.argv[1])), card(int(sys.argv[2]))
    print("up", flush=True)
    carry(cards, float(sys.argv[3]))
