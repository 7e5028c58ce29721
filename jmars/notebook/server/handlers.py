"""REST and websocket handlers of the side bar, behind Jupyter's own login.

`GET <base>/jmars/clusters`, `POST <base>/jmars/clusters/<id>/jobs/<job>/cancel`, websocket `<base>/jmars/stream/<id>`.
Jupyter's handlers check token, XSRF, Host and Origin; the websocket checks user and origin before the upgrade.
Source: docs/explanation/reliability.md.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web, websocket

from jmars.actors.registry import Entry
from jmars.errors import JmarsError
from jmars.notebook.server.discovery import ClusterFinder
from jmars.notebook.server.stream import JobStream, job_row
from jmars.notebook.view import plain_text

__all__ = ["FINDER", "routes"]

RESOURCE = "jmars"  # name of the resource for Jupyter's authorizer
FINDER = "jmars_finder"  # key of the finder in the web application's settings
_ID = r"([\w.-]{1,100})"
_FAST, _SLOW = 0.25, 1.0  # seconds between frames while the job runs, and after
_NO_CLUSTER = 4404  # websocket close code: do not try again


class ClustersHandler(APIHandler):
    """The clusters of this user."""

    auth_resource = RESOURCE

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Lists the clusters, also those that do not answer."""
        finder: ClusterFinder = self.settings[FINDER]
        rows = await asyncio.gather(*(self._row(finder, entry) for entry in finder.entries()))
        self.finish(json.dumps(rows))

    async def _row(self, finder: ClusterFinder, entry: Entry) -> dict[str, Any]:
        row = {"id": entry.id, "name": plain_text(entry.name), "alive": False, "workers": 0, "hosts": 0, "jobs": []}
        try:
            summary = await finder.ask(entry.id, "cluster", "summary")
            jobs = await finder.ask(entry.id, "cluster", "jobs")
        except (JmarsError, OSError, KeyError) as error:
            return row | {"error": plain_text(error)}
        counts = {name: int(summary.get(name, 0)) for name in ("workers", "hosts")}
        return row | {"alive": True, **counts, "jobs": [job_row(job) for job in jobs]}


class CancelHandler(APIHandler):
    """Cancellation of a job."""

    auth_resource = RESOURCE

    @web.authenticated
    @authorized
    async def post(self, cluster: str, job: str) -> None:
        """Requests cancellation; the stream shows when the job has ended."""
        finder: ClusterFinder = self.settings[FINDER]
        try:
            await finder.ask(cluster, "cluster", "cancel", job)
        except KeyError:
            raise web.HTTPError(404, f"no cluster {cluster} is registered") from None
        except (JmarsError, OSError) as error:
            raise web.HTTPError(409, plain_text(error)) from error
        self.set_status(202)
        self.finish(json.dumps({"cluster": cluster, "job": job}))


class StreamHandler(WebSocketMixin, websocket.WebSocketHandler, JupyterHandler):
    """Sends frames about a cluster to a side bar; a slow browser misses frames and gets the newest."""

    _task: asyncio.Task[None] | None = None
    _stream: JobStream

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
        """Selects a job to show, {"job": id}; "" selects the newest."""
        try:
            self._stream.selected = str(json.loads(message)["job"])
        except (ValueError, KeyError, TypeError):
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
                if frame is not None:
                    await self.write_message(json.dumps(frame))  # waits for a slow browser, which then misses frames
                await asyncio.sleep(_FAST if stream.live else _SLOW)
        except KeyError:
            self.close(_NO_CLUSTER, "no such cluster")
        except (JmarsError, OSError) as error:
            self.close(1011, plain_text(error, 100))
        except websocket.WebSocketClosedError:
            pass


def routes() -> list[tuple[str, type[web.RequestHandler]]]:
    """Paths below the base URL with their handlers."""
    return [
        (r"/jmars/clusters", ClustersHandler),
        (rf"/jmars/clusters/{_ID}/jobs/{_ID}/cancel", CancelHandler),
        (rf"/jmars/stream/{_ID}", StreamHandler),
    ]
