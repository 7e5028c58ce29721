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
from jmars.web import gateway as gateway_module
from jmars.web.gateway import Gateway
from jmars.web.handlers import BaseHandler
from jmars.web.problems import Problem
from jmars.web.sessions import UploadedArray


def test_a_slow_document_holds_only_its_own_session(monkeypatch: Any, building: None) -> None:
    may_go_on, begun = threading.Event(), []

    def build(document: dict[str, Any], uploads: Any) -> dict[str, Any]:
        begun.append(document["name"])
        if document["name"] == "slow":
            assert may_go_on.wait(60)
        return {"y": mt.ones(4).data}

    monkeypatch.setattr(gateway_module, "build", build)

    async def story() -> None:
        gateway, numbers = Gateway(Entry("c1", "local", "/none", "0" * 64), "token"), itertools.count(1)

        async def ask(*_: Any, **__: Any) -> str:
            return f"job-{next(numbers)}"

        monkeypatch.setattr(gateway.cluster, "ask", ask)
        one, other = gateway.sessions.create("one"), gateway.sessions.create("other")
        slow = asyncio.ensure_future(gateway.submit(one, {"nodes": {}, "name": "slow"}))
        while not begun:
            await asyncio.sleep(0.001)  # until its thread has it
        behind = asyncio.ensure_future(gateway.submit(one, {"nodes": {}, "name": "behind"}))
        made = await asyncio.wait_for(gateway.submit(other, {"nodes": {}, "name": "quick"}), 60)
        assert made.name == "quick" and not slow.done() and not behind.done() and begun == ["slow", "quick"]
        may_go_on.set()
        assert [(await slow).name, (await behind).name] == ["slow", "behind"]
        assert begun == ["slow", "quick", "behind"]
        gateway.sessions.file.close()

    asyncio.run(story())


def one_node(*_: Any) -> dict[str, Any]:
    return {"y": mt.ones(4).data}


def test_a_graph_that_finds_no_room_for_its_row_does_not_run(monkeypatch: Any) -> None:
    monkeypatch.setattr(gateway_module, "build", one_node)

    async def story() -> None:
        gateway, asked, told = Gateway(Entry("c1", "local", "/none", "0" * 64), "token"), [], []

        async def ask(actor: str, method: str, *args: Any, **_: Any) -> str:
            asked.append((method, args[0]))
            return "job-1"

        monkeypatch.setattr(gateway.cluster, "ask", ask)
        monkeypatch.setattr(gateway.cluster, "tell", lambda actor, method, keys: told.append((method, keys)))
        session = gateway.sessions.create("one")
        gateway.sessions.add_array(session, "x", array := UploadedArray("x-key", "<f8", ((4,),)))
        gateway.sessions.file._file.execute("PRAGMA query_only = ON")
        with pytest.raises(StorageError, match="make room in"):
            await gateway.submit(session, {"nodes": {}, "consumes": ["x"]})
        assert asked[-1] == ("cancel", "job-1")
        assert session.graphs == {} and session.arrays == {"x": array}
        ((method, dropped),) = told
        assert method == "drop" and len(dropped) == 1 and "x-key" not in dropped
        gateway._job_ended({"job": "job-1", "results": dropped, "state": "succeeded", "error": None, "line": None})
        assert told[1:] == [("drop", dropped)], "what it gave in the end is let go of as well"
        gateway.sessions.file._file.execute("PRAGMA query_only = OFF")
        assert (await gateway.submit(session, {"nodes": {}, "consumes": ["x"]})).temporary == ["x-key"]
        gateway.sessions.file._file.execute("PRAGMA query_only = ON")
        gateway._job_ended({"job": "job-1", "results": [], "state": "succeeded", "error": None, "line": None})
        assert session.graphs["job-1"].state == "succeeded", "the end of a graph is told all the same"
        gateway.sessions.file.close()

    asyncio.run(story())


def test_documents_wait_for_their_turn_and_too_many_are_refused(monkeypatch: Any) -> None:
    may_go_on = threading.Event()
    monkeypatch.setattr(gateway_module, "build", lambda *_: may_go_on.wait(60) and one_node())
    monkeypatch.setattr(gateway_module, "QUEUE", 6)

    async def story() -> None:
        gateway, numbers = Gateway(Entry("c1", "local", "/none", "0" * 64), "token"), itertools.count(1)

        async def ask(*_: Any, **__: Any) -> str:
            return f"job-{next(numbers)}"

        monkeypatch.setattr(gateway.cluster, "ask", ask)
        sessions = [gateway.sessions.create(str(n)) for n in range(7)]
        waiting = [asyncio.ensure_future(gateway.submit(one, {"nodes": {}})) for one in sessions[:6]]
        await asyncio.sleep(0)  # each of them has begun
        with pytest.raises(Problem, match="6 graphs are being built already") as caught:
            await gateway.submit(sessions[6], {"nodes": {}})
        assert caught.value.status == 503
        may_go_on.set()
        assert {(await one).id for one in waiting} == {f"job-{n}" for n in range(1, 7)}, "the fifth and the sixth too"
        assert (await gateway.submit(sessions[6], {"nodes": {}})).id == "job-7"
        gateway.sessions.file.close()

    asyncio.run(story())


def test_who_is_refused_for_a_while_is_told_when_to_ask_again() -> None:
    class Told(BaseHandler):
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
