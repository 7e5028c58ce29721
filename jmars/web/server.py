"""`python -m jmars web`: a process that serves one cluster of this user over HTTP on 127.0.0.1, and all its paths.

The gateway runs no operands: killed and started again, it continues with the same sessions. The token lies in files of
the cluster's private folder, never in arguments, the environment, URLs or logs. The gateway ends with its cluster. The
engine of the process chooses chunk sizes and computes nothing: a document whose building needs the value of a tensor is
refused by name.

The table of paths has the handlers, and the OpenAPI 3.1 description of /api/openapi.json. The description has a row for
each path and verb, and JSON Schemas of requests and answers; a test requests every path and compares.
docs/reference/rest.md explains the same paths.
Source: docs/explanation/seeds.md, "Architecture", "Submitting a job"; Mars `web/session.py` (POST /api/session,
…/graph); OpenAPI Specification 3.1, https://spec.openapis.org/oas/v3.1.0; JSON Schema 2020-12, as OpenAPI 3.1 uses it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import logging
import os
import re
import resource
import secrets
import signal
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from tornado import httpserver, netutil, web

from jmars.actors.registry import Entry, find_entry
from jmars.errors import ClusterError, JmarsError, NotReadyError
from jmars.model.status import JobState
from jmars.tensor.engine import NoComputeEngine, set_engine
from jmars.tensor.operand import TensorData
from jmars.web.gateway import Gateway
from jmars.web.handlers import (
    LARGEST_DOCUMENT,
    BaseHandler,
    ClusterHandler,
    FunctionsHandler,
    MetricsHandler,
    NotFoundHandler,
)
from jmars.web.session_handlers import (
    ArrayHandler,
    ArraysHandler,
    DetailHandler,
    EventsHandler,
    EventStreamHandler,
    GraphHandler,
    GraphsHandler,
    ResultHandler,
    SessionHandler,
    SessionsHandler,
)
from jmars.web.sessions import new_file

_S, _G = "/api/session/{session}", "/api/session/{session}/graph/{graph}"
_SLICE = "a part for each axis: an int, or start:stop:step with a step of 1 or more, joined by commas; all by default"
_NPY, _NDJSON, _TEXT = "application/x-npy", "application/x-ndjson", "text/plain"
_SINCE = {"since": ("integer", "number of the last event that is known; 0 by default")}

# (path, verb): summary, {status: schema or content type or None}, {query: (type, meaning)}, body schema or content type
ROWS: dict[tuple[str, str], tuple[str, dict[int, str | None], dict[str, tuple[str, str]], str | None]] = {
    ("/api/openapi.json", "get"): ("this document", {200: "Any"}, {}, None),
    ("/api/cluster", "get"): ("workers, memory and jobs of the cluster", {200: "Any"}, {}, None),
    ("/api/functions", "get"): ("what graphs may call", {200: "Functions"}, {}, None),
    ("/api/session", "get"): ("the sessions of this gateway", {200: "Sessions"}, {}, None),
    ("/api/session", "post"): ("open a session", {201: "Session"}, {}, "NewSession"),
    (_S, "get"): ("a session", {200: "Session"}, {}, None),
    (_S, "delete"): ("close a session: cancel its graphs, release its arrays and results", {204: None}, {}, None),
    (f"{_S}/array", "get"): ("the arrays of a session", {200: "Arrays"}, {}, None),
    (f"{_S}/array/{{array}}", "get"): ("shape, dtype and chunks of an array", {200: "Array"}, {}, None),
    (f"{_S}/array/{{array}}", "put"): ("send an array as .npy", {201: "Array"}, {}, _NPY),
    (f"{_S}/array/{{array}}", "delete"): ("release an array", {204: None}, {}, None),
    (f"{_S}/graph", "get"): ("state and results of all graphs of a session", {200: "Graphs"}, {}, None),
    (f"{_S}/graph", "post"): ("submit a graph; it runs at once", {201: "Graph"}, {}, "NewGraph"),
    (_G, "get"): (
        "state and results of a graph", {200: "Graph"},
        {"wait": ("number", "seconds to wait for its end, 60 at most; 0 by default")}, None,
    ),
    (_G, "delete"): (
        "cancel a graph: 202 if it was running, 200 if it had ended", {200: "Graph", 202: "Graph"}, {}, None,
    ),
    (f"{_G}/events", "get"): (
        "events, one JSON object a line; X-Jmars-Next is the next ?since=", {200: _NDJSON},
        {**_SINCE, "limit": ("integer", "events at most; 5000 by default")}, None,
    ),
    (f"{_G}/stream", "get"): ("the same as a websocket, to the graph's end", {101: None}, _SINCE, None),
    (f"{_G}/detail/{{what}}", "get"): (
        "tileable_graph, tileable_details, subtasks of one tileable, or why the graph is not done", {200: "Any"},
        {"tileable": ("string", "for subtasks: the key"), "io": ("string", "for subtasks: 1 adds neighbours")},
        None,
    ),
    (f"{_G}/result/{{result}}", "get"): (
        "a result as .npy; X-Jmars-Chunks says how many chunks were read", {200: _NPY},
        {"slice": ("string", _SLICE), "chunk": ("string", "one chunk by its place in the grid, such as 3,0")}, None,
    ),
    (f"{_G}/result/{{result}}", "delete"): ("release a result", {204: None}, {}, None),
    ("/metrics", "get"): ("numbers for Prometheus", {200: _TEXT}, {}, None),
}  # fmt: skip


class OpenApiHandler(BaseHandler):
    """The OpenAPI description."""

    async def get(self) -> None:
        """Sends the description as JSON."""
        await self.answer(document())


@cache
def document() -> dict[str, Any]:
    """Makes the description of all paths."""
    paths: dict[str, dict[str, Any]] = {}
    for (path, verb), (summary, answers, query, body) in ROWS.items():
        operation: dict[str, Any] = {"summary": summary, "operationId": _name(path, verb), "responses": {}}
        for status, kind in answers.items():
            operation["responses"][str(status)] = {"description": summary} | _content(kind)
        operation["responses"]["default"] = {"$ref": "#/components/responses/Problem"}
        if query:
            operation["parameters"] = [
                {"name": name, "in": "query", "description": meaning, "schema": {"type": kind}}
                for name, (kind, meaning) in query.items()
            ]
        if body:
            operation["requestBody"] = {"required": body != "NewSession"} | _content(body)
        paths.setdefault(path, {})[verb] = operation
    for path, operations in paths.items():
        names = re.findall(r"{(\w+)}", path)
        if names:
            operations["parameters"] = [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
            ]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "jmars",
            "version": "1",
            "summary": "Tensor graphs run on a cluster of this user",
            "description": "Every request needs the header `Authorization: Bearer TOKEN`; pages of other sites "
            "are refused. An error is a Problem: 401 no token, 403 foreign Host or Origin, 404 not found, 405 "
            "verb not allowed, 409 not ready, 413 too large, 415 wrong media type, 422 invalid graph, 429 too "
            "many requests, 503 the cluster does not answer.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"Problem": {"description": "error"} | _content("Problem")},
            "schemas": SCHEMAS,
        },
    }


def _content(kind: str | None) -> dict[str, Any]:
    """A body of that schema or content type."""
    if kind is None:
        return {}
    if "/" in kind:
        return {"content": {kind: {}}}
    return {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind}"}}}}


def _name(path: str, verb: str) -> str:
    """An operation's name, such as get_result or get_sessions."""
    last = path.rsplit("/", 1)[1].removesuffix(".json")
    many = any(other.startswith(f"{path}/{{") for other, _ in ROWS)
    return f"{verb}_{last.strip('{}')}{'s' if many else ''}"


ROUTES: dict[str, type[BaseHandler]] = {
    "/api/openapi.json": OpenApiHandler,
    "/api/cluster": ClusterHandler,
    "/api/functions": FunctionsHandler,
    "/api/session": SessionsHandler,
    "/api/session/{session}": SessionHandler,
    "/api/session/{session}/array": ArraysHandler,
    "/api/session/{session}/array/{array}": ArrayHandler,
    "/api/session/{session}/graph": GraphsHandler,
    "/api/session/{session}/graph/{graph}": GraphHandler,
    "/api/session/{session}/graph/{graph}/events": EventsHandler,
    "/api/session/{session}/graph/{graph}/stream": EventStreamHandler,
    "/api/session/{session}/graph/{graph}/detail/{what}": DetailHandler,
    "/api/session/{session}/graph/{graph}/result/{result}": ResultHandler,
    "/metrics": MetricsHandler,
}
_PARTS = {"what": "(tileable_graph|tileable_details|subtasks|why)"}


def handlers() -> list[tuple[str, Any]]:
    """The table in the form of tornado.web.Application."""
    return [(re.sub(r"{(\w+)}", lambda found: _PARTS.get(found[1], r"([\w.\-]{1,100})"), path), kind)
            for path, kind in ROUTES.items()]  # fmt: skip


_STRING, _COUNT, _NUMBER = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "number"}
_NAME = {"type": "string", "pattern": r"^[A-Za-z_][\w.\-]{0,99}$"}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": required | (optional or {})}


def _list(of: Any) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _or_null(kind: Any) -> dict[str, Any]:
    return {"anyOf": [kind, {"type": "null"}]}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


_ARRAY = {
    "shape": _or_null(_list(_COUNT)),
    "dtype": {"type": ["string", "array"], "description": "as .npy headers name it"},
    "nbytes": _or_null(_COUNT),
    "chunks": _or_null(_list(_list(_COUNT))),
}
_NODE = {
    **_object({"call": _STRING}, {"args": _list(_ref("Argument")), "kwargs": {"type": "object"}}),
    "additionalProperties": False,
}
SCHEMAS: dict[str, Any] = {
    "Any": {},
    "Problem": _object(
        {"error": _STRING, "message": _STRING, "hint": _STRING, "line": _or_null(_ref("Line"))},
    ),
    "Line": _object({"file": _STRING, "line": _COUNT, "text": _STRING}),
    "Functions": _list(_object({"name": _STRING, "parameters": _STRING, "summary": _STRING})),
    "NewSession": {**_object({}, {"name": _STRING}), "additionalProperties": False},
    "Session": _object(
        {
            "id": _STRING,
            "name": _STRING,
            "created": _NUMBER,
            "arrays": _list(_STRING),
            "graphs": _list(_STRING),
        }
    ),
    "Sessions": _list(_ref("Session")),
    "Array": _object({"name": _NAME, **_ARRAY}),
    "Arrays": _list(_ref("Array")),
    "Argument": {
        "description": "null, true, false, a number, a text, a list of arguments, or an object of one key: ref (a "
        "node, or NODE.2 for the third of several that it gave), array (an upload, or GRAPH/RESULT), tuple, slice "
        "[start, stop, step], complex [re, im], float (nan, inf, -inf), ellipsis, datetime64",
    },
    "NewGraph": {
        **_object(
            {
                "nodes": {"type": "object", "additionalProperties": _NODE, "minProperties": 1},
                "results": {"type": "array", "items": _STRING, "minItems": 1},
            },
            {
                "name": _STRING,
                "settings": {"type": "object", "description": "of task.default_config"},
                "consumes": {**_list(_NAME), "description": "arrays to release when the graph has ended"},
            },
        ),
        "additionalProperties": False,
    },
    "Graph": _object(
        {
            "id": _STRING,
            "session": _STRING,
            "name": _STRING,
            "state": {"enum": [str(state) for state in JobState]},
            "progress": {"type": "number", "minimum": 0, "maximum": 1},
            "started": _NUMBER,
            "elapsed": _or_null(_NUMBER),
            "eta": _or_null(_NUMBER),
            "operands": _or_null(_COUNT),
            "counts": _or_null({"type": "object", "additionalProperties": _COUNT}),
            "error": _or_null(_ref("Problem")),
            "results": {"type": "object", "additionalProperties": _object(_ARRAY)},
        }
    ),
    "Graphs": _list(_ref("Graph")),
}


DATA_LIMIT = 4 * 2**30  # bytes of this process; a graph that needs more to build is refused


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until the cluster ends or a signal arrives; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m jmars web", description=__doc__.split("\n")[0])
    parser.add_argument("--cluster", default="", help="id or name of the cluster; the newest of yours by default")
    parser.add_argument("--port", type=int, default=0, help="where to listen on 127.0.0.1; any free port by default")
    parser.add_argument(
        "--allow-functions", action="store_true", help="take functions: whoever has the token may run any code as you"
    )
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = DATA_LIMIT if hard == resource.RLIM_INFINITY else min(DATA_LIMIT, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        asyncio.run(serve(find_entry(options.cluster), options.port, options.allow_functions))
    except (JmarsError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


async def serve(entry: Entry, port: int = 0, allow_functions: bool = False) -> None:
    """Serves a cluster on 127.0.0.1 until the cluster ends or SIGTERM or SIGINT arrives.

    With `allow_functions` graphs may hold pickles of functions.

    Raises
    ------
    ClusterError
        If the cluster has a gateway already, or cannot be reached.
    OSError
        If the port is taken.
    """
    with _gateway_lock(entry) as folder:
        gateway = Gateway(entry, secrets.token_hex(32), allow_functions)
        await gateway.cluster.open()
        stopped = gateway.cluster.lost
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        ready = await gateway.cluster.ask("host", "ready")
        summary = await gateway.cluster.ask("cluster", "summary")
        set_engine(BuildingEngine(summary["limit"], summary["workers"]))
        sockets = netutil.bind_sockets(port, "127.0.0.1")
        port = sockets[0].getsockname()[1]
        application = web.Application(
            handlers(), default_handler_class=NotFoundHandler, gateway=gateway, port=port,
            log_function=lambda handler: None,
            largest_upload=ready["capacity"], websocket_ping_interval=30, websocket_max_message_size=1024,
        )  # fmt: skip
        server = httpserver.HTTPServer(application, max_body_size=LARGEST_DOCUMENT, max_header_size=16 * 1024)
        server.add_sockets(sockets)
        url, header = f"http://127.0.0.1:{port}", folder / "web.header"
        try:
            new_file(header, f"Authorization: Bearer {gateway.guard.token}\n")
            new_file(folder / "web.json", json.dumps({"url": url, "header": str(header), "pid": os.getpid()}))
            sys.stdout.write(f"{url}\n{header}\n")
            sys.stdout.flush()
            await stopped.wait()
        finally:
            server.stop()
            await server.close_all_connections()
            gateway.close()
            for name in ("web.json", "web.header"):
                with contextlib.suppress(FileNotFoundError):  # the cluster ended and removed its folder
                    (folder / name).unlink()


@contextlib.contextmanager
def _gateway_lock(entry: Entry) -> Iterator[Path]:
    """Locks the cluster's private folder, so that the cluster has one gateway at a time."""
    folder = Path(entry.folder)
    fd = os.open(folder / "web.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield folder
    except BlockingIOError:
        raise ClusterError(
            f"cluster {entry.id} has a gateway already; its address is in {folder / 'web.json'}"
        ) from None
    finally:
        os.close(fd)


_WHY = (
    "this needs the value of a tensor, and a graph is sent before any of its values is known; "
    "send it in two graphs, and give the second what the first computed"
)


class BuildingEngine(NoComputeEngine):
    """Memory limit in bytes and number of workers of the cluster, for automatic chunk sizes."""

    def execute(self, data: Sequence[TensorData]) -> NoReturn:
        """Refuses to compute."""
        raise NotReadyError(_WHY)
