"""What a client holds goes when it goes; a client with a lasting name finds it again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from jmars.deploy.clients import Clients
from jmars.model.messages import Submission


def capacity():
    return 400_000


class Session:
    """A session that knows one job and notes what is dropped."""

    def __init__(self):
        self.dropped = []
        self.lost = []
        self.answer = None  # a future to wait for

    async def submit(self, submission):
        return "job-1" if self.answer is None else await self.answer

    async def take_chunks(self, count):
        return 0

    async def keep(self, key, first, count):
        if self.answer is not None:
            await self.answer

    async def unreadable(self, keys):
        return [key for key in keys if key in self.lost]

    def drop(self, keys):
        self.dropped += keys


@pytest.fixture
def clients():
    store = SimpleNamespace(unpin=lambda ticket: None, abandon=lambda *args: None)
    return Clients(Session(), store, outlives=False, capacity=capacity)


def run(*calls):
    async def one_by_one():
        for call in calls:
            await call

    asyncio.run(one_by_one())


def ended(clients, job, *keys):
    clients.job_ended({"job": job, "state": "succeeded", "results": list(keys)})


def test_what_a_client_holds_goes_when_it_goes(clients):
    one = clients.come()
    run(one.session.keep("a", 0, 1), one.session.submit(Submission(b"bad")))
    ended(clients, "job-1", "b")
    one.left()
    assert clients.session.dropped == ["a", "b"]


def test_a_client_with_a_lasting_name_comes_again_and_finds_what_it_held(clients):
    one = clients.come()
    one.session.call_me("web")
    run(one.session.keep("a", 0, 1), one.session.submit(Submission(b"bad")))
    one.left()
    ended(clients, "job-1", "b")  # while it was away
    assert clients.session.dropped == []
    again = clients.come()
    again.session.call_me("web")
    again.session.drop(["a", "b"])
    assert clients.session.dropped == ["a", "b"]


def test_the_name_is_that_client_alone(clients):
    named, other = clients.come(), clients.come()
    named.session.call_me("web")
    for one in named, other:
        run(one.session.keep("a", 0, 1))
    other.left()
    assert clients.session.dropped == []
    named.session.drop(["a"])
    assert clients.session.dropped == ["a"]


def test_chunks_are_being_brought_until_the_scheduler_has_taken_them(clients):
    async def test():
        answer = asyncio.get_running_loop().create_future()
        one = clients.come()
        await one.session.take_chunks(3)
        clients.session.answer = answer
        kept = asyncio.ensure_future(one.session.keep("a", 0, 3))
        await asyncio.sleep(0)
        assert one.chunks == {0: 3}
        answer.set_result(None)
        await kept
        assert one.chunks == {}

    asyncio.run(test())


def test_a_client_that_goes_before_its_job_is_known_holds_nothing_for_ever(clients):
    async def test():
        answer = asyncio.get_running_loop().create_future()
        clients.session.answer = answer
        one = clients.come()
        submitted = asyncio.ensure_future(one.session.submit(Submission(b"bad")))
        await asyncio.sleep(0)
        one.left()
        answer.set_result("job-1")
        await submitted
        ended(clients, "job-1", "b")
        assert clients.session.dropped == ["b"]

    asyncio.run(test())


def test_slots_that_a_dismissed_process_may_use_are_not_given_away(clients):
    async def test(sent_away):
        freed = []
        clients.store.unpin, clients.store.abandon = freed.append, lambda *chunks: freed.append(chunks)
        clients.store.pin = lambda *args: None
        one = clients.come()
        await one.session.take_chunks(3)
        one.store.pin("ticket", [7])
        await one.session.keep("a", 5, 1)
        one.sent_away = sent_away
        one.left()
        return freed

    assert asyncio.run(test(sent_away=True)) == [] and clients.session.dropped == ["a"]
    assert asyncio.run(test(sent_away=False)) == ["ticket", (0, 3)]


# -- values that later jobs find
A, B, C = (letter * 16 for letter in (b"A", b"B", b"C"))


def keyed(*keys, value=None, length=5_000):
    """A submission with results of these keys, each of 40,000 bytes, whose value keys are 16 times the key."""
    told = [(key, "<f8", [[length]], None) for key in keys]
    return Submission(b"x", results=(False, told), values=[(value or 16 * key.upper().encode(), 8) for key in keys])


def computed(clients, client, job, submission, **report):
    async def answer(_):
        return job

    clients.session.submit = answer
    run(client.session.submit(submission))
    results = [one[0] for one in submission.results[1]]
    clients.job_ended({"job": job, "state": "succeeded", "results": results, "warned": [], "settled": {}} | report)


def taken(client, *values):
    return [None if one is None else one[:2] for one in asyncio.run(client.session.take_values(values))]


def test_another_client_finds_a_value_and_keeps_it_alive(clients):
    one, other = clients.come(), clients.come()
    computed(clients, one, "job-1", keyed("a"))
    assert other.session.find_values([A, B]) == [A]
    assert taken(other, A, B) == [("a", False), None]
    assert taken(one, A) == [("a", True)]
    one.left()
    other.session.drop(["a"])
    assert clients.session.dropped == []  # a later job may ask for it
    assert taken(clients.come(), A) == [("a", False)]


def test_a_value_outlives_the_client_that_made_it(clients):
    one = clients.come()
    computed(clients, one, "job-1", keyed("a"))
    run(one.session.keep("upload", 0, 1))
    one.left()
    assert clients.session.dropped == ["upload"]
    assert taken(clients.come(), A) == [("a", False)]


@pytest.mark.parametrize("end", [{"state": "cancelled"}, {"state": "failed"}, {"warned": [("t", None, "overflow")]}])
def test_jobs_that_warned_or_did_not_succeed_leave_no_value(clients, end):
    one = clients.come()
    computed(clients, one, "job-1", keyed("a"), **end)
    assert one.session.find_values([A]) == []
    one.session.drop(["a"])
    assert clients.session.dropped == ["a"]


def test_a_value_of_a_longer_key_goes_with_its_last_holder(clients):
    one = clients.come()
    computed(clients, one, "job-1", keyed("a", value=A + b"~"))
    assert taken(one, A + b"~") == [("a", True)]
    one.session.drop(["a"])
    assert clients.session.dropped == ["a"] and one.session.find_values([A + b"~"]) == []


def test_a_value_with_lost_chunks_is_not_found(clients):
    one, other = clients.come(), clients.come()
    computed(clients, one, "job-1", keyed("a", "b"))
    clients.session.lost = ["a"]
    assert taken(other, A, B) == [None, ("b", False)]
    assert other.session.find_values([A, B]) == [B]
    one.session.lost(["b"])
    assert taken(other, B) == [None]
    other.session.drop(["b"])
    one.session.drop(["a"])
    assert clients.session.dropped == ["b", "a"]


def test_the_newest_of_two_equal_values_is_found(clients):
    one, other = clients.come(), clients.come()
    computed(clients, one, "job-1", keyed("a"))
    computed(clients, other, "job-2", keyed("b", value=A))
    assert taken(one, A) == [("b", False)]
    one.session.drop(["a"])
    assert clients.session.dropped == ["a"]


def test_the_cheapest_unheld_values_go_beyond_a_quarter_of_the_memory(clients, monkeypatch):
    one = clients.come()
    clock = iter([0.0, 1.0, 1.0, 9.0, 9.0, 12.0])  # seconds: 1, 8 and 3
    monkeypatch.setattr("jmars.deploy.clients.time", SimpleNamespace(monotonic=lambda: next(clock)))
    for job, key in enumerate("abc"):
        computed(clients, one, f"job-{job}", keyed(key))
    one.session.drop(["a", "b"])
    assert clients.session.dropped == []
    one.session.drop(["c"])
    assert clients.session.dropped == ["a"]
    assert one.session.find_values([A, B, C]) == [B, C]


def test_unheld_values_make_room_for_the_results_of_a_job(clients):
    one = clients.come()
    computed(clients, one, "job-1", keyed("a"))
    one.session.drop(["a"])
    computed(clients, one, "job-2", keyed("b", length=44_000))  # 352,000 of 400,000 bytes
    assert clients.session.dropped == []
    computed(clients, one, "job-3", keyed("c", length=2_000))
    assert clients.session.dropped == ["a"]


def test_forget_drops_what_no_client_holds(clients):
    one = clients.come()
    computed(clients, one, "job-1", keyed("a", "b"))
    one.session.drop(["a"])
    clients.come().session.forget_values()
    assert clients.session.dropped == ["a"] and one.session.find_values([A, B]) == []
    one.session.drop(["b"])
    assert clients.session.dropped == ["a", "b"]


def test_a_job_that_ends_before_its_client_knows_it_leaves_its_values(clients):
    one = clients.come()
    clients.job_ended({"job": "job-1", "state": "succeeded", "results": ["a"], "warned": [], "settled": {}})
    run(one.session.submit(keyed("a")))
    assert one.session.find_values([A]) == [A]
