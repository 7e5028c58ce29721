"""Handlers of graphs: submit, describe, cancel, and read results.

Source: docs/explanation/seeds.md, "Submitting a job" and "Cancelling a job".
"""

from __future__ import annotations

import sys
from contextlib import aclosing

from tornado.iostream import StreamClosedError

from jmars.web.handlers import BaseHandler, JsonHandler
from jmars.web.npy_stream import dtype_of, header
from jmars.web.problems import Problem
from jmars.web.sessions import SubmittedGraph, WebSession
from jmars.web.slices import chunk_selection, count_chunks, parse_slice

__all__ = ["BaseGraphHandler", "DetailHandler", "GraphHandler", "GraphsHandler", "ResultHandler"]

LONGEST_WAIT = 60.0  # seconds of one request
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
