"""`Channel`: a value that arrives in parts; readers start when the channel opens, not when it is complete.

`GraphVertex.open` makes a channel. Every reader gets all items from the first on. A channel is unbounded, so a
publisher never waits; under an inline executor the reader runs after the publisher and finds all items.
Source: baidu/babylon, anyflow (channels on `ConcurrentTransientTopic`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from threading import Condition
from typing import Any

from jmars.errors import GraphError

__all__ = ["Channel"]


class Channel:
    """A stream of items in the order of publication; thread-safe.

    Examples
    --------
    >>> channel = Channel()
    >>> channel.publish(1), channel.publish(2), channel.close()
    (None, None, None)
    >>> list(channel), list(channel)
    ([1, 2], [1, 2])
    """

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._changed = Condition()
        self._closed = False
        self._error: BaseException | None = None
        self._wakers: list[Callable[[], object]] = []  # of readers in event loops

    def publish(self, item: Any) -> None:
        """Appends an item.

        Raises
        ------
        GraphError
            If the channel is closed.
        """
        with self._changed:
            if self._closed:
                raise GraphError("this channel is closed, as its vertex ended or closed it; publish before that")
            self._items.append(item)
            self._wake()

    def close(self, error: BaseException | None = None) -> None:
        """Ends the stream; readers raise `error` after the last item. Further calls have no effect."""
        with self._changed:
            if not self._closed:
                self._closed, self._error = True, error
                self._wake()

    def __iter__(self) -> Iterator[Any]:
        place = 0
        while True:
            with self._changed:
                if place == len(self._items) and not self._closed:
                    _refuse_to_block_a_loop()
                    while place == len(self._items) and not self._closed:
                        self._changed.wait()
                items = self._items[place:]
                ended = self._closed
            yield from items
            place += len(items)
            if ended:
                break
        if self._error is not None:
            raise self._error

    async def __aiter__(self) -> AsyncIterator[Any]:
        place = 0
        loop = asyncio.get_running_loop()
        while True:
            with self._changed:
                items, ended = self._items[place:], self._closed
                if not items and not ended:
                    news = asyncio.Event()
                    self._wakers.append(partial(loop.call_soon_threadsafe, news.set))
            for item in items:
                yield item
            place += len(items)
            if ended:
                break
            if not items:
                await news.wait()
        if self._error is not None:
            raise self._error

    def _wake(self) -> None:
        """Wakes all readers; called with the lock held."""
        self._changed.notify_all()
        for wake in self._wakers:
            wake()
        self._wakers.clear()


def _refuse_to_block_a_loop() -> None:
    """Raises in an event loop, where a plain `for` would block the publisher."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise GraphError("a channel is read with a plain `for` in an event loop; read it with `async for`")
