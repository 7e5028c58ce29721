"""Documents that are sent at the same time, and one that finds no room: what is answered is what is so."""

from __future__ import annotations

import asyncio
import itertools
import threading
from types import SimpleNamespace
from typing import Any

import pytest

import jmars.tensor as mt
from jmars.actors.registry import Entry
from jmars.errors import StorageError
from jmars.web import door as door_module
from jmars.web.door import Door
from jmars.web.handlers import Base
from jmars.web.problems import Problem
from jmars.web.sessions import Array


def test_a_slow_document_holds_only_its_own_session(monkeypatch: Any, building: None) -> None:
    may_go_on, begun = threading.Event(), []

    def build(document: dict[str, Any], uploads: Any) -> dict[str, Any]:
        begun.append(document["name"])
        if document["name"] == "slow":
            assert may_go_on.wait(20)
        return {"y": mt.ones(4).data}

    monkeypatch.setattr(door_module, "build", build)

    async def story() -> None:
        door, numbers = Door(Entry("c1", "local", "/none", "0" * 64), "token"), itertools.count(1)

        async def ask(*_: Any, **__: Any) -> str:
            return f"job-{next(numbers)}"

        monkeypatch.setattr(door.link, "ask", ask)
        one, other = door.sessions.create("one"), door.sessions.create("other")
        slow = asyncio.ensure_future(door.submit(one, {"nodes": {}, "name": "slow"}))
        while not begun:
            await asyncio.sleep(0.001)  # until its thread has it
        behind = asyncio.ensure_future(door.submit(one, {"nodes": {}, "name": "behind"}))
        made = await asyncio.wait_for(door.submit(other, {"nodes": {}, "name": "quick"}), 20)
        assert made.name == "quick" and not slow.done() and not behind.done() and begun == ["slow", "quick"]
        may_go_on.set()
        assert [(await slow).name, (await behind).name] == ["slow", "behind"]
        assert begun == ["slow", "quick", "behind"]
        door.sessions.end()

    asyncio.run(story())


def one_node(*_: Any) -> dict[str, Any]:
    return {"y": mt.ones(4).data}


def test_a_graph_that_finds_no_room_for_its_row_does_not_run(monkeypatch: Any) -> None:
    monkeypatch.setattr(door_module, "build", one_node)

    async def story() -> None:
        door, asked, told = Door(Entry("c1", "local", "/none", "0" * 64), "token"), [], []

        async def ask(actor: str, method: str, *args: Any, **_: Any) -> str:
            asked.append((method, args[0]))
            return "job-1"

        monkeypatch.setattr(door.link, "ask", ask)
        monkeypatch.setattr(door.link, "tell", lambda actor, method, keys: told.append((method, keys)))
        session = door.sessions.create("one")
        door.sessions.add_array(session, "x", array := Array("x-key", "<f8", ((4,),)))
        door.sessions._file._file.execute("PRAGMA query_only = ON")
        with pytest.raises(StorageError, match="make room in"):
            await door.submit(session, {"nodes": {}, "consumes": ["x"]})
        assert asked[-1] == ("cancel", "job-1")
        assert session.graphs == {} and session.arrays == {"x": array}
        ((method, dropped),) = told
        assert method == "drop" and len(dropped) == 1 and "x-key" not in dropped
        door._ended({"job": "job-1", "results": dropped, "state": "succeeded", "error": None, "line": None})
        assert told[1:] == [("drop", dropped)], "what it gave in the end is let go of as well"
        door.sessions._file._file.execute("PRAGMA query_only = OFF")
        assert (await door.submit(session, {"nodes": {}, "consumes": ["x"]})).temporary == ["x-key"]
        door.sessions._file._file.execute("PRAGMA query_only = ON")
        door._ended({"job": "job-1", "results": [], "state": "succeeded", "error": None, "line": None})
        assert session.graphs["job-1"].state == "succeeded", "the end of a graph is told all the same"
        door.sessions.end()

    asyncio.run(story())


def test_documents_wait_for_their_turn_and_too_many_of_them_are_refused_at_once(monkeypatch: Any) -> None:
    may_go_on = threading.Event()
    monkeypatch.setattr(door_module, "build", lambda *_: may_go_on.wait(20) and one_node())
    monkeypatch.setattr(door_module, "QUEUE", 6)

    async def story() -> None:
        door, numbers = Door(Entry("c1", "local", "/none", "0" * 64), "token"), itertools.count(1)

        async def ask(*_: Any, **__: Any) -> str:
            return f"job-{next(numbers)}"

        monkeypatch.setattr(door.link, "ask", ask)
        sessions = [door.sessions.create(str(n)) for n in range(7)]
        waiting = [asyncio.ensure_future(door.submit(one, {"nodes": {}})) for one in sessions[:6]]
        await asyncio.sleep(0)  # each of them has begun
        with pytest.raises(Problem, match="6 graphs are being built already") as caught:
            await door.submit(sessions[6], {"nodes": {}})
        assert caught.value.status == 503
        may_go_on.set()
        assert {(await one).id for one in waiting} == {f"job-{n}" for n in range(1, 7)}, "the fifth and the sixth too"
        assert (await door.submit(sessions[6], {"nodes": {}})).id == "job-7"
        door.sessions.end()

    asyncio.run(story())


def test_who_is_refused_for_a_while_is_told_when_to_ask_again() -> None:
    class Told(Base):
        def __init__(self) -> None:  # no request: what an answer is made of alone
            self.headers: dict[str, str] = {}
            self.request = SimpleNamespace(method="GET")  # type: ignore[assignment]

        def set_header(self, name: str, value: Any) -> None:
            self.headers[name] = value

        def set_status(self, status_code: int, reason: str | None = None) -> None:
            pass

        def finish(self, chunk: Any = None) -> Any:
            pass

    for status, after in [(503, "1"), (429, "1"), (507, None)]:
        told = Told()
        told.write_error(status, exc_info=(Problem, Problem(status, "E", "m"), None))
        assert told.headers.get("Retry-After") == after
