"""Chooses the connection that gives way where too many peers have proved no identity yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

__all__ = ["gives_way"]

Peer = TypeVar("Peer")


def gives_way(addresses: Mapping[Peer, str]) -> Peer:
    """The oldest peer of the address that has most.

    Refusing the newest peer instead would let held connections keep all hosts out.

    Parameters
    ----------
    addresses
        By peer, the oldest first; one at least.

    Examples
    --------
    >>> gives_way({"a": "10.0.0.1", "b": "10.0.0.9", "c": "10.0.0.9"})
    'b'
    """
    count = Counter(addresses.values())
    most = max(count.values())
    return next(peer for peer, address in addresses.items() if count[address] == most)
