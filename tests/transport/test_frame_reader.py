"""FrameReader: a stream gives the same frames however it is cut, and writes only where it is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.errors import ProtocolError
from jmars.storage.spill import block_sums
from jmars.transport import wire
from jmars.transport.lanes import BUFFER, FrameReader

KINDS = {wire.ASK, wire.PART, wire.END, wire.LOST, wire.DROP, wire.BEAT}
NOISE = memoryview(bytes(range(251)) * (wire.PART_BYTES // 251 + 1))


def part(ticket, piece, offset, size, is_last=False):
    data = NOISE[offset % 7 :][:size]
    return wire.part(ticket, piece, offset, size, block_sums(data), is_last) + data


FRAMES = st.one_of(
    st.builds(wire.ask, st.just(3), st.just(4), st.lists(st.just((1, 2, 3)), min_size=1, max_size=64)),
    st.builds(wire.beat, st.integers(0, 2**64 - 1)),
    st.builds(wire.drop, st.integers(0, 9), st.integers(0, 9)),
    st.builds(wire.lost, st.just(1), st.just(2), st.just(3), st.text()),
    st.builds(part, st.integers(0, 9), st.integers(0, 9), st.integers(0, 2**40), st.sampled_from([0, 1, 5, 70_000])),
    st.builds(part, st.integers(0, 9), st.integers(0, 9), st.just(0), st.just(wire.PART_BYTES), st.booleans()),
)


def feed(reader, stream, cuts):
    """The frames of a stream that arrives in pieces of at most `cuts` bytes, in turn; views become bytes."""
    frames, at, turn = [], 0, 0
    while at < len(stream):
        space = reader.space()
        count = min(len(space), cuts[turn % len(cuts)], len(stream) - at)
        assert count
        space[:count] = stream[at : at + count]
        at, turn = at + count, turn + 1
        for *head, body in reader.received(count):
            if head[0] == wire.PART and body[0] is not None:
                body = (bytes(body[0]), body[1])
            frames.append((*head, body))
    return frames


def reader_of_parts():
    return FrameReader(KINDS, lambda ticket, piece, offset, size: memoryview(bytearray(size)))


@given(st.lists(FRAMES, max_size=6), st.lists(st.integers(1, 40_000), min_size=1, max_size=5))
def test_a_stream_gives_the_same_frames_however_it_is_cut(frames, cuts):
    stream = b"".join(frames)
    cuts = cuts if len(stream) < 200_000 else [*cuts, 2**16]
    found = feed(reader_of_parts(), stream, cuts)
    assert found == feed(reader_of_parts(), stream, [BUFFER]) and len(found) == len(frames)
    for frame, (kind, flags, piece, ticket, body) in zip(frames, found):
        assert wire.parse_head(frame)[:4] == (kind, flags, piece, ticket)
        if kind == wire.PART:
            assert frame.endswith(body[0]) and block_sums(memoryview(body[0])) == body[1]
        else:
            assert frame[wire.HEAD :] == body


def test_a_large_part_is_received_in_its_place_without_a_copy():
    slot = memoryview(bytearray(100_000))
    reader = FrameReader(KINDS, lambda ticket, piece, offset, size: slot[offset : offset + size])
    frame = part(1, 2, 0, 100_000)
    head = len(frame) - 100_000
    reader.space()[:head] = frame[:head]
    assert reader.received(head) == [] and reader.current == (1, 2)
    assert reader.space().obj is slot.obj and len(reader.space()) == 100_000


def test_a_part_that_nobody_wants_leaves_no_trace():
    reader = FrameReader(KINDS, lambda *where: None)
    frames = feed(reader, part(1, 2, 0, 100_000) + wire.beat(5), [30_000])
    assert [frame[0] for frame in frames] == [wire.PART, wire.BEAT] and frames[0][4][0] is None


def test_a_part_that_is_let_go_is_not_written_any_more():
    slot = memoryview(bytearray(100_000))
    reader = FrameReader(KINDS, lambda *where: slot)
    frame = part(1, 2, 0, 100_000)
    assert feed(reader, frame[:50_000], [10_000]) == []
    reader.redirect()
    before = bytes(slot)
    assert any(before[:40_000]) and not any(before[50_000:])
    ((*_, body),) = feed(reader, frame[50_000:], [10_000])
    assert body[0] is None and bytes(slot) == before


@pytest.mark.parametrize("frame", [wire.Hello(bytes(16), 1, 2, 3, 4).pack(), b"\xff" * 16, bytes(16)])
def test_what_does_not_belong_here_is_refused(frame):
    with pytest.raises(ProtocolError):
        feed(reader_of_parts(), wire.beat(1) + frame, [BUFFER])


def test_a_source_takes_no_part():
    with pytest.raises(ProtocolError, match="does not belong here"):
        feed(FrameReader({wire.ASK}), part(1, 2, 0, 5), [BUFFER])


@given(st.binary(min_size=16, max_size=300), st.lists(st.integers(1, 100), min_size=1, max_size=3))
def test_noise_is_refused_or_waits_for_more(data, cuts):
    """Nothing but ProtocolError, and no memory beyond the limits."""
    asked = []

    def place(ticket, piece, offset, size):
        asked.append(size)
        return None

    try:
        feed(FrameReader(KINDS, place), data, cuts)
    except ProtocolError:
        pass
    assert all(size <= wire.PART_BYTES for size in asked)
