"""Compression of long messages between machines by zlib, with a bound on the memory of the reader.

Source: RFC 1950.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from jmars.errors import ProtocolError

__all__ = ["compressed", "decompressed", "from_int_planes", "int_planes"]

WORTH = 2**18  # bytes from which on compression takes less time than the bytes would, for two readers at 1 Gbit/s
LARGEST = 2**30  # bytes of a message before compression
FAST = 1  # zlib's level: tables of operands shrink to a quarter by it, and no further by higher levels


def compressed(data: bytes) -> tuple[bytes, int]:
    """Data to send, and its size before compression; 0 for short data, which stays as it is.

    Raises
    ------
    ProtocolError
        If the data is larger than readers take.

    Examples
    --------
    >>> sent, size = compressed(bytes(10**6))
    >>> len(sent) < 10**4, decompressed(sent, size) == bytes(10**6)
    (True, True)
    >>> compressed(b"short")
    (b'short', 0)
    """
    if len(data) < WORTH:
        return data, 0
    if len(data) > LARGEST:
        raise ProtocolError(f"a message of {len(data)} bytes is over the limit of {LARGEST}; submit smaller graphs")
    return zlib.compress(data, FAST), len(data)


def decompressed(data: bytes, size: int) -> bytes:
    """The data before compression; never takes more than `size` bytes.

    Raises
    ------
    ProtocolError
        If the data is damaged, or not of this size.
    """
    if not 0 < size <= LARGEST:
        raise ProtocolError(f"a message claims {size} bytes before compression, and the limit is {LARGEST}")
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(data, size + 1)  # room to see the end, or that there is more
    except zlib.error as error:
        raise ProtocolError(f"a compressed message is damaged: {error}") from error
    if len(found) != size or not stream.eof or stream.unused_data:
        raise ProtocolError(f"a compressed message has not the {size} bytes that it claims")
    return found


def int_planes(values: Sequence[int]) -> bytes:
    """Numbers of 32 bits, the lowest byte of each first, then the second of each: zlib finds more in it.

    Examples
    --------
    >>> int_planes([1, 2, 258]).hex(" ", 3)
    '010202 000001 000000 000000'
    """
    return np.ascontiguousarray(np.asarray(values, "<i4").view("u1").reshape(-1, 4).T).tobytes()


def from_int_planes(data: bytes) -> list[int]:
    """The numbers of `int_planes`.

    Raises
    ------
    ProtocolError
        If these are not whole numbers.

    Examples
    --------
    >>> from_int_planes(int_planes([5, -1, 70000]))
    [5, -1, 70000]
    """
    if len(data) % 4:
        raise ProtocolError(f"{len(data)} bytes are no numbers of 4 bytes")
    found: list[int] = np.ascontiguousarray(np.frombuffer(data, "u1").reshape(4, -1).T).view("<i4")[:, 0].tolist()
    return found
