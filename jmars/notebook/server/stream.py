"""What one side bar is sent about one cluster: its jobs, and the picture of one of them.

`JobStream` decides; the websocket in handlers.py only asks it and sends. Frames hold whole traits, so one that a slow
browser misses is made up for by the next. Used by handlers.py.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jmars.model.states import TERMINAL
from jmars.notebook.run_state import RunState
from jmars.notebook.sampler import Frames
from jmars.notebook.view import plain_text

__all__ = ["JobStream", "job_row"]

_AT_ONCE = 20  # reads of the log in one frame, so that a long log cannot hold up the server


def job_row(job: Mapping[str, Any]) -> dict[str, Any]:
    """A job as the side bar lists it."""
    return {
        "id": str(job.get("id", "")),
        "name": plain_text(job.get("name") or ""),
        "state": str(job.get("state", "")),
        "elapsed": round(float(job.get("elapsed") or 0.0), 1),
    }


@dataclass
class JobStream:
    """Follows the newest job of a cluster, or the one that was chosen.

    Parameters
    ----------
    read
        Events after a number, of a job and of none, and the number to read on from: the cluster's event log.
    """

    read: Callable[[int, str], Awaitable[tuple[Sequence[Any], int]]]
    chosen: str = ""  # "": the newest
    run: RunState = field(default_factory=RunState)
    frames: Frames = field(default_factory=Frames)
    listed: list[dict[str, Any]] | None = None  # jobs as sent
    since: int = 0

    async def frame(self, jobs: Sequence[Mapping[str, Any]], now: float) -> dict[str, Any] | None:
        """The next frame for a cluster with these jobs (oldest first), or None when there is nothing new."""
        rows = [job_row(job) for job in jobs]
        known = {row["id"] for row in rows}
        job = self.chosen if self.chosen in known else rows[-1]["id"] if rows else ""
        frame: dict[str, Any] = {}
        if job != (self.run.job.id if self.run.job else ""):
            self._follow(job)
            frame["job"] = job
        if rows != self.listed or frame:
            frame |= {"jobs": rows, "job": job}
            self.listed = rows
        if job:
            await self._fold(job)
            changed = self.frames.frame(self.run, now)
            if changed:
                parts = changed.items()
                frame["picture"] = {k: b64encode(v).decode() if isinstance(v, bytes) else v for k, v in parts}
        return frame or None

    @property
    def live(self) -> bool:
        """The job that is shown has not ended, so frames should come fast."""
        return self.run.job is not None and self.run.job.state not in TERMINAL

    def _follow(self, job: str) -> None:
        self.run, self.frames, self.since = RunState(), Frames(), 0
        if job:
            self.run.follow(job)

    async def _fold(self, job: str) -> None:
        for _ in range(_AT_ONCE):
            events, upto = await self.read(self.since, job)
            self.run.fold(events)
            if upto <= self.since:
                return
            self.since = upto
