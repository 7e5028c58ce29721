"""Handlers of sessions and of arrays uploaded to them.

Source: docs/explanation/seeds.md, "Submitting a job".
"""

from __future__ import annotations

import asyncio
import math
import re
import secrets
from collections.abc import AsyncIterator

from tornado import web

from jmars.web.handlers import DRAIN_LIMIT, BaseHandler, JsonHandler
from jmars.web.npy_stream import NpyReceiver, named_dtype, row_splits
from jmars.web.problems import Problem
from jmars.web.sessions import UploadedArray

__all__ = ["ArrayHandler", "ArraysHandler", "SessionHandler", "SessionsHandler"]

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
