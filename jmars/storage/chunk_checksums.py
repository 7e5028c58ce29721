"""Checksums of chunks that travel as messages; the receiver compares them.

Chunks in shared memory do not travel and have no checksum.
Source: docs/explanation/reliability.md.
"""

from __future__ import annotations

import xxhash

from jmars.errors import StorageError

__all__ = ["checksum", "received"]


def checksum(data: bytes | memoryview) -> bytes:
    """Checksum of 16 bytes."""
    return xxhash.xxh3_128_digest(data)


def received(data: bytes, expected: bytes, what: str) -> bytes:
    """The bytes, checked.

    Raises
    ------
    StorageError
        If the bytes differ from the sent ones.

    Examples
    --------
    >>> received(b"chunk", checksum(b"chunk"), "chunk 3")
    b'chunk'
    """
    if checksum(data) != expected:
        raise StorageError(f"the bytes of {what} changed on their way; ask for them, or send them, once more")
    return data
