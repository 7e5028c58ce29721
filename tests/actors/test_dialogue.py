"""Dialogues: calls between actors over any way of carrying messages."""

import asyncio

import pytest

from jmars.actors import Mailbox, actor_proxy, remote_method
from jmars.actors.dialogue import Dialogue, describe, remote_methods, revive
from jmars.actors.frames import pack, unpack
from jmars.errors import ActorNotFoundError, ClusterError, ClusterLostError, MemoryLimitError, ProtocolError


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


class Register:
    def __init__(self):
        self.rows = []

    @remote_method
    def note(self, row: str) -> None:
        self.rows += [row]

    @remote_method
    async def read(self, first: int = 0, count: int = 9) -> list[str]:
        """Rows from `first`."""
        return self.rows[first : first + count]

    def clear(self):
        self.rows = []


def test_a_proxy_has_the_remote_methods_of_a_class_and_sends_their_calls():
    async def test():
        here, _ = await pair()
        register = Register()
        here.other.mailbox.add("rows", register)
        proxy = actor_proxy(Register, "rows", here.ask, here.tell)
        for row in "abc":
            proxy.note(row)
        assert await proxy.read(1) == ("b", "c") and await proxy.read(count=1) == ("a",)
        assert proxy.read.__doc__ == "Rows from `first`." and not hasattr(proxy, "clear")
        assert remote_methods(proxy) == ["note", "read"], "it may stand in a mailbox itself"

    run(test())


def test_a_remote_method_without_a_coroutine_cannot_answer_a_proxy():
    class Answers:
        @remote_method
        def size(self) -> int:
            return 1

    with pytest.raises(TypeError, match=r"Answers.size answers, so it must be a coroutine"):
        actor_proxy(Answers, "one", None, None)


def test_the_first_of_several_actors_that_has_a_method_answers():
    class Adds(Counter):
        @remote_method
        def add(self, number):
            return -number

    mailbox, register = Mailbox(), Register()
    mailbox.add("one", Adds(), register)
    assert mailbox.find("one", "add")(3) == -3 and mailbox.find("one", "note").__self__ is register
    assert mailbox.methods("one") == ["add", "never", "note", "odd", "read"]
    with pytest.raises(ActorNotFoundError, match="it has add, never, note, odd, read"):
        mailbox.find("one", "clear")
