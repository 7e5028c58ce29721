"""What a client holds goes when it goes; a client with a lasting name finds it again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from jmars.deploy.clients import Clients
from jmars.model.messages import Submission


class Session:
    """A session that knows one job and notes what is dropped."""

    def __init__(self):
        self.dropped = []
        self.answer = None  # a future to wait for

    async def submit(self, submission):
        return "job-1" if self.answer is None else await self.answer

    async def take_chunks(self, count):
        return 0

    async def keep(self, key, first, count):
        if self.answer is not None:
            await self.answer

    def drop(self, keys):
        self.dropped += keys


@pytest.fixture
def clients():
    return Clients(Session(), SimpleNamespace(unpin=lambda ticket: None, abandon=lambda *args: None), outlives=False)


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
