"""Messages as length-prefixed msgpack: four bytes of length, little-endian, then the body. Nothing here unpickles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgpack

from jmars.errors import ProtocolError
from jmars.model.messages import pack_record, unpack_record

MAX_FRAME = 2**31 - 1  # bytes of a body


def pack(message: Any) -> bytes:
    """`message` as a frame."""
    body = pack_body(message)
    if len(body) > MAX_FRAME:
        raise ProtocolError(
            f"a message of {len(body)} bytes is over the limit of {MAX_FRAME}; send large arrays as chunks"
        )
    return len(body).to_bytes(4, "little") + body


def pack_body(message: Any) -> bytes:
    """`message` without a length, for `unpack`."""
    body: bytes = msgpack.packb(message, default=pack_record, use_bin_type=True, unicode_errors="surrogatepass")
    return body


def unpack(body: bytes | bytearray | memoryview) -> Any:
    """The message of a body; lists come back as tuples, but those directly in a record."""
    try:
        return msgpack.unpackb(
            body, ext_hook=unpack_record, use_list=False, strict_map_key=False, unicode_errors="surrogatepass"
        )
    except (ValueError, TypeError, UnicodeDecodeError, msgpack.UnpackException) as error:
        raise ProtocolError(
            f"a frame of {len(body)} bytes is not msgpack ({error}); the peer is no jmars of this version"
        ) from error


class Decoder:
    """Frames of at most `largest` bytes out of a byte stream that arrives in pieces."""

    def __init__(self, largest: int = MAX_FRAME) -> None:
        self._buffer = bytearray()
        self._largest = largest

    def feed(self, data: bytes) -> Iterator[Any]:
        """The messages that `data` completes, in order."""
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= 4:
                size = int.from_bytes(buffer[start : start + 4], "little")
                if size > self._largest:
                    raise ProtocolError(
                        f"a frame claims {size} bytes, over the limit of {self._largest}; the peer is no jmars"
                    )
                end = start + 4 + size
                if len(buffer) < end:
                    break
                body = bytes(buffer[start + 4 : end])
                start = end
                yield unpack(body)
        finally:
            del buffer[:start]


def recv_message(read: Any) -> Any:
    """The next message of a blocking file's `read`; raises EOFError at the end."""
    head = read(4)
    if len(head) < 4:
        raise EOFError
    body = read(int.from_bytes(head, "little"))
    return unpack(body)
