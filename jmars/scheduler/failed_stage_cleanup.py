"""FailedStageCleanup: releases a stage that failed with an unexpected error.

The stage's rows may be half changed, so they decide no more: the workers stop and forget the stage, and then
chunks that only this stage needed are freed. So a fault of jmars ends a single job, not other jobs and not the cluster.
Source: docs/explanation/reliability.md, "Faults of jmars itself".
"""

from __future__ import annotations

from collections.abc import Callable

from jmars.model.reports import ChunksLost, JobClosed, JobReport, Refused
from jmars.scheduler.scheduler_context import SchedulerContext
from jmars.scheduler.stage_listener import RegistrationState
from jmars.scheduler.stage_run import StageRun

__all__ = ["FailedStageCleanup"]


class FailedStageCleanup:
    """Takes the remaining reports for a stage.

    Parameters
    ----------
    stage
        The one that is given up; no report reaches it any more.
    job, context
        Its job, and what that shares with others.
    gone
        Called once, when the workers know nothing of it and nothing is held for it.
    """

    def __init__(self, stage: StageRun, job: str, context: SchedulerContext, gone: Callable[[], None]) -> None:
        self._stage, self._job, self._context, self._gone = stage, job, context, gone

    def stop(self) -> None:
        """Make the workers stop and forget the stage, unless they were told to."""
        if self._stage.known is RegistrationState.CLOSED:
            self._bury()
        elif self._stage.known is RegistrationState.OPEN:
            self._stage.known = RegistrationState.CLOSING  # so that a try which it has planned comes to nothing
            self._context.port.stop_execution(self._job)
            self._context.port.close_job(self._job)

    def report(self, report: JobReport | ChunksLost) -> None:
        """Take a report of the workers; only the end of the stage on the workers has an effect."""
        if isinstance(report, JobClosed) or (isinstance(report, Refused) and report.operand < 0):
            self._bury()

    def _bury(self) -> None:
        stage, context = self._stage, self._context
        free = stage.let_go()
        made = [chunk for row, chunk in zip(stage.table.program, stage.table.chunk, strict=True) if row >= 0]
        context.port.free_chunks(free + [chunk for chunk in made if not context.meta.is_held(chunk)])
        if stage.known is not RegistrationState.CLOSED:
            stage.ready.prepared.pool.release(stage.operands.counters)
        self._gone()
