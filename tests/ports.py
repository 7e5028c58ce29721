"""Ports for servers that a test starts and that cannot be asked which port they took."""

from __future__ import annotations

import random
import socket
from pathlib import Path

__all__ = ["unused_port"]


def unused_port() -> int:
    """A port of this machine on which nobody listens.

    It lies below the ports that the system gives to connections and to listeners that name none: one of those, which
    other tests make all the time, may be taken before the server has come up.
    """
    given, _last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    while True:
        port = random.randrange(min(10_000, given // 2), given)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
