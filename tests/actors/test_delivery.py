"""Every message once and in order, whatever the wire and the ends do."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.actors.frames import pack, unpack
from jmars.actors.lasting import Delivery
from jmars.errors import ProtocolError


class End:
    """One end with all that it ever sent and acted on."""

    def __init__(self, name: str, window: int) -> None:
        self.name, self.window = name, window
        self.sent: dict[int, list[Any]] = {}  # by our incarnation
        self.acted: list[tuple[int, int, Any]] = []  # (our incarnation, message's sender, message)
        self.undelivered: list[Any] = []
        self.begin(1)

    def begin(self, incarnation: int) -> None:
        self.delivery = Delivery(incarnation, self.window)
        self.sent[incarnation] = []


class Wire:
    """Two ends, and frames between them that are lost, doubled and overtaken as a seed says."""

    def __init__(self, random: Random, window: int, loss: float) -> None:
        self.random, self.loss, self.now = random, loss, 0.0
        self.ends = (End("a", window), End("b", window))
        self.flying: list[tuple[float, int, bytes]] = []  # (arrives, to which end, frame)
        for side in (0, 1):
            self.post(side, self.ends[side].delivery.resume(self.now))

    def post(self, side: int, frames: list[Any]) -> None:
        for frame in frames:
            for _ in range(self.random.choice((0, 1, 2)) if self.random.random() < self.loss else 1):
                self.flying.append((self.now + self.random.random() * 0.3, 1 - side, pack(frame)[4:]))

    def send(self, side: int, count: int) -> None:
        end = self.ends[side]
        for _ in range(count):
            sent = end.sent[end.delivery.incarnation]
            message = (end.delivery.incarnation, len(sent))
            sent.append(message)
            self.post(side, end.delivery.send(message, self.now))

    def restart(self, side: int) -> None:
        end = self.ends[side]
        end.begin(end.delivery.incarnation + 1)
        self.post(side, end.delivery.resume(self.now))

    def step(self) -> bool:
        """The next thing that happens; False when nothing will."""
        arrivals = [arrives for arrives, *_ in self.flying]
        due = [end.delivery.next_due for end in self.ends]
        if min([*arrivals, *due]) == math.inf:
            return False
        self.now = max(self.now, min([*arrivals, *due]))
        for side, end in enumerate(self.ends):
            self.post(side, end.delivery.due(self.now))
        arrived = [one for one in self.flying if one[0] <= self.now]
        self.flying = [one for one in self.flying if one[0] > self.now]
        self.random.shuffle(arrived)
        for _, side, frame in arrived:
            end = self.ends[side]
            received = end.delivery.receive(unpack(frame), self.now)
            end.undelivered += received.undelivered
            end.acted += [(end.delivery.incarnation, message[0], message) for message in received.messages]
            self.post(side, end.delivery.due(self.now))
            assert len(end.delivery._early) <= end.window and len(end.delivery._sent) <= end.window
        return True

    def check(self) -> None:
        """Each incarnation of an end acted on the messages of each of the other's once, in order, from some on."""
        for here, there in (self.ends, self.ends[::-1]):
            for incarnation in here.sent:
                for sender, sent in there.sent.items():
                    acted = [m for mine, theirs, m in here.acted if mine == incarnation and theirs == sender]
                    start = sent.index(acted[0]) if acted else 0
                    assert acted == sent[start : start + len(acted)]


@given(
    st.integers(0, 2**32),
    st.integers(1, 6),
    st.sampled_from((0.0, 0.1, 0.5, 0.9)),
    st.lists(
        st.tuples(
            st.sampled_from(("send", "send", "send", "step", "step", "restart")), st.integers(0, 1), st.integers(1, 9)
        ),
        max_size=30,
    ),
)
@settings(max_examples=150, deadline=None)
def test_every_message_is_acted_on_once_and_in_order(
    seed: int, window: int, loss: float, story: list[tuple[str, int, int]]
) -> None:
    wire = Wire(Random(seed), window, loss)
    for what, side, count in story:
        if what == "send":
            wire.send(side, count)
        elif what == "restart":
            wire.restart(side)
        else:
            for _ in range(count):
                wire.step()
        wire.check()
    wire.loss = 0.1  # the wire heals, and everything ends
    for _ in range(10_000):
        if not wire.step():
            break
    else:
        raise AssertionError("the ends talk for ever")
    wire.check()
    for here, there in (wire.ends, wire.ends[::-1]):
        assert not there.delivery.unacknowledged and here.delivery.peer == there.delivery.incarnation
        mine, theirs = here.delivery.incarnation, there.delivery.incarnation
        acted = {message for now, sender, message in here.acted if now == mine and sender == theirs}
        gone = set(there.undelivered) | {m for now, _, m in here.acted if now != mine}
        assert set(there.sent[theirs]) <= acted | gone, "neither acted on nor told to be in vain"


def two(window: int = 4, limit: int = 100) -> tuple[Delivery, Delivery]:
    """Two ends that know each other."""
    a, b = Delivery(3, window, limit), Delivery(7, window, limit)
    b.receive(a.hello(), 0.0)
    a.receive(b.hello(), 0.0)
    return a, b


def test_what_came_too_early_waits_for_what_is_missing() -> None:
    a, b = two()
    first, second, third = (a.send(word, 0.0)[0] for word in ("one", "two", "three"))
    assert b.receive(third, 0.0).messages == []
    assert b.receive(first, 0.0).messages == ["one"]
    assert b.receive(second, 0.0).messages == ["two", "three"]


def test_an_acknowledgement_travels_with_a_message_if_there_is_one() -> None:
    a, b = two()
    b.due(0.0)
    b.receive(a.send("one", 0.0)[0], 0.0)
    assert b.due(0.0) == [] and 0.0 < b.next_due < 0.1
    [answer] = b.send("answer", 0.001)
    assert a.receive(answer, 0.002).messages == ["answer"] and a.unacknowledged == 0
    assert b.next_due > 0.1  # only the repetition of the answer


def test_an_acknowledgement_waits_as_long_as_its_end_is_patient() -> None:
    a, b = Delivery(1, timeout=math.inf), Delivery(1, timeout=math.inf, patience=0.2)
    a.receive(b.hello(), 0.0)
    (frame,) = a.send("message", 0.0)
    b.receive(frame, 1.0)
    assert b.due(1.1) == [] and b.next_due == pytest.approx(1.2)
    (acknowledgement,) = b.due(1.2)
    a.receive(acknowledgement, 1.2)
    assert a.unacknowledged == 0 and a.next_due == b.next_due == math.inf


def test_an_acknowledgement_does_not_wait_while_the_window_fills() -> None:
    a, b = two(window=4)
    b.due(0.0)
    frames = [a.send(number, 0.0)[0] for number in range(2)]
    b.receive(frames[0], 0.0)
    assert b.next_due > 0.0
    b.receive(frames[1], 0.0)
    assert b.next_due == 0.0
    a.receive(b.due(0.0)[0], 0.0)
    assert a.unacknowledged == 0


def test_with_an_infinite_timeout_only_a_new_connection_repeats() -> None:
    a, b = Delivery(3, timeout=math.inf), Delivery(7, timeout=math.inf)
    for frame in a.resume(0.0):
        b.receive(frame, 0.0)
    a.receive(b.resume(0.0)[0], 0.0)
    a.send("lost", 0.0)
    assert a.next_due == math.inf and a.due(1e9) == []
    found = [message for frame in a.resume(1e9) for message in b.receive(frame, 1e9).messages]
    assert found == ["lost"]


def test_the_window_holds_messages_back_and_the_limit_finds_a_dead_peer() -> None:
    a, b = two(window=2, limit=5)
    frames = [frame for number in range(5) for frame in a.send(number, 0.0)]
    assert len(frames) == 2 and a.unacknowledged == 5
    with pytest.raises(ProtocolError, match=r"not acknowledged 5 messages.*end it"):
        a.send(5, 0.0)
    for frame in frames:
        b.receive(frame, 0.0)
    a.receive(b.due(1.0)[0], 1.0)
    assert [frame[-1] for frame in a.due(1.0)] == [2, 3]


def test_repetitions_come_more_and_more_slowly() -> None:
    a, _ = two()
    a.send("one", 0.0)
    times = []
    for _ in range(8):
        times.append(a.next_due)
        assert [frame[-1] for frame in a.due(a.next_due)] == ["one"]
    gaps = [after - before for before, after in zip(times, times[1:])]
    assert gaps == sorted(gaps) and gaps[-1] == 5.0


def test_a_new_incarnation_ignores_orders_for_the_one_before() -> None:
    a, old = two()
    frames = [a.send(word, 0.0)[0] for word in ("one", "two")]
    old.receive(frames[0], 0.0)
    late = old.send("late", 0.0)[0]
    new = Delivery(old.incarnation + 1)
    assert new.receive(frames[1], 1.0).messages == []
    [hello] = new.due(1.0)
    told = a.receive(hello, 1.0)
    assert told.is_new and told.undelivered == ["one", "two"]  # perhaps acted on: their sender decides
    assert a.receive(late, 1.0).messages == []  # a zombie says nothing any more
    assert new.receive(a.send("three", 1.0)[0], 1.0).messages == ["three"]


def test_a_new_connection_repeats_what_may_be_lost() -> None:
    a, b = two()
    a.send("one", 0.0)
    hello, again = a.resume(5.0)
    assert hello == a.hello() and b.receive(hello, 5.0).messages == []
    assert b.receive(again, 5.0).messages == ["one"]


def test_who_is_not_heard_says_hello_again() -> None:
    a, b = Delivery(1), Delivery(1)
    a.resume(0.0)  # lost
    [hello] = a.due(a.next_due)
    assert b.receive(hello, 1.0).is_new
    assert a.receive(b.due(1.0)[0], 1.0).is_new


@pytest.mark.parametrize(
    "frame", [(), "hello", (1, 0, 0, 0), (0, 0, 0, 0, None), (1, 0, -1, 0, None), (1, "", 0, 0, None)]
)
def test_what_is_no_frame_is_refused(frame: Any) -> None:
    with pytest.raises(ProtocolError, match="no frame of a delivery"):
        Delivery(1).receive(frame, 0.0)
