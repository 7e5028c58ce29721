"""A channel gives every reader every item, from threads and in event loops, and ends with its vertex."""

import asyncio

import pytest

from jmars.errors import GraphError
from jmars.flow import AsyncioExecutor, Channel, GraphBuilder, GraphProcessor, ThreadPoolExecutor


class Fails(GraphProcessor):
    def process(self, vertex):
        vertex.open().publish(1)
        raise ZeroDivisionError


@pytest.mark.parametrize("threads", [0, 2])
def test_readers_of_a_failed_publisher_end(threads):
    builder = GraphBuilder()
    builder.vertex(Fails).emit("items")
    builder.function(list, ["items"], "all")
    executor = ThreadPoolExecutor(threads) if threads else None
    closure = builder.finish().build().run("all", executor=executor)
    with pytest.raises(ZeroDivisionError):
        closure.result(60)
    assert closure.wait(60)


def test_nothing_is_published_after_the_end():
    channel = Channel()
    channel.close()
    channel.close()
    with pytest.raises(GraphError, match="this channel is closed"):
        channel.publish(1)


def test_coroutines_stream():
    turns = []

    class Numbers(GraphProcessor):
        async def process(self, vertex):
            channel = vertex.open()
            for k in range(3):
                channel.publish(k)
                turns.append(f"made {k}")
                while f"saw {k}" not in turns:
                    await asyncio.sleep(0)

    async def total(numbers):
        result = 0
        async for number in numbers:
            turns.append(f"saw {number}")
            result += number
        return result

    builder = GraphBuilder()
    builder.vertex(Numbers).emit("numbers")
    builder.function(total, ["numbers"], "total")

    async def main():
        return await builder.finish().build().run("total", executor=AsyncioExecutor())

    assert asyncio.run(main()) == 3
    assert turns == ["made 0", "saw 0", "made 1", "saw 1", "made 2", "saw 2"]


def test_a_plain_for_in_an_event_loop_is_refused_rather_than_stuck():
    async def main():
        with pytest.raises(GraphError, match="read it with `async for`"):
            list(Channel())

    asyncio.run(main())
