"""Long messages are compressed, and what a reader takes is bounded by what was said."""

from __future__ import annotations

import os
import tracemalloc
import zlib

import pytest

from jmars.errors import ProtocolError
from jmars.model.messages import LARGEST, WORTH, compressed, decompressed, from_int_planes, int_planes


def test_what_was_compressed_comes_back() -> None:
    for data in (b"a" * WORTH, os.urandom(WORTH + 1)):
        sent, size = compressed(data)
        assert size == len(data) and decompressed(sent, size) == data
    assert compressed(b"a" * (WORTH - 1)) == (b"a" * (WORTH - 1), 0)


def test_a_message_that_unfolds_to_more_than_it_says_takes_no_memory() -> None:
    bomb = zlib.compress(bytes(10**8))
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="not the 1000 bytes"):
            decompressed(bomb, 1000)
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("data", "size"), [(b"no", 5), (zlib.compress(b"short"), 6), (zlib.compress(b"long"), 3)])
def test_what_is_damaged_is_refused(data: bytes, size: int) -> None:
    with pytest.raises(ProtocolError):
        decompressed(data, size)
    for wrong in (0, -1, LARGEST + 1):
        with pytest.raises(ProtocolError, match="claims"):
            decompressed(b"", wrong)


def test_ranks_of_many_operands_come_back_from_a_small_message() -> None:
    ranks = list(range(0, 10**6, 2)) + list(range(1, 10**6, 2))
    sent, size = compressed(int_planes(ranks))
    assert len(sent) < 10**5 and from_int_planes(decompressed(sent, size)) == ranks
    assert from_int_planes(int_planes([])) == []
    with pytest.raises(ProtocolError, match="no numbers"):
        from_int_planes(b"12345")
