"""Pulls: what is asked of whom, when another holder is asked, when a slot is free again."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jmars.storage.chunks import ChunkRange
from jmars.transport.pulls import LAST_SECONDS, MOST_BREAKS, STALL_SECONDS, WINDOW_BYTES, PullOrder, Pulls
from jmars.transport.wire import MOST_ASKED

A, B, C = (1, 1), (2, 1), (3, 1)
MB = 2**20


def pulls_with(*orders, room=2**40):
    pulls = Pulls(room)
    for order in orders:
        pulls.add(order, 0.0)
    return pulls


def order(ticket, size=100, holders=(A,), urgency=0):
    return PullOrder(ticket, ChunkRange(10 * ticket, 5, 5 + size, 4096, (0, urgency)), list(holders))


def test_an_earlier_job_is_more_urgent_than_any_rank_of_a_later_job():
    urgencies = [(0, -1), (0, 0), (0, 2**31), (1, -1), (1, 0)]
    numbers = [PullOrder(1, ChunkRange(1, 0, 1, 0, one), [A]).urgency for one in urgencies]
    assert numbers == sorted(numbers) and len(set(numbers)) == 5


def tickets(ranges):
    return [one.pull.ticket for one in ranges]


def test_a_pull_is_asked_of_its_first_holder_and_ends_with_its_last_byte():
    pulls = pulls_with(order(1, holders=[A, B]))
    assert pulls.waiting() == [A] and pulls.ranges(B, 0.0) == []
    (one,) = pulls.ranges(A, 0.0)
    assert (one.start, one.stop, one.offset) == (5, 105, 4096) and pulls.ranges(A, 0.0) == []
    pulls.arrived(one, 1.0)
    assert pulls.actions == [("pulled", one.pull, "")] and not len(pulls) and pulls.nbytes(A) == 0


def test_a_large_pull_is_asked_in_ranges_and_little_is_under_way():
    pulls = pulls_with(order(1, 10 * MB))
    ranges, asked = pulls.ranges(A, 0.0), []
    assert sum(one.stop - one.start for one in ranges) == WINDOW_BYTES == pulls.nbytes(A)
    while ranges:
        one = ranges.pop(0)
        asked.append((one.start, one.stop, one.offset))
        pulls.arrived(one, 1.0)
        ranges += pulls.ranges(A, 1.0)
        assert pulls.nbytes(A) <= WINDOW_BYTES
    assert [start for start, _, _ in asked] == [5, *(stop for _, stop, _ in asked[:-1])] and asked[-1][1] == 10 * MB + 5
    assert all(offset - start == 4091 for start, _, offset in asked)
    assert [action[0] for action in pulls.actions] == ["pulled"]


def test_a_fast_and_far_link_has_more_under_way():
    pulls = pulls_with(order(1, 100 * MB))
    rate = pulls.rate(A)
    rate.begin(0.0)
    rate.moved(1000 * MB, 1.0)
    rate.trips.append(0.02)
    ranges = pulls.ranges(A, 0.0)
    assert pulls.nbytes(A) == pytest.approx(40 * MB, rel=0.5) and pulls.nbytes(A) > 10 * WINDOW_BYTES - MOST_ASKED
    assert max(one.stop - one.start for one in ranges) <= MOST_ASKED


def test_the_lowest_urgency_is_asked_first_also_in_mid_pull():
    pulls = pulls_with(order(1, 10 * MB, urgency=5), order(2, urgency=7), order(3, urgency=6))
    first = pulls.ranges(A, 0.0)
    assert tickets(first) == [1, 1]
    pulls.add(order(4, urgency=1), 0.0)
    pulls.arrived(first[0], 1.0)
    assert tickets(pulls.ranges(A, 1.0)) == [4, 1]


def test_all_hosts_together_have_no_more_under_way_than_there_is_room():
    pulls = pulls_with(order(1, 3 * MB), order(2, 3 * MB, holders=[B]), room=2 * MB)
    one = pulls.ranges(A, 0.0)
    assert tickets(one) == [1] and pulls.ranges(B, 0.0) == []
    pulls.arrived(one[0], 0.0)
    assert tickets(pulls.ranges(B, 0.0)) == [2]


def test_a_pull_of_no_bytes_is_asked_like_others():
    pulls = pulls_with(order(1, 0))
    (one,) = pulls.ranges(A, 0.0)
    pulls.arrived(one, 0.0)
    assert pulls.actions == [("pulled", one.pull, "")]


def test_bytes_that_a_holder_lacks_are_asked_of_the_next_holder():
    pulls = pulls_with(order(1, 3 * MB, holders=[A, B]))
    one, other = pulls.ranges(A, 0.0)
    pulls.arrived(one, 0.0)
    pulls.failed(other, "damaged", 0.0)
    again = pulls.ranges(B, 0.0)
    assert [(one.start, one.stop) for one in again] == [(5, 5 + 2 * MB), (5 + 2 * MB, 5 + 3 * MB)]
    pulls.failed(again[0], "gone too", 0.0)
    pulls.let_go(again[1], 0.0)
    assert pulls.actions == [("let go", again[1]), ("pulled", one.pull, "gone too")]


def test_the_next_holder_is_asked_only_after_all_lanes_have_let_go():
    pulls = pulls_with(order(1, 4 * MB, holders=[A, B]))
    one, other = pulls.ranges(A, 0.0)
    pulls.failed(one, "damaged", 0.0)
    assert pulls.actions == [("let go", other)] and pulls.waiting() == []
    pulls.let_go(other, 0.0)
    assert pulls.waiting() == [B] and pulls.nbytes(A) == 0


def test_a_withdrawn_pull_ends_after_all_lanes_have_let_go():
    pulls = pulls_with(order(1, 4 * MB))
    one, other = pulls.ranges(A, 0.0)
    assert pulls.withdraw(1)
    assert set(pulls.actions) == {("let go", one), ("let go", other)}
    pulls.actions.clear()
    pulls.arrived(one, 0.0)  # had come before the lane heard of it
    assert pulls.actions == []
    pulls.let_go(other, 0.0)
    assert pulls.actions == [("withdrawn", one.pull)] and not pulls.withdraw(1)


def test_a_pull_that_waits_is_withdrawn_at_once():
    pulls = pulls_with(order(1), order(2))
    assert pulls.withdraw(1)
    assert [action[0] for action in pulls.actions] == ["withdrawn"] and tickets(pulls.ranges(A, 0.0)) == [2]


def test_ranges_of_a_broken_connection_are_asked_again_a_few_times():
    pulls = pulls_with(order(1, 4 * MB, holders=[A, B]))
    for number in range(MOST_BREAKS):
        one = pulls.ranges(A, 0.0)[0]
        assert (one.start, one.stop) == (5, 5 + 2 * MB), number
        pulls.broken(one, "cut", 0.0)
    pulls.let_go(pulls.actions[0][1], 0.0)
    assert pulls.waiting() == [B]


def test_a_connection_that_breaks_under_many_ranges_counts_once():
    pulls = pulls_with(order(1, 40 * MB, holders=[A, B]))
    pulls.rate(A).bandwidth = 16 * MB  # a window of 32 MiB
    pulls.rate(A).trips.append(1.0)
    for lane in ("first", "second"):
        found = []
        while more := pulls.ranges(A, 0.0):
            found += more
        assert len(found) >= 2
        for one in found:
            one.lane = lane
        for one in found:
            pulls.broken(one, "cut", 0.0)
    assert pulls.waiting() == [A]


def test_a_host_that_is_gone_is_never_asked():
    pulls = pulls_with(order(1, holders=[A, B]), order(2, holders=[A]))
    pulls.drop_holder(A, "host 1 is gone", 0.0)
    (lost,) = pulls.actions
    assert lost[0] == "pulled" and lost[1].ticket == 2 and "host 1 is gone" in lost[2]
    assert tickets(pulls.ranges(B, 0.0)) == [1]
    pulls.add(order(3, holders=[A, C]), 0.0)
    assert tickets(pulls.ranges(C, 0.0)) == [3]
    pulls.add(order(4, holders=[A]), 0.0)
    assert pulls.actions[-1][2] == "host 1 is gone"


def test_a_silent_holder_is_left_when_there_is_another():
    pulls = pulls_with(order(1, holders=[A, B]), order(2, holders=[A]))
    ranges = pulls.ranges(A, 0.0)
    pulls.stalled(STALL_SECONDS - 0.1, lambda holder: 0.0)
    assert pulls.actions == []
    pulls.stalled(STALL_SECONDS, lambda holder: 0.0)
    assert pulls.actions == [("let go", ranges[0])]
    pulls.let_go(ranges[0], STALL_SECONDS)
    assert pulls.waiting() == [B]
    pulls.stalled(LAST_SECONDS, lambda holder: 0.0 if holder == A else LAST_SECONDS)
    assert pulls.actions[1:] == [("let go", ranges[1])]
    pulls.let_go(ranges[1], LAST_SECONDS)
    assert pulls.actions[-1][0] == "pulled" and "sent nothing for 15 s" in pulls.actions[-1][2]


def test_a_slow_holder_is_not_left():
    pulls = pulls_with(order(1, 4 * MB, holders=[A, B]))
    pulls.ranges(A, 0.0)
    pulls.stalled(20.0, lambda holder: 19.0)
    assert pulls.actions == []


def test_a_pull_waits_for_a_silent_host_and_its_error_tells_why():
    pulls = pulls_with(order(1))
    pulls.trouble(A, "host 1: connection refused")
    pulls.stalled(LAST_SECONDS, lambda holder: 0.0)
    assert "connection refused" in pulls.actions[-1][2]


def test_a_holder_that_was_idle_is_not_silent():
    pulls = pulls_with(order(1, holders=[A, B]))
    pulls.arrived(*pulls.ranges(A, 0.0), 0.0)
    pulls.add(order(2, holders=[A, B]), 100.0)
    pulls.stalled(100.0 + STALL_SECONDS - 0.1, lambda holder: 0.0)
    assert [action[0] for action in pulls.actions] == ["pulled"]


class Machine(RuleBasedStateMachine):
    """Anything may happen in any order: each pull ends once, and never while a lane may write for it."""

    def __init__(self):
        super().__init__()
        self.pulls = Pulls(6 * MB)
        self.now = 0.0
        self.orders, self.ended, self.under_way = {}, {}, []
        self.arrived = {}  # by ticket: (holder, start, stop) of what arrived

    @rule(
        size=st.sampled_from([0, 1, 8192, 3 * MB, 9 * MB]),
        holders=st.permutations([A, B, C]),
        urgency=st.integers(0, 3),
    )
    def add(self, size, holders, urgency):
        ticket = len(self.orders) + 1
        self.orders[ticket] = order(ticket, size, holders[: 1 + ticket % 3], urgency)
        self.pulls.add(self.orders[ticket], self.now)

    @rule(holder=st.sampled_from([A, B, C]))
    def ask(self, holder):
        found = self.pulls.ranges(holder, self.now)
        for one in found:
            assert one.pull.holder == holder and one.pull.ticket not in self.ended and holder not in self.pulls.gone
        assert (
            sum(one.stop - one.start for one in found) == 0
            or self.pulls.nbytes(holder) <= WINDOW_BYTES + WINDOW_BYTES // 2
        )
        self.under_way += found

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), how=st.sampled_from(["arrived"] * 3 + ["failed", "broken"]))
    def end_range(self, data, how):
        one = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        if how == "arrived":
            self.arrived.setdefault(one.pull.ticket, set()).add((one.pull.holder, one.start, one.stop))
            self.pulls.arrived(one, self.now)
        elif how == "failed":
            self.pulls.failed(one, "not here", self.now)
        else:
            self.pulls.broken(one, "cut", self.now)

    @precondition(lambda self: self.orders)
    @rule(data=st.data())
    def withdraw(self, data):
        ticket = data.draw(st.sampled_from(sorted(self.orders)))
        assert self.pulls.withdraw(ticket) is (ticket not in self.ended)

    @rule(seconds=st.floats(0, 20))
    def pass_time(self, seconds):
        self.now += seconds
        self.pulls.stalled(self.now, lambda holder: 0.0)

    @rule(holder=st.sampled_from([B, C]))
    def lose(self, holder):
        self.pulls.drop_holder(holder, "gone", self.now)

    @invariant()
    def act(self):
        while self.pulls.actions:
            kind, *rest = self.pulls.actions.pop(0)
            if kind == "let go":
                assert rest[0] in self.under_way or rest[0].pull.ticket in self.orders
                if rest[0] in self.under_way:
                    self.under_way.remove(rest[0])
                    self.pulls.let_go(rest[0], self.now)
                continue
            pull = rest[0]
            assert pull.ticket not in self.ended
            assert not [one for one in self.under_way if one.pull is pull], "a lane may still write"
            self.ended[pull.ticket] = kind
            if kind == "pulled" and not rest[1]:
                came = {(start, stop) for holder, start, stop in self.arrived[pull.ticket] if holder == pull.holder}
                assert sum(stop - start for start, stop in came) == pull.wanted.stop - pull.wanted.start

    def teardown(self):
        """Whatever happened, all ends: every holder goes, and every lane lets go."""
        for holder in (A, B, C):
            self.pulls.drop_holder(holder, "gone", self.now)
            self.act()
        assert self.ended.keys() == self.orders.keys() and not len(self.pulls) and not self.under_way


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=200, stateful_step_count=40)
