"""Handlers of a graph's events: as lines of JSON, and as messages of a websocket. Both continue from a number.

Any number of clients may read the events, also after the graph's end.
Source: docs/explanation/seeds.md, "Execution control"; docs/reference/events.md.
"""

from __future__ import annotations

import asyncio
import json
import math
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np
from tornado import websocket

from jmars.errors import JmarsError
from jmars.model import events
from jmars.model.events import Event
from jmars.web.graph_handlers import BaseGraphHandler
from jmars.web.handlers import BaseHandler
from jmars.web.problems import problem_from_exception

__all__ = ["EventStreamHandler", "EventsHandler", "as_json"]

AT_ONCE = 5_000  # events of one answer
PACE = 0.1  # seconds between two reads of the event log while a websocket is open


def as_json(event: Event) -> dict[str, Any]:
    """Converts an event to JSON: operands as a list of numbers, other bytes as base64.

    Examples
    --------
    >>> as_json([1, 0.0, "OperandsMoved", "job-1", {"state": 2, "ids": b"\\x07\\0\\0\\0", "worker": 0}])["data"]
    {'state': 2, 'ids': [7], 'worker': 0}
    """
    seq, time, kind, job, data = event
    if kind == events.OPERANDS_MOVED:
        data = {**data, "ids": np.frombuffer(data["ids"], "<u4").tolist()}
    return {"seq": seq, "time": time, "kind": kind, "job": job, "data": _plain(data)}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": b64encode(value).decode()}
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class EventsHandler(BaseGraphHandler):
    """The events of a graph, and of the cluster meanwhile."""

    async def get(self, session: str, graph: str) -> None:
        """Sends events after number ?since=, at most ?limit=, as lines; X-Jmars-Next is the next ?since=."""
        _, one = self.find(session, graph)
        since = int(self.number("since", 0, 0, 2**53))
        limit = int(self.number("limit", AT_ONCE, 1, AT_ONCE))
        found, upto = await self.gateway.cluster.ask("events", "read", since, one.id, limit)
        self.set_header("Content-Type", "application/x-ndjson")
        self.set_header("X-Jmars-Next", str(upto))
        for event in found:
            self.write(json.dumps(as_json(event)) + "\n")
            await asyncio.sleep(0)  # each of them may be long
        self.finish()


class EventStreamHandler(websocket.WebSocketHandler, BaseGraphHandler):
    """The events of a graph over a websocket, closed with 1000 when the graph has ended and all events are sent."""

    _task: asyncio.Task[None] | None = None

    def check_origin(self, origin: str) -> bool:
        """Accepts the origin: `prepare` has checked it before the upgrade."""
        return True

    async def get(self, session: str, graph: str) -> None:
        """Upgrades the connection if the graph exists."""
        self._since = int(self.number("since", 0, 0, 2**53))
        _, self._graph = self.find(session, graph)
        await super().get(session, graph)

    def open(self, *args: str, **kwargs: str) -> None:
        """Starts sending events."""
        self._task = asyncio.ensure_future(self._tell())

    def on_message(self, message: str | bytes) -> None:
        """Closes the socket: clients send nothing here."""
        self.close(1003, "this socket only sends")

    def on_close(self) -> None:
        """Stops sending events."""
        if self._task is not None:
            self._task.cancel()

    async def _tell(self) -> None:
        since, graph = self._since, self._graph
        try:
            while True:
                ended = graph.ended  # read first, so that events before the end are still sent
                found, upto = await self.gateway.cluster.ask("events", "read", since, graph.id)
                await self._send(found)
                if upto > since:
                    since = upto
                elif ended:
                    self.close(1000, "the graph has ended")
                    return
                else:
                    await asyncio.sleep(PACE)
        except (JmarsError, OSError) as error:
            self.close(1011, problem_from_exception(error).message[:100])
        except websocket.WebSocketClosedError:
            pass

    async def _send(self, found: Sequence[Event]) -> None:
        for event in found:
            await self.write_message(json.dumps(as_json(event)))  # waits for a slow client


assert issubclass(EventStreamHandler, BaseHandler)
