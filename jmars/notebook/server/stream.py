"""Builds the frames that a side bar gets about a cluster: the list of jobs, and the picture of a selected job.

`JobStream` decides; the websocket in handlers.py only calls it and sends. Frames hold whole traits, so the next frame
makes up for a frame that a slow browser missed.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jmars.errors import ClusterLostError
from jmars.model.states import TERMINAL
from jmars.notebook.run_state import RunState
from jmars.notebook.sampler import FrameBuilder
from jmars.notebook.view import plain_text

__all__ = ["AT_ONCE", "JobStream", "Reader", "job_row"]

Reader = Callable[[int, str], Awaitable[tuple[Sequence[Any], int]]]  # of events after a number, of a job or of all
AT_ONCE = 20  # reads of the log in one frame, so that a long log cannot hold up the server


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
        if not changed:
            return {}
        return {"picture": {k: b64encode(v).decode() if isinstance(v, bytes) else v for k, v in changed.items()}}

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
