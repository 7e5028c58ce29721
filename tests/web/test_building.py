"""Documents of one session are built one after the other; those of another session do not wait for them."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import jmars.tensor as mt
from jmars.actors.registry import Entry
from jmars.web import door as door_module
from jmars.web.door import Door


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
