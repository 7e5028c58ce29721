"""Hosts by beats and silence, in virtual time."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.actors.tls import Identity
from jmars.scheduler.membership import HostBack, HostGone, HostSuspect, Membership, SilenceLimits


class Story:
    """A membership that is looked at every half second."""

    def __init__(self):
        self.membership = Membership()
        self.now = 0.0
        self.changes = []

    def until(self, end, beats=(), vouched=()):
        """Time passes; every half second hosts are heard, or others vouch for them."""
        while self.now < end:
            next_beat = (math.floor(self.now / 0.5) + 1) * 0.5
            self.now = min(end, next_beat)
            if self.now == next_beat:
                for one in beats:
                    self.changes += self.membership.beat(one, self.now)
                for one in vouched:
                    self.changes += self.membership.vouch(one, self.now)
            self.changes += self.membership.look(self.now)
        return self.changes

    def host(self, number):
        """A host that is here."""
        one = self.membership.expect(number, self.now)
        self.membership.joined(one, self.now)
        assert self.membership.state(one) == "here"
        return one


def test_a_silent_host_is_suspect_after_3_seconds_and_gone_after_8():
    story = Story()
    host = story.host(3)
    assert story.until(2.9) == []
    assert story.until(3.1) == [HostSuspect(host, "host 3 has not been heard for 3 s")]
    assert story.membership.state(host) == "suspect"
    assert story.until(7.9)[1:] == []
    assert story.until(8.1)[1:] == [HostGone(host, "silent", "host 3 has not been heard for 8 s")]
    assert story.membership.state(host) == "gone"


def test_a_host_that_is_heard_stays_and_its_neighbour_does_not():
    story = Story()
    heard, silent = story.host(1), story.host(2)
    story.until(60.0, beats=[heard])
    assert [type(change) for change in story.changes] == [HostSuspect, HostGone]
    assert {change.identity for change in story.changes} == {silent}
    assert story.membership.state(heard) == "here"


def test_a_suspect_that_is_heard_is_back():
    story = Story()
    host = story.host(3)
    story.until(7.0)
    assert story.membership.beat(host, 7.0) == [HostBack(host, 7.0)]
    assert story.until(9.9)[1:] == []
    assert type(story.until(10.1)[-1]) is HostSuspect


def test_a_host_that_is_gone_stays_gone_and_joins_as_another_incarnation():
    story = Story()
    host = story.host(3)
    story.until(9.0)
    story.membership.joined(host, 9.0)
    assert story.membership.beat(host, 9.0) == [] and story.membership.state(host) == "gone"
    assert story.membership.end(host, 9.0, "too late") == []
    assert "given up 4 s ago: host 3 has not been heard for 8 s" in story.membership.refuses(host, 12.0)
    again = story.membership.expect(3, 12.0)
    assert again == (3, 2) and story.membership.refuses(again, 12.0) == ""
    story.membership.joined(again, 13.0)
    assert story.membership.state(again) == "here" and story.membership.state(host) == "gone"


def test_a_stopped_control_process_is_named():
    story = Story()
    host = story.host(3)
    story.until(2.5, beats=[host])
    for half in range(6, 11):  # stopped since 2.5 s
        assert story.membership.vouch(host, half / 2, stopped=half / 2 - 2.5) == []
    [suspect] = story.membership.vouch(host, 5.5, stopped=3.0)
    assert suspect == HostSuspect(host, "the control process of host 3 has been stopped for 3 s; continue it")
    assert story.membership.vouch(host, 10.0, stopped=7.5) == []
    [gone] = story.membership.vouch(host, 10.5, stopped=8.0)
    assert (gone.how, gone.why) == ("stopped", "the control process of host 3 has been stopped for 8 s; continue it")


def test_a_process_that_goes_on_is_back():
    story = Story()
    host = story.host(3)
    [suspect] = story.membership.vouch(host, 5.0, stopped=5.0)
    assert type(suspect) is HostSuspect
    assert story.membership.vouch(host, 5.5) == []  # it runs, and has not said anything yet
    assert story.membership.beat(host, 6.0) == [HostBack(host, 6.0)]


def test_being_told_again_when_a_host_was_last_heard_changes_nothing():
    story = Story()
    host = story.host(3)
    assert story.membership.beat(host, 1.0) == []
    story.until(4.1)
    assert story.membership.beat(host, 1.0) == [] and story.membership.state(host) == "suspect"


def test_a_stopped_process_that_nobody_vouches_for_any_more_is_named_still():
    story = Story()
    host = story.host(3)
    assert len(story.membership.vouch(host, 4.0, stopped=4.0)) == 1
    assert story.membership.beat(host, 0.0) == []  # of the process before it was stopped, read again
    [gone] = story.until(9.0)
    assert gone.how == "stopped"


def test_a_busy_process_is_waited_for():
    story = Story()
    host = story.host(3)
    story.until(50.0, vouched=[host])
    assert story.changes == [HostSuspect(host, "the control process of host 3 runs, and has said nothing for 3 s")]
    assert story.membership.beat(host, 50.0) == [HostBack(host, 50.0)]


def test_a_process_that_is_busy_for_ever_is_given_up():
    story = Story()
    host = story.host(3)
    assert type(story.until(59.9, vouched=[host])[-1]) is HostSuspect
    gone = story.until(60.1, vouched=[host])[-1]
    assert (gone.how, gone.why) == ("busy", "the control process of host 3 runs, and has said nothing for 60 s")


def test_a_machine_that_dies_with_a_busy_process_is_gone_8_seconds_later():
    story = Story()
    host = story.host(3)
    story.until(20.0, vouched=[host])
    assert type(story.until(27.9)[-1]) is HostSuspect
    assert story.until(28.1)[-1] == HostGone(host, "silent", "host 3 has not been heard for 8 s")


def test_a_host_that_does_not_join_is_given_up():
    story = Story()
    host = story.membership.expect(3, 0.0, seconds=20.0)
    assert story.until(19.9, beats=[host]) == [] and story.membership.state(host) == "joining"
    assert story.until(20.1) == [HostGone(host, "late", "host 3 (incarnation 1) did not join in time")]


def test_a_host_that_joins_again_takes_its_own_place():
    story = Story()
    before = story.host(3)
    again = story.membership.expect(3, 1.0)
    assert story.membership.refuses(before, 1.0) == ""
    story.membership.joined(again, 2.0)
    assert (story.membership.state(before), story.membership.state(again)) == ("gone", "here")
    assert "host 3 (incarnation 1) joined again as incarnation 2" in story.membership.refuses(before, 2.0)


def test_a_host_that_leaves_is_gone_at_once():
    story = Story()
    host = story.host(3)
    assert story.membership.end(host, 1.0, "scaled down") == [HostGone(host, "ended", "scaled down")]
    assert "scaled down" in story.membership.refuses(host, 1.0)


def test_unknown_hosts_are_refused_and_their_beats_ignored():
    membership = Membership()
    stranger = Identity(9, 1)
    assert membership.beat(stranger, 0.0) == membership.vouch(stranger, 0.0) == []
    membership.joined(stranger, 0.0)
    assert (
        membership.refuses(stranger, 0.0)
        == "host 9 (incarnation 1) is not expected; let the cluster make a ticket for it"
    )
    assert membership.state(stranger) == ""


def test_a_head_that_was_stalled_itself_gives_nobody_up():
    story = Story()
    host = story.host(3)
    story.until(2.0, beats=[host])
    assert story.membership.look(22.0) == []  # nothing that hosts said in the 20 s has been read yet
    assert story.membership.beat(host, 22.01) == []
    story.now = 22.01
    assert type(story.until(25.5)[-1]) is HostSuspect  # from then on silence counts again


def test_a_head_that_was_stalled_waits_for_who_is_joining():
    membership = Membership()
    host = membership.expect(3, 0.0, seconds=10.0)
    assert membership.look(11.9) == []
    membership.joined(host, 12.0)
    assert membership.state(host) == "here"


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("expect", "join", "beat", "beat", "vouch", "stopped", "end", "wait", "wait", "wait")),
            st.integers(1, 3),
            st.floats(0.0, 4.0),
        ),
        max_size=60,
    )
)
def test_any_story_is_legal(steps):
    """Joined, then suspect and back, then gone for ever; gone by silence only after 8 s of it."""
    membership, now = Membership(SilenceLimits(3.0, 8.0)), 0.0
    last, heard, seen = {}, {}, []
    for what, number, span in steps:
        one = last.get(number)
        changes = []
        if what == "expect":
            fresh = membership.expect(number, now, 5.0)
            assert fresh not in heard and (one is None or fresh > one)
            last[number], heard[fresh] = fresh, now
        elif what == "wait":
            end = now + span
            while now < end:
                now = min(end, now + 0.5)
                changes += membership.look(now)
        elif one is not None and what == "join":
            if membership.state(one) == "joining":
                heard[one] = now
            membership.joined(one, now)
        elif one is not None and what == "end":
            changes = membership.end(one, now, "left")
        elif one is not None and what == "beat":
            heard[one] = now
            changes = membership.beat(one, now)
        elif one is not None:
            changes = membership.vouch(one, now, min(span, now) if what == "stopped" else 0.0)
        for change in changes:
            seen.append((change.identity, type(change)))
            if isinstance(change, HostGone) and change.how in ("silent", "busy"):
                assert now - heard[change.identity] >= {"silent": 8.0, "busy": 60.0}[change.how] - 1e-6
            if isinstance(change, HostSuspect):
                assert now - heard[change.identity] >= 3.0 - 1e-6
    legal = {None: {HostSuspect, HostGone}, HostSuspect: {HostBack, HostGone}}
    legal |= {HostBack: {HostSuspect, HostGone}, HostGone: set()}
    states = {}
    for identity, kind in seen:
        assert kind in legal[states.get(identity)]
        states[identity] = kind
    for identity, kind in states.items():
        expected = {HostBack: {"here", "gone"}, HostSuspect: {"suspect", "gone"}, HostGone: {"gone"}}[kind]
        assert membership.state(identity) in expected  # gone without a change where it joined again
