"""Chunks that travel as messages: their bytes with a checksum, which who receives them compares.

What lies in shared memory does not travel and has none.
Source: the issue's "checksum on every spilled and moved chunk"; RELIABILITY 0 (2).
"""

from __future__ import annotations

import xxhash

from jmars.errors import StorageError

__all__ = ["checksum", "received"]


def checksum(data: bytes | memoryview) -> bytes:
    """16 bytes that tell whether others are the same."""
    return xxhash.xxh3_128_digest(data)


def received(data: bytes, expected: bytes, what: str) -> bytes:
    """The bytes as they were sent.

    Raises
    ------
    StorageError
        If they are others.

    Examples
    --------
    >>> received(b"chunk", checksum(b"chunk"), "chunk 3")
    b'chunk'
    """
    if checksum(data) != expected:
        raise StorageError(f"the bytes of {what} changed on their way; ask for them, or send them, once more")
    return data
