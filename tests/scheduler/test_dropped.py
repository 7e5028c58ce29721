"""Many chunks of dropped tensors are freed in several turns of the loop, so that no answer waits behind all of them."""

import asyncio

from jmars.scheduler import EventLog, SessionActor
from jmars.scheduler.session_actor import FREED_AT_ONCE

MANY = 5 * FREED_AT_ONCE + 7


class Workers:
    """Notes what happens, in order."""

    def __init__(self):
        self.told = []

    def free_chunks(self, chunks):
        if chunks:
            self.told.append(list(chunks))


def kept(*counts):
    """A session with tensors of so many chunks, and its workers."""
    workers = Workers()
    session = SessionActor(workers, ["a"], EventLog(), lambda report: None)
    for number, count in enumerate(counts):
        asyncio.run(session.keep(f"tensor-{number}", session.fresh_chunks(count), count))
    return session, workers


def freed(workers):
    return [chunk for some in workers.told if isinstance(some, list) for chunk in some]


def test_few_chunks_are_freed_at_once():
    session, workers = kept(3)
    session.drop(["tensor-0"])  # there is no loop
    assert workers.told == [[0, 1, 2]]


def test_an_answer_does_not_wait_until_many_chunks_are_freed():
    session, workers = kept(MANY)

    async def ask():
        workers.told.append(await session.read(0))

    async def drop_and_ask():
        session.drop(["tensor-0"])
        await asyncio.ensure_future(ask())
        while len(freed(workers)) < MANY:
            await asyncio.sleep(0)

    asyncio.run(drop_and_ask())
    answered = next(at for at, what in enumerate(workers.told) if not isinstance(what, list))
    assert answered <= 2 < len(workers.told) - 1  # parts of the chunks come before the answer, most of them after it
    assert freed(workers) == list(range(MANY))
    assert max(map(len, (some for some in workers.told if isinstance(some, list)))) == FREED_AT_ONCE


def test_dropped_tensors_are_freed_later_and_gone_at_once():
    session, workers = kept(MANY, 2, 3)

    async def drop():
        session.drop(["tensor-0"])
        session.drop(["tensor-1", "tensor-2"])
        assert not session.meta.held() and not session.meta.tensors
        while len(freed(workers)) < MANY + 5:
            await asyncio.sleep(0)

    asyncio.run(drop())
    assert freed(workers) == list(range(MANY + 5))


def test_who_asks_for_the_memory_finds_all_of_it_freed():
    session, workers = kept(MANY)

    async def drop():
        session.drop(["tensor-0"])
        session.free_dropped()
        assert freed(workers) == list(range(MANY))
        await asyncio.sleep(0)

    asyncio.run(drop())
    assert freed(workers) == list(range(MANY))
