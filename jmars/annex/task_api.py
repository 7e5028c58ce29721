"""TaskAPI: jobs as Mars's task service shows them; WebTaskAPI: the same over HTTP, behind `python -m jmars web`.

A task is a job, with the job's id. Answers are plain values; the live view and `Job` tell more.

Over HTTP tensors travel as JSON (jmars/web/operand_document.py) and results as .npy. `WebClient` sends the requests.
Answers are never unpickled, so an answer can run no code here.
Source: docs/explanation/seeds.md, "APIs"; docs/reference/rest.md; Mars `services/task/api/core.py` and `web.py`.
"""

from __future__ import annotations

import builtins
import io
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import numpy as np
from numpy.lib import format as npy_format

from jmars import errors
from jmars.actors.registry import entries
from jmars.client.cluster import Cluster, default_cluster
from jmars.client.job import Job
from jmars.config import config
from jmars.errors import (
    AuthenticationError,
    ClusterLostError,
    JobCancelledError,
    OperandError,
    ProtocolError,
    UnknownTaskError,
    UnsupportedError,
)
from jmars.model.limits import REMEMBERED_JOBS
from jmars.model.status import TERMINAL, JobState
from jmars.switches import with_extra
from jmars.tensor.spawn import Handle
from jmars.tensor.tensor import Tensor
from jmars.web.npy_stream import dtype_of
from jmars.web.operand_document import document_of

if TYPE_CHECKING:
    import http.client

Tileable = Tensor | Handle


class TaskStatus(IntEnum):
    """Where a task stands, numbered as in Mars."""

    pending = 0
    running = 1
    terminated = 2


@dataclass(frozen=True)
class TaskResult:
    """State of a task.

    Attributes
    ----------
    task_id, session_id
        The job, and the cluster.
    status
        Pending, running or terminated; `error` tells whether it ended well.
    start_time, end_time
        Seconds since the epoch; `end_time` is None while it runs.
    progress
        From 0 to 1.
    error
        Why it failed or was cancelled; None otherwise.
    """

    task_id: str
    session_id: str
    status: TaskStatus
    start_time: float
    end_time: float | None
    progress: float
    error: BaseException | None = None


class TaskAPI:
    """The tasks of a cluster.

    Parameters
    ----------
    session_id
        What results are marked with; None for the cluster's id.
    task_manager_ref
        The cluster; None for the default one, which is started where there is none.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> with jmars.Cluster(n_workers=1) as cluster:
    ...     api = jmars.client.TaskAPI(cluster.id, cluster)
    ...     task = api.submit_tileable_graph([mt.ones(10, chunk_size=5).sum()])
    ...     result = api.wait_task(task)
    ...     result.status.name, result.progress, [t.fetch() for t in api.get_fetch_tileables(task)]
    ('terminated', 1.0, [np.float64(10.0)])

    An id that the cluster does not know raises `errors.UnknownTaskError`. The last 50 tasks that ended are known.
    """

    def __init__(self, session_id: str | None = None, task_manager_ref: Cluster | None = None) -> None:
        cluster = task_manager_ref or default_cluster()
        assert cluster is not None
        self._cluster = cluster
        self.session_id = session_id or cluster.id
        self._tasks: dict[str, tuple[Job, list[Tileable]]] = {}  # the graphs submitted here

    def submit_tileable_graph(
        self,
        graph: Tileable | Sequence[Tileable],
        fuse_enabled: bool = True,
        extra_config: Mapping[str, Any] | None = None,
    ) -> str:
        """Start computing the graph of tensors; returns the task's id.

        Parameters
        ----------
        graph
            Its results: one or several tensors, or results of spawned functions.
        fuse_enabled, extra_config
            Switches for this task, over those of `jmars.config`.

        Raises
        ------
        SettingError
            If there is no such switch.
        """
        results = [graph] if isinstance(graph, Tileable) else list(graph)
        with config.using(task=with_extra(config.task, extra_config, fuse_enabled)):
            job = self._cluster.submit(*results)
        ended = [task for task, (one, _) in self._tasks.items() if one.wait(0)]
        for task in ended[:-REMEMBERED_JOBS]:
            del self._tasks[task]
        self._tasks[job.id] = job, results
        return job.id

    def get_task_results(self, progress: bool = False) -> list[TaskResult]:
        """All remembered tasks, oldest first; with `progress` running tasks have theirs, else 0."""
        found = [self._result(one) for one in self._ask("results")]
        if progress:
            return found
        return [one if one.status is TaskStatus.terminated else replace(one, progress=0.0) for one in found]

    def wait_task(self, task_id: str, timeout: float | None = None) -> TaskResult:
        """State of the task when it has ended, or when `timeout` seconds have passed."""
        return self._result(self._ask("wait", task_id, timeout))

    def get_task_result(self, task_id: str) -> TaskResult:
        """How the task stands now."""
        return self._result(self._ask("result", task_id))

    def get_task_progress(self, task_id: str) -> float:
        """Progress from 0 to 1; never falls, and is 1 only when the task has succeeded."""
        return self.get_task_result(task_id).progress

    def cancel_task(self, task_id: str) -> None:
        """Stop a task; no effect on an ended task."""
        self._ask("cancel", task_id)

    def get_fetch_tileables(self, task_id: str) -> list[Any]:
        """Results of a task that was submitted here, in the order of the submission: all with `fetch`."""
        self.get_task_result(task_id)
        if task_id not in self._tasks:
            raise UnknownTaskError(f"{task_id} was not submitted by this TaskAPI; ask the one that did, or the Job")
        return list(self._tasks[task_id][1])

    def get_last_idle_time(self) -> float | None:
        """When the cluster became idle, in seconds since the epoch; None while a task runs."""
        found = self._ask("last_idle_time")
        return None if found is None else float(found)

    def get_tileable_graph_as_json(self, task_id: str) -> dict[str, Any]:
        """Tensor operands and dependencies: `{"tileables": […], "dependencies": […]}`."""
        return dict(self._ask("tileable_graph", task_id))

    def get_tileable_details(self, task_id: str) -> dict[str, Any]:
        """Progress, number of subtasks, status and the user's line of all tileables."""
        return dict(self._ask("tileable_details", task_id))

    def get_tileable_subtasks(self, task_id: str, tileable_id: str, with_input_output: bool = False) -> dict[str, Any]:
        """The operands on chunks of a tileable: `{"subtasks": […], "dependencies": […]}`.

        Parameters
        ----------
        with_input_output
            Whether subtasks of other tileables that these read, or that read these, are told too.
        """
        return dict(self._ask("tileable_subtasks", task_id, tileable_id, with_input_output))

    def _ask(self, method: str, *args: Any) -> Any:
        """The answer of a method of TaskManagerActor, or of "cancel", in plain values."""
        return _plain(self._cluster.ask("session" if method == "cancel" else "tasks", method, *args))

    def _result(self, told: Mapping[str, Any]) -> TaskResult:
        ended, started = told["state"] in TERMINAL, float(told["started"])
        status = TaskStatus.pending if told["state"] == JobState.PREPARING else TaskStatus.running
        return TaskResult(
            told["id"],
            self.session_id,
            TaskStatus.terminated if ended else status,
            started,
            started + float(told["elapsed"] or 0.0) if ended else None,
            float(told["progress"]),
            self._error(told),
        )

    def _error(self, told: Mapping[str, Any]) -> BaseException | None:
        if told["state"] == JobState.CANCELLED:
            return JobCancelledError(f"{told['id']} was cancelled; run it again for its result")
        return None if told["error"] is None else told["error"].exception()


def _plain(value: Any) -> Any:
    """Lists where messages have tuples, as JSON has them."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else value


WAIT = 30.0  # seconds of a request that waits


class WebResult:
    """A result of a task behind a gateway.

    Attributes
    ----------
    shape, dtype
        Of the array; `shape` is None until the run has told it.
    """

    def __init__(self, client: WebClient, path: str, told: Mapping[str, Any]) -> None:
        self._client, self._path = client, path
        self.shape = None if told["shape"] is None else tuple(told["shape"])
        self.dtype = dtype_of(told["dtype"])

    def fetch(self) -> Any:
        """The whole array; a NumPy scalar without axes, as `Tensor.fetch`."""
        value = self._client.fetch(self._path)
        return value if value.shape else value[()]

    def __getitem__(self, index: Any) -> np.ndarray[Any, Any]:
        """A part: ints and slices with steps of 1 or more; reads only chunks of the part."""
        parts = index if isinstance(index, tuple) else (index,)
        return self._client.fetch(self._path, {"slice": ",".join(map(_part, parts))})

    def __repr__(self) -> str:
        return f"<WebResult shape={self.shape} dtype={self.dtype}>"


class WebTaskAPI(TaskAPI):
    """The tasks of a session of a gateway.

    Parameters
    ----------
    session_id
        A session that the gateway has, to share it; None opens a new one, which `close` ends. Of the tasks that were
        submitted here and have ended, the last 50 keep their results.
    address
        "http://127.0.0.1:PORT", as `python -m jmars web` prints.
    request_rewriter
        Called with each request, a dict with method, path and headers; what it returns is sent.
    token
        The gateway's token, or the path of the header file that `python -m jmars web` prints. None for a gateway of
        this user on this machine: its file is found by the address.

    Raises
    ------
    AuthenticationError
        If no token is given, and the address is not that of a gateway of this user on this machine.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> with jmars.Cluster(n_workers=1) as cluster, cluster.serve() as gateway:
    ...     with jmars.client.WebTaskAPI(None, gateway.url) as api:
    ...         task = api.submit_tileable_graph([mt.ones(10, chunk_size=5).sum()])
    ...         result = api.wait_task(task)
    ...         result.status.name, result.progress, [t.fetch() for t in api.get_fetch_tileables(task)]
    ('terminated', 1.0, [np.float64(10.0)])
    """

    def __init__(
        self,
        session_id: str | None,
        address: str,
        request_rewriter: Rewriter | None = None,
        *,
        token: str | Path | None = None,
    ) -> None:
        self._client = WebClient(address, token, request_rewriter)
        self._own = session_id is None
        self.session_id: str = session_id or self._client.ask("POST", "/api/session")["id"]
        self._uploads = 0
        self._submitted: list[str] = []  # here, the oldest first

    def submit_tileable_graph(
        self,
        graph: Tileable | Sequence[Tileable],
        fuse_enabled: bool = True,
        extra_config: Mapping[str, Any] | None = None,
    ) -> str:
        """Start computing the graph of tensors; returns the task's id.

        NumPy arrays in the graph are sent with their present value.

        Raises
        ------
        UnsupportedError
            If the graph holds a function of the user's or a file, and the gateway takes no functions; it is named.
        """
        given = [graph] if isinstance(graph, Tileable) else list(graph)
        for one in given:
            if not isinstance(one, Tensor):
                raise UnsupportedError(
                    f"a {type(one).__name__} does not travel as JSON; submit tensors, or use TaskAPI"
                )
        sent: dict[int, str] = {}

        def upload(array: np.ndarray[Any, Any]) -> str:
            if id(array) not in sent:
                self._uploads += 1
                name = sent[id(array)] = f"a{time.time_ns():x}-{self._uploads}"
                self._client.send(self._path("array", name), array)
            return sent[id(array)]

        try:
            document = document_of({f"r{number}": one.data for number, one in enumerate(given)}, upload, True)
            document["settings"] = with_extra(config.task, extra_config, fuse_enabled)
            document["consumes"] = list(sent.values())
            task = str(self._client.ask("POST", self._path("graph"), None, document)["id"])
        except BaseException:
            for name in sent.values():
                self._client.ask("DELETE", self._path("array", name))
            raise
        self._submitted.append(task)
        while len(self._submitted) > REMEMBERED_JOBS and self._let_go(self._submitted[0]):
            del self._submitted[0]
        return task

    def wait_task(self, task_id: str, timeout: float | None = None) -> TaskResult:
        """State of the task when it has ended, or when `timeout` seconds have passed."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            found = self._result(self._ask("wait", task_id, WAIT if end is None else min(WAIT, end - time.monotonic())))
            if found.status is TaskStatus.terminated or (end is not None and time.monotonic() >= end):
                return found

    def get_fetch_tileables(self, task_id: str) -> list[WebResult]:
        """Results of a task, in the order of the submission."""
        told = self._client.ask("GET", self._path("graph", task_id))["results"]
        return [
            WebResult(self._client, self._path("graph", task_id, "result", name), one) for name, one in told.items()
        ]

    def close(self) -> None:
        """End a session that was opened here: cancel the tasks and release the results."""
        if self._own:
            self._own = False
            self._client.ask("DELETE", self._path())

    def __enter__(self) -> WebTaskAPI:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _let_go(self, task: str) -> bool:
        """Release the results of an ended task; returns whether the task has ended."""
        told = self._client.ask("GET", self._path("graph", task))
        if told["state"] not in TERMINAL:
            return False
        for name in told["results"]:
            self._client.ask("DELETE", self._path("graph", task, "result", name))
        return True

    def _path(self, *parts: str) -> str:
        return f"/api/session{quoted(self.session_id, *parts)}"

    def _ask(self, method: str, *args: Any) -> Any:
        """The gateway's answer to a method of TaskManagerActor."""
        if method == "last_idle_time":
            return self._client.ask("GET", "/api/cluster")["idle_since"]
        path, verb, query = self._path("graph", *args[:1]), "DELETE" if method == "cancel" else "GET", {}
        if method == "wait":
            query = {"wait": max(0.0, args[1])}
        elif method == "tileable_subtasks":
            path, query = f"{path}/detail/subtasks", {"tileable": args[1], "io": int(args[2])}
        elif method in ("tileable_graph", "tileable_details"):
            path = f"{path}/detail/{method}"
        return self._client.ask(verb, path, query)

    def _error(self, told: Mapping[str, Any]) -> BaseException | None:
        error = told["error"]
        return None if error is None else exception_of(error["error"], error["message"], error["line"])


def _part(index: Any) -> str:
    if isinstance(index, slice):
        return ":".join("" if one is None else str(int(one)) for one in (index.start, index.stop, index.step))
    return str(int(index))


REPLY_SECONDS = 120.0  # that an answer may take to begin
_LONGEST = 16 * 2**20  # bytes of a JSON answer
_PART = 2**20
_NPY = "application/x-npy"
GATEWAY_FILE = "web.json"  # in a cluster's private folder: {url, header, pid} of its gateway
Request = dict[str, Any]  # method, path, headers
Rewriter = Callable[[Request], Request]


class WebClient:
    """A gateway; any thread may ask, since every request opens a connection.

    Parameters
    ----------
    address
        "http://127.0.0.1:PORT".
    token
        The gateway's token, or the path of its header file.
    request_rewriter
        Called with each request, {"method", "path", "headers"}; what it returns is sent.
    """

    def __init__(self, address: str, token: str | Path | None, request_rewriter: Rewriter | None = None) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{address!r} is no address; give http://127.0.0.1:PORT, as `python -m jmars web` prints")
        self.address = f"{parts.scheme}://{parts.netloc}"
        self._secure, self._netloc = parts.scheme == "https", parts.netloc
        token = _own_header(self.address) if token is None else token
        text = Path(token).read_text() if isinstance(token, Path) or "/" in token else token
        self._token = text.strip().removeprefix("Authorization: Bearer ")
        self._rewriter = request_rewriter

    def __repr__(self) -> str:
        return f"<WebClient {self.address}>"

    def ask(self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        """The JSON answer; None for an empty answer.

        Raises
        ------
        JmarsError or a builtin exception
            What the gateway says is wrong, by its name.
        """
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        with self._answer(method, path, query, data, "application/json") as answer:
            text = answer.read(_LONGEST + 1)
            if len(text) > _LONGEST:
                raise ProtocolError(f"an answer of more than {_LONGEST} bytes; {self.address} may be no jmars")
            return _json(text) if text else None

    def fetch(self, path: str, query: Mapping[str, Any] | None = None) -> np.ndarray[Any, Any]:
        """An array that the gateway sends as .npy."""
        with self._answer("GET", path, query) as answer:
            try:
                return npy_format.read_array(answer, allow_pickle=False)
            except (ValueError, EOFError) as error:
                raise ProtocolError(f"what came is no whole .npy array ({error}); ask again") from error

    def send(self, path: str, array: np.ndarray[Any, Any]) -> Any:
        """Send an array as .npy, part by part; returns the JSON answer."""
        head = io.BytesIO()
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        npy_format.write_array_header_1_0(
            head, {"descr": npy_format.dtype_to_descr(array.dtype), "fortran_order": order == "F", "shape": array.shape}
        )
        size = len(head.getvalue()) + array.nbytes
        with self._answer("PUT", path, None, _pieces(head.getvalue(), array, order), _NPY, size) as answer:
            return _json(answer.read(_LONGEST))

    @contextmanager
    def _answer(
        self, method: str, path: str, query: Mapping[str, Any] | None, data: Any = None, kind: str = "", size: int = -1
    ) -> Iterator[http.client.HTTPResponse]:
        """A successful answer; raises the error of a refusal."""
        headers = {"Authorization": f"Bearer {self._token}"}
        if data is not None:
            headers["Content-Type"] = kind
        if size >= 0:
            headers["Content-Length"] = str(size)
        request: Request = {
            "method": method,
            "path": path + (f"?{urlencode(query)}" if query else ""),
            "headers": headers,
        }
        if self._rewriter is not None:
            request = self._rewriter(request)
        import http.client  # 20 ms, which who has no gateway need not wait

        make = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        with closing(make(self._netloc, timeout=REPLY_SECONDS)) as connection:
            try:
                with suppress(
                    BrokenPipeError, ConnectionResetError
                ):  # refused before all was sent: the answer says why
                    connection.request(request["method"], request["path"], data, request["headers"])
                answer = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                raise ClusterLostError(
                    f"the gateway at {self.address} does not answer ({error}); is it open? "
                    "`python -m jmars web` opens one"
                ) from error
            if answer.status >= 300:
                raise _told(answer.status, answer.read(_LONGEST))
            yield answer


def _own_header(address: str) -> Path:
    """The header file of the gateway that this user opened at an address.

    A gateway writes both into the private folder of its cluster, whose registry file is trusted only where no other
    user can write it.
    """
    for entry in entries():
        with suppress(OSError, ValueError, KeyError, TypeError):  # no gateway, or one that ends
            told = json.loads((Path(entry.folder) / GATEWAY_FILE).read_text()) if entry.folder else {}
            if told["url"] == address:
                os.kill(told["pid"], 0)  # raises OSError: a killed gateway leaves its files
                return Path(told["header"])
    raise AuthenticationError(
        f"no gateway of yours on this machine listens at {address}; give token=, the path of the header file that "
        "`python -m jmars web` prints there as its second line, or the token in that file"
    )


def _pieces(head: bytes, array: np.ndarray[Any, Any], order: str) -> Iterator[bytes]:
    yield head
    if array.nbytes:
        rows = array.T if order == "F" else array
        rows = rows.reshape(1) if not rows.shape else rows
        step = max(1, _PART * len(rows) // rows.nbytes)
        for start in range(0, len(rows), step):
            yield np.ascontiguousarray(rows[start : start + step]).tobytes()


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"what came is no JSON ({error}); what answers may be no jmars") from error


def _told(status: int, body: bytes) -> Exception:
    """The exception of a refusal, of a class of jmars or Python."""
    try:
        told = json.loads(body)
        name, message, hint = (str(told[key]) for key in ("error", "message", "hint"))
        line = told["line"]
    except (ValueError, KeyError, TypeError):
        return ProtocolError(f"status {status} and no reason; what answers may be no jmars")
    return exception_of(name, f"{message}; {hint}" if hint else message, line, status)


def exception_of(name: str, text: str, line: Any, status: int = 0) -> Exception:
    """An exception of jmars or Python by name; OperandError for other names."""
    if status in (401, 403):
        return AuthenticationError(text)
    home = errors if name in errors.__all__ else np.linalg if name == "LinAlgError" else builtins
    found: Any = getattr(home, name, None)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        found, text = OperandError, f"{name}: {text}"
    try:
        error: Exception = found(text)
    except TypeError:  # a builtin that wants more than a text, as UnicodeDecodeError
        error = OperandError(f"{name}: {text}")
    if isinstance(line, Mapping):
        error.add_note(f"in {line.get('file')}, line {line.get('line')}: {line.get('text')}")
    return error


def quoted(*parts: str) -> str:
    """A path of the parts."""
    return "".join("/" + quote(part, safe="") for part in parts)
