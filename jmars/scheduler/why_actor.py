"""WhyActor: gathers the facts about jobs for `why`, and logs jobs that do not move.

The host sends its status (`worker/host_status.py`), since scheduler and host may be two processes; operands get the
words of their jobs here. `deploy/why_service.py` asks, for clients and for the watchdog.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from jmars.actors import remote_method
from jmars.errors import UnknownTaskError
from jmars.model import events
from jmars.model.states import TERMINAL
from jmars.model.status import HostStatus, JobStatus, Verdict
from jmars.scheduler.executables import document
from jmars.scheduler.graph_actor import GraphActor
from jmars.scheduler.session_actor import SessionActor
from jmars.scheduler.watchdog import CALM
from jmars.scheduler.why import named, of_cluster, why

__all__ = ["WhyActor"]

_MOVING = ("preparing", "running", "cancelling")


class WhyActor:
    """Explains the state of jobs; changes none.

    Parameters
    ----------
    session
        Their session.
    unreported
        Why nobody is told of a job's end yet, or (of "") why clients wait at all; gives "" where nobody does.
    """

    def __init__(self, session: SessionActor, unreported: Callable[[str], str] = lambda job: "") -> None:
        self._session, self._unreported = session, unreported

    @remote_method
    async def job(self, job: str, host: HostStatus) -> Verdict:
        """Why a job stands as it does; UnknownTaskError for a job that is not remembered."""
        graph = self._session.graph(job)
        return why(self._stands(graph), named(host, self._words))

    @remote_method
    async def cluster(self, host: HostStatus) -> str:
        """Explains the states of running jobs, line by line, and the recent ends of workers."""
        found = [self._session.graph(told["id"]) for told in self._session.jobs()]
        told = of_cluster([self._stands(graph) for graph in found], named(host, self._words))
        waits = self._unreported("")
        return f"{told}\nwhat clients ask waits: {waits}" if waits else told

    @remote_method
    async def operand(self, job: str, operand: int) -> dict[str, Any]:
        """The executable graph of an operand of the job's newest stage, as JSON: its Fetch operands and itself.

        Raises
        ------
        UnknownTaskError
            If the job, its graph or the operand is not here any more.
        """
        ready = self._session.graph(job).newest
        n = 0 if ready is None else len(ready.prepared.table.program)
        if ready is None or not 0 <= operand < n:
            has = f"it has {n}, from 0" if n else "its graph is not here; the last few jobs keep theirs"
            raise UnknownTaskError(f"{job} has no operand {operand}: {has}")
        return document(ready, job, operand)

    @remote_method
    async def pulses(self) -> dict[str, list[Any]]:
        """A value for each running job; two equal values mean that the job has not moved."""
        found = {}
        for told in self._session.jobs():
            if told["state"] in _MOVING or self._unreported(told["id"]):
                graph = self._session.graph(told["id"])
                found[told["id"]] = [told["state"], *told["counts"].values(), graph.phases.now]
        return found

    @remote_method
    async def expect(self) -> None:
        """Log the remaining seconds of each running job."""
        for told in self._session.jobs():
            if told["eta"] is not None:
                self._session.log.append(events.EXPECTED, told["id"], {"left": told["eta"]})

    @remote_method
    async def stalled(self, job: str, verdict: Verdict, seconds: float) -> None:
        """Log that a job has not moved for so long, for this reason; an empty text says that it moves again."""
        calm = verdict["kind"] in CALM
        self._session.log.append(events.STALLED, job, {**verdict, "seconds": seconds, "calm": calm})

    def _words(self, job: str, operand: int) -> str:
        """An operand of a job that runs, or ended a moment ago, with its line."""
        try:
            ready = self._session.graph(job).newest
        except LookupError:
            return ""
        if ready is None or not 0 <= operand < len(ready.prepared.table.program):
            return ""
        return ready.prepared.blame(operand, ready.bound)[0]

    def _stands(self, graph: GraphActor) -> JobStatus:
        told = graph.describe()
        age = time.monotonic() - graph.submitted
        error = graph.error
        return {
            "id": told["id"],
            "name": told["name"],
            "state": told["state"],
            "elapsed": told["elapsed"],
            "since": 0.0 if graph.state in TERMINAL else max(0.0, age - graph.elapsed),
            "phase": graph.phases.text(),
            "counts": told["counts"],
            "line": error.where if error else "",
            "error": str(error) if error else "",
            "refused": graph.refused,
            "unreported": self._unreported(graph.job),
        }
