"""Every message once and in order, however often connections end."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.actors.lasting import ACK_MESSAGES, OVERHEAD, Delivery
from jmars.errors import ProtocolError


@given(st.lists(st.tuples(st.sampled_from(("send", "arrive", "arrive", "end")), st.integers(0, 1)), max_size=60))
@settings(max_examples=300, deadline=None)
def test_every_message_is_acted_on_once_and_in_order(story: list[tuple[str, int]]) -> None:
    ends = Delivery(), Delivery()
    flying: tuple[deque[Any], deque[Any]] = deque(), deque()  # frames to each end
    sent: tuple[list[bytes], list[bytes]] = [], []
    acted: tuple[list[bytes], list[bytes]] = [], []

    def arrive(side: int) -> None:
        message = ends[side].receive(flying[side].popleft(), 0.0)
        if message is not None:
            acted[side].append(message)

    def connect() -> None:
        for side, end in enumerate(ends):
            flying[1 - side].clear()
            flying[1 - side].extend(end.resume())

    connect()
    for what, side in story:
        if what == "send":
            sent[side].append(b"%d" % len(sent[side]))
            flying[1 - side].append(ends[side].send(sent[side][-1]))
        elif what == "end":
            connect()
        elif flying[side]:
            arrive(side)
    connect()
    for side in (0, 1, 0, 1):
        while flying[side]:
            arrive(side)
        flying[1 - side].append(ends[side].hello())
    assert acted == sent[::-1]
    assert not any(end.nbytes for end in ends)


def test_an_acknowledgement_travels_with_a_message_if_there_is_one() -> None:
    a, b = Delivery(), Delivery()
    b.receive(a.send(b"one"), 0.0)
    assert 0.0 < b.next_due < 1.0
    assert a.receive(b.send(b"answer"), 0.1) == b"answer" and not a.nbytes
    assert b.next_due == math.inf and b.nbytes


def test_an_acknowledgement_of_many_messages_does_not_wait() -> None:
    a, b = Delivery(), Delivery()
    for _ in range(ACK_MESSAGES):
        assert b.next_due > 5.0
        b.receive(a.send(b"one"), 5.0)
    assert b.next_due == 5.0
    assert a.nbytes == ACK_MESSAGES * (3 + OVERHEAD)
    assert a.receive(b.hello(), 5.0) is None and not a.nbytes


def test_another_peer_gets_nothing_of_what_was_sent_before() -> None:
    a, new = Delivery(), Delivery()
    a.send(b"one")
    a.begin()
    assert len(a.resume()) == 1 and new.receive(a.send(b"two"), 0.0) == b"two"


@pytest.mark.parametrize("frame", [(), "hello", (1, 0), (1, 0, ""), (1.0, 0, b""), (1, "", b""), (2, 0, b"gap")])
def test_what_is_no_frame_is_refused(frame: Any) -> None:
    with pytest.raises(ProtocolError, match=r"no frame|message 2 follows message 0"):
        Delivery().receive(frame, 0.0)
