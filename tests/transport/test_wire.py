"""Frames: what is packed is parsed, what is no frame is refused before its body is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.errors import ProtocolError
from jmars.storage.spill import CHECKED, block_sums
from jmars.transport import wire

U16, U32, U64 = (st.integers(0, 2**bits - 1) for bits in (16, 32, 64))
PIECE = st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**62), st.integers(0, wire.MOST_ASKED)).map(
    lambda p: (p[0], p[1], p[1] + p[2])
)


def cut(frame):
    """Head and body."""
    kind, flags, piece, ticket, length = wire.parse_head(frame)
    assert len(frame) == wire.HEAD + length
    return (kind, flags, piece, ticket), frame[wire.HEAD :]


@given(st.binary(min_size=16, max_size=16), st.tuples(U32, U64, U32, U64, U64))
def test_hello_comes_back(cluster, numbers):
    hello = wire.Hello(cluster, *numbers)
    head, body = cut(hello.pack())
    assert head == (wire.HELLO, 0, 0, 0) and len(body) == 64 and wire.parse_hello(body) == hello


def test_another_protocol_is_no_hello():
    body = wire.Hello(bytes(16), 1, 2, 3, 4).pack()[wire.HEAD :]
    for wrong in (b"jmars-b2" + body[8:], body[:-1] + b"x"):
        with pytest.raises(ProtocolError, match="another protocol"):
            wire.parse_hello(wrong)


@given(U32, st.integers(-(2**63), 2**63 - 1), st.lists(PIECE, min_size=1, max_size=wire.MOST_PIECES))
def test_ask_comes_back(ticket, urgency, pieces):
    head, body = cut(wire.ask(ticket, urgency, pieces))
    assert head == (wire.ASK, 0, 0, ticket) and wire.parse_ask(body) == (urgency, pieces)


@pytest.mark.parametrize("piece", [(1, 2, 1), (1, 0, wire.MOST_ASKED + 1)])
def test_a_piece_that_is_none_or_too_large_is_refused(piece):
    _, body = cut(wire.ask(1, 0, [piece]))
    with pytest.raises(ProtocolError, match="no piece"):
        wire.parse_ask(body)


def test_a_request_that_is_cut_off_is_refused():
    _, body = cut(wire.ask(1, 0, [(1, 2, 3)]))
    with pytest.raises(ProtocolError, match="cut off"):
        wire.parse_ask(body[:-1])


@given(U32, U16, U64, st.integers(0, wire.PART_BYTES), st.booleans())
def test_part_comes_back(ticket, piece, offset, size, is_last):
    sums = bytes(8 * -(-size // CHECKED))
    frame = wire.part(ticket, piece, offset, size, sums, is_last)
    kind, flags, *names, length = wire.parse_head(frame)
    assert (kind, flags, *names) == (wire.PART, int(is_last), piece, ticket)
    assert length == len(frame) - wire.HEAD + size
    assert wire.parse_part(memoryview(frame), wire.HEAD, length) == (offset, size, len(sums))


@pytest.mark.parametrize("size, length", [(5, 20), (2**20 + 1, 16 + 8 * 33 + 2**20 + 1), (0, 17)])
def test_a_part_whose_sizes_do_not_fit_is_refused(size, length):
    frame = wire.part(1, 2, 0, size, b"", False)
    with pytest.raises(ProtocolError, match="claims"):
        wire.parse_part(memoryview(frame), wire.HEAD, length)


def test_checksums_of_a_part_are_those_of_a_file():
    data = bytes(range(256)) * 300
    assert len(block_sums(memoryview(data))) == 8 * 3


@given(U32, U16, st.integers(0, 255), st.text())
def test_lost_comes_back_and_is_short(ticket, piece, reason, text):
    head, body = cut(wire.lost(ticket, piece, reason, text))
    assert head == (wire.LOST, 0, piece, ticket) and len(body) <= 201
    found, words = wire.parse_lost(body)
    assert found == reason and (text.encode("utf-8", "replace").startswith(words.encode()) or "\ufffd" in words)


@given(U32, U16, U64)
def test_end_drop_and_beat_come_back(ticket, piece, number):
    head, body = cut(wire.end(ticket, piece, number))
    assert head == (wire.END, 0, piece, ticket) and wire.parse_number(body) == number
    assert cut(wire.drop(ticket, piece)) == ((wire.DROP, 0, piece, ticket), b"")
    head, body = cut(wire.beat(number))
    assert head[0] == wire.BEAT and wire.parse_number(body) == number


@pytest.mark.parametrize(
    "kind, length",
    [(0, 0), (7, 8), (11, 8), (255, 0), (wire.HELLO, 63), (wire.HELLO, 65), (wire.ASK, 8), (wire.ASK, 8 + 24 * 65)]
    + [(wire.PART, 15), (wire.PART, 2**21), (wire.PART, 2**63), (wire.END, 9), (wire.LOST, 0), (wire.LOST, 202)]
    + [(wire.DROP, 1), (wire.BEAT, 7)],
)
def test_a_length_that_no_frame_of_the_kind_has_is_refused(kind, length):
    head = bytes([kind, 0]) + bytes(6) + length.to_bytes(8, "little")
    with pytest.raises(ProtocolError, match="no jmars"):
        wire.parse_head(head)


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=3, max_size=3), st.binary(min_size=1, max_size=4096))
def test_an_offer_and_its_answer_come_back(secret, version, address):
    head, body = cut(wire.offer(secret, version, address))
    assert head[0] == wire.OFFER and wire.parse_offer(body) == (secret, version, address)
    head, body = cut(wire.answer(True, 3, address))
    assert head[0] == wire.ANSWER and wire.parse_answer(body) == (True, 3, address)
    head, body = cut(wire.probe(wire.BY_UCX, 16))
    assert head[0] == wire.PROBE and wire.parse_probe(body) == (wire.BY_UCX, 16)


@given(U32, U16, U64, st.integers(1, wire.PART_BYTES), U64, st.booleans())
def test_a_part_that_comes_by_ucx_is_announced(ticket, piece, offset, size, tag, is_last):
    sums = bytes(8 * -(-size // CHECKED))
    head, body = cut(wire.away(ticket, piece, offset, size, tag, sums, is_last))
    assert head == (wire.AWAY, wire.LAST if is_last else 0, piece, ticket)
    assert wire.parse_away(body) == (offset, size, tag, sums)
    with pytest.raises(ProtocolError, match="bytes of checksums"):
        wire.parse_away(body + bytes(8))
