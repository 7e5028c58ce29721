"""Frames out of a byte stream that arrives in pieces."""

from __future__ import annotations

import pytest

from jmars.actors.frames import MAX_FRAME, Decoder, pack
from jmars.errors import ProtocolError


def test_frames_come_out_whatever_the_pieces():
    stream = pack([1, "a"]) + pack(b"b" * 300) + pack(None)
    for step in (1, 3, len(stream)):
        decoder = Decoder()
        pieces = [stream[start : start + step] for start in range(0, len(stream), step)]
        found = [message for piece in pieces for message in decoder.feed(piece)]
        assert [list(found[0]), *found[1:]] == [[1, "a"], b"b" * 300, None]


@pytest.mark.parametrize("size", [MAX_FRAME + 1, 2**32 - 1, 0])
def test_a_size_that_no_frame_has_is_refused_before_the_next_byte(size):
    with pytest.raises(Exception) as refused:
        list(Decoder().feed(size.to_bytes(4, "little")))
    assert not size or isinstance(refused.value, ProtocolError)
