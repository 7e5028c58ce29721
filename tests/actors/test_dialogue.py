"""Dialogues: calls between actors over any way of carrying messages."""

import asyncio

import pytest

from jmars.actors import Mailbox, remote_method
from jmars.actors.dialogue import Dialogue, describe, revive
from jmars.actors.frames import pack, unpack
from jmars.errors import ClusterError, ClusterLostError, MemoryLimitError, ProtocolError


class Speaker(Dialogue):
    """An end whose messages reach the other end at once."""

    other = None

    def close(self):
        self.closed = True
        self._fail_answers(ClusterLostError("closed"))

    def _send(self, message):
        self.other._receive(unpack(pack(message)[4:]))


class Counter:
    value = 0

    @remote_method
    def add(self, number):
        self.value += number
        return self.value

    @remote_method
    def odd(self):
        return object()

    @remote_method
    async def never(self):
        await asyncio.sleep(3600)  # the loop refers to it; a task that waits for an event of its own is collected


async def pair():
    mailbox, counter = Mailbox(), Counter()
    mailbox.add("counter", counter)
    here, there = Speaker(Mailbox()), Speaker(mailbox)
    here.other, there.other = there, here
    return here, counter


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


def test_calls_are_answered_and_tells_take_effect():
    async def test():
        here, counter = await pair()
        here.tell("counter", "add", 2)
        assert await here.ask("counter", "add", 3) == 5
        assert counter.value == 5 and here.waiting == 0

    run(test())


def test_a_value_that_cannot_be_sent_is_an_error_of_the_caller():
    async def test():
        here, _ = await pair()
        with pytest.raises(TypeError, match="cannot send a object"):
            await here.ask("counter", "odd")

    run(test())


def test_a_message_of_another_form_is_refused():
    async def test():
        here, _ = await pair()
        for message in (5, (1, 2), ("x", 1, 2), (1, 2, 3, 4, 5)):
            with pytest.raises(ProtocolError, match="another form"):
                here._receive(message)

    run(test())


def test_the_end_of_the_conversation_fails_calls():
    async def test():
        here, _ = await pair()
        waiting = asyncio.ensure_future(here.ask("counter", "never"))
        await asyncio.sleep(0)
        here.close()
        with pytest.raises(ClusterLostError):
            await waiting
        with pytest.raises(ClusterLostError, match="closed"):
            await here.ask("counter", "add", 1)

    run(test())


def test_a_tell_that_fails_by_a_fault_reaches_the_loops_handler():
    async def test():
        here, _ = await pair()
        seen = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: seen.append(context))
        here.tell("counter", "add", "text")
        assert [type(context["exception"]) for context in seen] == [TypeError]

    run(test())


def test_errors_travel_as_themselves_or_as_their_text():
    class Local(Exception):
        def __reduce__(self):
            raise TypeError("cannot be pickled")

    assert isinstance(revive(describe(MemoryLimitError("too much"))), MemoryLimitError)
    revived = revive(describe(Local("inner")))
    assert type(revived) is ClusterError and str(revived) == "Local: inner"
