"""REST and websocket handlers of the side bar, behind Jupyter's own login, and the extension that adds them.

`GET` and `POST <base>/jmars/clusters` list and start clusters, `POST …/clusters/<id>/scale` scales and `DELETE
…/clusters/<id>` stops one, `POST …/clusters/<id>/jobs/<job>/cancel` cancels, `GET …/jobs/<job>/report` reports and
`GET …/jobs/<job>/replay` gives the run as a file for `jmars.replay`; `POST <base>/jmars/replay` takes such a file and
gives replay data; websocket `<base>/jmars/stream/<id>`.
Jupyter's handlers check token, XSRF, Host and Origin; the websocket checks user and origin before the upgrade.

`JobStream` builds the frames that a side bar gets about a cluster: the list of jobs, and the picture of a selected job.
Frames hold whole traits, so the next frame makes up for a frame that a slow browser missed. Notebooks and kernels that
are connected to a cluster are known by the ids of their processes. The extension class is found through
`jmars.notebook.server._jupyter_server_extension_points`, and closes the connections.
Source: docs/explanation/reliability.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypedDict

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from jupyter_server.extension.application import ExtensionApp
from tornado import web, websocket

from jmars.actors.registry import Entry
from jmars.deploy.memory import usable_cores
from jmars.errors import ClusterLostError, ClusterStartError, JmarsError
from jmars.model.status import TERMINAL
from jmars.notebook.run_state import RunState
from jmars.notebook.sampler import FrameBuilder
from jmars.notebook.server.discovery import ANSWER, ClusterFinder, ClusterHistory
from jmars.notebook.server.orders import OrderError, StartedClusters, StartOrder, scale_order
from jmars.notebook.server.run_file import replay_of
from jmars.notebook.view import as_json, plain_text
from jmars.reports.figures import report_page
from jmars.reports.run_record import RunRecord
from jmars.reports.saved_run import packed_run
from jmars.units import format_bytes

RESOURCE = "jmars"  # name of the resource for Jupyter's authorizer
FINDER = "jmars_finder"  # key of the finder in the web application's settings
STARTED = "jmars_started"  # key of the clusters that pages started
_ID = r"([\w.-]{1,100})"
_LARGEST_RUN = 32 * 2**20  # bytes of a file of a run that a page opens
_SCALE = 120.0  # seconds for hosts that come or go
_LIVE_SECONDS, _IDLE_SECONDS = 0.25, 1.0  # seconds between frames while the job runs, and after
_NO_CLUSTER = 4404  # websocket close code: do not try again


class ClustersHandler(APIHandler):
    """The clusters of this user."""

    auth_resource = RESOURCE

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Lists the clusters, also those that do not answer."""
        finder, started = self.settings[FINDER], self.settings[STARTED]
        entries = finder.entries()
        await started.forget({entry.id for entry in entries})
        kernels = await kernel_rows(self.kernel_manager, self.session_manager) if entries else {}
        self.finish(json.dumps(await asyncio.gather(*(self._row(entry, kernels) for entry in entries))))

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Starts a cluster, which ends with the Jupyter server; answers with its id and name."""
        started: StartedClusters = self.settings[STARTED]
        try:
            order = StartOrder.read(self.get_json_body())
            folder = os.path.expanduser(self.settings.get("server_root_dir") or ".")  # "~/work" below the home folder
            told = await started.start(order, folder)
        except OrderError as error:
            raise web.HTTPError(400, plain_text(error)) from None
        except ClusterStartError as error:
            raise web.HTTPError(409, plain_text(error, 2000, keep="\n")) from None
        self.set_status(201)
        self.finish(json.dumps(told))

    async def _row(self, entry: Entry, kernels: dict[int, KernelRow]) -> dict[str, Any]:
        finder: ClusterFinder = self.settings[FINDER]
        started: StartedClusters = self.settings[STARTED]
        row = {"id": entry.id, "name": plain_text(entry.name), "alive": False, "workers": 0, "hosts": 0, "jobs": []}
        here: list[KernelRow] = []
        row |= {"kind": entry.engine or "local", "limit": 0, "bounds": None, "kernels": here, "others": 0}
        row |= {"cores": usable_cores()}  # of this machine
        try:
            summary = await finder.ask(entry.id, "cluster", "summary")
            jobs = await finder.ask(entry.id, "cluster", "jobs")
        except (JmarsError, OSError, KeyError) as error:
            return row | {"error": plain_text(error)}
        counts = {name: int(summary.get(name, 0)) for name in ("workers", "hosts", "limit")}
        clients = [pid for pid in summary.get("processes", ()) if pid not in {os.getpid(), *started.holders}]
        here += [kernels[pid] for pid in clients if pid in kernels]
        rows = []
        for job in jobs:
            kernel = kernels.get(job.get("process", 0))
            rows.append(job_row(job) | {"kernel": kernel["id"] if kernel else ""})
        row |= {"alive": True, **counts, "bounds": summary.get("adapt"), "jobs": rows}
        return row | {"others": len(clients) - len(here)}


class StopHandler(APIHandler):
    """A cluster: its end."""

    auth_resource = RESOURCE

    @web.authenticated
    @authorized
    async def delete(self, cluster: str) -> None:
        """Stops the cluster for all its clients."""
        started: StartedClusters = self.settings[STARTED]
        stop = self.settings[FINDER].stop(cluster, "from the side bar of Jupyter")
        if cluster in started:
            with suppress(JmarsError, OSError, KeyError):  # a cluster that does not answer is ended by force
                await stop
            await started.stop(cluster)
        else:
            await answered(cluster, stop)
        self.set_status(204)
        self.finish()


class ScaleHandler(APIHandler):
    """The number of workers or hosts of a cluster."""

    auth_resource = RESOURCE

    @web.authenticated
    @authorized
    async def post(self, cluster: str) -> None:
        """Scales to {"n": number, or places of further hosts}, or lets the number follow the work from "least" to
        "most"; answers when the hosts have come or gone."""
        try:
            call = scale_order(self.get_json_body())
        except OrderError as error:
            raise web.HTTPError(400, plain_text(error)) from None
        await ask(self, cluster, "host", *call, seconds=_SCALE)
        self.set_status(202)
        self.finish(json.dumps({"cluster": cluster}))


class CancelHandler(APIHandler):
    """Cancellation of a job."""

    auth_resource = RESOURCE

    @web.authenticated
    @authorized
    async def post(self, cluster: str, job: str) -> None:
        """Requests cancellation; the stream shows when the job has ended."""
        await ask(self, cluster, "cluster", "cancel", job)
        self.set_status(202)
        self.finish(json.dumps({"cluster": cluster, "job": job}))


class JobReportHandler(JupyterHandler):
    """The report of a job, a page that needs nothing else."""

    auth_resource = RESOURCE

    @web.authenticated
    @authorized
    async def get(self, cluster: str, job: str) -> None:
        """Makes the report of what the cluster still has of the job, also while the job runs."""
        name, events = await recorded(self, cluster, job)
        title = f"jmars: {plain_text(name or job)}"
        try:
            page = await asyncio.to_thread(lambda: report_page(RunRecord.of(events, [job]), title))
        except JmarsError as error:  # no Bokeh
            raise web.HTTPError(409, plain_text(error, 2000)) from error
        self.set_header("Content-Type", "text/html; charset=UTF-8")
        # the page's scripts run without Jupyter's origin: they reach no cookie and no API
        policy = f"{self.content_security_policy}; sandbox allow-scripts allow-downloads"
        self.set_header("Content-Security-Policy", policy)
        self.finish(page)


class JobReplayHandler(APIHandler):
    """The run of a job as a file for `jmars.replay`."""

    auth_resource = RESOURCE

    @web.authenticated
    @authorized
    async def get(self, cluster: str, job: str) -> None:
        """Packs the events of the job, as `Job.save` does."""
        name, events = await recorded(self, cluster, job)
        try:
            packed = await asyncio.to_thread(packed_run, events, job, name)
        except JmarsError as error:  # too large for a file
            raise web.HTTPError(409, plain_text(error, 2000)) from error
        self.set_header("Content-Type", "application/octet-stream")
        self.finish(packed)


class ReplayHandler(APIHandler):
    """Replay data of a saved run, for a page that opens a file."""

    auth_resource = RESOURCE

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Reads the body: the bytes of a file of `Job.save`."""
        if len(self.request.body) > _LARGEST_RUN:
            raise web.HTTPError(413, f"a run of more than {format_bytes(_LARGEST_RUN)} is opened by jmars.replay alone")
        try:
            data = await replay_of(self.request.body)
        except JmarsError as error:
            raise web.HTTPError(409, plain_text(error, 2000)) from error
        self.finish({"runs": [data]})


async def recorded(handler: JupyterHandler, cluster: str, job: str) -> tuple[str, list[Any]]:
    """The name of a job, and its events as far as the cluster has kept them."""
    names = {row["id"]: row.get("name") for row in await ask(handler, cluster, "cluster", "jobs")}
    if job not in names:
        raise web.HTTPError(404, f"no job {job} is known")
    events, since = [], 0
    while (part := await ask(handler, cluster, "session", "read", since, job))[1] > since:
        found, since = part
        events += found
    return str(names[job] or ""), events


async def ask(handler: JupyterHandler, cluster: str, *call: Any, seconds: float = ANSWER) -> Any:
    """Calls an actor of a cluster; errors as for `answered`."""
    finder: ClusterFinder = handler.settings[FINDER]
    return await answered(cluster, finder.ask(cluster, *call, seconds=seconds))


async def answered(cluster: str, call: Awaitable[Any]) -> Any:
    """The answer of a cluster; errors become answers to the page: 404 for no such cluster, 409 for a refusal."""
    try:
        return await call
    except KeyError:
        raise web.HTTPError(404, f"no cluster {cluster} is registered") from None
    except (JmarsError, OSError, ValueError) as error:
        raise web.HTTPError(409, plain_text(error, 2000)) from error


class StreamHandler(WebSocketMixin, websocket.WebSocketHandler, JupyterHandler):
    """Sends frames about a cluster to a side bar; a slow browser misses frames and gets the newest."""

    _task: asyncio.Task[None] | None = None
    _stream: JobStream
    _history: int | None = None  # number of the newest event in the page's time line; None: no time line is shown

    async def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Refuses users without login and requests from other sites, before the upgrade."""
        await ensure_async(super().prepare(*args, **kwargs))
        if not self.current_user or not self.check_origin():
            raise web.HTTPError(403)
        if not await ensure_async(self.authorizer.is_authorized(self, self.current_user, "read", RESOURCE)):
            raise web.HTTPError(403)

    def set_default_headers(self) -> None:
        """Sets no headers: a socket needs none."""

    def open(self, cluster: str, *args: str, **kwargs: str) -> None:
        """Starts sending frames."""
        super().open(cluster, *args, **kwargs)
        self._task = asyncio.ensure_future(self._send_frames(cluster))

    def on_message(self, message: str | bytes) -> None:
        """Selects a job to show, {"job": id}, "" for the newest; or the time line of all jobs, {"history": true}."""
        try:
            wanted = json.loads(message)
            if wanted.get("history"):
                self._history = -1
            else:
                self._stream.selected = str(wanted["job"])
        except (ValueError, KeyError, TypeError, AttributeError):
            self.close(1003, "no such request")

    def on_close(self) -> None:
        """Stops sending frames."""
        super().on_close()
        if self._task is not None:
            self._task.cancel()

    async def _send_frames(self, cluster: str) -> None:
        finder: ClusterFinder = self.settings[FINDER]

        async def read(since: int, job: str) -> tuple[list[Any], int]:
            events, upto = await finder.ask(cluster, "session", "read", since, job)
            return events, upto

        self._stream = stream = JobStream(read)
        try:
            while True:
                frame = await stream.frame(await finder.ask(cluster, "cluster", "jobs"), time.time())
                if self._history is not None:
                    frame = (frame or {}) | await self._time_line(finder.histories[cluster], read)
                if frame:
                    await self.write_message(json.dumps(frame))  # waits for a slow browser, which then misses frames
                await asyncio.sleep(_LIVE_SECONDS if stream.live else _IDLE_SECONDS)
        except (KeyError, JmarsError, OSError) as error:
            end = finder.end_of(cluster)
            if end is None:
                self.close(1011, plain_text(error, 100))
                return
            last = stream.lose(end, time.time())
            with suppress(websocket.WebSocketClosedError):
                if last is not None:
                    await self.write_message(json.dumps(last))
            self.close(_NO_CLUSTER, "no such cluster")
        except websocket.WebSocketClosedError:
            pass

    async def _time_line(self, history: ClusterHistory, read: Reader) -> dict[str, Any]:
        """New pieces of the time line, for a frame."""
        for _ in range(AT_ONCE):
            before = history.since
            events, upto = await read(before, "")
            if history.since == before:  # no other page has folded them meanwhile
                history.fold(events, upto)
            if upto <= before:
                break
        if self._history == history.since:
            return {}
        self._history = history.since
        return {"history": history.part()}


def routes() -> list[tuple[str, type[web.RequestHandler]]]:
    """Paths below the base URL with their handlers."""
    return [
        (r"/jmars/clusters", ClustersHandler),
        (rf"/jmars/clusters/{_ID}/jobs/{_ID}/cancel", CancelHandler),
        (rf"/jmars/clusters/{_ID}/jobs/{_ID}/report", JobReportHandler),
        (rf"/jmars/clusters/{_ID}/jobs/{_ID}/replay", JobReplayHandler),
        (r"/jmars/replay", ReplayHandler),
        (rf"/jmars/clusters/{_ID}", StopHandler),
        (rf"/jmars/clusters/{_ID}/scale", ScaleHandler),
        (rf"/jmars/stream/{_ID}", StreamHandler),
    ]


class KernelRow(TypedDict):
    """A kernel in lists of the side bar."""

    id: str
    pid: int
    name: str  # of the kernel, "python3"
    path: str  # of its notebook or console; "" for none
    busy: bool


async def kernel_rows(kernel_manager: Any, session_manager: Any) -> dict[int, KernelRow]:
    """The running kernels by the ids of their processes; kernels of other machines have none here."""
    paths = {}
    for session in await ensure_async(session_manager.list_sessions()):
        paths[session["kernel"]["id"]] = session.get("path") or session.get("name") or ""
    found: dict[int, KernelRow] = {}
    for kernel in kernel_manager.list_kernel_ids():
        manager = kernel_manager.get_kernel(kernel)
        pid = getattr(manager.provisioner, "pid", None)
        if pid:
            found[pid] = KernelRow(
                id=kernel,
                pid=pid,
                name=plain_text(manager.kernel_name),
                path=plain_text(paths.get(kernel, "")),
                busy=getattr(manager, "execution_state", "") == "busy",
            )
    return found


Reader = Callable[[int, str], Awaitable[tuple[Sequence[Any], int]]]  # events after a number, of a job or of all jobs
AT_ONCE = 20  # reads of the log per frame, so that a long log does not block the server


def job_row(job: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the side bar's list of jobs."""
    return {
        "id": str(job.get("id", "")),
        "name": plain_text(job.get("name") or ""),
        "line": int(job.get("line") or 0),
        "state": str(job.get("state", "")),
        "elapsed": round(float(job.get("elapsed") or 0.0), 1),
        "progress": round(float(job.get("progress") or 0.0), 3),
    }


@dataclass
class JobStream:
    """Follows the newest job of a cluster, or the job that the user selected.

    Parameters
    ----------
    read
        Returns events after a number, of a job and of the cluster, and the number to read on from.
    """

    read: Reader
    selected: str = ""  # "": the newest
    run: RunState = field(default_factory=RunState)
    frames: FrameBuilder = field(default_factory=FrameBuilder)
    listed: list[dict[str, Any]] | None = None  # jobs as sent
    since: int = 0

    async def frame(self, jobs: Sequence[Mapping[str, Any]], now: float) -> dict[str, Any] | None:
        """The next frame for a cluster with these jobs (oldest first), or None if there is no news."""
        rows = [job_row(job) for job in jobs]
        known = {row["id"] for row in rows}
        job = self.selected if self.selected in known else rows[-1]["id"] if rows else ""
        frame: dict[str, Any] = {}
        if job != (self.run.job.id if self.run.job else ""):
            self._follow(job)
            frame["job"] = job
        if rows != self.listed or frame:
            frame |= {"jobs": rows, "job": job}
            self.listed = rows
        if job:
            await self._fold(job)
            frame |= self._picture(now)
        return frame or None

    def lose(self, error: ClusterLostError, now: float) -> dict[str, Any] | None:
        """The last frame after the end of the cluster, or None if there is no news."""
        self.run.lose(error, now)
        return self._picture(now, last=True) or None

    def _picture(self, now: float, last: bool = False) -> dict[str, Any]:
        changed = self.frames.frame(self.run, now, last) if self.run.job is not None else None
        return {"picture": as_json(changed)} if changed else {}

    @property
    def live(self) -> bool:
        """Whether the shown job has not ended, so that frames should come fast."""
        return self.run.job is not None and self.run.job.state not in TERMINAL

    def _follow(self, job: str) -> None:
        self.run, self.frames, self.since = RunState(), FrameBuilder(), 0
        if job:
            self.run.follow(job)

    async def _fold(self, job: str) -> None:
        for _ in range(AT_ONCE):
            events, upto = await self.read(self.since, job)
            self.run.fold(events)
            if upto <= self.since:
                return
            self.since = upto


class JmarsExtension(ExtensionApp):
    """Serves clusters and jobs of jmars to the side bar."""

    name = "jmars"
    extension_url = "/jmars/clusters"

    def initialize_settings(self) -> None:
        """Makes the finder, whose connections all pages share, and the holder of clusters that pages start."""
        self.settings[FINDER] = ClusterFinder()
        self.settings[STARTED] = StartedClusters()

    def initialize_handlers(self) -> None:
        """Adds the handlers; Jupyter puts the base URL before their paths."""
        self.handlers.extend(routes())

    async def stop_extension(self) -> None:
        """Ends the clusters that pages started, and closes the connections."""
        await self.settings[STARTED].close()
        self.settings[FINDER].close()
