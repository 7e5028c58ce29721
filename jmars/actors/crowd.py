"""Which of too many connections gives way, of peers that have not proved who they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

__all__ = ["gives_way"]

Peer = TypeVar("Peer")


def gives_way(addresses: Mapping[Peer, str]) -> Peer:
    """The oldest peer of the address that has most.

    If the newest were refused instead, whoever holds connections open would keep all hosts out.

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
