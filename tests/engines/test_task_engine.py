"""Tasks and results of an engine, without an engine."""

from __future__ import annotations

import asyncio

import pytest

from jmars.engines.engine import TaskEngine, TaskEntry


class Engine(TaskEngine[TaskEntry]):
    """Goes nowhere; `heard` are messages."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self.heard: list[object] = []

    def _hear(self, items):
        self.heard += items

    def _let_go(self, references):
        pass


@pytest.fixture(autouse=True)
def _is_whole(monkeypatch):
    monkeypatch.setattr(Engine, "__abstractmethods__", frozenset())


def test_a_closed_engine_keeps_no_message():
    async def run() -> Engine:
        engine = Engine()
        engine._post("before")
        await asyncio.sleep(0)
        engine._post("while it is closed")
        engine._drop()
        engine._post("after")
        await asyncio.sleep(0)
        return engine

    engine = asyncio.run(run())
    engine._post("when the loop is closed")
    assert engine.heard == [("before",)] and not engine._inbox
