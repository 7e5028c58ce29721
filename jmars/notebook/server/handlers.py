"""REST and websocket handlers of the side bar, behind Jupyter's own login.

`GET` and `POST <base>/jmars/clusters` list and start clusters, `POST …/clusters/<id>/scale` scales and `DELETE
…/clusters/<id>` stops one, `POST …/clusters/<id>/jobs/<job>/cancel` cancels, `GET …/jobs/<job>/report` reports and
`GET …/jobs/<job>/replay` gives the run as a file for `jmars.replay`; `POST <base>/jmars/replay` takes such a file and
gives replay data; websocket `<base>/jmars/stream/<id>`.
Jupyter's handlers check token, XSRF, Host and Origin; the websocket checks user and origin before the upgrade.
Source: docs/explanation/reliability.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web, websocket

from jmars.actors.registry import Entry
from jmars.deploy.memory import usable_cores
from jmars.errors import ClusterStartError, JmarsError
from jmars.notebook.server.discovery import ANSWER, ClusterFinder
from jmars.notebook.server.history import ClusterHistory
from jmars.notebook.server.kernels import KernelRow, kernel_rows
from jmars.notebook.server.orders import OrderError, StartOrder, scale_order
from jmars.notebook.server.run_file import replay_of
from jmars.notebook.server.started import StartedClusters
from jmars.notebook.server.stream import AT_ONCE, JobStream, Reader, job_row
from jmars.notebook.view import plain_text
from jmars.reports.page import report_page
from jmars.reports.run_record import RunRecord
from jmars.reports.saved_run import save_run
from jmars.units import format_bytes

__all__ = ["FINDER", "STARTED", "routes"]

RESOURCE = "jmars"  # name of the resource for Jupyter's authorizer
FINDER = "jmars_finder"  # key of the finder in the web application's settings
STARTED = "jmars_started"  # key of the clusters that pages started
_ID = r"([\w.-]{1,100})"
_LARGEST_RUN = 32 * 2**20  # bytes of a file of a run that a page opens
_SCALE = 120.0  # seconds for hosts that come or go
_FAST, _SLOW = 0.25, 1.0  # seconds between frames while the job runs, and after
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
            with suppress(JmarsError, OSError, KeyError):  # one that does not answer is ended by force
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
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run"
            try:
                await asyncio.to_thread(save_run, path, events, job, name)
            except JmarsError as error:  # too large for a file
                raise web.HTTPError(409, plain_text(error, 2000)) from error
            packed = path.read_bytes()
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
    while (part := await ask(handler, cluster, "events", "read", since, job))[1] > since:
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
    _history: int | None = None  # number of the event up to which the page has the time line; None: it wants none

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
            events, upto = await finder.ask(cluster, "events", "read", since, job)
            return events, upto

        self._stream = stream = JobStream(read)
        try:
            while True:
                frame = await stream.frame(await finder.ask(cluster, "cluster", "jobs"), time.time())
                if self._history is not None:
                    frame = (frame or {}) | await self._time_line(finder.histories[cluster], read)
                if frame:
                    await self.write_message(json.dumps(frame))  # waits for a slow browser, which then misses frames
                await asyncio.sleep(_FAST if stream.live else _SLOW)
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
