"""WhyService: explains to clients why jobs do not move, and reports such jobs unasked by a watchdog.

`WhyService` joins the status of the host with the scheduler's knowledge.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from jmars.actors import remote_method
from jmars.deploy.scheduler_port import ReasonsPort
from jmars.model.status import HostStatus, Verdict
from jmars.scheduler.why import CALM, Watchdog

__all__ = ["WhyService"]

log = logging.getLogger("jmars.host")

LOOK_SECONDS = 1.0  # between two looks of the watchdog


class WhyService:
    """The actor "why".

    Parameters
    ----------
    status
        Gives the status of the workers.
    moved
        Gives a number that grows while chunks move.
    reasons
        What the scheduler knows.
    tell
        Called with what clients should hear of a job that does not move: job, kind, text, calm.
    """

    def __init__(
        self,
        status: Callable[[], HostStatus],
        moved: Callable[[], int],
        reasons: ReasonsPort,
        tell: Callable[[dict[str, Any]], None],
    ) -> None:
        self._status, self._moved, self._reasons, self._tell = status, moved, reasons, tell
        self._dog = Watchdog()
        self._looked = 0.0

    @remote_method
    async def job(self, job: str) -> Verdict:
        """Why a job stands as it does."""
        return await self._reasons.job(job, self._status())

    @remote_method
    async def cluster(self) -> str:
        """The same of all jobs, line by line."""
        return await self._reasons.cluster(self._status())

    @remote_method
    async def operand(self, job: str, operand: int) -> Any:
        """The executable graph of an operand, as JSON."""
        return await self._reasons.operand(job, operand)

    async def look(self, now: float | None = None) -> None:
        """Log remaining seconds of jobs, and report jobs that do not move, if it is time to look."""
        now = time.monotonic() if now is None else now
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        await self._reasons.expect()
        pulses = await self._reasons.pulses()
        moved = self._moved()
        still, moving = self._dog.look(now, {job: [*pulse, moved] for job, pulse in pulses.items()})
        for job, seconds in still.items():
            verdict = await self.job(job)
            await self._say(job, verdict, seconds)
        for job in moving:
            await self._say(job, Verdict(kind="moves", text=""), 0.0)

    async def _say(self, job: str, verdict: Verdict, seconds: float) -> None:
        calm = verdict["kind"] in CALM
        if verdict["text"]:
            log.log(logging.INFO if calm else logging.WARNING, "nothing moved for %.0f s: %s", seconds, verdict["text"])
        await self._reasons.stalled(job, verdict, seconds)
        self._tell({"job": job, "calm": calm, "seconds": seconds, **verdict})
