"""The book of tasks of an engine, without an engine."""

from __future__ import annotations

import asyncio

from jmars.engines.task_book import TaskBook, TaskEntry


class Book(TaskBook[TaskEntry]):
    """Tasks that go nowhere; `heard` are messages."""

    def __init__(self) -> None:
        super().__init__(None, lambda why: None)
        self.heard: list[object] = []

    def _entry(self, task):
        return TaskEntry(task)

    async def _send_batch(self, batch):
        pass

    def _hear(self, items):
        self.heard += items

    def _let_go(self, references):
        pass


def test_a_closed_book_keeps_no_message():
    async def run() -> Book:
        book = Book()
        book._post("before")
        await asyncio.sleep(0)
        book._post("while it is closed")
        book._drop()
        book._post("after")
        await asyncio.sleep(0)
        return book

    book = asyncio.run(run())
    book._post("when the loop is closed")
    assert book.heard == [("before",)] and not book._inbox
