"""Frames of the bulk connection between two hosts: bytes in, plain values out.

A frame is a head of 16 bytes, `kind u8 · flags u8 · piece u16 · ticket u32 · length u64`, then `length` bytes; all
numbers are little-endian. A length beyond the limit of the kind is refused before any byte behind the head is read.

| kind | sender | body |
|---|---|---|
| 1 HELLO | both, first | `Hello`, 64 bytes |
| 2 ASK | reader | urgency i64, then by piece chunk i64 · start u64 · stop u64 |
| 3 PART | source | offset u64 · size u32 · zero u32 · a checksum u64 per 32 KiB · bytes; flag LAST: the end |
| 4 END | source | total u64: the piece has ended without a further part |
| 5 LOST | source | reason u8 · text: the source sends no further part of the piece |
| 6 DROP | reader | empty: the piece is not wanted any more |
| 10 BEAT | both | u64, sent back by the source |
| 11 OFFER | reader | a secret 32 · version of UCX 3 · address of the reader in UCX: send parts there |
| 12 ANSWER | source | yes u8 · devices u8 · the source's address in UCX, or why not; no, too, when UCX fails later |
| 13 PROBE | reader | how u8 · parts u8: prove the secret by UCX, or send parts of ticket 0 to measure |
| 14 AWAY | source | offset u64 · size u32 · zero u32 · tag u64 · checksums: a PART whose bytes come by UCX |

A piece is named by ticket and place of an ASK. The source ends every piece once: by LAST, END or LOST.
A reader that takes parts by UCX sets BY_UCX in its ASK. Numbers 7 to 9 are free for pushed chunks.
Source: RFC 9113, section 4 (frames of HTTP/2).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from jmars.errors import ProtocolError
from jmars.storage.spill import CHECKED

HELLO, ASK, PART, END, LOST, DROP, BEAT = 1, 2, 3, 4, 5, 6, 10
OFFER, ANSWER, PROBE, AWAY = 11, 12, 13, 14
LAST = 1  # flag of a PART, and of AWAY
BY_UCX = 1  # flag of an ASK; also a kind of PROBE, as are:
PROVE, BY_TLS = 0, 2
NOT_HERE, DAMAGED, WITHDRAWN, REFUSED = 1, 2, 3, 4  # reasons of LOST

HEAD = 16  # bytes before a body
PART_BYTES = 2**20  # most bytes of a chunk in a PART, so that urgent pieces go between
MOST_PIECES = 64  # pieces of an ASK
MOST_ASKED = 16 * 2**20  # bytes of a piece
MOST_TEXT = 200  # bytes of a text in LOST
MOST_ADDRESS = 4096  # bytes of an address in UCX
MAGIC = b"jmars-b1"

_HEAD = Struct("<BBHIQ")
_HELLO = Struct("<8s16sIQIQQ8s")
_URGENCY, _PIECE, _PART, _NUMBER = Struct("<q"), Struct("<qQQ"), Struct("<QII"), Struct("<Q")
_OFFER, _ANSWER, _PROBE, _AWAY = Struct("<32s3s"), Struct("<BB"), Struct("<BB"), Struct("<QIIQ")
PART_FIXED = _PART.size  # bytes of a PART's body before the checksums
_BLOCKS = -(-PART_BYTES // CHECKED)
# Least and most bytes of a body, by kind.
_LENGTHS = {
    HELLO: (_HELLO.size, _HELLO.size),
    ASK: (_URGENCY.size + _PIECE.size, _URGENCY.size + MOST_PIECES * _PIECE.size),
    PART: (_PART.size, _PART.size + 8 * _BLOCKS + PART_BYTES),
    END: (_NUMBER.size, _NUMBER.size),
    LOST: (1, 1 + MOST_TEXT),
    DROP: (0, 0),
    BEAT: (_NUMBER.size, _NUMBER.size),
    OFFER: (_OFFER.size + 1, _OFFER.size + MOST_ADDRESS),
    ANSWER: (_ANSWER.size, _ANSWER.size + MOST_ADDRESS),
    PROBE: (_PROBE.size, _PROBE.size),
    AWAY: (_AWAY.size, _AWAY.size + 8 * _BLOCKS),
}


class Hello(NamedTuple):
    """First frame of both ends: the sender, and the host that the sender expects at the other end."""

    cluster: bytes  # 16 bytes of `cluster_id`
    host: int
    incarnation: int
    to_host: int
    to_incarnation: int
    credit: int = 0  # bytes that may be pushed unasked

    def pack(self) -> bytes:
        """The frame."""
        return _HEAD.pack(HELLO, 0, 0, 0, _HELLO.size) + _HELLO.pack(MAGIC, *self, bytes(8))


def cluster_id(name: str) -> bytes:
    """The 16 bytes that stand for a cluster's name in HELLO."""
    return hashlib.blake2b(name.encode(), digest_size=16).digest()


def parse_head(data: memoryview | bytes | bytearray, at: int = 0) -> tuple[int, int, int, int, int]:
    """Kind, flags, piece, ticket and length of the body.

    Raises
    ------
    ProtocolError
        If the kind does not exist, or cannot have a body of this length.

    Examples
    --------
    >>> parse_head(drop(7, 2))
    (6, 0, 2, 7, 0)
    """
    head = _HEAD.unpack_from(data, at)
    least, most = _LENGTHS.get(head[0], (1, 0))
    if not least <= head[4] <= most:
        raise ProtocolError(f"a frame of kind {head[0]} claims {head[4]} bytes; the other end is no jmars")
    return head


def parse_hello(body: bytes | memoryview) -> Hello:
    """HELLO's body.

    Raises
    ------
    ProtocolError
        If the body does not begin as jmars' do.
    """
    magic, *fields, zero = _HELLO.unpack(body)
    if magic != MAGIC or zero != bytes(8):
        raise ProtocolError("the other end speaks another protocol; use one version of jmars on all hosts")
    return Hello(*fields)


def ask(ticket: int, urgency: int, pieces: Sequence[tuple[int, int, int]], flags: int = 0) -> bytes:
    """ASK for pieces `(chunk, start, stop)`; the piece of the lowest urgency is sent first."""
    body = _URGENCY.pack(urgency) + b"".join([_PIECE.pack(*piece) for piece in pieces])
    return _HEAD.pack(ASK, flags, 0, ticket, len(body)) + body


def parse_ask(body: bytes | memoryview) -> tuple[int, list[tuple[int, int, int]]]:
    """Urgency and pieces of ASK.

    Raises
    ------
    ProtocolError
        If a piece is none, or too large.
    """
    if (len(body) - _URGENCY.size) % _PIECE.size:
        raise ProtocolError(f"a request of {len(body)} bytes is cut off; the other end is no jmars")
    pieces = list(_PIECE.iter_unpack(body[_URGENCY.size :]))
    for chunk, start, stop in pieces:
        if not start <= stop <= start + MOST_ASKED:
            raise ProtocolError(f"bytes {start} to {stop} of chunk {chunk} are no piece; the other end is no jmars")
    return _URGENCY.unpack_from(body)[0], pieces


def part(ticket: int, piece: int, offset: int, size: int, sums: bytes, is_last: bool) -> bytes:
    """PART up to the bytes, which begin at byte `offset` of the piece."""
    length = _PART.size + len(sums) + size
    return _HEAD.pack(PART, LAST if is_last else 0, piece, ticket, length) + _PART.pack(offset, size, 0) + sums


def parse_part(data: memoryview, at: int, length: int) -> tuple[int, int, int]:
    """Offset, size and bytes of checksums of a PART; the body of `length` bytes begins at `data[at]`.

    Raises
    ------
    ProtocolError
        If the numbers do not fit each other.
    """
    offset, size, zero = _PART.unpack_from(data, at)
    sums = 8 * -(-size // CHECKED)
    if zero or size > PART_BYTES or _PART.size + sums + size != length:
        raise ProtocolError(f"a part of {size} bytes claims {length}; the other end is no jmars")
    return offset, size, sums


def end(ticket: int, piece: int, total: int) -> bytes:
    """END of a piece of `total` bytes."""
    return _HEAD.pack(END, 0, piece, ticket, _NUMBER.size) + _NUMBER.pack(total)


def lost(ticket: int, piece: int, reason: int, text: str) -> bytes:
    """LOST; the text is cut to `MOST_TEXT` bytes."""
    body = bytes([reason]) + text.encode("utf-8", "replace")[:MOST_TEXT]
    return _HEAD.pack(LOST, 0, piece, ticket, len(body)) + body


def parse_lost(body: bytes | memoryview) -> tuple[int, str]:
    """Reason and text of LOST."""
    return body[0], bytes(body[1:]).decode("utf-8", "replace")


def drop(ticket: int, piece: int) -> bytes:
    """DROP of a piece."""
    return _HEAD.pack(DROP, 0, piece, ticket, 0)


def beat(number: int) -> bytes:
    """BEAT."""
    return _HEAD.pack(BEAT, 0, 0, 0, _NUMBER.size) + _NUMBER.pack(number)


def parse_number(body: bytes | memoryview) -> int:
    """The number of END or BEAT."""
    number: int = _NUMBER.unpack(body)[0]
    return number


def offer(secret: bytes, version: bytes, address: bytes) -> bytes:
    """OFFER of the reader's `address` in UCX; the other end proves the secret, 32 bytes, by UCX."""
    body = _OFFER.pack(secret, version) + address
    return _HEAD.pack(OFFER, 0, 0, 0, len(body)) + body


def parse_offer(body: bytes) -> tuple[bytes, bytes, bytes]:
    """Secret, version and address of OFFER."""
    secret, version = _OFFER.unpack_from(body)
    return secret, version, body[_OFFER.size :]


def answer(yes: bool, devices: int, told: bytes) -> bytes:
    """ANSWER to an OFFER: the source's address in UCX, or why not."""
    body = _ANSWER.pack(yes, devices) + told[:MOST_ADDRESS]
    return _HEAD.pack(ANSWER, 0, 0, 0, len(body)) + body


def parse_answer(body: bytes) -> tuple[bool, int, bytes]:
    """Yes or no, devices of the source, and address or reason."""
    yes, devices = _ANSWER.unpack_from(body)
    return bool(yes), devices, body[_ANSWER.size :]


def probe(how: int, parts: int) -> bytes:
    """PROBE: PROVE, or BY_UCX or BY_TLS with a number of parts."""
    return _HEAD.pack(PROBE, 0, 0, 0, _PROBE.size) + _PROBE.pack(how, parts)


def parse_probe(body: bytes) -> tuple[int, int]:
    """Kind of a PROBE, and the number of parts."""
    how, parts = _PROBE.unpack(body)
    return how, parts


def away(ticket: int, piece: int, offset: int, size: int, tag: int, sums: bytes, is_last: bool) -> bytes:
    """AWAY for a part that comes by UCX under a tag."""
    body = _AWAY.pack(offset, size, 0, tag) + sums
    return _HEAD.pack(AWAY, LAST if is_last else 0, piece, ticket, len(body)) + body


def parse_away(body: bytes) -> tuple[int, int, int, bytes]:
    """Offset, size, tag and checksums of AWAY.

    Raises
    ------
    ProtocolError
        If the numbers do not fit each other.
    """
    offset, size, zero, tag = _AWAY.unpack_from(body)
    sums = body[_AWAY.size :]
    if zero or not 0 < size <= PART_BYTES or len(sums) != 8 * -(-size // CHECKED):
        raise ProtocolError(f"a part of {size} bytes has {len(sums)} bytes of checksums; the other end is no jmars")
    return offset, size, tag, sums
