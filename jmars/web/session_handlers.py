"""Handlers of sessions, arrays uploaded to them, graphs and graphs' events.

A graph is submitted, described and cancelled, and its results are read. Events come as lines of JSON, and as messages
of a websocket; both continue from a number. Any number of clients may read the events, also after the graph's end.
Source: docs/explanation/seeds.md, "Submitting a job", "Cancelling a job" and "Execution control";
docs/reference/events.md.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import secrets
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import numpy as np
from tornado import web, websocket
from tornado.iostream import StreamClosedError

from jmars.errors import JmarsError
from jmars.model import events
from jmars.model.events import Event
from jmars.web.handlers import DRAIN_LIMIT, BaseHandler, JsonHandler
from jmars.web.npy_stream import NpyReceiver, dtype_of, header, named_dtype, row_splits
from jmars.web.problems import Problem, problem_from_exception
from jmars.web.results import chunk_selection, count_chunks, parse_slice
from jmars.web.sessions import SubmittedGraph, UploadedArray, WebSession

PART = 16 * 2**20  # bytes of a chunk of an upload
LARGEST_ROW = 256 * 2**20  # bytes; a row is never split
ARRAYS = 10_000  # of a session
_NAME = re.compile(r"[A-Za-z_][\w.\-]{0,99}", re.ASCII)


class SessionsHandler(JsonHandler):
    """All sessions of this gateway."""

    allows_empty = True

    async def get(self) -> None:
        """Lists the sessions."""
        await self.answer([one.described() for one in self.gateway.sessions.known.values()])

    async def post(self) -> None:
        """Opens a session."""
        body = self.body()
        if body.keys() - {"name"} or not isinstance(body.get("name", ""), str):
            raise Problem(
                422, "DocumentError", "a session has a name and nothing else", 'send {"name": "…"} or nothing'
            )
        made = self.gateway.sessions.create(body.get("name", "")[:200])
        self.set_header("Location", f"/api/session/{made.id}")
        await self.answer(made.described(), 201)


class SessionHandler(BaseHandler):
    """A session."""

    async def get(self, session: str) -> None:
        """Sends the session's arrays and graphs."""
        await self.answer(self.gateway.sessions.find(session).described())

    async def delete(self, session: str) -> None:
        """Cancels the session's running graphs and releases its arrays and results."""
        await self.gateway.close_session(self.gateway.sessions.find(session))
        self.set_status(204)


class ArraysHandler(BaseHandler):
    """The arrays of a session."""

    async def get(self, session: str) -> None:
        """Lists the arrays."""
        found = self.gateway.sessions.find(session)
        await self.answer([one.described(name) for name, one in found.arrays.items()])


@web.stream_request_body
class ArrayHandler(BaseHandler):
    """An array of a session, uploaded as .npy straight into the cluster's memory, chunk by chunk."""

    _task: asyncio.Task[None] | None = None
    _refused: Exception | None = None

    def prepare(self) -> None:
        """Checks the request and the announced size before any byte of the body is read."""
        super().prepare()
        if self.request.method != "PUT":
            return
        session, name = self.path_args
        found = self.gateway.sessions.find(session)
        if not _NAME.fullmatch(name):
            raise Problem(400, "BadName", f"{name!r} is no name of an array", "use letters, digits, _ - and .")
        if name in found.arrays:
            raise Problem(
                409, "ArrayExists", f"session {session} has an array {name!r}", "DELETE it first, or use another"
            )
        if len(found.arrays) >= ARRAYS:
            raise Problem(429, "TooManyArrays", f"session {session} has {ARRAYS} arrays", "DELETE some of them")
        largest = self.settings["largest_upload"]
        if self.announced > largest:
            self._refused = Problem(
                413, "TooLarge", f"{self.announced} bytes are more than the {largest} that chunks may take in memory",
                "send it in parts, or start the cluster with a larger memory_limit",
            )  # fmt: skip
            if not self.drains():
                raise self._refused
        self.request.connection.set_max_body_size(max(largest, DRAIN_LIMIT))  # type: ignore[union-attr]
        self._receiver = NpyReceiver()
        self._arrived: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=4)
        self._key = f"web-{secrets.token_hex(12)}"

    async def data_received(self, chunk: bytes) -> None:
        """Takes a part of the file and returns when there is room for the next part; errors are answered at the end."""
        if self.request.method != "PUT" or self._refused is not None:
            return
        try:
            elements = self._receiver.feed(chunk)
            self.gateway.counts["bytes", "in"] += len(elements)
            if self._task is None and self._receiver.is_begun:
                self._begin()
            if self._task is not None and elements:
                adding = asyncio.ensure_future(self._arrived.put(elements))
                await asyncio.wait({adding, self._task}, return_when=asyncio.FIRST_COMPLETED)
                if self._task.done():  # storing failed
                    adding.cancel()
                    self._task.result()
        except Exception as error:
            self._refused = error

    async def put(self, session: str, name: str) -> None:
        """Keeps the complete array under the name."""
        receiver = self._receiver
        if self._refused is not None:
            raise self._refused
        if not receiver.is_begun or receiver.left:
            raise Problem(400, "BadArray", "the file ends early", "send all of what np.save wrote")
        assert self._task is not None
        await self._arrived.put(None)
        await self._task
        array = UploadedArray(self._key, named_dtype(receiver.dtype), self._splits, receiver.fortran)
        found = self.gateway.sessions.known.get(session)
        if found is None or name in found.arrays:
            self.gateway.drop([self._key])
            raise Problem(
                409, "ArrayExists", f"{name!r} was uploaded twice, or its session was deleted", "send it again"
            )
        try:
            self.gateway.sessions.add_array(found, name, array)
        except BaseException:  # the disk is full: release the array
            self.gateway.drop([self._key])
            raise
        self.set_header("Location", f"/api/session/{session}/array/{name}")
        await self.answer(array.described(name), 201)

    async def get(self, session: str, name: str) -> None:
        """Sends shape, dtype and chunks."""
        await self.answer(self.gateway.sessions.find(session).array(name).described(name))

    def delete(self, session: str, name: str) -> None:
        """Releases the array; running graphs that read the array go on."""
        found = self.gateway.sessions.find(session)
        key = found.array(name).key
        self.gateway.sessions.remove_array(found, name)
        self.gateway.drop([key])
        self.set_status(204)

    def on_connection_close(self) -> None:
        """Removes the chunks of an upload after a disconnection."""
        if self._task is not None:
            self._task.cancel()

    def on_finish(self) -> None:
        """Counts the request; removes the chunks of a refused upload."""
        super().on_finish()
        if self._task is not None and not self._task.done():
            self._task.cancel()

    def _begin(self) -> None:
        """Starts storing chunks once the header is read."""
        receiver = self._receiver
        shape = receiver.shape[::-1] if receiver.fortran else receiver.shape
        itemsize = receiver.dtype.itemsize
        if receiver.left and itemsize * math.prod(shape[1:]) > LARGEST_ROW:
            raise Problem(
                413, "TooLarge", f"one row of shape {shape[1:]} has more than {LARGEST_ROW} bytes",
                "send it reshaped to more, shorter rows, and reshape it back in the graph",
            )  # fmt: skip
        if receiver.left > self.settings["largest_upload"]:
            raise Problem(413, "TooLarge", f"shape {shape} has {receiver.left} bytes", "send it in parts")
        self._splits = row_splits(shape, itemsize, PART)
        rows = self._splits[0] if shape else (1,)
        row = itemsize * math.prod(shape[1:])
        sizes = [row * n for n in rows]
        self._task = asyncio.ensure_future(self.gateway.store(self._key, self._splits, self._parts(sizes)))

    async def _parts(self, sizes: list[int]) -> AsyncIterator[bytes]:
        """Yields the received bytes, a part for each chunk."""
        held = bytearray()
        for size in sizes:
            while len(held) < size:
                more = await self._arrived.get()
                assert more is not None, "put checks the length before"
                held += more
            yield bytes(held[:size])
            del held[:size]
        last = await self._arrived.get()
        assert last is None, "feed refuses what is too long"


LONGEST_WAIT = 60.0  # seconds of a request
_DETAILS = {"tileable_graph": "tileable_graph", "tileable_details": "tileable_details", "subtasks": "tileable_subtasks"}


class GraphsHandler(JsonHandler):
    """The graphs of a session."""

    async def get(self, session: str) -> None:
        """Sends state and results of each graph."""
        found = self.gateway.sessions.find(session)
        await self.answer([await self.gateway.describe(found, graph) for graph in list(found.graphs.values())])

    async def post(self, session: str) -> None:
        """Submits a graph."""
        found = self.gateway.sessions.find(session)
        graph = await self.gateway.submit(found, self.body())
        self.set_header("Location", f"/api/session/{session}/graph/{graph.id}")
        await self.answer(await self.gateway.describe(found, graph), 201)


class BaseGraphHandler(BaseHandler):
    """Base class of handlers of a graph."""

    def find(self, session: str, graph: str) -> tuple[WebSession, SubmittedGraph]:
        """Finds session and graph by id; raises Problem."""
        found = self.gateway.sessions.find(session)
        return found, found.graph(graph)


class GraphHandler(BaseGraphHandler):
    """A graph."""

    async def get(self, session: str, graph: str) -> None:
        """Sends the graph's state and results; ?wait=SECONDS waits for its end."""
        wait = self.number("wait", 0.0, 0.0, LONGEST_WAIT)
        await self.answer(await self.gateway.describe(*self.find(session, graph), wait))

    async def delete(self, session: str, graph: str) -> None:
        """Cancels the graph; no effect on an ended graph."""
        found, one = self.find(session, graph)
        before = one.ended
        await self.gateway.cancel(one)
        await self.answer(await self.gateway.describe(found, one), 200 if before else 202)


class DetailHandler(BaseGraphHandler):
    """Operands and progress of a graph, as `TaskAPI` returns them."""

    async def get(self, session: str, graph: str, what: str) -> None:
        """Sends tensor operands, their progress, the chunk operands of ?tileable= (?io=1: neighbours too), or the
        diagnosis.
        """
        _, one = self.find(session, graph)
        if what == "why":
            await self.answer(await self.gateway.cluster.ask("why", "job", one.id))
            return
        args: tuple[object, ...] = ()
        if what == "subtasks":
            args = (self.get_query_argument("tileable", ""), self.get_query_argument("io", "") == "1")
        await self.answer(await self.gateway.cluster.ask("tasks", _DETAILS[what], one.id, *args))


class ResultHandler(BaseGraphHandler):
    """A result of a graph."""

    async def get(self, session: str, graph: str, name: str) -> None:
        """Sends elements as .npy: all, ?slice=0:10,::2 or ?chunk=0,3; reads only the chunks needed."""
        result = await self.gateway.result(*self.find(session, graph), name)
        assert result.chunks is not None
        dtype, shape = dtype_of(result.dtype), [sum(axis) for axis in result.chunks]
        cut, place = self.get_query_argument("slice", ""), self.get_query_argument("chunk", None)
        if cut and place is not None:
            raise Problem(400, "BadQuery", "slice and chunk are both given", "give one of them")
        try:
            selection = parse_slice(cut, shape) if place is None else chunk_selection(place, result.chunks)
        except ValueError as error:
            raise Problem(416, "BadSlice", str(error), f"the shape is {shape}") from error
        size = dtype.itemsize
        for one in selection.ranges:
            size *= len(one)
        begin = header(dtype, selection.shape)
        whole = 1
        for axis in result.chunks:
            whole *= len(axis)
        met = count_chunks(selection.ranges, result.chunks) if size else 0
        self.set_header("Content-Type", "application/x-npy")
        self.set_header("Content-Length", str(len(begin) + size))
        self.set_header("X-Jmars-Chunks", f"{met} of {whole}")
        self.write(begin)
        try:
            async with aclosing(self.gateway.reader.read(result.key, dtype, result.chunks, selection)) as coming:
                async for piece in coming:
                    self.write(piece)
                    await self.flush()
        except StreamClosedError:
            return  # the client has disconnected
        except Exception:
            if not self._headers_written:
                raise
            self.log_exception(*sys.exc_info())
            self.request.connection.stream.close()  # type: ignore[union-attr]  # Content-Length shows the truncation
            return
        self.finish()

    def delete(self, session: str, graph: str, name: str) -> None:
        """Releases the result and its memory on the cluster."""
        found, one = self.find(session, graph)
        if name not in one.results:
            raise Problem(404, "UnknownResult", f"graph {graph} has no result {name!r}", "")
        self.gateway.release(found, one, name)
        self.set_status(204)


MAX_EVENTS = 5_000  # events of an answer
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
        limit = int(self.number("limit", MAX_EVENTS, 1, MAX_EVENTS))
        found, upto = await self.gateway.cluster.ask("session", "read", since, one.id, limit)
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
                found, upto = await self.gateway.cluster.ask("session", "read", since, graph.id)
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
