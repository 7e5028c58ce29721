"""Base classes of all handlers, and the handlers that concern no session.

Each request is checked before its body is read. Every answer except an array is JSON; every refusal is
`{"error", "message", "hint", "line"}`. A long answer is JSON in pieces, so that the event loop serves other requests
meanwhile: `json.dumps` of ten megabytes takes a third of a second, during which no graph could be cancelled, and holds
the interpreter lock, so that a thread would not help.

Metrics of the cluster and the gateway have Prometheus's text format; docs/reference/rest.md names them.
Source: Prometheus, "Exposition formats" 0.0.4, https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

from tornado import web
from tornado.iostream import StreamClosedError

from jmars.errors import JmarsError
from jmars.web.call_document import describe_functions
from jmars.web.gateway import Gateway, Refusal
from jmars.web.problems import Problem, problem_from_exception

log = logging.getLogger("jmars.web")
LARGEST_DOCUMENT = 8 * 2**20  # bytes
DRAIN_LIMIT = 256 * 2**20  # bytes of a refused body that are still read


@web.stream_request_body
class BaseHandler(web.RequestHandler):
    """Refuses requests without the token before any byte of the body is kept; answers in JSON."""

    @property
    def gateway(self) -> Gateway:
        """The gateway that serves the request."""
        gateway: Gateway = self.settings["gateway"]
        return gateway

    def prepare(self) -> None:
        """Checks the request's token, Host and Origin."""
        self.check()

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """Drops a body that the handler does not read."""
        return None

    def check(self) -> None:
        """Raises Problem if the request may not be answered."""
        headers = self.request.headers
        origin = headers.get("Origin") or headers.get("Sec-Websocket-Origin")
        try:
            self.gateway.guard.check(self.settings["port"], headers.get("Host"), origin, headers.get("Authorization"))
        except Refusal as refusal:
            raise Problem(refusal.status, "Refused", str(refusal), refusal.hint) from refusal

    def set_default_headers(self) -> None:
        """Forbids caching and scripts."""
        self.clear_header("Server")
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
        self.set_header("Content-Type", "application/json")

    def compute_etag(self) -> None:
        """Returns None: no answer is cached."""

    async def answer(self, body: Any, status: int = 200) -> None:
        """Sends JSON: a short answer at once, a long answer as fast as the client reads."""
        self.set_status(status)
        before = ""
        async for piece in stream_json(body):
            if before:
                self.write(before)
                try:
                    await self.flush()
                except StreamClosedError:
                    return  # the client has disconnected
            before = piece
        self.finish(before + "\n")

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Sends an error as JSON."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        if self.request.method not in self.SUPPORTED_METHODS:  # `prepare` is not called for such methods
            try:
                self.check()
            except Problem as refusal:
                error = refusal
        if isinstance(error, web.HTTPError):
            problem = Problem(status_code, *_SAID.get(status_code, (self._reason.replace(" ", ""), self._reason, "")))
        else:
            problem = (
                problem_from_exception(error) if error is not None else Problem(status_code, "Error", self._reason)
            )
        self.set_status(problem.status)
        if problem.status == 401:
            self.set_header("WWW-Authenticate", "Bearer")
        if problem.status in (429, 503):
            self.set_header("Retry-After", "1")
        if problem.status == 405:
            self.set_header("Allow", ", ".join(sorted(self.verbs())))
        self.finish(json.dumps(problem.as_json()) + "\n")

    def log_exception(self, kind: Any, value: Any, trace: Any) -> None:
        """Logs unexpected exceptions only."""
        if not isinstance(value, web.HTTPError | Problem | JmarsError):
            log.error("%s %s failed", self.request.method, self.request.path, exc_info=(kind, value, trace))

    def on_finish(self) -> None:
        """Counts the request."""
        self.gateway.counts["requests", str(self.request.method), str(self.get_status())] += 1

    @property
    def announced(self) -> int:
        """Bytes of the body by the Content-Length header; 0 without the header."""
        text = self.request.headers.get("Content-Length", "")
        return int(text) if text.isdecimal() else 0

    def drains(self) -> bool:
        """Whether to read a refused body to the end, so that the client gets the answer."""
        if self.announced > DRAIN_LIMIT:
            return False
        self.request.connection.set_max_body_size(DRAIN_LIMIT)  # type: ignore[union-attr]
        return True

    @classmethod
    def verbs(cls) -> set[str]:
        """The HTTP methods that the handler answers."""
        return {verb for verb in cls.SUPPORTED_METHODS if verb.lower() in _own(cls)}

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """Reads a number from the query; raises Problem."""
        text = self.get_query_argument(name, "")
        try:
            value = float(text) if text else default
        except ValueError:
            value = high + 1
        if not low <= value <= high:
            raise Problem(400, "BadQuery", f"{name}={text[:50]} is no number from {low:g} to {high:g}", "correct it")
        return value


_SAID = {
    404: ("NotFound", "there is nothing at this path", "GET /api/openapi.json lists all paths"),
    405: ("MethodNotAllowed", "this path does not answer that verb", "see the Allow header"),
}


def _own(kind: type[BaseHandler]) -> set[str]:
    """Methods defined by a handler or by base classes of jmars."""
    return {name for one in kind.__mro__ if one.__module__.startswith("jmars.") for name in vars(one)}


@web.stream_request_body
class JsonHandler(BaseHandler):
    """A handler with a JSON object of bounded size as body."""

    allows_empty: ClassVar[bool] = False

    def prepare(self) -> None:
        """Checks the announced size and the type before any byte of the body is read."""
        super().prepare()
        self._body = bytearray()
        if self.request.method == "POST":
            if not self.drains():
                self._check_size(self.announced)
            kind = self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            if kind != "application/json" and (kind or not self.allows_empty):
                raise Problem(
                    415, "UnsupportedMediaType", f"the body is {kind or 'of no type'}", "send application/json"
                )

    def data_received(self, chunk: bytes) -> None:
        """Keeps a part of the body; bytes over the limit are read and dropped, so that the client gets the answer."""
        if len(self._body) <= LARGEST_DOCUMENT:
            self._body += chunk

    def body(self) -> dict[str, Any]:
        """Parses the body; raises Problem."""
        self._check_size(len(self._body))
        if not self._body and self.allows_empty:
            return {}
        try:
            found = json.loads(self._body, object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant)
        except (ValueError, RecursionError) as error:
            raise Problem(400, "BadJson", f"the body is no JSON: {error}"[:300], "send one JSON object") from error
        if not isinstance(found, dict):
            raise Problem(400, "BadJson", f"the body is a {type(found).__name__}", "send one JSON object")
        return found

    def _check_size(self, size: int) -> None:
        if size > LARGEST_DOCUMENT:
            raise Problem(
                413, "TooLarge", f"a body of {size} bytes is over {LARGEST_DOCUMENT}", "PUT arrays to …/array/NAME"
            )


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:100]!r} is there twice")
    return found


def _reject_constant(name: str) -> Any:
    raise ValueError(f'{name} is no JSON; write {{"float": "{name.lower().replace("infinity", "inf")}"}}')


class NotFoundHandler(BaseHandler):
    """Answers all unknown paths."""

    def prepare(self) -> None:
        """Checks the request, then answers 404."""
        super().prepare()
        raise web.HTTPError(404)


class ClusterHandler(BaseHandler):
    """The cluster behind the gateway."""

    async def get(self) -> None:
        """Sends workers, memory and jobs."""
        ask = self.gateway.cluster.ask
        asked = ask("host", "info"), ask("session", "jobs"), ask("tasks", "last_idle_time")
        info, jobs, idle = await asyncio.gather(*asked)
        told = {name: info[name] for name in ("id", "name", "workers", "memory", "plans")}
        await self.answer(told | {"jobs": jobs, "idle_since": idle})


class FunctionsHandler(BaseHandler):
    """Functions that graphs may call."""

    async def get(self) -> None:
        """Sends names, parameters and summaries."""
        await self.answer(describe_functions())


class MetricsHandler(BaseHandler):
    """Metrics for Prometheus."""

    async def get(self) -> None:
        """Sends the metrics in Prometheus's text format."""
        info, jobs = await asyncio.gather(
            self.gateway.cluster.ask("host", "info"), self.gateway.cluster.ask("session", "jobs")
        )
        self.set_header("Content-Type", METRICS_TYPE)
        self.finish(exposition(info, jobs, self.gateway.counts, len(self.gateway.sessions.known)))


PIECE_TOKENS = 2_000  # tokens, some 2 ms of work


def _plain(value: Any) -> Any:
    """Converts NumPy numbers to JSON."""
    return value.item()


_ENCODER = json.JSONEncoder(allow_nan=False, default=_plain)


async def stream_json(value: Any) -> AsyncIterator[str]:
    """Yields the JSON text of a value piece by piece; the event loop runs after each piece.

    Raises
    ------
    ValueError
        For NaN and infinity, which JSON does not have.

    Examples
    --------
    >>> async def text(value):
    ...     return [piece async for piece in stream_json(value)]
    >>> asyncio.run(text({"chunks": [2, 1]}))
    ['{"chunks": [2, 1]}']
    """
    tokens = _ENCODER.iterencode(value)
    while piece := "".join(islice(tokens, PIECE_TOKENS)):
        yield piece
        await asyncio.sleep(0)


METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METRICS = {  # name: (type, help text)
    "jmars_workers": ("gauge", "Worker processes, by state."),
    "jmars_worker_restarts_total": ("counter", "Worker processes that were replaced."),
    "jmars_worker_operands_total": ("counter", "Operands that workers have finished."),
    "jmars_jobs": ("gauge", "Jobs that the cluster remembers, by state."),
    "jmars_operands": ("gauge", "Operands of the jobs that the cluster remembers, by state."),
    "jmars_memory_limit_bytes": ("gauge", "Memory that all processes of the cluster may take together."),
    "jmars_memory_resident_bytes": ("gauge", "Memory that they take."),
    "jmars_memory_peak_bytes": ("gauge", "The most that they took."),
    "jmars_store_capacity_bytes": ("gauge", "Shared memory for chunks and scratch."),
    "jmars_store_used_bytes": ("gauge", "Shared memory in use."),
    "jmars_chunks": ("gauge", "Chunks in memory or on disk."),
    "jmars_spilled_bytes": ("gauge", "Bytes of chunks that lie on disk."),
    "jmars_spilled_bytes_total": ("counter", "Bytes of chunks that were written to disk."),
    "jmars_reloaded_bytes_total": ("counter", "Bytes of chunks that came back from disk."),
    "jmars_web_sessions": ("gauge", "Sessions of this gateway."),
    "jmars_web_requests_total": ("counter", "Requests that this gateway answered, by method and status."),
    "jmars_web_bytes_total": ("counter", "Bytes of arrays through this gateway, by direction."),
}
Sample = tuple[str, Mapping[str, str], float]


def exposition(
    info: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]], counts: Mapping[tuple[str, ...], int], sessions: int
) -> str:
    """Writes all metrics as text.

    Parameters
    ----------
    info, jobs
        Answers of the host actor's `info` and the session actor's `jobs`.
    counts
        The gateway's counters: ("requests", method, status) and ("bytes", direction).
    sessions
        Number of open sessions.
    """
    lines: list[str] = []
    samples = [*_of_cluster(info, jobs), ("jmars_web_sessions", {}, sessions), *_of_gateway(counts)]
    for name, (kind, help_text) in METRICS.items():
        lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
        for found, labels, value in samples:
            if found == name:
                told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
                lines.append(f"{name}{{{told}}} {value}" if told else f"{name} {value}")
    return "\n".join(lines) + "\n"


def _of_cluster(info: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]]) -> list[Sample]:
    workers, memory = info["workers"], info["memory"]
    operands: Counter[str] = Counter()
    for job in jobs:
        operands.update(job["counts"])
    arena = memory["arena"]
    found: list[Sample] = [
        ("jmars_worker_restarts_total", {}, sum(one["restarts"] for one in workers)),
        ("jmars_worker_operands_total", {}, sum(one["done"] for one in workers)),
        ("jmars_memory_limit_bytes", {}, memory["limit"]),
        ("jmars_memory_resident_bytes", {}, memory["resident"]),
        ("jmars_memory_peak_bytes", {}, memory["peak"]),
        ("jmars_store_capacity_bytes", {}, arena["capacity"]),
        ("jmars_store_used_bytes", {}, arena["used"]),
        ("jmars_chunks", {}, memory["chunks"]),
        ("jmars_spilled_bytes", {}, memory["spilled"]),
        ("jmars_spilled_bytes_total", {}, memory["spilled_total"]),
        ("jmars_reloaded_bytes_total", {}, memory["reloaded_total"]),
    ]
    for name, label, of in (
        ("jmars_workers", "state", Counter(one["state"] for one in workers)),
        ("jmars_jobs", "state", Counter(job["state"] for job in jobs)),
        ("jmars_operands", "state", operands),
    ):
        found += [(name, {label: text}, count) for text, count in sorted(of.items())]
    return found


def _of_gateway(counts: Mapping[tuple[str, ...], int]) -> list[Sample]:
    found: list[Sample] = []
    for key, count in sorted(counts.items()):
        if key[0] == "requests":
            found.append(("jmars_web_requests_total", {"method": key[1], "status": key[2]}, count))
        elif key[0] == "bytes":
            found.append(("jmars_web_bytes_total", {"direction": key[1]}, count))
    return found


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
